"""Helpers of the array functions: nodes from arguments, dtypes of results, axes, sizes, ``out=``, computing in NumPy."""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from weft import errors
from weft.array import Array, convert, ndarray, wrap, wrap_array
from weft.array.convert import NUMBERS as PYTHON_NUMBERS
from weft.array.convert import as_node, cast, convert_assigned, convert_operand, promote_operands, read_operands
from weft.array.indexing import resolve_scalar_indices
from weft.dtypes import formats
from weft.dtypes.formats import COMPLEX, COMPLEX128, DEFAULT, FLOAT64, FLOATS, FROM_NUMPY, INEXACT, INT32, INT64, INTEGERS, Format
from weft.dtypes.parse import layout, parse_dtype, read_integers, to_tuple
from weft.dtypes.rounding import convert_array
from weft.eager.apply import bind
from weft.eager.native import NATIVE_ELEMENTS
from weft.eager.peek import leaf
from weft.eager.policy import can_run_now, is_enabled
from weft.errors import AxisError, DTypeError, ShapeError, TraceError, find_argument, name_called_function, short, warn
from weft.graph.node import Node, Shape
from weft.graph.primitives.rules import broadcast as two_shapes
from weft.graph.primitives.table import TABLE
from weft.graph.primitives.table import constant as number
from weft.runtime import execute
from weft.runtime.context import CONTEXT
from weft.runtime.traced_int import TracedInt, is_int

F = TypeVar("F", bound=Callable[..., Any])


class _Library:
    """The object that library methods are bound to. It has their names as attributes, so that they can be pickled."""

    def __getattr__(self, name: str) -> Any:
        import weft

        return getattr(weft, name)

    def __reduce__(self) -> str:
        return "LIBRARY"

    def __repr__(self) -> str:
        return "weft"


LIBRARY = _Library()


def as_method(function: Callable[..., Any]) -> Any:
    """Return a function, whose first parameter is unused, as a method of the library.

    A method is not bound again, and its call takes 2 ns more than the function's. A call through :func:`unbound` takes 50 ns
    more, a fifth of a small elementwise operation.
    """
    return types.MethodType(function, LIBRARY)


if TYPE_CHECKING:

    def unbound(function: F) -> F: ...

else:

    class unbound(staticmethod):  # noqa: N801  a decorator
        """Decorate a function so that it does not bind: ``class Layer: init = wf.zeros`` allows ``self.init((3, 3))``."""

        def __reduce__(self) -> str:
            return self.__qualname__

        def __repr__(self) -> str:
            return f"<function {self.__qualname__}>"


def unbind(names: dict[str, Any], listed: list[str]) -> None:
    """Decorate functions that a module imported from others with :func:`unbound`, given the module's globals."""
    for name in listed:
        if isinstance(names.get(name), types.FunctionType):
            names[name] = unbound(names[name])
            names[name].__module__ = names["__name__"]


__all__ = ["Node", "Shape", "cast", "number"]

Axis = int | Sequence[int] | None
NUMBERS = (bool, int, float)


def rename_function(function: Any, name: str) -> None:
    """Rename a generated function, including its code object, whose name errors and tracebacks show."""
    function.__name__ = function.__qualname__ = name
    function.__code__ = function.__code__.replace(co_name=name, co_qualname=name)


def alias(function: Any, name: str) -> Any:
    """Return the function under another name, which its errors use."""
    copy = FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
    copy.__kwdefaults__, copy.__annotations__ = function.__kwdefaults__, function.__annotations__
    copy.__doc__, copy.__module__ = function.__doc__, function.__module__
    rename_function(copy, name)
    return copy


def op(name: str, *nodes: Node, **params: Any) -> Node:
    """Apply a primitive by name."""
    return bind(TABLE[name], *nodes, **params)


def floating(node: Node) -> Node:
    """Return ``node`` as a float or complex node; integers and bools become the default float."""
    return node if node.dtype in INEXACT else cast(node, DEFAULT.real)


def magnitude(node: Node) -> Node:
    """Return the absolute value of complex numbers, real ones unchanged."""
    return op("abs", node) if node.dtype in COMPLEX else node


def split_complex(node: Node) -> tuple[Node, Node]:
    """Return the real and the imaginary part of complex numbers."""
    return op("real", node), op("imag", node)


def conjugate(node: Node) -> Node:
    """Return the conjugate of complex numbers, real ones unchanged."""
    return op("conj", node) if node.dtype in COMPLEX else node


def check_device(function: str, device: Any) -> str:
    """Return the name of a device; raise the error of ``function`` if it does not exist or cannot be used."""
    try:
        return execute.get_device(device).name
    except (TypeError, ValueError, errors.DeviceError) as error:
        raise type(error)(name_called_function(f"{function}: {error}")) from None


def create_on_device(function: str, device: Any, make: Callable[..., Any], *args: Any) -> Any:
    """Call ``make(*args)`` on a device and return its result there: an array, or a tuple that begins with one.

    Inside traces and gradients the device of the whole call is used; the device is checked, but nothing is moved.
    """
    name = check_device(function, device)
    if CONTEXT.trace is not None or CONTEXT.retain_graph:
        return make(*args)
    with execute.on(name):
        result = make(*args)
        return (result[0].to_device(name), *result[1:]) if isinstance(result, tuple) else result.to_device(name)


def as_list(value: Any, function: str, argument: str) -> list[Any]:
    """Return an argument that must be a sequence as a list."""
    try:
        return list(value)
    except TypeError:
        raise DTypeError(f"{function}: {argument} must be a sequence, not {type(value).__name__}") from None


def check_int(value: Any, function: str, argument: str) -> int:
    """Return an argument that must be an integer."""
    try:
        return operator.index(value)
    except TraceError:
        raise
    except TypeError:
        raise DTypeError(f"{function}: {argument} must be an integer, not {value!r}") from None


def integer_from(least: int, value: Any, function: str, argument: str) -> int:
    """Return an argument that must be an integer, at least ``least``. Python's and NumPy's integers are, bools are not."""
    if isinstance(value, bool | np.bool_) or not hasattr(type(value), "__index__"):
        raise DTypeError(f"{function}: {argument} must be an integer, not {short(value)}")
    number = check_int(value, function, argument)
    if number < least:
        raise ValueError(f"{function}: {argument} must be at least {least}, not {number}")
    return number


def count_from_zero(value: Any, function: str, argument: str, error: type[Exception] = ShapeError) -> int:
    """Return an argument that must be an integer that is not negative."""
    count = check_int(value, function, argument)
    if count < 0:
        raise error(f"{function}: {argument}={count} must not be negative")
    return count


def is_number(x: Any) -> bool:
    """Return whether ``x`` is a Python int or float, and no Array."""
    return isinstance(x, int | float) and not isinstance(x, Array)


def check_real(value: Any, function: str, argument: str) -> Any:
    """Return an argument that must be a real number, or an array of them."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if isinstance(value, NUMBERS) or (kind and kind not in "cOSU"):
        return value
    raise DTypeError(f"{function}: {argument} must be a real number, not {short(value)}")


def check_real_scalar(value: Any, function: str, argument: str) -> Any:
    """Return an argument that must be a real number, or an array without dimensions."""
    if getattr(value, "shape", ()) != ():
        raise DTypeError(f"{function}: {argument} has shape {value.shape}; one number is needed")
    return check_real(value, function, argument)


def check_ddof(function: str, ddof: Any, correction: Any) -> Any:
    """Return the degrees of freedom that a variance subtracts: ``ddof``, or the array API's ``correction``."""
    if correction is None:
        return check_real_scalar(ddof, function, "ddof")
    if ddof != 0:
        raise ValueError(f"{function}: ddof={ddof} and correction={correction} are two names of one argument; give one of them")
    return check_real_scalar(correction, function, "correction")


def flag(value: Any, function: str, argument: str = "keepdims") -> bool:
    """Return an argument that must be true or false: a bool or an integer."""
    if value is True or value is False:
        return bool(value)
    try:
        return bool(value if isinstance(value, np.bool_) else operator.index(value))
    except TypeError:
        raise DTypeError(f"{function}: {argument} must be True or False, not {value!r}") from None


def axis_index(axis: Any, ndim: int, function: str = "axis", argument: str = "axis") -> int:
    """Return an axis as a number from 0 to ``ndim - 1``."""
    try:
        number = operator.index(axis if type(axis) is not bool else None)  # type: ignore[arg-type]
    except TraceError:
        raise
    except TypeError:
        fix = ""
        if hasattr(axis, "shape") and function in ("concat", "concatenate", "stack"):
            fix = f"; the arrays are one argument, wf.{function}((a, b))"
        raise DTypeError(f"{function}: {argument} must be an integer, not {short(axis)}{fix}") from None
    if not -ndim <= number < ndim:
        has = f"axes {-ndim} to {ndim - 1}" if ndim else "no axes"
        raise AxisError(f"{function}: {argument}={number}, but the array has {has}")
    return number % ndim


def flat_axis(value: Node, axis: Any, function: str, numbers: bool = False) -> tuple[Node, int]:
    """Return ``value`` and an axis of it; flattened if ``axis`` is None, or, with ``numbers``, for axes 0 and -1 of a number."""
    if axis is None or (numbers and not value.shape and axis in (0, -1)):
        return reshape_node(value, (value.size,)), 0
    return value, axis_index(axis, len(value.shape), function)


def axis_tuple(axis: Axis, ndim: int, function: str = "axis", argument: str = "axis") -> tuple[int, ...]:
    """Return axes as a sorted tuple; None means all of them."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    axis_numbers = to_tuple(axis)
    axes = tuple(axis_index(a, ndim, function, argument) for a in axis_numbers)
    if len(set(axes)) != len(axes):
        raise AxisError(f"{function}: {argument}={axis!r} names an axis twice")
    return tuple(sorted(axes))


CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def may_cast(source: Format, target: Format, casting: str, function: str) -> bool:
    """Return whether NumPy's rule ``casting`` allows a conversion of ``source`` to ``target``."""
    if casting not in CASTINGS:
        text = f"{function}: casting={casting!r} must be 'no', 'equiv', 'safe', 'same_kind' or 'unsafe'"
        raise ValueError(name_called_function(text))
    if casting == "unsafe" or source is target:
        return True
    if casting == "safe":
        return formats.holds(target, source) or bool(np.can_cast(source.numpy, target.numpy))  # NumPy calls int64 to float64 safe
    return casting == "same_kind" and formats.same_kind(source, target)


def cast_by(casting: str, source: Node, target: Format, function: str, argument: str) -> Node:
    """Cast an operand, if the rule ``casting`` allows it."""
    if not may_cast(source.dtype, target, casting, function):
        refused = f"{argument} is {source.dtype}, not cast to {target} by casting={casting!r}"
        raise DTypeError(f"{function}: {refused}; cast it with .astype, or use casting='unsafe'")
    return cast(source, target)


def refuse_promotion(function: str, casting: str, *operands: Any) -> None:
    """Refuse operands of several dtypes if ``casting`` allows no conversion."""
    dtypes = {x.dtype: None for x in operands if isinstance(x, Array | np.ndarray)}
    if casting in ("no", "equiv") and len(dtypes) > 1:
        names = " and ".join(map(str, dtypes))
        raise DTypeError(f"{function}: operands of {names} need a cast, which casting={casting!r} forbids; cast with .astype")


def reduction_axes(axis: Axis, shape: Shape, function: str) -> tuple[int, ...]:
    """Return the axes to reduce. A number has none; like NumPy, accept axes 0 and -1 for it."""
    if not shape and (axis is None or (type(axis) is int and axis in (0, -1))):
        return ()
    return axis_tuple(axis, len(shape), function)


def shape_tuple(shape: Any, function: str, argument: str = "shape") -> Shape:
    """Return ``shape`` as a tuple of extents that are not negative."""
    if type(shape) is tuple:  # the common case
        for n in shape:
            if type(n) is not int or n < 0:
                break
        else:
            return shape
    extents = read_integers(shape, f"{function}: {argument}")
    if any(n < 0 for n in extents):
        raise ShapeError(f"{function}: {argument}={extents} has a negative extent")
    return extents


def shape_of(x: Any, function: str) -> Shape:
    """Return the shape of an argument that may be a number."""
    return () if isinstance(x, NUMBERS) else node(x, function).shape


def broadcast_shapes(function: str, *shapes: Shape) -> Shape:
    """Return the shape that shapes broadcast to; if they do not, raise a ShapeError that names all of them."""
    out: Shape = ()
    for shape in shapes:
        if (both := two_shapes(out, shape)) is None:
            raise ShapeError(
                f"{function}: shapes {', '.join(map(str, shapes))} do not broadcast: from the right, extents must be equal or 1"
            )
        out = both
    return out


def broadcast(node: Node, shape: Shape) -> Node:
    return node if node.shape == shape else op("broadcast_to", node, shape=shape)


def reshape_node(node: Node, shape: Shape) -> Node:
    return node if node.shape == shape else op("reshape", node, shape=shape)


def permute_node(node: Node, axes: Sequence[int]) -> Node:
    return node if tuple(axes) == tuple(range(len(node.shape))) else op("permute", node, axes=tuple(axes))


def slice_node(node: Node, axis: int, start: int, stop: int) -> Node:
    """Return ``node[..., start:stop, ...]`` along one axis, with step 1."""
    if start == 0 and stop == node.shape[axis]:
        return node
    ndim = len(node.shape)
    shape = tuple(stop - start if a == axis else n for a, n in enumerate(node.shape))
    return op("slice", node, start=tuple(start if a == axis else 0 for a in range(ndim)), step=(1,) * ndim, shape=shape)


def take_slices(value: Node, places: Node, axis: int) -> Node:
    """Return the slices of ``value`` at ``places`` of an axis, which the axes of ``places`` replace."""
    slices, lead = op("gather", value, places, axes=(axis,)), len(places.shape)
    return permute_node(slices, (*range(lead, lead + axis), *range(lead), *range(lead + axis, len(slices.shape))))


def reduce_node(name: str, node: Node, axes: tuple[int, ...], keepdims: bool = False) -> Node:
    """Apply a reduction; without axes return the node itself."""
    keepdims = flag(keepdims, name.removeprefix("reduce_"))
    return bind(TABLE[name], node, axes=axes, keepdims=keepdims) if axes else node


def norm_root(total: Node, degree: float = 2) -> Node:
    """Return ``total ** (1 / degree)`` of a sum of powers. Its derivative is 0 where the sum is 0, as in PyTorch."""
    return op("root_of_squares", total) if degree == 2 else _flat_at_zero(total, 1 / degree)


def powers(value: Node, degree: float) -> Node:
    """Return ``abs(value) ** degree``, the terms of a norm, with derivatives of 0 at 0."""
    if degree == 2:
        return op("square", magnitude(value))
    size = op("abs", value)
    return op("pow", size, number(degree, size.dtype)) if degree > 2 else _flat_at_zero(size, degree)


def _flat_at_zero(value: Node, exponent: float) -> Node:
    """Return ``value ** exponent`` of numbers that are not negative, with a derivative of 0 where the value is 0."""
    zero = op("equal", value, number(0, value.dtype))
    power = op("pow", op("where", zero, number(1, value.dtype), value), number(exponent, value.dtype))
    return op("where", zero, number(0.0 if exponent > 0 else math.inf, value.dtype), power)


def extent_of(shape: Shape, axes: Sequence[int]) -> int:
    return math.prod(shape[a] for a in axes)


def warn_of_empty_mean(function: str, shape: Shape, count: int) -> None:
    """Warn of a mean of no elements with NumPy's message, which warning filters match. Reads shapes only, never values."""
    if not count:
        warn(f"Mean of empty slice: {function} of no elements of an array of shape {shape} is NaN")


def warn_of_freedom(function: str, count: int, ddof: float) -> None:
    """Warn of a variance of no more elements than degrees of freedom are subtracted, with NumPy's message."""
    if count <= ddof:
        warn(f"Degrees of freedom <= 0 for slice: {function} of {count} elements with ddof={ddof} is NaN or infinite")


def wrap_result(node: Node, out: Any = None, function: str = "out", casting: str = "same_kind") -> Array:
    """Return a result as an Array. With ``out``, write it there: the shape must be equal and ``casting`` must allow the dtype."""
    if out is None:
        return wrap(node)
    if isinstance(out, tuple):
        if len(out) != 1:
            raise ValueError(name_called_function(f"{function}: out has {len(out)} arrays; it must be one, or a tuple of one"))
        (out,) = out
    if isinstance(out, np.ndarray):
        return _write_to_numpy(node, out, function, casting)
    if not isinstance(out, Array):
        raise DTypeError(f"{function}: out must be a weft Array, not {type(out).__name__}")
    if out.shape != node.shape:
        raise ShapeError(f"{function}: out has shape {out.shape}, but the result has shape {node.shape}")
    out[...] = wrap(into(node, out.node.dtype, function, casting))
    return out


def wrap_masked_result(result: Node, out: Any, function: str, where: Any, casting: str = "same_kind") -> Array:
    """Finish a result that is wanted where a mask holds; the other elements are those of ``out``, or zero without it."""
    if where is True:
        return wrap_result(result, out, function, casting)
    mask, old = cast(node(where, function, "where"), formats.BOOL), number(0, result.dtype)
    if out is not None:
        old = node(out, function, "out")
        result = into(result, old.dtype, function, casting)
    return wrap_result(op("where", mask, result, old), out, function)


def into(node: Node, target: Format, function: str, casting: str = "same_kind") -> Node:
    """Return a result in the dtype of ``out`` if ``casting`` allows the conversion."""
    if not may_cast(node.dtype, target, casting, function):
        rule = "" if casting == "same_kind" else f" by casting={casting!r}"
        raise DTypeError(
            f"{function}: out has dtype {target}, which cannot hold a result of {node.dtype}{rule}; cast with .astype first"
        )
    return cast(node, target)


def accumulation_format(form: Format, out: Any) -> Format:
    """Return the format in which a reduction of ``form`` is computed: with ``out``, as in NumPy, promoted with its dtype."""
    if isinstance(out, tuple) and len(out) == 1:
        (out,) = out
    out_form = out.node.dtype if isinstance(out, Array) else FROM_NUMPY.get(out.dtype) if isinstance(out, np.ndarray) else None
    if out_form is None or (out_form.alone and form in INEXACT):
        return form
    return out_form if form.alone and out_form in INEXACT else formats.promote(form, out_form)


def _write_to_numpy(node: Node, out: np.ndarray, function: str, casting: str) -> Any:
    """Compute a result and write it into a NumPy array."""
    convert.refuse_subclass(out)
    content = wrap(node).numpy()
    if out.shape != content.shape:
        raise ShapeError(f"{function}: out has shape {out.shape}, but the result has shape {content.shape}")
    try:
        np.copyto(out, content, casting=casting)  # type: ignore[arg-type]
    except TypeError:
        raise DTypeError(f"{function}: out has dtype {out.dtype}, which cannot hold a result of {content.dtype}") from None
    return out


def node(x: Any, function: str, argument: str = "x") -> Node:
    """Return an argument as a Node; refuse None with its name."""
    if isinstance(x, Array):
        return x.node
    if x is None:
        function_called, name = find_argument(x)
        raise DTypeError(f"{function_called if name else function}: {name or argument} is None; an array or a number is needed")
    return x if isinstance(x, Node) else as_node(x)


def arrays(function: str, **operands: Any) -> tuple[Array, ...]:
    """Return arguments, passed by name, as Arrays."""
    return tuple([x if isinstance(x, Array) else wrap(node(x, function, name)) for name, x in operands.items()])


def read_now(x: Any, function: str, argument: str = "x") -> Any:
    """Return the content of an argument as a NumPy array, computed now; raise TraceError if it depends on a trace."""
    return wrap(node(x, function, argument)).numpy()


def read_if_known(x: Any, function: str, argument: str = "x") -> Any:
    """Return the content like :func:`read_now`, or None if it depends on a trace."""
    try:
        return read_now(x, function, argument)
    except TraceError:
        return None


def from_numpy(x: Any, like: Format | None = None) -> Array:
    """Return NumPy's result as an Array; with ``like``, float64 results become the format ``like``."""
    content = np.asarray(x)
    if like is not None and content.dtype in (np.float64, np.complex128):
        content = convert_array(
            content, like.part.numpy if content.dtype == np.float64 else formats.complex_format(like).numpy
        )
    return wrap(convert.numpy_node(content))


def convert_for_write(x: Any, dtype: Format, function: str, argument: str) -> Node:
    """Return an argument converted to the dtype of the array into which it is written."""
    return convert_assigned(node(x, function, argument) if x is None else x, dtype)


def integer_node(x: Any, function: str, argument: str = "indices", bools: bool = False) -> Node:
    """Return an argument that must hold integers; with ``bools``, bools count as 0 and 1."""
    value = node(x, function, argument)
    if bools and value.dtype is formats.BOOL:
        return cast(value, INT64)
    if value.dtype not in INTEGERS:
        if 0 in value.shape and not isinstance(x, Array):  # an empty list is float by default
            return cast(value, INT64)
        raise DTypeError(f"{function}: {argument} must hold integers, but has dtype {value.dtype}; cast with .astype('int64')")
    return value


def check_range(x: Array, extent: int, name: str) -> Array:
    """Return integers as int64; when they are computed, IndexError is raised unless they are from 0 to ``extent - 1``.

    ``name`` begins the message: "ctc: input_lengths".
    """
    return wrap(bind(TABLE["in_bounds"], x.node, extent=extent, axis=name, from_end=False))


MAX_COMPARED = 32  # up to this length, comparing with every element is faster than the dependent reads of a search


def count_leading(length: int, is_passed: Callable[[Node], Node]) -> Node:
    """Return, for each element of the result of ``is_passed``, how many of the positions 0 to ``length - 1`` fulfil it, as int64.

    ``is_passed`` maps a node of positions to a bool node and holds for a prefix of the positions. It receives positions inside
    of the vector only, so its reads need no bounds check.
    """
    dtype = INT32 if length <= INT32.greatest else INT64
    count = number(0, dtype)
    while length > 1:  # invariant: count <= result <= count + length
        half = length // 2
        behind = op("add", count, number(half, dtype))
        count = op("where", is_passed(op("subtract", behind, number(1, dtype))), behind, count)
        length -= half
    return op("add", cast(count, INT64), cast(is_passed(count), INT64))


def lossless_operands(x: Any, y: Any) -> tuple[Any, Any]:
    """Return both operands as nodes for a comparison, which chooses the dtype itself.

    A Python int beside integers stays an int, since it may exceed every dtype. NumPy makes arrays of numbers and lists first,
    so a narrow dtype of the other operand does not round them. Here they get the precision of the default dtype, so that 0.1
    matches an array that stores it as float32; they become float64 if the default dtype would turn a number into an infinity
    or a zero, or change an integer.
    """
    (a, b), dtype = read_operands((x, y), formats.compared, formats.weak_compared)
    return _keep_value(a, dtype), _keep_value(b, dtype)


def _keep_value(x: Any, dtype: Format) -> Any:
    """Return an operand as a node whose dtype keeps its values, or unchanged if the comparison handles it."""
    if type(x) is Node or (is_int(x) and (dtype in INTEGERS or dtype.alone)):
        return x
    if dtype not in INEXACT or dtype.alone:
        return convert_operand(x, dtype)
    work_form = formats.promote(dtype, DEFAULT.real)
    widest = FLOAT64 if work_form in FLOATS else COMPLEX128
    is_converted = type(x) in (*PYTHON_NUMBERS, np.ndarray)
    if work_form is not widest and (type(x) is TracedInt or (is_converted and _loses_value(x, work_form))):
        work_form = widest
    return convert_operand(x, work_form)


def _loses_value(x: Any, dtype: Format) -> bool:
    """Return whether ``dtype`` turns a number into an infinity or a zero, or changes an integer."""
    if type(x) is int:
        return abs(x) > 65504 and (abs(x) > dtype.largest or int(np.asarray(x, dtype.part.numpy)) != x)
    if type(x) is float and _fits_all_floats(x):
        return False
    parts = np.asarray(x, np.complex128 if dtype.part is not dtype else np.float64).reshape(-1).view(np.float64)
    if parts.size <= 16 and all([_fits_all_floats(part) for part in parts.tolist()]):
        return False
    with np.errstate(all="ignore"):
        rounded = convert_array(parts, dtype.part.numpy)
    return bool(((np.isfinite(parts) & ~np.isfinite(rounded)) | ((parts != 0) & (rounded == 0))).any())


def _fits_all_floats(x: float) -> bool:
    """Return whether every float dtype of 16 bits or more has a number close to ``x``."""
    return x == 0 or 1e-4 < abs(x) <= 65504


Core = Callable[[Node, Node], Node]
DIMENSIONS = {"matmul": (2, 2, 2), "vecdot": (1, 1, 0), "matvec": (2, 1, 1), "vecmat": (1, 2, 1)}  # of operands and result


def call_gufunc(
    function: str, order: str, core: Core, x1: Any, x2: Any, out: Any, dtype: Any = None, casting: str = "same_kind",
    axes: Any = None, axis: Any = None, keepdims: bool = False,
) -> Array:
    """Apply ``core``, whose vector or matrix dimensions come last, to operands whose dimensions are given by ``axes`` or
    ``axis``."""
    layout(order, function)
    if dtype is None:
        a, b = (convert.array_operands if function == "vecdot" else promote_operands)(x1, x2)
    else:
        named_operands = (("x1", x1), ("x2", x2))
        a, b = (cast_by(casting, node(x, function, name), parse_dtype(dtype), function, name) for name, x in named_operands)
    if axis is not None:
        if axes is not None:
            raise TypeError(f"{function}: axis={axis} and axes={axes} exclude each other; give one of them")
        axes = [(axis,), (axis,), ()]
    if axes is None:
        result = core(a, b)
        kept_axis = -1
    else:
        *inner, outer = _axes(function, axes)
        a, b = (_move_to_end(function, n, at) for n, at in zip((a, b), inner, strict=True))
        result, kept_axis = core(a, b), -1
        if outer:
            result = _move_from_end(function, result, outer)
        elif inner[0]:
            kept_axis = inner[0][0]
    if flag(keepdims, function):
        ndim = len(result.shape) + 1
        place = axis_index(kept_axis, ndim, function, "axis")
        return wrap_result(wrap(result).reshape(*result.shape[:place], 1, *result.shape[place:]).node, out, function)
    return wrap_result(result, out, function)


def _axes(function: str, axes: Any) -> list[tuple[int, ...]]:
    """Return the axes of the operands and of the result, each as a tuple."""
    listed = map(resolve_scalar_indices, as_list(axes, function, "axes"))
    axes_of_each = [(a,) if isinstance(a, int) else tuple(as_list(a, function, "axes")) for a in listed]
    want = DIMENSIONS[function]
    if len(axes_of_each) == 2 and not want[2]:
        axes_of_each.append(())
    if [len(g) for g in axes_of_each] != list(want):
        raise ValueError(f"{function}: axes={axes!r} must hold tuples of {want[0]}, {want[1]} and {want[2]} (the result's) axes")
    return axes_of_each


def _move_to_end(function: str, n: Node, at: Sequence[int]) -> Node:
    """Move the axes ``at`` to the end."""
    ndim = len(n.shape)
    places = [axis_index(a, ndim, function, "axes") for a in at]
    return permute_node(n, (*(d for d in range(ndim) if d not in places), *places))


def _move_from_end(function: str, result: Node, at: Sequence[int]) -> Node:
    """Move the last dimensions to the axes ``at``."""
    ndim = len(result.shape)
    places = [axis_index(a, ndim, function, "axes") for a in at]
    rest = iter(range(ndim - len(places)))
    last_at = dict(zip(places, range(ndim - len(places), ndim), strict=True))
    return permute_node(result, [last_at[d] if d in last_at else next(rest) for d in range(ndim)])


_MAX_JOINED = 64  # arrays in a list from which on a graph takes longer than their copies
RISKY_INT = 1 << 30  # integers of this size are not passed to NumPy's C code


def join_in_numpy(join: Callable[..., Any], arrays: Any, *axis: Any) -> Array | None:
    """Return what a function of NumPy that joins arrays makes of small ones of one dtype; None if the function must compute it
    otherwise."""
    if type(arrays) not in (list, tuple) or len(arrays) > _MAX_JOINED or (axis and type(axis[0]) is not int):
        return None
    show, nbytes = NATIVE_ELEMENTS.show, 0
    parts: list[np.ndarray] = []
    for part in arrays:
        if type(part) is not ndarray or (content := show(part)) is None or (parts and content.dtype is not parts[0].dtype):
            return None
        parts.append(content)
        nbytes += content.nbytes
    if not parts or nbytes > CONTEXT.eager_limit or (axis and abs(axis[0]) >= RISKY_INT):
        return None
    try:
        return NATIVE_ELEMENTS.take(join(parts, *axis), FROM_NUMPY[parts[0].dtype])
    except ValueError:  # the caller raises it in weft's words
        return None


def try_numpy(numpys: Callable[..., Any], *args: Any, most: float | None = None, **options: Any) -> Array | None:
    """Return NumPy's result for small materialised arrays and integers, or None if the function must compute it otherwise.

    ``numpys`` moves elements or rounds once, so its result has the same bits. ``most`` is the largest size of the result, by
    default that of the operands; a long list of arrays may have a larger result, because its graph would cost more than the
    copies.

    NumPy's C code negates and adds integers without a check (``diag(x, -2**31)`` of NumPy 2.4 ends the process), so calls with
    a large integer argument or ``axis`` return None.
    """
    axis = options.get("axis")
    if not is_enabled() or (type(axis) is int and abs(axis) >= RISKY_INT):
        return None
    operands: list[Any] = []
    size, show = 0, NATIVE_ELEMENTS.show
    for x in args:
        kind = type(x)
        if kind is ndarray:
            content = show(x)
            if content is None and (content := x._peek()) is None:
                return None
            size += content.size
            operands.append(content)
        elif kind is int and abs(x) < RISKY_INT:
            operands.append(x)
        elif kind in (list, tuple) and x and all([type(part) is ndarray for part in x]):
            parts = [show(part) for part in x]
            if any([part is None for part in parts]):
                parts = [part._peek() for part in x]
            if any([part is None for part in parts]) or len({part.dtype for part in parts}) > 1:
                return None
            sizes = [part.size for part in parts]
            size += sum(sizes) if len(sizes) < _MAX_JOINED else max(sizes)
            operands.append(parts)
        else:
            return None
    if not can_run_now(8 * (size if most is None else most)):
        return None
    try:
        with np.errstate(all="ignore"):
            result = numpys(*operands, **options)
    except (TypeError, ValueError, IndexError):
        return None
    dtype = FROM_NUMPY[result.dtype]
    native = NATIVE_ELEMENTS.take
    if result.shape and (new := native(result, dtype)) is not None:
        return new
    node = leaf(result, dtype)
    return wrap(node) if isinstance(result, np.generic) else wrap_array(node)
