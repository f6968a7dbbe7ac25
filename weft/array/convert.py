"""Conversion of arguments and of assigned values to nodes."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import weft.graph.primitives  # noqa: F401  fills the table
from weft.devices.base import DEVICE_OF_BUFFER_TYPE
from weft.dtypes import formats
from weft.dtypes.formats import COMPLEX, FLOATS, FROM_NUMPY, INEXACT, INT64, INTEGERS, UINT64, Format, promote, weak
from weft.dtypes.parse import parse_any_byte_order, parse_dtype
from weft.dtypes.rounding import convert_array, rounded_number
from weft.eager import implementations
from weft.eager.apply import bind
from weft.eager.materialise import read_array, read_number
from weft.eager.peek import memory_of
from weft.eager.policy import is_enabled
from weft.errors import DTypeError, ShapeError, find_argument, name_argument, short, warn
from weft.graph.node import Node
from weft.graph.primitives.table import CONSTANT, SCALAR, TABLE, constant, input_leaf, scalar_leaf
from weft.runtime import execute
from weft.runtime.cell import Cell
from weft.runtime.context import CONTEXT
from weft.runtime.traced_int import TRACED_TYPES, TracedInt, TracedScalar, compute_traced, fits, is_int, make_static


def join_nodes(x: Any, nodes: Sequence[Node]) -> Node | None:
    """Return nested lists of ``nodes`` as one leaf; None if not all are small, materialised and of one shape."""
    regular = _read_regular(x) if is_enabled() and not DEVICE_OF_BUFFER_TYPE else None
    return None if regular is None else _stack(nodes, regular[0])


def join_arrays(x: Any) -> Node | None:
    """Return nested lists of arrays as one leaf; None if not all are small, materialised and of one dtype and shape. Views are
    read in place."""
    regular = _read_regular(x) if is_enabled() and not DEVICE_OF_BUFFER_TYPE else None
    if regular is None or not regular[1]:
        return None
    extents, items = regular
    if not any([part._base is not None for part in items]):
        return _stack([part._node for part in items], extents)
    memories: dict[Node, np.ndarray | None] = {}
    out = None
    for k, part in enumerate(items):
        node = part.cell._node
        if (memory := memories.get(node)) is None:
            memory = memories[node] = memory_of(node)
        view = None if memory is None else part._view_memory(memory)
        if view is None or view.nbytes > CONTEXT.eager_limit:
            return None
        if out is None:
            out = np.empty((len(items), *view.shape), view.dtype)
        if view.dtype != out.dtype or view.shape != out.shape[1:]:
            return None
        out[k] = view
    assert out is not None  # the list is not empty
    return _make_leaf(out, (*extents, *out.shape[1:]), FROM_NUMPY[out.dtype])


def _read_regular(x: Any) -> tuple[list[int], list[Any]] | None:
    """Return the extents and the items of nested lists; None if lists at one depth differ in length or are mixed with items."""
    shape, level = [len(x)], list(x)
    while level and isinstance(level[0], list | tuple):
        extent = len(level[0])
        if any([not isinstance(item, list | tuple) or len(item) != extent for item in level]):
            return None
        shape.append(extent)
        level = [inner for item in level for inner in item]
    return None if any([isinstance(item, list | tuple) for item in level]) else (shape, level)


def _stack(nodes: Sequence[Node], extents: list[int]) -> Node | None:
    """Return nodes of one dtype and shape, stacked in ``extents``, as a leaf; None if not all are small and materialised."""
    if not nodes or not nodes[0].size or nodes[0].nbytes > CONTEXT.eager_limit:
        return None
    shape, dtype, values = nodes[0].shape, nodes[0].dtype, []
    for n in nodes:
        value = n.value
        if n.dtype is not dtype or n.shape != shape or (value is None and n.op is not CONSTANT):
            return None
        if value is None or n.op is SCALAR:
            value = implementations.number(n.params["value"] if value is None else value, dtype)
        values.append(value)
    data = execute.eager_device().concatenate(values)
    return None if data is None else _make_leaf(np.frombuffer(data, dtype.numpy), (*extents, *shape), dtype)


def _make_leaf(array: np.ndarray, shape: tuple[int, ...], dtype: Format) -> Node:
    return input_leaf(shape, dtype, execute.to_buffer(array))


NUMBERS = (bool, int, float, complex)
_PROTOCOLS = ("__array__", "__dlpack__", "__array_interface__", "__array_struct__", "__cuda_array_interface__")


def is_argument(value: Any, dtype: Format) -> bool:
    """Return whether a Python number in ``dtype`` becomes a run-time argument of a Program instead of a constant."""
    kind = type(value)
    return kind is float or (kind is int and dtype in FLOATS and -65504 <= value <= 65504 and not -1 <= value <= 2)


def number_node(value: Any, dtype: Format) -> Node:
    """Return a Python number as a node of ``dtype``: a run-time argument of the Program, or a constant.

    Floats, and integers in a float dtype, are arguments, so that no kernel is compiled for a new value. Constants are bools, -1
    to 2 (rewrite rules match them), integers in an integer dtype (dividing by a constant takes a quarter of the time), and all
    numbers if the current trace has ``fixes_numbers``.
    """
    kind = type(value)
    if kind is TracedInt:
        return traced_number_node(value, dtype)
    if kind is complex or dtype in COMPLEX:
        return _complex_node(value, dtype)
    small = -65504 <= value <= 65504
    if not small or -1 != dtype.reach < abs(value):
        warn_of_overflow(value, dtype)
    if is_argument(value, dtype):
        trace = CONTEXT.trace
        if trace is None or not trace.fixes_numbers:
            return scalar_leaf(float(value), dtype)
    try:
        return constant(value, dtype)
    except OverflowError:
        raise out_of_range_error(value, value, dtype) from None


def out_of_range_error(original: Any, value: float | int, dtype: Format) -> OverflowError:
    """Return the error for a number out of an integer's range; ``original`` is the value as the user wrote it."""
    kind = "integer" if isinstance(value, int) else "float"
    prefix = name_argument(original)
    return OverflowError(f"{prefix}the Python {kind} {value} is out of bounds for {dtype.name}; cast the array first")


def _complex_node(value: complex, dtype: Format) -> Node:
    """Return a complex number as a node. Outside of traces it is a leaf with a buffer, so that new numbers compile nothing."""
    if dtype is formats.BOOL:
        return constant(value != 0, dtype)
    if dtype not in COMPLEX:
        raise DTypeError(
            f"{name_argument(value)}the complex number {value!r} cannot be held by {dtype}: take its .real, or cast the array "
            "first"
        )
    if CONTEXT.trace is not None:
        return constant(value, dtype)
    return input_leaf((), dtype, execute.to_buffer(np.asarray(value).astype(dtype.numpy)))


def _lone_format(x: bool | int | float | complex) -> Format:
    """Return the format of a Python number that is combined with no array."""
    return UINT64 if type(x) is int and x > INT64.greatest else parse_dtype(type(x))


def traced_number_node(x: TracedInt, dtype: Format) -> Node:
    """Return a run-time number as a node: an argument of the Program if ``dtype`` can hold it, else a guarded constant."""
    if dtype in COMPLEX:
        return cast(traced_number_node(x, dtype.part), dtype)
    if not x.tape.open or not fits(x.value, dtype):
        return number_node(x.fix_value(), dtype)
    return x.tape.node(x, dtype)


def warn_of_overflow(value: Any, dtype: Format) -> None:
    """Warn as NumPy does if a float format cannot hold a number, with the user's line."""
    try:
        if dtype not in FLOATS or not math.isfinite(value):
            return
    except OverflowError:  # an integer beyond all floats: constant raises the error
        return
    with np.errstate(over="ignore"):
        rounded = rounded_number(float(value), dtype)
    if not math.isfinite(rounded):
        outcome = "NaN" if dtype.finite else "infinite"
        warn(f"the number {value!r} overflows {dtype.name}, whose largest is {dtype.largest:g}: it becomes {outcome}")


def cast(node: Node, dtype: Format) -> Node:
    """Return ``node`` in ``dtype``."""
    return node if node.dtype is dtype else bind(TABLE["cast"], node, dtype=dtype)


def as_node(x: Any, like: Format | None = None) -> Node:
    """Return the node of anything that can become an array.

    Parameters
    ----------
    x : Array, NumPy array or scalar (dtypes are kept), Python number, or nested lists of these
    like : the dtype of the array that a Python number is combined with; without it floats are float32, integers int64

    Raises
    ------
    DTypeError
        ``x`` cannot become an array, or has a dtype that weft does not have.
    """
    if isinstance(x, Cell):
        return x.node  # type: ignore[attr-defined]
    kind = type(x)
    if kind in NUMBERS:
        return number_node(x, weak(kind, like) if like is not None else _lone_format(x))
    if kind is TracedInt:
        if like is None and _lone_format(x.value) is UINT64:
            return as_node(x.fix_value())
        return traced_number_node(x, weak(type(x.value), like) if like is not None else parse_dtype(type(x.value)))
    if kind is TracedScalar:
        return x.own_node
    if isinstance(x, np.ndarray | np.generic):
        refuse_subclass(x)
        return numpy_node(np.asarray(x))
    if isinstance(x, list | tuple):
        content = _read_list(x)
        return content if isinstance(content, Node) else convert_operand(content, _default_format(content))
    if isinstance(x, range):
        return numpy_node(np.asarray(x))
    if is_foreign(x):
        from weft.interop.cuda_exchange import import_node, is_on_cuda

        if is_on_cuda(x):
            return import_node(x, "array", copy=True)
        content = read_foreign(x)
        return as_node(content) if isinstance(content, Cell) else numpy_node(content)
    if hasattr(x, "__float__") and not isinstance(x, str | bytes | type):
        return as_node(int(x) if hasattr(x, "__index__") else float(x), like)
    if _has_buffer(x):
        return numpy_node(np.asarray(x))
    function, argument = find_argument(x)
    if x is None and argument:
        raise DTypeError(f"{function}: {argument} is None; an array or a number is needed")
    message = f"an array of {short(x)} (a {kind.__name__}); give an array, a number or a list of numbers"
    if hasattr(kind, "__iter__") and not isinstance(x, str | bytes | dict):
        message += ", such as list(...)"
    raise DTypeError(f"{name_argument(x)}cannot make {message}")


def is_stripped(kind: type) -> bool:
    """Return whether a class adds something to NumPy's arrays that weft would lose: a mask, units, other operators."""
    return kind is not np.ndarray and issubclass(kind, np.ndarray) and not issubclass(kind, np.memmap)


def refuse_subclass(x: Any) -> None:
    """Raise DTypeError if the class of ``x`` is one of which weft would keep the plain numbers only."""
    kind = type(x)
    if not is_stripped(kind):
        return
    if hasattr(kind, "filled"):
        raise DTypeError(
            f"{name_argument(x)}a masked array ({kind.__name__}) would lose its mask: give x.filled(value), or x.data and the "
            "mask apart, as in wf.where(mask, 0, data)"
        )
    raise DTypeError(
        f"{name_argument(x)}an array of the class {kind.__name__} would lose what its class adds to numpy.ndarray, such as units "
        "or another meaning of *: give numpy.asarray(x) if its plain numbers are meant"
    )


def is_foreign(x: Any) -> bool:
    """Return whether an object offers its content as an array: by a protocol of NumPy, by DLPack or by the CUDA array
    interface."""
    return any([hasattr(x, name) for name in _PROTOCOLS])


def _has_buffer(x: Any) -> bool:
    """Return whether an object supports the buffer protocol, as ``array.array`` and ``bytearray`` do. NumPy treats bytes as
    text."""
    try:
        return not isinstance(x, bytes) and memoryview(x) is not None
    except TypeError:
        return False


def read_foreign(x: Any) -> Any:
    """Return the content of another library's array, or the Array that an object's ``__array__`` returns."""
    if hasattr(x, "__array__") or not hasattr(x, "__dlpack__"):
        try:
            return np.asarray(x)
        except ValueError:  # NumPy raises it for an ``__array__`` that returns no NumPy array
            content = x.__array__() if hasattr(x, "__array__") else None
            if not isinstance(content, Cell):
                raise
            return content
        except TypeError:  # PyTorch raises it for a dtype that NumPy lacks
            if not hasattr(x, "__dlpack__"):
                raise
    from weft.interop.dlpack import import_array

    return import_array(x)


def numpy_node(array: np.ndarray) -> Node:
    """Return a leaf with a copy of a NumPy array."""
    try:
        dtype = FROM_NUMPY.get(array.dtype) or parse_any_byte_order(array.dtype)
    except DTypeError:
        raise DTypeError(name_argument(array) + _why_not_held(array)) from None
    return input_leaf(array.shape, dtype, execute.to_buffer(np.ascontiguousarray(array, dtype.numpy).reshape(array.shape)))


_NOT_HELD = {  # kind of NumPy's dtype -> what its arrays hold, and what to write instead
    **dict.fromkeys("US", "strings cannot be held: map them to integers, np.unique(names, return_inverse=True)[1]"),
    **dict.fromkeys("mM", "dates cannot be held: subtract a date and divide, (t - t[0]) / np.timedelta64(1, 's')"),
}


def _why_not_held(array: np.ndarray) -> str:
    """Return the message for an array of a dtype that weft does not have."""
    if array.dtype.kind in _NOT_HELD:
        return _NOT_HELD[array.dtype.kind]
    for value in list(array.flat)[:1000] if array.dtype.kind == "O" else ():
        if value is None:
            return "None cannot be held: write float('nan') for a missing number"
        if not isinstance(value, int | float | complex):
            return f"a {type(value).__name__} cannot be held: arrays hold numbers"
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
            return f"the integer {short(value)} needs more than 64 bits: write it as a float"
    formats = "bool, integers, floats of 8 to 64 bits, complex64 and complex128"
    return f"an array of dtype {array.dtype} cannot be held: weft has {formats}"


def shared_node(array: np.ndarray) -> Node:
    """Return a leaf over the memory of a contiguous NumPy array. Raise BufferError if the device has memory of its own."""
    if array.size and CONTEXT.device is not None:
        raise BufferError("from_dlpack: with copy=False the memory is shared, and this device has its own")
    buffer = execute.eager_device().alias_numpy(array) if array.size else execute.to_buffer(array)
    return input_leaf(array.shape, parse_dtype(array.dtype), buffer)


def list_to_numpy(x: Any, original: Any) -> np.ndarray:
    """Return nested lists as a NumPy array; ``original`` is the value as the user wrote it, for messages."""
    try:
        return np.asarray(x)
    except ValueError as error:
        is_deep = "maximum number of dimension" in str(error)
        why = "it is nested in more than 64 lists" if is_deep else "its rows have different lengths"
        raise ShapeError(f"{name_argument(original)}cannot make an array of {short(x)}: {why}") from None


def _read_list(x: Any) -> Any:
    """Return nested lists as a node, a NumPy array or a _RunTimeList.

    The latter two hold Python floats (in float64 or complex128) and run-time numbers. They have no dtype yet:
    :func:`convert_operand` converts them exactly to any.
    """
    original, kinds = x, nested_types(x)
    if not kinds.isdisjoint(TRACED_TYPES):
        if (result := _read_run_time_list(x, kinds)) is not None:
            return result
        x = make_static(x)
        kinds = nested_types(x)
    has_numpy = any([issubclass(kind, np.generic | np.ndarray) for kind in kinds])
    if has_numpy:
        refuse_subclasses(x, kinds)
    if any([issubclass(kind, Cell) for kind in kinds]):
        if not has_numpy and all(getattr(leaf, "weak", True) for leaf in iterate_items(x)):
            return _RunTimeList(x)
        result = join_arrays(x) if all([issubclass(kind, Cell) and not getattr(kind, "weak", False) for kind in kinds]) else None
        if result is not None:
            return result
        nodes = _promote_items(*iterate_items(x))
        return stack_nodes(x, nodes, nodes[0].dtype)
    array = list_to_numpy(x, original)
    weak_floats = array.dtype in (np.float64, np.complex128) and not has_numpy
    if not weak_floats or array.size and all([issubclass(kind, int) for kind in kinds]):
        return numpy_node(array)  # NumPy makes float64 of integers that fit only uint64 and int64 together
    return array


def _is_signed(x: Any) -> bool:
    """Return whether ``x`` is a signed NumPy integer. A list of other NumPy numbers does not always have the dtype to which
    arrays of them promote."""
    return isinstance(x.value if type(x) is TracedScalar else x, np.signedinteger)


def _is_narrow(number: int) -> bool:
    return INT64.least <= number <= INT64.greatest


def _read_run_time_list(x: Any, kinds: set[type]) -> Any:
    """Return nested lists of numbers that include run-time numbers; None if their values are needed."""
    if TracedScalar in kinds and all([is_int(leaf) or _is_signed(leaf) for leaf in iterate_items(x)]):
        nodes = _promote_items(*iterate_items(x))
        return stack_nodes(x, nodes, nodes[0].dtype)
    if TracedScalar in kinds and all([isinstance(leaf, float | np.floating) or type(leaf) is int for leaf in iterate_items(x)]):
        dtype = FROM_NUMPY[np.asarray([_plain_value(leaf) for leaf in iterate_items(x)]).dtype]  # of types only, not of values
        numbers = (leaf if type(leaf) in (float, int, TracedInt) else as_node(leaf) for leaf in iterate_items(x))
        return _stack_rows(x, (convert_operand(number, dtype) for number in numbers), dtype)
    if not all([kind in (int, float, TracedInt) or getattr(kind, "weak", False) for kind in kinds]):
        return None
    items = list(iterate_items(x))
    types = {type(leaf.value) if type(leaf) is TracedInt else type(leaf) for leaf in items}
    if bool in types:
        return None
    if not all([compute_traced(_is_narrow, leaf) for leaf in items if is_int(leaf)]):
        return None  # NumPy makes an object array of wider integers
    if types != {int}:
        return _RunTimeList(x)
    return _stack_rows(x, (as_node(leaf) for leaf in items), INT64)


def _plain_value(x: Any) -> Any:
    return x.value if type(x) in TRACED_TYPES else x


def _default_format(operand: Any) -> Format:
    """Return the dtype of a list of numbers, read by :func:`_read_list`, that is combined with no array."""
    return formats.DEFAULT.complex if type(operand) is np.ndarray and operand.dtype.kind == "c" else formats.DEFAULT.real


class _RunTimeList:
    """Nested lists of numbers that include run-time numbers. Like a list of floats, they convert exactly to any dtype."""

    __slots__ = ("items",)

    def __init__(self, items: Any) -> None:
        self.items = items

    def as_dtype_node(self, dtype: Format) -> Node:
        return _stack_rows(self.items, (convert_operand(leaf, dtype) for leaf in iterate_items(self.items)), dtype)


def nested_types(x: Any) -> set[type]:
    """Return the types of the items of nested lists."""
    try:
        return _collect_types(x)
    except RecursionError:
        why = "it contains itself, or is nested in more than 64 lists"
        raise ShapeError(f"{name_argument(x)}cannot make an array of {short(x)}: {why}") from None


def _collect_types(x: Any) -> set[type]:
    kinds = set(map(type, x))
    if any([issubclass(kind, list | tuple) for kind in kinds]):
        kinds = {kind for kind in kinds if not issubclass(kind, list | tuple)}
        return kinds.union(*[_collect_types(item) for item in x if isinstance(item, list | tuple)])
    return kinds


def refuse_subclasses(x: Any, kinds: set[type]) -> None:
    """Call :func:`refuse_subclass` on the items of nested lists if ``kinds``, their types, include a stripped class."""
    if any(map(is_stripped, kinds)):
        for leaf in iterate_items(x):
            refuse_subclass(leaf)


def iterate_items(x: Any) -> Iterator[Any]:
    """Yield the items of nested lists."""
    for item in x:
        if isinstance(item, list | tuple):
            yield from iterate_items(item)
        else:
            yield item


def stack_nodes(x: Any, nodes: Sequence[Node], dtype: Format) -> Node:
    """Return nested lists of ``nodes`` of ``dtype`` as one array: copied now if all are small and materialised, else stacked as a
    pending node."""
    leaf = join_nodes(x, nodes)
    return _stack_rows(x, iter(nodes), dtype) if leaf is None else leaf


def _stack_rows(x: Any, nodes: Iterator[Node], dtype: Format) -> Node:
    """Stack nested lists with Arrays in them as a pending node; ``nodes`` are their items in ``dtype``."""
    if not x:
        return numpy_node(np.zeros(0, dtype.numpy))
    parts = [_stack_rows(item, nodes, dtype) if isinstance(item, list | tuple) else next(nodes) for item in x]
    shapes = {n.shape for n in parts}
    if len(shapes) != 1:
        listing = sorted(shapes)
        raise ShapeError(f"{name_argument(x)}cannot make an array of a list whose items have different shapes: {listing}")
    (shape,) = shapes
    rows = [bind(TABLE["reshape"], n, shape=(1, *shape)) for n in parts]
    return rows[0] if len(rows) == 1 else bind(TABLE["concat"], *rows, axis=0)


def array_operands(*xs: Any) -> tuple[Node, ...]:
    """Return operands as nodes of their common dtype, as concatenate and inner promote them.

    A Python number counts with its own dtype, so an integer is int64 beside any array. No operand loses digits on the way.
    """
    values, dtype = _read_items(xs, _promote_item)
    return tuple([convert_operand(x, dtype) for x in values])


def exact_operands(*xs: Any) -> list[Node]:
    """Return the nodes of operands, each in its own dtype.

    Python floats, alone or in lists, are read in the widest float dtype among the operands. Read alone they would be float32, and
    would have lost digits when they are combined with a float64 array.
    """
    values, dtype = _read_items(xs, _promote_item) if xs else ((), INT64)
    return [x if type(x) is Node else as_node(x) if is_int(x) or type(x) is bool else convert_operand(x, dtype) for x in values]


def _promote_items(*xs: Any) -> tuple[Node, ...]:
    """Return the items of a list in their common dtype. NumPy promotes from left to right, so an integer may widen a float."""
    values, dtype = _read_items(xs)
    if formats.DEFAULT.wide:
        dtype = functools.reduce(promote, map(_own_dtype, values))
    return tuple([convert_operand(x, dtype) for x in values])


def _promote_number(kind: type, form: Format) -> Format:
    return promote(form, parse_dtype(kind))


def _promote_item(kind: type, form: Format) -> Format:
    """Return the common dtype of a Python number and an array. Beside an 8-bit float, which does not promote, a float takes its
    dtype."""
    return form if form.alone and kind is float else _promote_number(kind, form)


def _read_items(
    xs: Sequence[Any], promote_number: Callable[[type, Format], Format] = _promote_number,
) -> tuple[list[Any], Format]:
    """Return operands as :func:`read_operands` does. An integer beyond int64 counts as uint64."""
    xs = [as_node(x) if is_int(x) and x > INT64.greatest else x for x in xs]
    return read_operands(xs, promote, promote_number)


def _own_dtype(x: Any) -> Format:
    """Return the dtype that an operand read by :func:`read_operands` has alone."""
    if type(x) is Node:
        return x.dtype
    return parse_dtype(type(x.value) if type(x) is TracedInt else type(x) if type(x) in NUMBERS else float)


def promote_operands(*xs: Any) -> tuple[Node, ...]:
    """Return the nodes of several operands, cast to their common dtype by NumPy's rules.

    Python numbers take the dtype of the arrays; a Python float among integers makes float32.
    """
    values, dtype = read_operands(xs, promote, weak)
    return tuple([x if type(x) is Node and x.dtype is dtype else convert_operand(x, dtype) for x in values])


def read_operands(
    xs: Sequence[Any], promote_pair: Callable[..., Format], promote_number: Callable[[type, Format], Format],
) -> tuple[list[Any], Format]:
    """Return the operands, converted to values with a known dtype, and their common dtype.

    promote_pair : (dtype, dtype) -> common dtype of two arrays
    promote_number : (type of a Python number, dtype of the arrays) -> common dtype

    Each value is a node, or something that converts exactly to any dtype: a Python number, or a list of numbers as float64.
    :func:`convert_operand` makes nodes of the latter.
    """
    dtype: Format | None = None
    values: list[Any] = []
    further: list[Format] = []
    kinds: set[type] = set()
    for x in xs:
        kind = type(x)
        if kind in NUMBERS:
            kinds.add(kind)
            values.append(x)
            continue
        if kind is TracedInt:
            kinds.add(type(x.value))
            values.append(x)
            continue
        node: Any = x
        if isinstance(x, Cell):
            if getattr(x, "weak", False):
                kinds.add(float)
                values.append(x)
                continue
            node = x.node  # type: ignore[attr-defined]
        elif kind is not Node:
            node = _read_list(x) if isinstance(x, list | tuple) else as_node(x)
        own = node.dtype if type(node) is Node else _default_format(node)
        if dtype is None or dtype is own:
            dtype = own
        else:
            further.append(own)
        values.append(node)
    if dtype is not None and further:  # floats first: integers between them would widen the result
        dtype = functools.reduce(promote_pair, sorted((dtype, *further), key=lambda form: form not in INEXACT))
    if kinds:
        strongest = next(kind for kind in (complex, float, int, bool) if kind in kinds)
        dtype = promote_number(strongest, dtype) if dtype is not None else parse_dtype(strongest)
    assert dtype is not None
    return values, dtype


def convert_operand(x: Any, dtype: Format) -> Node:
    """Return an operand read by :func:`read_operands` as a node of ``dtype``."""
    if type(x) is Node:
        return cast(x, dtype)
    if type(x) in NUMBERS:
        return number_node(x, dtype)
    if type(x) is TracedInt:
        return traced_number_node(x, dtype)
    return numpy_node(convert_array(x, dtype.numpy)) if type(x) is np.ndarray else x.as_dtype_node(dtype)


def convert_assigned(value: Any, dtype: Format) -> Node:
    """Return ``value`` in ``dtype``, the dtype of the array that is written. Python numbers, alone and in lists, are converted
    exactly once.

    Raises
    ------
    ValueError, OverflowError
        An integer dtype cannot hold a NaN, an infinity or a number out of range. Arrays are cast by dtype without a check,
        and so are Scalars outside of lists, see :func:`convert_checked`.
    """
    kind = type(value)
    if kind in NUMBERS:
        if kind is not float or dtype in INEXACT:
            return number_node(value, dtype)
        return constant(bool(value), dtype) if dtype == formats.BOOL else number_node(_to_integer(value, value, dtype), dtype)
    if kind is TracedInt:
        fits_ = dtype in INEXACT or fits(value.value, dtype)
        return traced_number_node(value, dtype) if fits_ else convert_assigned(value.fix_value(), dtype)
    if isinstance(value, Cell):
        cell: Any = value
        is_weak = getattr(cell, "weak", False)
        return cast(cell.as_dtype_node(dtype if dtype in INEXACT else formats.FLOAT64) if is_weak else cell.node, dtype)
    if value is None or isinstance(value, str | bytes):
        return _parse_text(value, dtype)
    if isinstance(value, list | tuple):
        return _assign_list(value, dtype)
    return cast(as_node(value, dtype), dtype)


def convert_checked(value: Any, dtype: Format) -> Node:
    """Return ``value`` as :func:`convert_assigned` does, and check the range of scalars too, as NumPy does when elements and
    slices are assigned to."""
    if isinstance(value, Cell):
        cell: Any = value
        node: Node = cell.node
        if node.dtype is dtype and node.shape:  # the most frequent case
            return node
    _check_scalar(value, dtype)
    return convert_assigned(value, dtype)


def _check_scalar(value: Any, dtype: Format) -> None:
    """Read a scalar, outside of traces, and raise an error if integers of ``dtype`` cannot hold its number.

    Unsigned integers take any number of 64 bits modulo their size, as in NumPy.
    """
    if dtype not in INTEGERS or CONTEXT.trace is not None:
        return
    if not (isinstance(value, np.generic) or getattr(value, "is_value", False)):
        return
    source, signed = FROM_NUMPY.get(value.dtype), dtype.kind == "signed"
    if source is None or not (source in FLOATS or (signed and source in INTEGERS and not formats.holds(dtype, source))):
        return
    content = read_number(value.node, free=True) if isinstance(value, Cell) else value  # type: ignore[attr-defined]
    number = float(content) if source in FLOATS else int(content)
    if signed or not INT64.least <= number <= UINT64.greatest:
        _to_integer(value, number, dtype)


def _assign_list(value: Any, dtype: Format) -> Node:
    kinds = nested_types(value)
    refuse_subclasses(value, kinds)
    if not any([issubclass(kind, Cell) for kind in kinds]):
        value = make_static(value)
        if dtype in INTEGERS and any([issubclass(kind, np.generic) for kind in kinds]):
            for leaf in iterate_items(value):  # NumPy accepts infinities of ml_dtypes, and any for unsigned integers
                _check_scalar(leaf, dtype)
        try:
            return numpy_node(_as_numpy(value, dtype))
        except (ValueError, TypeError, OverflowError):
            list_to_numpy(value, value)  # a ragged list has a message of its own
            for leaf in iterate_items(value):
                convert_checked(leaf, dtype)
            raise
    items = list(iterate_items(value))
    if all([isinstance(x, Cell) and not getattr(x, "weak", False) for x in items]):
        nodes = [x.node for x in items]
        if all([n.dtype is nodes[0].dtype for n in nodes]):  # cast as one array
            whole = stack_nodes(value, nodes, nodes[0].dtype)
            if not _is_in_range(whole, dtype):
                for x in items:
                    _check_scalar(x, dtype)
            return cast(whole, dtype)
    return stack_nodes(value, [convert_checked(x, dtype) for x in items], dtype)


def _is_in_range(node: Node, dtype: Format) -> bool:
    """Return whether ``dtype`` certainly holds all numbers of an array, by its dtype or, if it is materialised, by its minimum
    and maximum."""
    if dtype not in INTEGERS or formats.holds(dtype, node.dtype):
        return True
    if node.value is None or not node.size or node.dtype in COMPLEX or CONTEXT.trace is not None:
        return False
    # NumPy scalars would round the bounds
    content, to_python = read_array(node, free=True), float if node.dtype in FLOATS else int
    return to_python(content.min()) >= dtype.least and to_python(content.max()) <= dtype.greatest


def _as_numpy(value: Any, dtype: Format) -> np.ndarray:
    """Return numbers, texts and None as NumPy converts them to ``dtype``; ml_dtypes' formats go through float64."""
    parts = iterate_items(value) if isinstance(value, list | tuple) else (value,)
    if dtype.narrow and dtype in INTEGERS:  # ml_dtypes does not check the range
        numbers = np.asarray(value, dtype.computed.numpy)
        if numbers.size and not (dtype.least <= numbers.min() and numbers.max() <= dtype.greatest):
            own = [np.asarray(x, numbers.dtype) for x in parts if not isinstance(x, np.generic)]  # NumPy's numbers wrap around
            if any(not dtype.least <= x <= dtype.greatest for x in own):
                raise OverflowError(f"{value!r} has a number out of bounds for {dtype.name}")
        return numbers.astype(dtype.numpy)
    if dtype.numpy.isbuiltin == 1 or not (dtype.custom or any(isinstance(x, str | bytes | None) for x in parts)):
        return np.asarray(value, dtype.numpy)
    return convert_array(np.asarray(value, np.float64), dtype.numpy)


def _parse_text(value: str | bytes | None, dtype: Format) -> Node:
    """Return the number that a text represents; None becomes NaN."""
    try:
        return numpy_node(_as_numpy(value, dtype))
    except (ValueError, TypeError, OverflowError) as error:
        kind = next(k for k in (ValueError, TypeError, OverflowError) if isinstance(error, k))
        why = "None becomes NaN, which only floats have" if value is None else "the text is not a number of this dtype"
        raise kind(f"{name_argument(value)}{value!r} cannot be held by {dtype.name}: {why}") from None


def _to_integer(original: Any, value: float, dtype: Format) -> int:
    """Return a number truncated to an integer of ``dtype``; ``original`` is the value as the user wrote it, for messages."""
    try:
        number = int(value)
    except (ValueError, OverflowError) as error:
        raise type(error)(
            f"{name_argument(original)}{value!r} cannot be held by {dtype.name}: integers have no NaN and no infinity; use a "
            "float dtype, as with .astype('float32')"
        ) from None
    if not dtype.least <= number <= dtype.greatest:
        shown = number if INT64.least <= number <= UINT64.greatest else value
        raise out_of_range_error(original, shown, dtype)
    return number
