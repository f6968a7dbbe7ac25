"""NumPy's methods and attributes beside operators: memory layout, bytes, iteration, in-place methods."""

from __future__ import annotations

import builtins
import pickle
from collections.abc import Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.array.assignment import stored
from weft.array.construction import construct, refuse_assignment, refuse_classes
from weft.array.flags import Flags
from weft.array.methods import Methods
from weft.array.to_arguments import asked
from weft.array.views import view_step
from weft.dtypes.parse import parse_dtype
from weft.eager.native import NATIVE_ELEMENTS
from weft.errors import ShapeError
from weft.runtime import execute
from weft.runtime.context import CONTEXT

STANDARDS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")  # versions of the array API


class Flat:
    """The elements of an array in one dimension, ``x.flat``: iterable, readable by index, writable.

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
        """Write a value; one that is too short is repeated, as in NumPy, and an empty one writes nothing."""
        import weft

        line = self._array.flatten()
        shape = line[index].shape
        converted = stored(value, line.node.dtype)  # a list is read in the array's dtype, repeated or not
        if not converted.size:
            return
        if converted.size > 1 and not shape:
            raise ValueError(f"flat: one element is written to, but the value has shape {converted.shape}; one number is needed")
        line[index] = weft.resize(converted, shape) if converted.shape and converted.shape != shape else value
        self._array[...] = line.reshape(self._array.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._array.flatten().numpy(), dtype)

    def copy(self) -> Any:
        """Return the elements as an array of one dimension."""
        return self._array.flatten()


class NumpyMethods(Methods):
    """Base of Array."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """Rename inherited methods, so that Python's errors about arguments name the class that users know."""
        for base in cls.__mro__[1:]:
            for name, method in vars(base).items():
                if isinstance(method, FunctionType) and method.__qualname__ == f"{base.__name__}.{name}":
                    method.__qualname__ = f"Array.{name}"

    def __new__(
        cls, shape: Any, dtype: Any = float, buffer: Any = None, offset: int = 0, strides: Any = None, order: Any = None,
    ) -> Any:
        """Return NumPy's ``ndarray(shape, dtype, buffer)``: uninitialised, a view if ``buffer`` is an Array, else a copy of
        ``buffer``."""
        return construct(cls, shape, dtype, buffer, offset, strides, order)

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
            raise ValueError(f"__array_namespace__: weft supports the array API of {', '.join(STANDARDS)}, not {api_version!r}")
        return weft

    def fill(self, value: Any) -> None:
        """Write ``value``, one number, to all elements."""
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
            native = NATIVE_ELEMENTS.element  # tried first: saves the call of a Python function
            value = native(self, i)
            yield self[i] if value is None else value

    def __contains__(self, value: Any) -> bool:
        equal: Any = self == value
        return bool(equal.any() if hasattr(equal, "any") else equal)

    @property
    def strides(self) -> tuple[int, ...]:
        """The distance in bytes between neighbours along each axis, as NumPy would lay the array out."""
        return tuple([s * self.itemsize for s in self._strides()])

    @property
    def base(self) -> Any:
        """The array that this one is a view of, or None."""
        return self._base

    @property
    def flags(self) -> Flags:
        """The memory layout of the array, under NumPy's names."""
        column_strides = tuple(np.cumprod([1, *self.shape[:-1]]).tolist()) if self.shape else ()
        columns = not self.size or all(
            n == 1 or s == t for n, s, t in zip(self.shape, self._strides(), column_strides, strict=True)
        )
        return Flags(self, self._in_order(), columns, self._base is None)

    def setflags(self, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
        """Make the array, and views taken of it from now on, refuse writes (``write=False``) or accept them again.

        The array changes to a subclass of ``wf.ndarray``. Views that were taken before can still write; so can jitted functions
        that were traced before and write the array without receiving it as an argument.
        """
        if align is False or uic:
            raise ValueError(f"setflags: {'uic=True' if uic else 'align=False'} cannot be set: arrays are aligned, and no copies")
        if write is not None:
            self._set_write(bool(write))

    def get(self) -> np.ndarray:
        """Return the content as a writable NumPy array, under CuPy's name for ``wf.asnumpy(x)``; computes now."""
        return np.array(self.numpy())

    def to(
        self, target: Any = None, dtype: Any = None, non_blocking: bool = False, copy: bool = False, *, device: Any = None,
    ) -> Any:
        """Return the array on a device and in a dtype, under PyTorch's name for ``x.to_device("gpu")`` and ``x.astype(dtype)``;
        "cuda" is accepted too.

        Parameters
        ----------
        target : str, dtype or Array
            A device, a dtype, or an array whose device and dtype are taken.
        dtype, device : optional
            The same by name.
        non_blocking : bool
            Ignored: copies to a device are never waited for.
        copy : bool
            True: always a new array; False: the array itself if device and dtype match.
        """
        target_device, requested = asked("to", target, dtype, device)
        form = self.node.dtype if requested is None else parse_dtype(requested)
        result: Any = self
        if target_device is not None and CONTEXT.trace is None and not CONTEXT.retain_graph:
            with execute.on(target_device):  # cast the copy on the device, so that this array is not moved
                result = self.to_device(target_device)
                result = result if form is self.node.dtype else result.astype(form.numpy).to_device(target_device)
        elif form is not self.node.dtype:
            result = self.astype(form.numpy)
        return result.copy() if copy and result is self else result

    @property
    def flat(self) -> Flat:
        """The elements in one dimension: iterable, indexable, writable."""
        return Flat(self)

    @flat.setter
    def flat(self, value: Any) -> None:
        self.flat[:] = value

    def tobytes(self, order: str = "C") -> bytes:
        """Return the content's bytes, row by row (or column by column: "F"); computes now."""
        return self.numpy().tobytes(order)  # type: ignore[arg-type]

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        """Write the content's bytes, or its numbers as text, to a file; computes now."""
        self.numpy().tofile(fid, sep, format)

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        """Return a view of the same array; with a dtype, its bytes read as that dtype, which writes through too.

        ``dtype`` or ``type`` may be the class ``wf.ndarray``; no other class is accepted.
        """
        if isinstance(dtype, builtins.type) and issubclass(dtype, NumpyMethods | np.ndarray):
            dtype, type = None, dtype
        if type is not None:
            refuse_classes(type, "view")
        if dtype is None:
            return self[...]  # type: ignore[index]
        target, node = parse_dtype(dtype), self.node
        if target is node.dtype:
            return self[...]  # type: ignore[index]
        shape, have = node.shape, node.dtype
        if target.bits != have.bits:
            if not shape:
                raise ValueError(f"view: an array without dimensions of {have} cannot be read as {target}, of another width")
            nbytes, strides = shape[-1] * have.bytes, self._strides()
            if shape[-1] > 1 and strides[-1] != 1:
                raise ValueError(f"view: {have} is read as {target}, of another width, only where the last axis lies together")
            rows = zip(shape[:-1], strides[:-1], strict=True)
            if nbytes % target.bytes or any(s * have.bytes % target.bytes for n, s in rows if n > 1):
                raise ValueError(f"view: rows of {shape[-1]} {have}, {nbytes} bytes, cannot be read as {target}")
            shape = (*shape[:-1], nbytes // target.bytes)
        return self._view((view_step(have, target, shape),))  # type: ignore[attr-defined]

    def conj(self) -> Any:
        """Return the complex conjugates; the array itself if it is real, as in NumPy."""
        import weft

        return weft.conj(self) if self.dtype.kind == "c" else self

    conjugate = conj

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> None:
        """Sort in place along an axis; ``wf.sort`` returns a new array."""
        import weft

        self[...] = weft.sort(self, axis)

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
        """Partition in place so that the element at ``kth`` is where a sort would put it; ``wf.partition`` returns a new
        array."""
        import weft

        self[...] = weft.partition(self, kth, axis)

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Write at positions of the flattened array, as ``wf.put(x, indices, values)``."""
        import weft

        weft.put(self, indices, values, mode)  # type: ignore[arg-type]

    def byteswap(self, inplace: bool = False) -> Any:
        """Return the elements with their bytes in reverse order, or write them with ``inplace``; computes now."""
        import weft

        swapped = weft.asarray(self.numpy().byteswap())
        if not inplace:
            return swapped
        self[...] = swapped
        return self

    def resize(self, *new_shape: Any, refcheck: bool = True) -> None:
        """Raise an error, as ``x.shape = new_shape`` does: an array keeps its shape."""
        refuse_assignment(new_shape[0] if len(new_shape) == 1 else new_shape)

    @property
    def data(self) -> memoryview:
        """The content as a read-only memoryview; computes now."""
        content: Any = self.numpy()
        return memoryview(content)

    def dumps(self) -> bytes:
        """Return the array as ``pickle.dumps`` does; computes now."""
        return pickle.dumps(self)

    def dump(self, file: Any) -> None:
        """Pickle the array to a path or an open file; computes now."""
        if hasattr(file, "write"):
            pickle.dump(self, file)
        else:
            with open(file, "wb") as stream:
                pickle.dump(self, stream)

    def compress(self, condition: Any, axis: int | None = None, out: Any = None) -> Any:
        """Return the slices along an axis at which a condition holds, as ``wf.compress(condition, x, axis)``."""
        import weft

        return weft.compress(condition, self, axis, out)
