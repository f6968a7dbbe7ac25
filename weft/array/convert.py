"""Nodes from what users write: Arrays, NumPy arrays, numbers, lists; and operands brought to one dtype."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import weft.graph.primitives  # noqa: F401  fills the table
from weft.array.nested_lists import join_arrays, join_nodes
from weft.dtypes.formats import (
    BOOL,
    COMPLEX,
    DEFAULT,
    FLOATS,
    FROM_NUMPY,
    INEXACT,
    INT64,
    UINT64,
    Format,
    converted,
    promote,
    weak,
)
from weft.dtypes.parse import of_any_order, spelled
from weft.eager.apply import bind
from weft.errors import DTypeError, ShapeError, place_of, short, told, warn
from weft.graph.node import Node
from weft.graph.primitives.table import TABLE, constant, input_leaf, scalar_leaf
from weft.runtime import execute
from weft.runtime.cell import Cell
from weft.runtime.context import LOCAL
from weft.runtime.traced_int import GIVEN, Given, GivenScalar, asked, computed, fits, is_int

NUMBERS = (bool, int, float, complex)
_PROTOCOLS = ("__array__", "__dlpack__", "__array_interface__", "__array_struct__", "__cuda_array_interface__")


def is_argument(value: Any, dtype: Format) -> bool:
    """Whether a Python number in ``dtype`` is an argument of a Program, and does not belong to its text."""
    kind = type(value)
    return kind is float or (kind is int and dtype in FLOATS and -65504 <= value <= 65504 and not -1 <= value <= 2)


def number_node(value: Any, dtype: Format) -> Node:
    """A Python number in ``dtype``: floats, and integers beside floats, are arguments of the Program, so that new ones compile
    nothing. The rest belongs to its text: bools, -1 to 2, where rules look for them, integers beside integers, since a
    division by what is known takes a quarter of the time, and (inside a traced function) all numbers."""
    kind = type(value)
    if kind is Given:
        return given_node(value, dtype)
    if kind is complex or dtype in COMPLEX:
        return _complex_node(value, dtype)
    small = -65504 <= value <= 65504
    if not small or -1 != dtype.reach < abs(value):
        warn_of_overflow(value, dtype)
    if is_argument(value, dtype):
        trace = LOCAL.trace
        if trace is None or not trace.fixes_numbers:
            return scalar_leaf(float(value), dtype)
    try:
        return constant(value, dtype)
    except OverflowError:
        raise beyond(value, value, dtype) from None


def beyond(given: Any, value: float | int, dtype: Format) -> OverflowError:
    """What is said of a number out of an integer's range; ``given``: as the user has written it."""
    kind = "integer" if isinstance(value, int) else "float"
    return OverflowError(f"{told(given)}the Python {kind} {value} is out of bounds for {dtype.name}; cast the array first")


def _complex_node(value: complex, dtype: Format) -> Node:
    """A number for complex arrays: a content of its own outside of traces, so that new numbers compile nothing."""
    if dtype is BOOL:
        return constant(value != 0, dtype)
    if dtype not in COMPLEX:
        raise DTypeError(
            f"{told(value)}the complex number {value!r} cannot be held by {dtype}: take its .real, or cast the array first"
        )
    if LOCAL.trace is not None:
        return constant(value, dtype)
    return input_leaf((), dtype, execute.to_buffer(np.asarray(value).astype(dtype.numpy)))


def _alone(x: bool | int | float | complex) -> Format:
    """The format of a Python number that meets no array."""
    return UINT64 if type(x) is int and x > INT64.greatest else spelled(type(x))


def given_node(x: Given, dtype: Format) -> Node:
    """The same of a number of which only the call tells the value: an argument, too, where ``dtype`` holds it."""
    if dtype in COMPLEX:
        return cast(given_node(x, dtype.part), dtype)
    if not x.tape.open or not fits(x.value, dtype):
        return number_node(x.here(), dtype)
    return x.tape.node(x, dtype)


def warn_of_overflow(value: Any, dtype: Format) -> None:
    """As NumPy does, but at the user's line."""
    try:
        if dtype not in FLOATS or not math.isfinite(value):
            return
    except OverflowError:  # an integer beyond all floats, which constant refuses
        return
    with np.errstate(over="ignore"):
        found = converted(np.asarray(float(value)), dtype.numpy)
    if not np.isfinite(found):
        what = "NaN" if dtype.finite else "infinite"
        warn(f"the number {value!r} overflows {dtype.name}, whose largest is {dtype.largest:g}: it becomes {what}")


def cast(node: Node, dtype: Format) -> Node:
    """``node`` in ``dtype``."""
    return node if node.dtype is dtype else bind(TABLE["cast"], node, dtype=dtype)


def as_node(x: Any, like: Format | None = None) -> Node:
    """The node of anything that can be an array.

    Parameters
    ----------
    x : Array, NumPy array or scalar (dtypes are kept), Python number, or nested lists of these
    like : the dtype of the array that a Python number meets; without it floats are float32, integers int64

    Raises
    ------
    DTypeError
        when ``x`` is nothing that can be an array, or has a dtype that weft does not have.
    """
    if isinstance(x, Cell):
        return x.node  # type: ignore[attr-defined]
    kind = type(x)
    if kind in NUMBERS:
        return number_node(x, weak(kind, like) if like is not None else _alone(x))
    if kind is Given:
        if like is None and _alone(x.value) is UINT64:
            return as_node(x.here())
        return given_node(x, weak(type(x.value), like) if like is not None else spelled(type(x.value)))
    if kind is GivenScalar:
        return x.own
    if isinstance(x, np.ndarray | np.generic):
        refuse_subclass(x)
        return numpy_node(np.asarray(x))
    if isinstance(x, list | tuple):
        found = _listed(x)
        return found if isinstance(found, Node) else in_dtype(found, _default(found))
    if isinstance(x, range):
        return numpy_node(np.asarray(x))
    if is_foreign(x):
        from weft.interop.cuda_exchange import card_node, lies_on_a_card

        if lies_on_a_card(x):
            return card_node(x, "array", copy=True)
        found = foreign(x)
        return as_node(found) if isinstance(found, Cell) else numpy_node(found)
    if hasattr(x, "__float__") and not isinstance(x, str | bytes | type):
        return as_node(int(x) if hasattr(x, "__index__") else float(x), like)
    if _exports(x):
        return numpy_node(np.asarray(x))
    function, argument = place_of(x)
    if x is None and argument:
        raise DTypeError(f"{function}: {argument} is None; an array or a number is needed")
    what = f"an array of {short(x)} (a {kind.__name__}); arrays, numbers and lists of numbers can be"
    if hasattr(kind, "__iter__") and not isinstance(x, str | bytes | dict):
        what += ": use list(...)"
    raise DTypeError(f"{told(x)}cannot make {what}")


def is_stripped(kind: type) -> bool:
    """Return whether weft would lose what a class adds to NumPy's arrays: a mask, units, another meaning of operators."""
    return kind is not np.ndarray and issubclass(kind, np.ndarray) and not issubclass(kind, np.memmap)


def refuse_subclass(x: Any) -> None:
    """Raise an error for an array of a class of which weft would keep the plain numbers alone."""
    kind = type(x)
    if not is_stripped(kind):
        return
    if hasattr(kind, "filled"):
        raise DTypeError(
            f"{told(x)}a masked array ({kind.__name__}) would lose its mask: give x.filled(value), or x.data and the mask apart, "
            "as in wf.where(mask, 0, data)"
        )
    raise DTypeError(
        f"{told(x)}an array of the class {kind.__name__} would lose what its class adds to numpy.ndarray, such as units or "
        "another meaning of *: give numpy.asarray(x) if its plain numbers are meant"
    )


def is_foreign(x: Any) -> bool:
    """Whether an object offers its content as an array, by one of NumPy's protocols, DLPack or that of CUDA's libraries."""
    return any([hasattr(x, name) for name in _PROTOCOLS])


def _exports(x: Any) -> bool:
    """Whether an object shows its memory, as ``array.array`` and ``bytearray`` do; bytes are text to NumPy."""
    try:
        return not isinstance(x, bytes) and memoryview(x) is not None
    except TypeError:
        return False


def foreign(x: Any) -> Any:
    """The content of another library's array; an Array, where that is what an object's ``__array__`` gives."""
    if hasattr(x, "__array__") or not hasattr(x, "__dlpack__"):
        try:
            return np.asarray(x)
        except ValueError:  # so NumPy says of what is none of its own arrays
            found = x.__array__() if hasattr(x, "__array__") else None
            if not isinstance(found, Cell):
                raise
            return found
        except TypeError:  # so PyTorch says of a dtype that NumPy lacks
            if not hasattr(x, "__dlpack__"):
                raise
    from weft.interop.dlpack import taken

    return taken(x)


def numpy_node(array: np.ndarray) -> Node:
    """A leaf with a copy of a NumPy array."""
    try:
        dtype = FROM_NUMPY.get(array.dtype) or of_any_order(array.dtype)
    except DTypeError:
        raise DTypeError(
            f"{told(array)}an array of dtype {array.dtype} cannot be held: weft has bool, integers, floats of 8 to 64 bits, "
            "complex64 and complex128"
        ) from None
    return input_leaf(array.shape, dtype, execute.to_buffer(np.ascontiguousarray(array, dtype.numpy).reshape(array.shape)))


def shared_node(array: np.ndarray) -> Node:
    """A leaf over the memory of a NumPy array that lies row by row; BufferError where the device has memory of its own."""
    buffer = execute.over(array) if array.size else execute.to_buffer(array)
    if buffer is None:
        raise BufferError("from_dlpack: with copy=False the memory is shared, and this device has its own")
    return input_leaf(array.shape, spelled(array.dtype), buffer)


def from_list(x: Any, given: Any) -> np.ndarray:
    """Nested lists as NumPy reads them; ``given``: as the user has written them."""
    try:
        return np.asarray(x)
    except ValueError:
        raise ShapeError(f"{told(given)}cannot make an array of {short(x)}: its rows have different lengths") from None


def _listed(x: Any) -> Any:
    """Nested lists as a node; Python's floats as the float64 that they are, for whoever knows the dtype they are to have
    (:func:`in_dtype`), and so lists in which run-time numbers are among them."""
    given, kinds = x, kinds_in(x)
    if not kinds.isdisjoint(GIVEN):
        found = _of_run_time(x, kinds)
        if found is not None:
            return found
        x = asked(x)
        kinds = kinds_in(x)
    foreign = any([issubclass(kind, np.generic | np.ndarray) for kind in kinds])
    if foreign:
        refuse_subclasses(x, kinds)
    if any([issubclass(kind, Cell) for kind in kinds]):
        if not foreign and all(getattr(leaf, "weak", True) for leaf in leaves(x)):
            return _Varying(x)
        found = join_arrays(x) if all([issubclass(kind, Cell) and not getattr(kind, "weak", False) for kind in kinds]) else None
        if found is not None:
            return found
        nodes = _of_list(*leaves(x))
        return joined(x, nodes, nodes[0].dtype)
    array = from_list(x, given)
    weak_floats = array.dtype in (np.float64, np.complex128) and not foreign
    if not weak_floats or array.size and all([issubclass(kind, int) for kind in kinds]):
        return numpy_node(array)  # integers that only uint64 and int64 together hold are float64, as where such arrays meet
    return array


def _is_signed(x: Any) -> bool:
    """Whether this is one of NumPy's signed integers: beside others NumPy's lists are of dtypes that arrays would not be of."""
    return isinstance(x.value if type(x) is GivenScalar else x, np.signedinteger)


def _is_narrow(number: int) -> bool:
    return INT64.least <= number <= INT64.greatest


def _of_run_time(x: Any, kinds: set[type]) -> Any:
    """Nested lists of numbers some of which are run-time numbers; None where their value is needed."""
    if GivenScalar in kinds and all([is_int(leaf) or _is_signed(leaf) for leaf in leaves(x)]):
        nodes = _of_list(*leaves(x))
        return joined(x, nodes, nodes[0].dtype)
    if not all([kind in (int, float, Given) or getattr(kind, "weak", False) for kind in kinds]):
        return None
    given = list(leaves(x))
    types = {type(leaf.value) if type(leaf) is Given else type(leaf) for leaf in given}
    if bool in types:
        return None
    if not all([computed(_is_narrow, leaf) for leaf in given if is_int(leaf)]):
        return None  # NumPy makes objects of wider ones
    if types != {int}:
        return _Varying(x)
    return _rows(x, (as_node(leaf) for leaf in given), INT64)


def _default(found: Any) -> Format:
    """The dtype of a list of numbers, read by :func:`_listed`, that meets no array."""
    return DEFAULT.complex if type(found) is np.ndarray and found.dtype.kind == "c" else DEFAULT.real


class _Varying:
    """Nested lists of numbers some of which are run-time numbers: like a list of floats, it takes any dtype exactly."""

    __slots__ = ("items",)

    def __init__(self, items: Any) -> None:
        self.items = items

    def as_dtype_node(self, dtype: Format) -> Node:
        return _rows(self.items, (in_dtype(leaf, dtype) for leaf in leaves(self.items)), dtype)


def kinds_in(x: Any) -> set[type]:
    """The types of what nested lists hold."""
    kinds = set(map(type, x))
    if any([issubclass(kind, list | tuple) for kind in kinds]):
        kinds = {kind for kind in kinds if not issubclass(kind, list | tuple)}
        return kinds.union(*[kinds_in(item) for item in x if isinstance(item, list | tuple)])
    return kinds


def refuse_subclasses(x: Any, kinds: set[type]) -> None:
    """Call :func:`refuse_subclass` for what nested lists hold, given its types."""
    if any(map(is_stripped, kinds)):
        for leaf in leaves(x):
            refuse_subclass(leaf)


def leaves(x: Any) -> Iterator[Any]:
    """What nested lists hold."""
    for item in x:
        if isinstance(item, list | tuple):
            yield from leaves(item)
        else:
            yield item


def joined(x: Any, nodes: Sequence[Node], dtype: Format) -> Node:
    """Nested lists that hold ``nodes``, which are of ``dtype``, as one array: copied now if all are small and have values, else
    stacked lazily."""
    found = join_nodes(x, nodes)
    return _rows(x, iter(nodes), dtype) if found is None else found


def _rows(x: Any, nodes: Iterator[Node], dtype: Format) -> Node:
    """Nested lists with Arrays in them, whose leaves are ``nodes`` of ``dtype``: stacked lazily."""
    if not x:
        return numpy_node(np.zeros(0, dtype.numpy))
    parts = [_rows(item, nodes, dtype) if isinstance(item, list | tuple) else next(nodes) for item in x]
    shapes = {n.shape for n in parts}
    if len(shapes) != 1:
        what = sorted(shapes)
        raise ShapeError(f"{told(x)}cannot make an array of a list whose items have different shapes: {what}")
    (shape,) = shapes
    rows = [bind(TABLE["reshape"], n, shape=(1, *shape)) for n in parts]
    return rows[0] if len(rows) == 1 else bind(TABLE["concat"], *rows, axis=0)


def array_operands(*xs: Any) -> tuple[Node, ...]:
    """Return the nodes of operands that a function makes arrays of, as concatenate and inner do, in their common dtype.

    A Python number has the dtype that it has alone, so an integer is int64 whatever lies beside it; none loses digits on the way.
    """
    found, dtype = _read_items(xs, _beside)
    return tuple([in_dtype(x, dtype) for x in found])


def exact_operands(*xs: Any) -> list[Node]:
    """Return the nodes of operands, each in a dtype of its own.

    Python floats, alone or in lists, are read in the widest float dtype among the operands: read alone they would be float32, and
    would have lost digits when they meet a float64 array.
    """
    found, dtype = _read_items(xs, _beside) if xs else ((), INT64)
    return [x if type(x) is Node else as_node(x) if is_int(x) or type(x) is bool else in_dtype(x, dtype) for x in found]


def _of_list(*xs: Any) -> tuple[Node, ...]:
    """The same for a list, whose dtype NumPy finds from one item to the next: integers between floats make wider ones."""
    found, dtype = _read_items(xs)
    if DEFAULT.wide:
        dtype = functools.reduce(promote, map(_own_dtype, found))
    return tuple([in_dtype(x, dtype) for x in found])


def _strong(kind: type, form: Format) -> Format:
    return promote(form, spelled(kind))


def _beside(kind: type, form: Format) -> Format:
    """Return the dtype of a number and an array: 8-bit floats mix with no other float, so a Python float takes their dtype."""
    return form if form.alone and kind is float else _strong(kind, form)


def _read_items(xs: Sequence[Any], beside: Callable[[type, Format], Format] = _strong) -> tuple[list[Any], Format]:
    xs = [as_node(x) if is_int(x) and x > INT64.greatest else x for x in xs]
    return common(xs, promote, beside)


def _own_dtype(x: Any) -> Format:
    """The dtype of what :func:`common` has read, beside nothing else."""
    if type(x) is Node:
        return x.dtype
    return spelled(type(x.value) if type(x) is Given else type(x) if type(x) in NUMBERS else float)


def operands(*xs: Any) -> tuple[Node, ...]:
    """The nodes of several operands, cast to the one dtype that NumPy's rules give them.

    Python numbers take the dtype of the arrays they meet; a Python float among integers makes float32.
    """
    found, dtype = common(xs, promote, weak)
    return tuple([x if type(x) is Node and x.dtype is dtype else in_dtype(x, dtype) for x in found])


def common(
    xs: Sequence[Any], both: Callable[..., Format], beside: Callable[[type, Format], Format],
) -> tuple[list[Any], Format]:
    """Several operands, read, and the dtype for all: ``both(a, b)`` of arrays, ``beside(type of number, dtype)`` with numbers.

    What was read is a node, or what takes any dtype exactly: a Python number, a list of them as float64. :func:`in_dtype`
    makes nodes of these.
    """
    dtype: Format | None = None
    found: list[Any] = []
    others: list[Format] = []
    kinds: set[type] = set()
    for x in xs:
        kind = type(x)
        if kind in NUMBERS:
            kinds.add(kind)
            found.append(x)
            continue
        if kind is Given:
            kinds.add(type(x.value))
            found.append(x)
            continue
        node: Any = x
        if isinstance(x, Cell):
            if getattr(x, "weak", False):
                kinds.add(float)
                found.append(x)
                continue
            node = x.node  # type: ignore[attr-defined]
        elif kind is not Node:
            node = _listed(x) if isinstance(x, list | tuple) else as_node(x)
        own = node.dtype if type(node) is Node else _default(node)
        if dtype is None or dtype is own:
            dtype = own
        else:
            others.append(own)
        found.append(node)
    if dtype is not None and others:  # floats first: integers between them would make wider ones
        dtype = functools.reduce(both, sorted((dtype, *others), key=lambda form: form not in INEXACT))
    if kinds:
        strongest = next(kind for kind in (complex, float, int, bool) if kind in kinds)
        dtype = beside(strongest, dtype) if dtype is not None else spelled(strongest)
    assert dtype is not None
    return found, dtype


def in_dtype(x: Any, dtype: Format) -> Node:
    """What :func:`common` has read, as a node of ``dtype``."""
    if type(x) is Node:
        return cast(x, dtype)
    if type(x) in NUMBERS:
        return number_node(x, dtype)
    if type(x) is Given:
        return given_node(x, dtype)
    return numpy_node(converted(x, dtype.numpy)) if type(x) is np.ndarray else x.as_dtype_node(dtype)
