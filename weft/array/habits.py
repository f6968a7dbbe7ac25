"""What NumPy's users ask an array beside its content: how it lies in memory, its bytes, one element after the other."""

from __future__ import annotations

import builtins
import pickle
from collections.abc import Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.array.assignment import stored
from weft.array.construction import constructed, not_set, refuse_classes
from weft.array.flags import Flags
from weft.array.methods import Methods
from weft.array.to_arguments import asked
from weft.array.views import view_step
from weft.dtypes.parse import spelled
from weft.eager.native import ELEMENTS
from weft.errors import ShapeError
from weft.runtime import execute
from weft.runtime.context import LOCAL

STANDARDS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")  # of the array API


class Flat:
    """The elements of an array in one row, what ``x.flat`` is: to iterate over, to read by index, and to write to.

    Parameters
    ----------
    array : Array

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.arange(4).reshape(2, 2)
    >>> x.flat[3] = 9
    >>> x.tolist(), isinstance(x.flat, wf.flatiter)
    ([[0, 1], [2, 9]], True)
    """

    __slots__ = ("_array", "_next")

    def __init__(self, array: Any) -> None:
        self._array, self._next = array, 0

    def __len__(self) -> int:
        return self._array.size

    def __iter__(self) -> Iterator[Any]:
        return iter(self._array.flatten())

    def __next__(self) -> Any:
        if self._next >= self._array.size:
            raise StopIteration
        self._next += 1
        return self[self._next - 1]

    def __getitem__(self, index: Any) -> Any:
        return self._array.flatten()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        """A value that is too short is repeated, as NumPy repeats it; an empty one writes nothing."""
        import weft

        line = self._array.flatten()
        chosen = line[index].shape
        given = stored(value, line.node.dtype)  # so a list is read in the array's dtype, repeated or not
        if not given.size:
            return
        if given.size > 1 and not chosen:
            raise ValueError(f"flat: one element is written to, but the value has shape {given.shape}; one number is needed")
        line[index] = weft.resize(given, chosen) if given.shape and given.shape != chosen else value
        self._array[...] = line.reshape(self._array.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._array.flatten().numpy(), dtype)

    def copy(self) -> Any:
        """The elements as an array of one dimension."""
        return self._array.flatten()


class Habits(Methods):
    """Base of Array."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """Python's own errors about arguments name the class that users know, and not those that it is made of."""
        for base in cls.__mro__[1:]:
            for name, method in vars(base).items():
                if isinstance(method, FunctionType) and method.__qualname__ == f"{base.__name__}.{name}":
                    method.__qualname__ = f"Array.{name}"

    def __new__(
        cls, shape: Any, dtype: Any = float, buffer: Any = None, offset: int = 0, strides: Any = None, order: Any = None,
    ) -> Any:
        """NumPy's ``ndarray(shape, dtype, buffer)``: of no known content, or of what ``buffer`` holds: a view of an Array, else a
        copy."""
        return constructed(cls, shape, dtype, buffer, offset, strides, order)

    if TYPE_CHECKING:
        _base: Any
        is_value: bool

        @property
        def size(self) -> int: ...
        @property
        def ndim(self) -> int: ...
        @property
        def itemsize(self) -> int: ...
        def to_device(self, device: str, /) -> Any: ...
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        import weft

        if api_version not in (None, *STANDARDS):
            raise ValueError(f"__array_namespace__: weft knows the array API of {', '.join(STANDARDS)}, not {api_version!r}")
        return weft

    def fill(self, value: Any) -> None:
        """Write ``value``, which is one number, everywhere."""
        shape = (len(value),) if isinstance(value, list | tuple) else getattr(value, "shape", ())
        if shape:
            raise ShapeError(f"fill: value has shape {tuple(shape)}; one number is needed")
        self[...] = value

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("an array without dimensions cannot be iterated over")
        return self._items()

    def _items(self) -> Iterator[Any]:
        for i in range(self.shape[0]):
            native = ELEMENTS.element  # first, which saves the call of a Python function
            value = native(self, i)
            yield self[i] if value is None else value

    def __contains__(self, value: Any) -> bool:
        found: Any = self == value
        return bool(found.any() if hasattr(found, "any") else found)

    @property
    def strides(self) -> tuple[int, ...]:
        """How many bytes lie between neighbours along each axis, as NumPy would lay the array out."""
        return tuple([s * self.itemsize for s in self._strides()])

    @property
    def base(self) -> Any:
        """The array that this one is a view of; None where it is none."""
        return self._base

    @property
    def flags(self) -> Flags:
        """How the array lies in memory, under NumPy's names."""
        turned = tuple(np.cumprod([1, *self.shape[:-1]]).tolist()) if self.shape else ()
        columns = not self.size or all(n == 1 or s == t for n, s, t in zip(self.shape, self._strides(), turned, strict=True))
        return Flags(self, self._in_order(), columns, self._base is None)

    def setflags(self, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
        """Make the array, and views taken of it from now on, refuse writes (``write=False``), or take them again.

        It then is of a class made from ``wf.ndarray``. Views that were taken before write as they did; so do jitted functions
        that were traced before, and write it without being given it.
        """
        if align is False or uic:
            raise ValueError(f"setflags: {'uic=True' if uic else 'align=False'} cannot be set: arrays are aligned, and no copies")
        if write is not None:
            self._set_write(bool(write))

    def get(self) -> np.ndarray:
        """The content as a NumPy array of its own, which may be written to: CuPy's name, as ``wf.asnumpy(x)``; computes now."""
        return np.array(self.numpy())

    def to(
        self, target: Any = None, dtype: Any = None, non_blocking: bool = False, copy: bool = False, *, device: Any = None,
    ) -> Any:
        """On a device and in a dtype, under PyTorch's name: ``x.to_device("gpu")``, for "cuda" too, and ``x.astype(dtype)``.

        Parameters
        ----------
        target : str, dtype or Array
            A device, a dtype, or an array whose device and dtype are taken.
        dtype, device : optional
            The same by name.
        non_blocking : bool
            Nothing: copies to a card are never waited for.
        copy : bool
            A new array in any case; otherwise this very one, where it is what is asked for.
        """
        there, wanted = asked("to", target, dtype, device)
        form = self.node.dtype if wanted is None else spelled(wanted)
        found: Any = self
        if there is not None and LOCAL.trace is None and not LOCAL.keep:
            with execute.on(there):  # the copy is cast, there, so that this array stays where it is
                found = self.to_device(there)
                found = found if form is self.node.dtype else found.astype(form.numpy).to_device(there)
        elif form is not self.node.dtype:
            found = self.astype(form.numpy)
        return found.copy() if copy and found is self else found

    @property
    def flat(self) -> Flat:
        """The elements in one row: to iterate over, to index, to write to."""
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        self.flat[:] = value

    def tobytes(self, order: str = "C") -> bytes:
        """The content's bytes, row by row (or column by column: "F"); computes now."""
        return self.numpy().tobytes(order)  # type: ignore[arg-type]

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        """Write the content's bytes, or its numbers as text, to a file; computes now."""
        self.numpy().tofile(fid, sep, format)

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        """A view of the same array; with a dtype, its bytes read as that dtype, which write through as well.

        A class in its place may be ``wf.ndarray`` alone: arrays of other classes are not made.
        """
        if isinstance(dtype, builtins.type) and issubclass(dtype, Habits | np.ndarray):
            dtype, type = None, dtype
        if type is not None:
            refuse_classes(type, "view")
        if dtype is None:
            return self[...]  # type: ignore[index]
        wanted, node = spelled(dtype), self.node
        if wanted is node.dtype:
            return self[...]  # type: ignore[index]
        shape, have = node.shape, node.dtype
        if wanted.bits != have.bits:
            if not shape:
                raise ValueError(f"view: an array without dimensions of {have} cannot be read as {wanted}, of another width")
            nbytes, strides = shape[-1] * have.bytes, self._strides()
            if shape[-1] > 1 and strides[-1] != 1:
                raise ValueError(f"view: {have} is read as {wanted}, of another width, only where the last axis lies together")
            rows = zip(shape[:-1], strides[:-1], strict=True)
            if nbytes % wanted.bytes or any(s * have.bytes % wanted.bytes for n, s in rows if n > 1):
                raise ValueError(f"view: rows of {shape[-1]} {have}, {nbytes} bytes, cannot be read as {wanted}")
            shape = (*shape[:-1], nbytes // wanted.bytes)
        return self._view((view_step(have, wanted, shape),))  # type: ignore[attr-defined]

    def conj(self) -> Any:
        """The complex conjugates; of real numbers, as in NumPy, the array itself."""
        import weft

        return weft.conj(self) if self.dtype.kind == "c" else self

    conjugate = conj

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> None:
        """Sort in place along an axis; ``wf.sort`` makes a new array."""
        import weft

        self[...] = weft.sort(self, axis)

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        """Order in place so that the element at ``kth`` is where a sort would put it; ``wf.partition`` makes a new array."""
        import weft

        self[...] = weft.partition(self, kth, axis)

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Write at places of the flattened array, as ``wf.put(x, indices, values)``."""
        import weft

        weft.put(self, indices, values, mode)  # type: ignore[arg-type]

    def byteswap(self, inplace: bool = False) -> Any:
        """The elements with their bytes in reverse order: new ones, or this array's with ``inplace``; computes now."""
        import weft

        found = weft.asarray(self.numpy().byteswap())
        if not inplace:
            return found
        self[...] = found
        return self

    def resize(self, *new_shape: Any, refcheck: bool = True) -> None:
        """Refused, as ``x.shape = new_shape`` is: an array keeps its shape."""
        not_set(new_shape[0] if len(new_shape) == 1 else new_shape)

    @property
    def data(self) -> memoryview:
        """The content as a memoryview, which cannot be written to; computes now."""
        content: Any = self.numpy()
        return memoryview(content)

    def dumps(self) -> bytes:
        """The array as ``pickle.dumps`` makes it; computes now."""
        return pickle.dumps(self)

    def dump(self, file: Any) -> None:
        """Pickle the array to a path or an open file; computes now."""
        if hasattr(file, "write"):
            pickle.dump(self, file)
        else:
            with open(file, "wb") as opened:
                pickle.dump(self, opened)

    def compress(self, condition: Any, axis: int | None = None, out: Any = None) -> Any:
        """The slices along an axis where a condition holds, as ``wf.compress(condition, x, axis)``."""
        import weft

        return weft.compress(condition, self, axis, out)
