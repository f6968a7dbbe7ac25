"""Methods of arrays beside operators and indexing: reading, shapes, NumPy's attributes."""

from __future__ import annotations

import builtins
import operator
import pickle
from collections.abc import Callable, Iterator
from itertools import repeat
from math import prod
from types import FunctionType
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from weft.array.convert import convert_checked
from weft.array.methods import Methods
from weft.array.views import (
    ViewPath,
    permute_step,
    reshape_step,
    reshape_strides,
    row_major,
    view_step,
    view_strides,
)
from weft.devices.base import DEVICE_OF_BUFFER_TYPE
from weft.devices.names import NAMES as DEVICE_NAMES
from weft.devices.names import canonical_name
from weft.dtypes.formats import COMPLEX, DEFAULT, INTEGERS
from weft.dtypes.parse import layout, parse_dtype, read_integers
from weft.dtypes.parse import stored as stored_dtype
from weft.dtypes.rounding import convert_array, decode_array
from weft.eager import materialise
from weft.eager.apply import bind
from weft.eager.native import NATIVE_ELEMENTS, not_available
from weft.errors import AxisError, DTypeError, ShapeError
from weft.graph.node import Node, Shape
from weft.graph.primitives.table import TABLE, check_addressable
from weft.graph.source_lines import user_frame
from weft.runtime import execute
from weft.runtime.cell import Cell
from weft.runtime.context import CONTEXT

_SHORT_FLAG_NAMES = {  # NumPy's short names, valid in brackets only
    "C": "c_contiguous", "F": "f_contiguous", "O": "owndata", "W": "writeable", "A": "aligned", "B": "behaved", "CA": "carray",
    "FA": "farray", "X": "writebackifcopy",
}


class Flags:
    """Memory layout and writability of an array, under NumPy's names: by attribute, or by name in brackets. ``writeable`` can be
    set.

    Arrays appear C-contiguous and writeable; views do not own memory.
    """

    __slots__ = ("_array", "_values")

    _array: Any
    _values: dict[str, bool]

    def __init__(self, array: Any, is_row_major: bool, is_column_major: bool, owns_memory: bool) -> None:
        object.__setattr__(self, "_array", array)
        object.__setattr__(self, "_values", {
            "aligned": True, "c_contiguous": is_row_major, "contiguous": is_row_major, "f_contiguous": is_column_major,
            "fortran": is_column_major, "fnc": is_column_major and not is_row_major, "forc": is_row_major or is_column_major,
            "owndata": owns_memory, "writebackifcopy": False,
        })

    def __getattr__(self, name: str) -> bool:
        if name == "writeable":
            return not (self._array.is_value or self._array.read_only)
        if name in ("behaved", "carray", "farray"):
            return self.writeable and (name == "behaved" or self._values["c_contiguous" if name == "carray" else "fnc"])
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"flags: there is no {name!r}; known are {', '.join([*self._values, 'writeable'])}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "writeable":
            self._array.setflags(write=value)
        elif name == "aligned":
            self._array.setflags(align=value)
        else:
            getattr(self, name)
            raise AttributeError(f"flags: {name} describes the memory layout of the array; it cannot be set")

    def __getitem__(self, name: str) -> bool:
        try:
            return getattr(self, _SHORT_FLAG_NAMES.get(name, _SHORT_FLAG_NAMES.get(name.lower(), name.lower())))
        except AttributeError as error:
            raise KeyError(str(error)) from None

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, _SHORT_FLAG_NAMES.get(name, _SHORT_FLAG_NAMES.get(name.lower(), name.lower())), value)

    def __repr__(self) -> str:
        names = ("c_contiguous", "f_contiguous", "owndata", "writeable", "aligned")
        return "\n".join([f"  {name.upper()} : {getattr(self, name)}" for name in names])


def construct_ndarray(cls: type, shape: Any, dtype: Any, buffer: Any, offset: int, strides: Any, order: Any) -> Any:
    """Return the array for a call of the class."""
    import weft

    if cls is weft.Array:
        raise TypeError("make arrays with wf.array(...), wf.asarray(...) or wf.zeros(shape), not with Array(...)")
    refuse_classes(cls, "ndarray")
    if buffer is None:
        return weft.empty(shape, dtype)
    extents, numpy_dtype = read_integers(shape, "ndarray: shape"), stored_dtype(dtype)
    (start,) = read_integers(offset, "ndarray: offset")
    byte_strides = None if strides is None else read_integers(strides, "ndarray: strides")
    is_weft = isinstance(buffer, weft.ndarray)
    memory = buffer if is_weft else memoryview(buffer)
    _check_bounds(extents, numpy_dtype.itemsize, start, byte_strides, memory.nbytes)
    if is_weft and byte_strides is None and order in (None, "C") and numpy_dtype.isnative:
        content = buffer.reshape(-1).view("uint8")[start : start + prod(extents) * numpy_dtype.itemsize]
        return content.view(numpy_dtype).reshape(extents)
    return weft.array(np.ndarray(extents, numpy_dtype, memoryview(buffer), start, byte_strides, order))


def _check_bounds(shape: tuple[int, ...], itemsize: int, offset: int, strides: tuple[int, ...] | None, nbytes: int) -> None:
    """Raise an error if elements would lie outside of the buffer. NumPy's own check overflows and then reads foreign memory."""
    if any(n < 0 for n in shape):
        raise ShapeError(f"ndarray: shape={shape} has a negative extent")
    if strides is not None and len(strides) != len(shape):
        raise ShapeError(f"ndarray: strides={strides} and shape={shape} must have an entry for each dimension")
    steps = strides if strides is not None else [prod(shape[k + 1 :]) * itemsize for k in range(len(shape))]
    ends = [(n - 1) * step for n, step in zip(shape, steps, strict=True)] if 0 not in shape else []
    first = offset + sum(end for end in ends if end < 0)
    last = offset + sum(end for end in ends if end > 0) + (0 if 0 in shape else itemsize)
    if not 0 <= first <= last <= nbytes:
        strides_text = f" and strides={strides}" if strides is not None else ""
        message = f"shape={shape}, offset={offset}{strides_text} reach from byte {first} to {last}, and buffer has {nbytes} bytes"
        if strides is None:
            raise TypeError(f"ndarray: buffer is too small: {message}")
        raise ValueError(f"ndarray: strides do not fit: {message}")


def refuse_classes(cls: Any, function: str) -> None:
    """Raise TypeError unless ``cls`` is weft's or NumPy's ndarray: subclasses are refused."""
    import weft

    if cls is not weft.ndarray and cls is not np.ndarray:
        name = getattr(cls, "__name__", cls)
        raise TypeError(
            f"{function}: weft makes no arrays of the class {name}: operations on its arrays return wf.ndarray and do not call "
            "__array_finalize__; keep an array in an attribute and give the class __array__, or derive it from numpy.ndarray"
        )


def refuse_assignment(value: Any) -> NoReturn:
    """Raise the error for an assignment to shape or dtype, which views and jitted functions rely on."""
    raise AttributeError(
        f"the shape and the dtype of an array cannot be set, here to {value!r}: its views rely on them; "
        "x = x.reshape(shape) and x = x.view(dtype) are views of the same elements, x = wf.resize(x, shape) is a new array with "
        "elements repeated or dropped"
    )


def parse_to_arguments(function: str, target: Any, dtype: Any, device: Any) -> tuple[str | None, Any]:
    """Return (device, dtype) for PyTorch's arguments; None for what stays unchanged.

    Raises
    ------
    TypeError
        No argument is given, or one is given twice.
    DTypeError, ValueError
        The target is neither a device nor a dtype; there is no such device.
    """
    if isinstance(dtype, bool):  # x.to(target, non_blocking)
        dtype = None
    if target is None and dtype is None and device is None:
        raise TypeError(f"{function}: give a device, a dtype, both or an array: x.to('gpu'), x.to('gpu', 'float16'), x.to(y)")
    if target is not None:
        target_device, target_dtype = _interpret_target(function, target)
        if target_device is not None and device is not None:
            raise TypeError(f"{function}: the device is given twice, as {target!r} and as device={device!r}")
        if target_dtype is not None and dtype is not None:
            raise TypeError(f"{function}: the dtype is given twice, as {target!r} and as {dtype!r}")
        device, dtype = device if target_device is None else target_device, dtype if target_dtype is None else target_dtype
    return (None if device is None else _device_name(function, device)), dtype


def _interpret_target(function: str, target: Any) -> tuple[Any, Any]:
    """Return (device, dtype) of a target: a device, a dtype, or an array."""
    if isinstance(getattr(target, "node", None), Node):
        return target.device, target.node.dtype
    if _is_device(target):
        return target, None
    try:
        return None, parse_dtype(target)
    except DTypeError:
        names = ", ".join(map(repr, DEVICE_NAMES))
        raise DTypeError(
            f"{function}: target: {target!r} is neither a device nor a dtype; devices are {names}, 'gpu:1' and so on, dtypes "
            "such as 'float32'"
        ) from None


def _is_device(target: Any) -> bool:
    """Return whether a target looks like a device: a name, or a ``torch.device``."""
    is_device = isinstance(target, str) or type(target).__name__ == "device"
    return is_device and str(target).partition(":")[0] in (*DEVICE_NAMES, "cuda")


def _device_name(function: str, device: Any) -> str:
    try:
        return canonical_name(str(device).replace("cuda", "gpu", 1) if _is_device(device) else device)
    except ValueError as error:
        raise ValueError(f"{function}: {error}") from None


_WRITABLE, _FORMAT = 0x1, 0x4  # cpython/pybuffer.h: PyBUF_WRITABLE, PyBUF_FORMAT


def resolve_shape(shape: Any, size: int, have: Shape) -> Shape:
    """Return the shape to reshape to, with a -1 replaced by the extent that fits."""
    want = list(read_integers(shape[0] if len(shape) == 1 else shape, "reshape: the shape"))
    if want.count(-1) > 1:
        raise ShapeError(f"reshape: only one extent can be -1, not {tuple(want)}")
    product = 1
    for n in want:
        product *= n if n != -1 else 1
    if -1 in want:
        if product == 0 or size % product:
            raise ShapeError(f"reshape: an array of shape {have} ({size} elements) cannot take shape {tuple(want)}")
        want[want.index(-1)] = size // product
    elif product != size or any([n < 0 for n in want]):
        raise ShapeError(f"reshape: an array of shape {have} ({size} elements) cannot take shape {tuple(want)}")
    return tuple(want)


def element_strides(x: Any, without: int = -1) -> tuple[int, ...] | None:
    """Return the strides of an array of weft or NumPy, in elements; None if it is contiguous.

    without : an axis to leave out
    """
    is_weft = isinstance(x, NumpyMethods)
    if not is_weft and not isinstance(x, np.ndarray):
        return None
    if without < 0 and (x._is_contiguous_cell() if is_weft else x.flags.c_contiguous):
        return None
    strides = x._strides() if is_weft else [s // x.itemsize for s in x.strides]
    axes = [(n, s) for axis, (n, s) in enumerate(zip(x.shape, strides, strict=True)) if axis != without]
    shape = tuple([n for n, _ in axes])
    if 0 in shape or all([n == 1 or s == plain for (n, s), plain in zip(axes, row_major(shape), strict=True)]):
        return None
    return tuple([s for _, s in axes])


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

    __slots__ = ("_array", "_position")

    def __init__(self, array: Any) -> None:
        self._array, self._position = array, 0

    def __len__(self) -> int:
        return self._array.size

    def __iter__(self) -> Iterator[Any]:
        return iter(self._array.flatten())

    def __next__(self) -> Any:
        if self._position >= self._array.size:
            raise StopIteration
        self._position += 1
        return self[self._position - 1]

    def __getitem__(self, index: Any) -> Any:
        return self._array.flatten()[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write a value; one that is too short is repeated, as in NumPy, and an empty one writes nothing."""
        import weft

        line = self._array.flatten()
        shape = line[index].shape
        converted = convert_checked(value, line.node.dtype)  # a list is read in the array's dtype, repeated or not
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


def _read_numbers(node: Node, free: bool = False) -> np.ndarray:
    """Return the content of a node as NumPy numbers."""
    content = materialise.read_array(node, free)
    return content if content.dtype.names is None else decode_array(content)


class NumpyMethods(Methods, Cell):
    """Base of Array."""

    __slots__ = ()

    if TYPE_CHECKING:
        _base: Any
        _placeholder_strides: tuple[int, ...]
        _view: Callable[..., Any]
        _wrap_array: Callable[..., Any]
        is_value: bool
        shape: Shape
        dtype: np.dtype
        to_device: Callable[..., Any]

        @property
        def _path(self) -> ViewPath: ...
        @property
        def node(self) -> Node: ...
        @property
        def size(self) -> int: ...
        @property
        def ndim(self) -> int: ...
        @property
        def itemsize(self) -> int: ...
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...

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
        return construct_ndarray(cls, shape, dtype, buffer, offset, strides, order)

    def numpy(self) -> np.ndarray:
        """Return the content, computed now, as a read-only NumPy view without a copy.

        Examples
        --------
        >>> import weft as wf
        >>> (wf.arange(3) * 2).numpy()
        array([0, 2, 4])
        """
        return _read_numbers(self.node)

    def to_numpy(self, dtype: Any = None, copy: bool = False) -> np.ndarray:
        """Return the result of :meth:`numpy`, in ``dtype`` or as a copy if requested: the name that matplotlib and pandas use."""
        return self.__array__(dtype, copy or None)

    def item(self, *index: int) -> Any:
        """Return the one element (or the one at ``index``) as a Python number."""
        if not index:
            native = NATIVE_ELEMENTS.number
            if (number := native(self)) is not None:
                return number
            if self.node.size != 1:
                raise ValueError(f"item: an array of shape {self.node.shape} is not one number: give its place, or call tolist()")
        return self.numpy().item(*index)

    def tolist(self) -> Any:
        """Return nested lists of Python numbers."""
        return self.numpy().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        content = self.numpy()
        if dtype is not None and np.dtype(dtype) != content.dtype:
            if copy is False:
                raise ValueError(f"an array of dtype {content.dtype} cannot become {np.dtype(dtype)} without a copy")
            return convert_array(content, np.dtype(dtype))
        return content.copy() if copy else content

    def __dlpack__(
        self, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        from weft.interop.dlpack import export_array

        if DEVICE_OF_BUFFER_TYPE:
            from weft.interop.cuda_exchange import capsule

            exported_capsule = capsule(self.node, materialise.buffer(self.node), stream, max_version, dl_device, copy)
            if exported_capsule is not None:
                return exported_capsule
        if self.node.dtype.custom:
            raise BufferError(f"DLPack has no type for {self.node.dtype}; use .astype('{self.node.dtype.computed}')")
        if stream is not None:
            raise RuntimeError(f"__dlpack__: the CPU has no streams, so stream must be None, not {stream!r}")
        options = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
        return export_array(self.numpy(), {name: value for name, value in options.items() if value is not None})

    def __dlpack_device__(self) -> tuple[int, int]:
        if not DEVICE_OF_BUFFER_TYPE:
            return (1, 0)
        from weft.interop.cuda_exchange import dlpack_device

        return dlpack_device(materialise.buffer(self.node))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The content on a CUDA device, as version 3 of the interface: read-only, kept alive by this array."""
        if not DEVICE_OF_BUFFER_TYPE or not materialise.can_compute(self.node):
            raise AttributeError("__cuda_array_interface__: the array is not on a GPU; move it with x.to_device('gpu')")
        from weft.interop.cuda_exchange import interface

        return interface(self, self.node, materialise.buffer(self.node))

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """The content as version 3 of NumPy's array interface: read-only, kept alive by ``data``."""
        if self.node.dtype.numpy.isbuiltin != 1:
            raise AttributeError(f"NumPy's array interface has no type for {self.node.dtype}; use .astype('float32')")
        content: Any = self._export_memory(_FORMAT)
        data = memoryview(content)
        return {"version": 3, "shape": content.shape, "typestr": content.dtype.str, "strides": content.strides, "data": data}

    def __buffer__(self, flags: int) -> memoryview:
        """Return a read-only memoryview for ``memoryview(x)``."""
        content: Any = self._export_memory(flags)
        return memoryview(content)

    def __release_buffer__(self, view: memoryview) -> None:
        """End an export. ``numpy.frombuffer`` uses a memoryview if a class has this method."""
        view.release()

    def _export_memory(self, flags: int) -> np.ndarray:
        """Return the memory that others may read. The buffer protocol lacks ml_dtypes' formats, which are exported as plain bytes
        only.

        ``torch.asarray`` requests writable bytes without their format, then read-only ones, and interprets them as float32
        whatever the dtype is. A second request from the same line is therefore refused too.
        """
        if not flags & _FORMAT:
            request = id(self), user_frame()
            previous, CONTEXT.refused_export = CONTEXT.refused_export, request if flags & _WRITABLE else None
            if flags & _WRITABLE or previous == request:
                raise BufferError("bytes of an Array are read-only: hand over memoryview(x), x.numpy() or x.tobytes()")
            return np.ascontiguousarray(self.numpy()).reshape(-1).view(np.uint8)
        content = self.numpy()
        if self.node.dtype.numpy.isbuiltin != 1:
            raise BufferError(f"the buffer protocol has no type for {self.node.dtype}; use .astype('float32')")
        return content

    def _repr_html_(self) -> str:
        """Return the text that a notebook shows, followed by shape and dtype."""
        node = self.node
        shape = " x ".join(map(str, node.shape)) or "no dimensions"
        from html import escape  # only notebooks need it

        return f"<pre>{escape(repr(self))}</pre><small>Array: {shape}, {node.dtype.name}</small>"

    def _read_one(self, kind: str, free: bool = False) -> Any:
        """Return the only element as a NumPy number; ``kind`` is the type requested, for the error."""
        node = self.node
        if node.size != 1:
            raise TypeError(f"only an array of one element can become {kind}, this one has shape {node.shape}")
        if node.dtype.custom:
            return _read_numbers(node, free).reshape(())[()]
        return materialise.read_number(node, free)

    def _read_real(self, kind: str) -> Any:
        """Return the only element; raise TypeError if it is complex."""
        if self.node.dtype in COMPLEX:
            raise TypeError(f"a complex number cannot become {kind}: take its .real, its .imag or its abs")
        return self._read_one(kind)

    def __float__(self) -> float:
        native = NATIVE_ELEMENTS.number
        if (number := native(self)) is not None:
            return number if type(number) is float else float(number)
        return float(self._read_real("a float"))

    def __int__(self) -> int:
        native = NATIVE_ELEMENTS.number
        if (number := native(self)) is not None:
            return number if type(number) is int else int(number)
        return int(self._read_real("an int"))

    def __complex__(self) -> complex:
        return complex(self._read_one("a complex number"))

    def __bool__(self) -> bool:
        native = NATIVE_ELEMENTS.number
        if (number := native(self)) is not None:
            return bool(number)
        if self.node.size != 1:
            raise ValueError(f"the truth of an array of shape {self.shape} is ambiguous: use .any() or .all()")
        return bool(self._read_one("a bool", free=True))

    def __index__(self) -> int:
        if self.node.dtype not in INTEGERS or self.shape:
            raise TypeError(
                f"only integer arrays without dimensions are an index, not {self.dtype.name} of shape {self.shape}: range(x), "
                "sequence[x] and text * x need one integer"
            )
        return int(self._read_one("an index"))

    def __repr__(self) -> str:
        node = self.node
        if not materialise.can_compute(node):
            return f"array(<not known while tracing>, shape={node.shape}, dtype={node.dtype.name})"
        content = _read_numbers(node, free=True)
        if DEFAULT.wide:  # NumPy omits the dtypes that are the defaults then
            return np.array_repr(content)
        text = np.array2string(content, separator=", ", prefix="array(")
        shape = f", shape={node.shape}" if 0 in node.shape and node.shape != (0,) else ""
        return f"array({text}{shape}, dtype={node.dtype.name})"

    def __str__(self) -> str:
        return str(_read_numbers(self.node, free=True)) if materialise.can_compute(self.node) else repr(self)

    def __format__(self, spec: str) -> str:
        return format(self._read_one("text in this format", free=True).item(), spec) if spec else str(self)

    def _transpose_to_order(self, order: str, function: str, known: str = "CFA") -> Self | None:
        """Return a transposed view whose row-major order is ``order``; None if no transposition is needed."""
        order = layout(order, function, known)
        strides, shape = self._strides(), self.node.shape
        if order == "K":
            permutation = sorted(range(len(shape)), key=lambda a: -abs(strides[a]))
            return None if permutation == list(range(len(shape))) else self.transpose(permutation)
        columns = order == "F" or (order == "A" and self.flags.f_contiguous and not self.flags.c_contiguous)
        return self.transpose() if columns else None

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Self:
        """Return the same elements in another shape; one extent may be -1. The result is a view if the strides allow it, unless
        ``copy`` is True; with ``copy=False`` a necessary copy is an error."""
        if copy is not None:
            import weft

            return weft.reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)  # type: ignore[return-value]
        if order == "C":
            native = NATIVE_ELEMENTS.reshape
            want = shape[0] if len(shape) == 1 and type(shape[0]) is tuple else shape
            if (view := native(self, want)) is not None:
                return view
        node = self.node
        if order != "C" and (turned := self._transpose_to_order(order, "reshape")) is not None:
            return turned.reshape(resolve_shape(shape, node.size, node.shape)[::-1]).transpose()
        want = resolve_shape(shape, node.size, node.shape)
        if want == node.shape:
            return self._view(())
        if not node.size:
            check_addressable("reshape", want, node.dtype)
        if not self._is_contiguous_cell() and reshape_strides(self._strides(), node.shape, want) is None:
            return self._wrap_array(bind(TABLE["reshape"], node, shape=want))
        return self._view((reshape_step(want),))

    def flatten(self, order: str = "C") -> Self:
        """Return a copy of all elements in one dimension, row by row ("C") or column by column ("F")."""
        turned = self._transpose_to_order(order, "flatten", "CFAK") if order != "C" else None
        node = self.node if turned is None else turned.node
        return self._wrap_array(bind(TABLE["reshape"], node, shape=(node.size,)))

    def transpose(self, *axes: Any) -> Self:
        """Return a view with the axes in another order (reversed by default)."""
        axes_argument = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        ndim = len(self.node.shape)
        if axes_argument is None or axes_argument == ():
            order = tuple(reversed(range(ndim)))
        else:
            try:
                order = tuple(a % ndim if -ndim <= a < ndim else a for a in map(operator.index, axes_argument))
            except TypeError:
                raise DTypeError(f"transpose: axes must be integers, not {axes_argument!r}") from None
            if sorted(order) != list(range(ndim)):
                given = tuple(axes_argument)
                fix = f"; x.swapaxes{given} exchanges two" if len(given) == 2 < ndim else ""
                raise AxisError(f"transpose: axes {given} must name each of the {ndim} axes once{fix}")
        return self._view((permute_step(order),)) if order != tuple(range(ndim)) else self._view(())

    @property
    def T(self) -> Self:  # noqa: N802
        """A view with the axes reversed."""
        native = NATIVE_ELEMENTS.transpose
        return view if (view := native(self)) is not None else self.transpose()

    @property
    def mT(self) -> Self:  # noqa: N802
        """A view with the last two axes exchanged."""
        ndim = len(self.node.shape)
        if ndim < 2:
            raise AxisError(f"mT: an array of {ndim} dimensions has no matrix to transpose")
        return self.transpose((*range(ndim - 2), ndim - 1, ndim - 2))

    def _is_contiguous_cell(self) -> bool:
        """Return whether this is a contiguous cell, not a view."""
        return self._base is None and getattr(self, "_placeholder_strides", None) is None

    def _strides(self) -> tuple[int, ...]:
        """Return the strides in elements."""
        cell = self if self._base is None else self._base
        shape = cell.node.shape
        strides = getattr(cell, "_placeholder_strides", None) or row_major(shape)
        return strides if self._base is None else view_strides(shape, strides, self._path)

    def _is_contiguous(self) -> bool:
        """Return whether the elements are contiguous."""
        return element_strides(self) is None

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
        item = NATIVE_ELEMENTS.item
        if item is not_available:
            return map(self.__getitem__, range(self.shape[0]))
        return map(item, repeat(self), range(self.shape[0]))

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
        is_column_major = not self.size or all(
            n == 1 or s == t for n, s, t in zip(self.shape, self._strides(), column_strides, strict=True)
        )
        return Flags(self, self._is_contiguous(), is_column_major, self._base is None)

    def setflags(self, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
        """Make the array, and views taken of it from now on, refuse writes (``write=False``) or accept them again.

        The array changes to a subclass of ``wf.ndarray``. Views that were taken before can still write; so can jitted functions
        that were traced before and write the array without receiving it as an argument.
        """
        if align is False or uic:
            flag = "uic=True" if uic else "align=False"
            raise ValueError(f"setflags: {flag} cannot be set: arrays are aligned, and no array is a temporary copy of another")
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
        target_device, requested = parse_to_arguments("to", target, dtype, device)
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
        return materialise.read_array(self.node).tobytes(order)  # type: ignore[arg-type]

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        """Write the content's bytes, or its numbers as text, to a file; computes now."""
        (self.numpy() if sep else materialise.read_array(self.node)).tofile(fid, sep, format)

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        """Return a view of the same array; with a dtype, its bytes read as that dtype, which writes through too.

        ``dtype`` or ``type`` may be the class ``wf.ndarray``; no other class is accepted.
        """
        if isinstance(dtype, builtins.type) and issubclass(dtype, NumpyMethods | np.ndarray):
            dtype, type = None, dtype
        if isinstance(dtype, int) or isinstance(dtype, tuple) and all(isinstance(n, int) for n in dtype):
            shape = dtype if isinstance(dtype, tuple) or type is None else (dtype, type)
            raise TypeError(f"view: {shape} is no dtype; in weft: x.reshape({str(shape).strip('()').rstrip(',')}), a view too")
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
                raise ValueError(f"view: {have} is read as {target}, of another width, only if the last axis is contiguous")
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
