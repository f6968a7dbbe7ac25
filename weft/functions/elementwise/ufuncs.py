"""Element-wise functions: arithmetic, comparisons, powers, exponentials, trigonometry, bits, special functions.

Each is a :class:`Ufunc` with NumPy's arguments ``out``, ``where``, ``dtype``, ``casting`` and methods ``reduce``, ``accumulate``,
``outer``, ``at``. ``weft/array/operations.py`` defines the operations, which operators and NumPy's ufuncs use as well.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from weft.array import Array, Scalar, wrap
from weft.array.convert import convert_operand, exact_operands
from weft.array.operations import OPERATIONS, Operation
from weft.array.operators import call, native_operation
from weft.dtypes.formats import BOOL, COMPLEX, FLOAT32, FLOAT64, FLOATS, INEXACT, elementwise_float_format, summed, weak
from weft.dtypes.parse import layout, parse_dtype
from weft.eager.apply import bind
from weft.errors import DTypeError, ShapeError
from weft.functions.support import arguments
from weft.functions.support.arguments import (
    Node,
    as_method,
    broadcast,
    cast,
    check_int,
    node,
    number,
    op,
    slice_node,
    wrap_result,
)
from weft.graph.primitives import derivatives as d
from weft.graph.primitives.call import call as call_primitive
from weft.graph.primitives.elementwise import apply_each, entry
from weft.graph.primitives.table import TABLE

_REDUCIBLE = frozenset((
    "add", "multiply", "maximum", "minimum", "fmax", "fmin", "logical_and", "logical_or", "logical_xor", "bitwise_and",
    "bitwise_or", "bitwise_xor", "logaddexp", "logaddexp2", "hypot",
))
_MONOIDS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "min", "logical_or": "max",
}
_PYTHON_NUMBERS = (bool, int, float, complex)
_FOREIGN = frozenset("gGOMmqQ")  # letters of dtypes that weft lacks, or has under another letter (int64 is "l")
_FLOATING = ("logaddexp", "logaddexp2", "hypot")
_IDENTITY: dict[str, Any] = {
    "add": 0, "multiply": 1, "logical_and": True, "logical_or": False, "logical_xor": False, "bitwise_and": -1, "bitwise_or": 0,
    "bitwise_xor": 0, "logaddexp": -np.inf, "logaddexp2": -np.inf, "hypot": 0, "gcd": 0,
}


class Ufunc(Protocol):
    """The type of an element-wise function for type checkers."""

    nin: int
    nout: int
    nargs: int
    ntypes: int
    types: list[str]
    identity: Any
    signature: str | None
    reduce: Callable[..., Array]
    accumulate: Callable[..., Array]
    reduceat: Callable[..., Array]
    outer: Callable[..., Array]
    at: Callable[..., None]

    def __call__(
        self, *operands: Any, out: Any = None, where: Any = True, dtype: Any = None, casting: str = "same_kind",
        order: str = "K", subok: bool = True,
    ) -> Array: ...


def describe(function: Any, name: str, arity: int = 0) -> None:
    """Set the attributes of NumPy's ufunc ``name`` on a function; ``types`` lists only dtypes of weft."""
    numpys: Any = getattr(np, name, None)
    numpys = numpys if isinstance(numpys, np.ufunc) else None
    function.nin, function.nout = (arity, 1) if numpys is None else (numpys.nin, numpys.nout)
    function.nargs = function.nin + function.nout
    function.types = [] if numpys is None else [types for types in numpys.types if _FOREIGN.isdisjoint(types)]
    function.ntypes = len(function.types)
    function.signature = None if numpys is None else numpys.signature
    function.identity = None if numpys is None else numpys.identity


def equip(function: Any, operation: Operation) -> None:
    """Set the attributes and methods of a ufunc on an element-wise function."""
    describe(function, operation.ufunc, operation.arity)
    function.at = partial(at, operation)
    if operation.arity == 2:
        function.outer = partial(outer, as_method(function))
        function.reduce, function.accumulate = partial(reduce, operation), partial(accumulate, operation)
        function.reduceat = partial(reduceat, operation)


def _call_for_out(ask: Callable[..., Array], xs: tuple[Any, ...], out: Any) -> Array:
    """Call a function for an ``out``: with a float64 ``out``, float results of integers are computed in float64, as in NumPy."""
    result = ask(*xs)
    if result.node.dtype is not FLOAT32 or arguments.accumulation_format(FLOAT32, out) is not FLOAT64:
        return result
    nodes = [x if type(x) in arguments.NUMBERS else node(x, "out") for x in xs]
    if any(isinstance(n, Node) and n.dtype in INEXACT for n in nodes):
        return result
    convert = arguments.convert_for_write
    return ask(*(wrap(cast(n, FLOAT64) if isinstance(n, Node) else convert(n, FLOAT64, "out", "x")) for n in nodes))


def special(
    ask: Callable[..., Array], name: str, xs: tuple[Any, ...], out: Any, where: Any, dtype: Any, casting: str, order: str,
) -> Array:
    """Call a function with ``where=``, ``dtype=``, ``casting=`` or ``order=``."""
    layout(order, name)
    arguments.refuse_promotion(name, casting, *xs)
    if where is not True and name == "pow" and isinstance(xs[1], Array | np.ndarray):  # masked negative powers are valid
        power = node(xs[1], name)
        mask = cast(node(where, name, "where"), BOOL)
        xs = (xs[0], wrap(op("where", mask, power, number(1, power.dtype))))
    if dtype is not None or casting not in arguments.CASTINGS:
        form = parse_dtype(dtype)
        operands = [  # Python numbers are weak
            convert_operand(x, form) if type(x) in _PYTHON_NUMBERS and weak(type(x), form) is form else node(x, name) for x in xs
        ]
        uncastable = [n for n in operands if not arguments.may_cast(n.dtype, form, casting, name)]
        is_magnitude = form not in COMPLEX and all(n.dtype in COMPLEX for n in uncastable)  # abs of complex numbers is real
        dtypes = " and ".join(n.dtype.name for n in operands)
        if uncastable and not is_magnitude and form is not BOOL:
            raise DTypeError(f"{name}: dtype={form} cannot hold operands of {dtypes}; cast them, or use casting='unsafe'")
        result = ask(*xs) if uncastable or form is BOOL else ask(*(wrap(cast(n, form)) for n in operands))
        if result.node.dtype is not form:
            raise DTypeError(f"{name}: operands of {dtypes} give {result.node.dtype}, not dtype={form}; cast the result")
    else:
        result = _call_for_out(ask, xs, out)
    return arguments.wrap_masked_result(result.node, out, name, where, casting)


def _numpy_method(method: str, operation: Operation) -> Any:
    """Return the method of NumPy's ufunc for an operation."""
    return getattr(getattr(np, operation.ufunc or operation.name), method)


def _cast_for_fold(operation: Operation, x: Any, dtype: Any, out: Any = None) -> Node:
    """Cast the operand to the dtype that a fold is computed in."""
    value = node(x, operation.name)
    if dtype is not None:
        form = parse_dtype(dtype)
        result_form = BOOL if operation.name.startswith("logical") else operation.rule(operation.name, form)[1]
        if result_form is not form:
            raise DTypeError(f"{operation.name}: dtype={form} is not possible, because operands of {form} give {result_form}")
        return cast(value, form)
    if out is not None:
        value = cast(value, arguments.accumulation_format(value.dtype, out))
    elif operation.name in ("add", "multiply"):
        value = cast(value, summed(value.dtype))
    if operation.name.startswith("logical"):
        return cast(value, BOOL)
    result_form = operation.rule(operation.name, value.dtype)[1]  # raises for dtypes that the operation refuses
    return cast(value, result_form) if operation.name in _FLOATING else value


def _fold_in_numpy(method: str, operation: Operation, value: Node, **options: Any) -> Node:
    """Fold from the left in NumPy, immediately. float64 that NumPy makes of integers becomes float32."""
    form = operation.rule(operation.name, value.dtype)[1]
    like = FLOAT32 if value.dtype not in INEXACT and form is FLOAT32 else None
    if like is not None:
        value = cast(value, FLOAT64)
    result = arguments.from_numpy(_numpy_method(method, operation)(wrap(value).numpy(), **options), like).node
    return cast(result, value.dtype) if value.dtype.custom and result.dtype is value.dtype.computed else result


def _combine(operation: Operation, x: Node, y: Node) -> Node:
    return operation.node(wrap(x), wrap(y))


def _require_axes(value: Node, name: str) -> Node:
    if not value.shape:
        raise DTypeError(f"{name}: the array has no dimensions; at least one is needed")
    return value


def _monoid(operation: Operation, value: Node) -> str | None:
    """Return the name by which primitives fold with an operation, or None; sums and products of bools stay bools."""
    return None if value.dtype is BOOL and operation.name in ("add", "multiply") else _MONOIDS.get(operation.name)


def _fold_axes(operation: Operation, value: Node, axes: Sequence[int]) -> Node:
    """Fold axes that are not empty, by repeated halving if no primitive folds the operation."""
    if all(value.shape[axis] == 1 for axis in axes):
        return value
    if (monoid := _monoid(operation, value)) is not None:
        return op(f"reduce_{monoid}", value, axes=tuple(axes), keepdims=True)
    for axis in axes:
        while value.shape[axis] > 1:
            extent = value.shape[axis]
            half = extent // 2
            both = _combine(operation, slice_node(value, axis, 0, half), slice_node(value, axis, half, 2 * half))
            value = op(
                "concat", both, cast(slice_node(value, axis, 2 * half, extent), both.dtype), axis=axis
            ) if extent % 2 else both
    return value


def reduce(
    operation: Operation, array: Any, /, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False,
    initial: Any = None, where: Any = True,
) -> Array:
    """Combine all elements along axes, by default the first."""
    name = f"{operation.name}.reduce"
    value = _cast_for_fold(operation, array, dtype, out)
    axes = arguments.axis_tuple(axis, len(value.shape), name) if value.shape or axis not in (0, -1) else ()
    identity = _IDENTITY.get(operation.name)
    if where is not True and identity is None and initial is None:
        raise ValueError(f"{name}: where= needs initial=, since {operation.name} has no identity")
    if operation.name not in _REDUCIBLE:
        if len(axes) > 1 and operation.name != "gcd":
            raise ValueError(f"{name}: axis={axis} must be one axis, because {operation.name} depends on the order")
        options = {"initial": initial, "where": where}
        options = {k: arguments.read_now(v, name, k) for k, v in options.items() if v is not (True if k == "where" else None)}
        return wrap_result(_fold_in_numpy("reduce", operation, value, axis=axes, keepdims=keepdims, **options), out, name)
    start = None if initial is None else arguments.convert_for_write(initial, value.dtype, name, "initial")
    neutral = start if identity is None else cast(node(identity, name), value.dtype)  # does not change the others
    if where is not True:
        mask = broadcast(cast(node(where, name, "where"), BOOL), value.shape)
        assert neutral is not None
        value = op("where", mask, value, neutral)
    if operation.name == "hypot" and start is None:
        value = op("abs", value)  # of a single element as well
    for a in axes:
        if not value.shape[a]:
            if neutral is None:
                raise ShapeError(f"{name}: an array of shape {value.shape} has no element along axis={a}, and no identity")
            value = broadcast(neutral, tuple(1 if d == a else n for d, n in enumerate(value.shape)))
    value = _fold_axes(operation, value, axes)
    if start is not None:
        value = _combine(operation, value, start)
    shape = tuple(1 if d in axes else n for d, n in enumerate(value.shape) if keepdims or d not in axes)
    return wrap_result(arguments.reshape_node(value, shape), out, name)


def accumulate(operation: Operation, array: Any, /, axis: int = 0, dtype: Any = None, out: Any = None) -> Array:
    """Combine each element with all before it along an axis."""
    name = f"{operation.name}.accumulate"
    value = _require_axes(_cast_for_fold(operation, array, dtype, out), name)
    axis = arguments.axis_index(axis, len(value.shape), name)
    if operation.name not in _REDUCIBLE:
        return wrap_result(_fold_in_numpy("accumulate", operation, value, axis=axis), out, name)
    if (monoid := _monoid(operation, value)) is not None:
        return wrap_result(op(f"cumulative_{monoid}", value, axis=axis), out, name)
    distance = 1
    while distance < value.shape[axis]:
        extent = value.shape[axis]
        both = _combine(operation, slice_node(value, axis, 0, extent - distance), slice_node(value, axis, distance, extent))
        value = op("concat", cast(slice_node(value, axis, 0, distance), both.dtype), both, axis=axis)
        distance *= 2
    return wrap_result(value, out, name)


def reduceat(operation: Operation, array: Any, indices: Any, /, axis: int = 0, dtype: Any = None, out: Any = None) -> Array:
    """Fold the slices between indices, which are computed; an index whose successor is not larger selects one element."""
    name = f"{operation.name}.reduceat"
    value = _require_axes(_cast_for_fold(operation, array, dtype, out), name)
    axis = arguments.axis_index(axis, len(value.shape), name)
    starts = wrap(arguments.integer_node(indices, name, "indices", bools=True)).numpy().reshape(-1).tolist()
    extent = value.shape[axis]
    for i in starts:
        if not 0 <= i < extent:
            raise IndexError(f"{name}: index {i} is out of bounds for axis {axis} with size {extent}")
    if operation.name not in _REDUCIBLE:
        return wrap_result(_fold_in_numpy("reduceat", operation, value, indices=starts, axis=axis), out, name)
    parts = []
    for k, i in enumerate(starts):
        stop = starts[k + 1] if k + 1 < len(starts) else extent
        parts.append(_fold_axes(operation, slice_node(value, axis, i, stop if stop > i else i + 1), (axis,)))
    if not parts:
        return wrap_result(slice_node(value, axis, 0, 0), out, name)
    return wrap_result(parts[0] if len(parts) == 1 else op("concat", *parts, axis=axis), out, name)


def outer(function: Callable[..., Array], x1: Any, x2: Any, /, **options: Any) -> Array:
    """Apply the function to each pair of an element of ``x1`` and one of ``x2``."""
    a, b = map(wrap, exact_operands(x1, x2))
    return function(a.reshape(a.shape + (1,) * b.ndim), b, **options)


def at(operation: Operation, array: Any, indices: Any, /, *values: Any) -> None:
    """Apply the operation in place at indices, once for every occurrence of an index."""
    if not isinstance(array, Array) or isinstance(array, Scalar):
        raise DTypeError(f"{operation.name}.at: the array must be a weft Array, not {type(array).__name__}: it is written to")
    _numpy_method("at", operation)(array, indices, *values)


__all__ = ["Ufunc"]

def _document(function: Any, name: str, summary: str, parameters: str, example: str, output: str, raises: str = "") -> Any:
    """Finish a ufunc. The example's arguments begin with a list, which is shown as an array."""
    equip(function, OPERATIONS[name])
    arguments.rename_function(function, name)
    listed, _, more = example.partition("]")
    function.__doc__ = f"""{summary}

    Parameters
    ----------
    {parameters} : array or number
    out : Array, optional
        The array that the result is written to, of the result's shape and a dtype that can hold it.
    where : array of bools, optional
        The elements to compute. The others keep the value of ``out``, or are zero without an ``out``.
    dtype : dtype, optional
        The dtype that the operands are cast to first.
    casting : str, optional
        The casts that ``dtype`` may imply: "same_kind", or "unsafe" for all.
    order, subok
        No effect: arrays of weft are stored in row-major order and have no subclasses.

    Returns
    -------
    Array
        Of the shape that the operands broadcast to.

    Raises
    ------
    ShapeError, DTypeError
        The shapes do not broadcast, or the function does not take the dtypes.
{raises}
    Examples
    --------
    >>> import weft as wf
    >>> wf.{name}(wf.array({listed}]){more}).tolist()
    {output}
    """
    return as_method(function)


def unary(name: str, summary: str, example: str, output: str) -> Ufunc:
    """Make an element-wise function of one operand, documented by an example: its arguments and its printed list."""
    ask, short = call(name, 1), native_operation(name)

    def function(
        library: Any, x: Any, /, out: Array | None = None, where: Any = True, dtype: Any = None, casting: str = "same_kind",
        order: str = "K", subok: bool = True,
    ) -> Array:
        if where is not True or dtype is not None or casting != "same_kind" or order != "K":
            return special(ask, name, (x,), out, where, dtype, casting, order)
        if out is not None:
            return wrap_result(_call_for_out(ask, (x,), out).node, out, name)
        native = short.call
        if (result := native(x)) is not None:
            return result
        if x is None:
            node(x, name)  # raises
        return ask(x)

    return _document(function, name, summary, "x", example, output)


def binary(name: str, summary: str, example: str, output: str, raises: str = "") -> Ufunc:
    """Make an element-wise function of two operands, as :func:`unary`."""
    ask, short = call(name, 2), native_operation(name)

    def function(
        library: Any, x1: Any, x2: Any, /, out: Array | None = None, where: Any = True, dtype: Any = None,
        casting: str = "same_kind", order: str = "K", subok: bool = True,
    ) -> Array:
        if where is not True or dtype is not None or casting != "same_kind" or order != "K":
            return special(ask, name, (x1, x2), out, where, dtype, casting, order)
        if out is not None:
            return wrap_result(_call_for_out(ask, (x1, x2), out).node, out, name)
        native = short.call
        result = native(x1, x2)
        return ask(x1, x2) if result is None else result

    return _document(function, name, summary, "x1, x2", example, output, raises)


# ---- the table: arithmetic

add = binary("add", "Add: ``x1 + x2``; for bools logical or.", "[1.0, 2.0], 1.0", "[2.0, 3.0]")
subtract = binary("subtract", "Subtract: ``x1 - x2``.", "[1.0, 2.0], 1.0", "[0.0, 1.0]")
multiply = binary("multiply", "Multiply: ``x1 * x2``; for bools logical and.", "[1.0, 2.0], 3.0", "[3.0, 6.0]")
divide = binary("divide", "Divide: ``x1 / x2``; integers give float32.", "[1, 2], 2", "[0.5, 1.0]")
floor_divide = binary(
    "floor_divide", "Divide and round down: ``x1 // x2``; integers divided by zero give 0.", "[7, -7], 2", "[3, -4]",
)
remainder = binary("remainder", "Compute the remainder ``x1 % x2``, with the sign of ``x2``.", "[7, -7], 4", "[3, 1]")
pow = binary(
    "pow", "Compute ``x1 ** x2``; integers stay integers and have no negative powers.", "[2.0, 3.0], 2.0", "[4.0, 9.0]",
    "    ValueError\n        An integer is raised to a negative power that is known: a number or a computed array.\n",
)
maximum = binary("maximum", "Return the larger of two elements; NaN if either is NaN.", "[1.0, 5.0], 3.0", "[3.0, 5.0]")
minimum = binary("minimum", "Return the smaller of two elements; NaN if either is NaN.", "[1.0, 5.0], 3.0", "[1.0, 3.0]")
fmax = binary("fmax", "Return the larger of two elements; NaN only if both are NaN.", "[1.0, wf.nan], 3.0", "[3.0, 3.0]")
fmin = binary("fmin", "Return the smaller of two elements; NaN only if both are NaN.", "[1.0, wf.nan], 3.0", "[1.0, 3.0]")
fmod = binary("fmod", "Compute the remainder of a truncated division, with the sign of ``x1``.", "[7, -7], 4", "[3, -3]")
heaviside = binary("heaviside", "Return 0 below zero, 1 above it, ``x2`` at zero.", "[-1.0, 0.0, 2.0], 0.5", "[0.0, 0.5, 1.0]")
negative = unary("negative", "Negate: ``-x``.", "[1.0, -2.0]", "[-1.0, 2.0]")
positive = unary("positive", "Return the numbers unchanged: ``+x``.", "[1.0, -2.0]", "[1.0, -2.0]")
abs = unary("abs", "Return the absolute value.", "[1.0, -2.0]", "[1.0, 2.0]")
sign = unary("sign", "Return the sign: -1, 0 or 1; NaN for NaN.", "[-3.0, 0.0, 2.0]", "[-1.0, 0.0, 1.0]")
square = unary("square", "Compute ``x * x``.", "[-3.0, 2.0]", "[9.0, 4.0]")
sqrt = unary("sqrt", "Compute the square root; NaN below zero.", "[4.0, 9.0]", "[2.0, 3.0]")
cbrt = unary("cbrt", "Compute the cube root, also of negative numbers.", "[8.0, -27.0]", "[2.0, -3.0]")
reciprocal = unary(
    "reciprocal", "Compute ``1 / x``, truncated for integers: 1 and -1 stay, all others give 0.", "[4.0, 0.5]",
    "[0.25, 2.0]",
)
fabs = unary("fabs", "Return the absolute value as a float.", "[1, -2]", "[1.0, 2.0]")

conj = unary("conj", "Return the complex conjugates; real numbers unchanged.", "[1 + 2j]", "[(1-2j)]")

stop_gradient = unary("stop_gradient", "Return x as a constant for gradients.", "[1.0]", "[1.0]")

ldexp = binary(
    "ldexp", "Compute ``x1 * 2**x2`` with integers ``x2``, where the power alone may overflow.",
    "[0.75, 1.0], [2, -1]", "[3.0, 0.5]",
)
float_power = binary(
    "float_power", "Compute ``x1 ** x2`` in float64, or complex128 for complex numbers.", "[2, 4], -1", "[0.5, 0.25]",
)
gcd = binary("gcd", "Compute the greatest common divisor of integers, immediately and in NumPy.", "[12, 7], 8", "[4, 1]")
lcm = binary("lcm", "Compute the least common multiple of integers, immediately and in NumPy.", "[12, 7], 8", "[24, 56]")

# ---- rounding

floor = unary("floor", "Round down.", "[1.5, -1.5]", "[1.0, -2.0]")
ceil = unary("ceil", "Round up.", "[1.5, -1.5]", "[2.0, -1.0]")
trunc = unary("trunc", "Round towards zero.", "[1.5, -1.5]", "[1.0, -1.0]")
rint = unary("rint", "Round to the nearest integer, halves to even; return floats.", "[1.5, 2.5]", "[2.0, 2.0]")


def round(a: Any, decimals: int = 0, out: Array | None = None) -> Array:
    """Round to ``decimals`` digits, halves to even.

    Parameters
    ----------
    a : array or number
    decimals : int
        The number of digits after the decimal point; negative: before it.
    out : Array, optional
        The array that the result is written to.

    Returns
    -------
    Array of the shape and dtype of ``a``; bools become float32

    Raises
    ------
    ShapeError, DTypeError
        ``out`` does not fit; bools with ``decimals``.

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.array([0.5, 1.5, 2.6])).tolist()
    [0.0, 2.0, 3.0]
    >>> wf.round(wf.array([1.25, 3.5]), 1).tolist()[0] < 1.21
    True
    """
    value, decimals = node(a, "round", "a"), check_int(decimals, "round", "decimals")
    if value.dtype == BOOL:
        if decimals:
            raise DTypeError(f"round: a is bool, which has no digits (decimals={decimals}); cast with .astype('float32')")
        value = cast(value, elementwise_float_format(BOOL))
    if value.dtype in COMPLEX:
        parts = [round(wrap(part), decimals).node for part in arguments.split_complex(value)]
        return wrap_result(op("complex", *parts), out, "round")
    if value.dtype in FLOATS and decimals == 0:
        return wrap_result(bind(TABLE["round"], value), out, "round")
    if value.dtype not in FLOATS:
        return wrap_result(_round_integers(value, -decimals) if decimals < 0 else value, out, "round")
    dtype, digits = value.dtype, builtins.min(builtins.abs(decimals), 400)  # float64 ends at 10**308
    form = dtype if 10**digits <= dtype.largest and not dtype.alone else dtype.computed
    if 10**digits > form.largest:  # beyond all digits of this dtype
        return wrap_result(value if decimals > 0 else op("multiply", value, number(0, dtype)), out, "round")
    scale = number(10.0**digits, form)
    scale_up, scale_down = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return wrap_result(cast(op(scale_down, op("round", op(scale_up, cast(value, form), scale)), scale), dtype), out, "round")


def _round_integers(value: Node, digits: int) -> Node:
    """Round integers to a multiple of a power of ten, without a cast to float."""
    if digits > len(str(value.dtype.greatest)) or 10**digits > value.dtype.greatest:
        return op("broadcast_to", number(0, value.dtype), shape=value.shape)
    scale = 10**digits
    unit, half, one = (number(n, value.dtype) for n in (scale, scale // 2, 1))
    whole = op("floor_divide", value, unit)
    rest = op("subtract", value, op("multiply", whole, unit))
    odd = cast(op("bitwise_and", whole, one), BOOL)
    up = op("logical_or", op("greater", rest, half), op("logical_and", op("equal", rest, half), odd))
    return op("multiply", op("add", whole, cast(up, value.dtype)), unit)


# ---- exponentials and logarithms

exp = unary("exp", "Compute e to the power x.", "[0.0]", "[1.0]")
exp2 = unary("exp2", "Compute 2 to the power x.", "[3.0]", "[8.0]")
expm1 = unary("expm1", "Compute ``exp(x) - 1``, accurate near zero.", "[0.0]", "[0.0]")
log = unary("log", "Compute the natural logarithm; NaN below zero.", "[1.0]", "[0.0]")
log1p = unary("log1p", "Compute ``log(1 + x)``, accurate near zero.", "[0.0]", "[0.0]")
log2 = unary("log2", "Compute the logarithm to base 2.", "[1.0]", "[0.0]")
log10 = unary("log10", "Compute the logarithm to base 10.", "[1.0]", "[0.0]")
logaddexp = binary("logaddexp", "Compute ``log(exp(x1) + exp(x2))`` without overflow.", "[-wf.inf], 0.0", "[0.0]")
logaddexp2 = binary("logaddexp2", "Compute ``log2(2**x1 + 2**x2)`` without overflow.", "[-wf.inf], 0.0", "[0.0]")

# ---- trigonometry

sin = unary("sin", "Compute the sine of x in radians.", "[0.0]", "[0.0]")
cos = unary("cos", "Compute the cosine of x in radians.", "[0.0]", "[1.0]")
tan = unary("tan", "Compute the tangent of x in radians.", "[0.0]", "[0.0]")
asin = unary("asin", "Compute the inverse sine; NaN outside -1 to 1.", "[0.0]", "[0.0]")
acos = unary("acos", "Compute the inverse cosine; NaN outside -1 to 1.", "[1.0]", "[0.0]")
atan = unary("atan", "Compute the inverse tangent.", "[0.0]", "[0.0]")
atan2 = binary("atan2", "Compute the angle of the point (x2, x1), -pi to pi.", "[0.0], 1.0", "[0.0]")
sinh = unary("sinh", "Compute the hyperbolic sine.", "[0.0]", "[0.0]")
cosh = unary("cosh", "Compute the hyperbolic cosine.", "[0.0]", "[1.0]")
tanh = unary("tanh", "Compute the hyperbolic tangent.", "[0.0]", "[0.0]")
asinh = unary("asinh", "Compute the inverse hyperbolic sine.", "[0.0]", "[0.0]")
acosh = unary("acosh", "Compute the inverse hyperbolic cosine; NaN below 1.", "[1.0]", "[0.0]")
atanh = unary("atanh", "Compute the inverse hyperbolic tangent; NaN outside -1 to 1.", "[0.0]", "[0.0]")
hypot = binary("hypot", "Compute ``sqrt(x1**2 + x2**2)`` without overflow.", "[3.0], 4.0", "[5.0]")
degrees = unary("degrees", "Convert radians to degrees.", "[0.0]", "[0.0]")
radians = unary("radians", "Convert degrees to radians.", "[0.0]", "[0.0]")

erf = unary("erf", "Compute the error function.", "[0.0]", "[0.0]")

# ---- floating-point bits

copysign = binary("copysign", "Return ``x1`` with the sign of ``x2``.", "[3.0], -0.0", "[-3.0]")
nextafter = binary("nextafter", "Return the next number after ``x1`` towards ``x2``.", "[1.0], 1.0", "[1.0]")
spacing = unary("spacing", "Return the distance to the next number away from zero.", "[2.0**23]", "[1.0]")
signbit = unary("signbit", "Return whether the sign bit is set (True for -0.0).", "[-0.0, 1.0]", "[True, False]")
isnan = unary("isnan", "Return whether x is NaN.", "[wf.nan, 1.0]", "[True, False]")
isinf = unary("isinf", "Return whether x is infinite.", "[wf.inf, 1.0]", "[True, False]")
isfinite = unary("isfinite", "Return whether x is neither NaN nor infinite.", "[wf.inf, 1.0]", "[False, True]")

# ---- comparisons and logic

equal = binary("equal", "Return ``x1 == x2``.", "[1, 2], 2", "[False, True]")
not_equal = binary("not_equal", "Return ``x1 != x2``.", "[1, 2], 2", "[True, False]")
less = binary("less", "Return ``x1 < x2``.", "[1, 2], 2", "[True, False]")
less_equal = binary("less_equal", "Return ``x1 <= x2``.", "[1, 3], 2", "[True, False]")
greater = binary("greater", "Return ``x1 > x2``.", "[1, 3], 2", "[False, True]")
greater_equal = binary("greater_equal", "Return ``x1 >= x2``.", "[1, 2], 2", "[False, True]")
logical_and = binary("logical_and", "Return whether both are true (not zero).", "[1, 0], 1", "[True, False]")
logical_or = binary("logical_or", "Return whether at least one is true (not zero).", "[1, 0], 0", "[True, False]")
logical_xor = binary("logical_xor", "Return whether exactly one is true (not zero).", "[1, 0], 1", "[False, True]")
logical_not = unary("logical_not", "Return whether x is false (zero).", "[1, 0]", "[False, True]")
bitwise_and = binary("bitwise_and", "Compute ``x1 & x2``.", "[6, 3], 2", "[2, 2]")
bitwise_or = binary("bitwise_or", "Compute ``x1 | x2``.", "[4, 3], 2", "[6, 3]")
bitwise_xor = binary("bitwise_xor", "Compute ``x1 ^ x2``.", "[6, 3], 2", "[4, 1]")
bitwise_invert = unary("bitwise_invert", "Compute ``~x``; for bools logical not.", "[0, 1]", "[-1, -2]")
bitwise_count = unary("bitwise_count", "Count the bits of the absolute value that are 1.", "[7, -8]", "[3, 1]")
bitwise_left_shift = binary(
    "bitwise_left_shift", "Compute ``x1 << x2``; 0 if all bits are shifted out.", "[1, 3], 2", "[4, 12]",
)
bitwise_right_shift = binary("bitwise_right_shift", "Compute ``x1 >> x2``, keeping the sign.", "[8, -8], 2", "[2, -2]")

# ---- NumPy's names

absolute = abs
arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh = acos, acosh, asin, asinh, atan, atan2, atanh
rad2deg, deg2rad = degrees, radians
around = arguments.alias(round, "around")
conjugate = conj
true_divide, mod, power = divide, remainder, pow
bitwise_not = invert = bitwise_invert
left_shift, right_shift = bitwise_left_shift, bitwise_right_shift

# ---- erfc

# ((1 + 2 a) exp(a * a) erfc(a) - 1) / s as a polynomial in 2 s - 1 with s = a / (a + 4), interpolated at Chebyshev points
# from 0 to the number where erfc becomes 0; errors 3e-9 and 5e-18
_ERFC_FLOAT = (
    -0.001369988444, -0.001179898884, 0.01098895757, -0.04305631091, 0.1176210432, -0.2502841119, 0.4377120524,
    -0.6397960258, 0.7759921888, -0.7452324968, 0.465990234,
)
_ERFC_DOUBLE = (
    1.8568190642048207e-9, -1.5968399067769785e-10, -2.8016413675015326e-8, -2.4493994042639578e-9, 2.2598658982748924e-7,
    -8.2739680377885975e-8, -1.5740789618667658e-6, 2.1652580954874446e-6, 9.259103855592433e-6, -3.1704317637505296e-5,
    -1.7096454992885093e-5, 0.00031833998278657785, -0.00071685267517612876, -0.00079869389898198176, 0.010862633725407324,
    -0.043258101846471193, 0.11759313293597199, -0.25025386455960808, 0.43771953455540467, -0.63979766662805939,
    0.77599177513747067, -0.74523247093223027, 0.46599023725110502,
)


def _erfc_formula(m: Any, x: Any) -> Any:
    """Compute ``exp(-a * a) / (1 + 2 a) * (1 + s p)``: exact at 0, and without cancellation for any a = abs(x)."""
    last, (first, *rest) = (10.5, _ERFC_FLOAT) if x.dtype == FLOAT32 else (28.0, _ERFC_DOUBLE)
    one, two = m.const(1, x), m.const(2, x)
    a = m.abs(x)
    a = m.select(m.gt(a, m.const(last, x)), m.const(last, x), a)  # NaN stays
    s = m.div(a, m.add(a, m.const(4, x)))
    q = m.sub(m.add(s, s), one)
    p = m.const(first, x)
    for coefficient in rest:
        p = m.add(m.mul(p, q), m.const(coefficient, x))
    square = m.mul(a, a)
    lost = m.fma(a, a, m.neg(square))  # the rounding error of the square, which exp would amplify
    bell = m.exp(m.neg(square))
    more = m.sub(m.mul(s, p), m.add(lost, m.mul(lost, m.mul(s, p))))
    right = m.div(m.add(bell, m.mul(bell, more)), m.add(m.add(a, a), one))
    return m.select(m.lt(x, m.const(0, x)), m.sub(two, right), right)


entry(
    "erfc", 1, FLOATS, apply_each(math.erfc), _erfc_formula,
    lambda g, out, x: d.erf(call_primitive.negative(g), out, x), flops=60, exact=False,
)
erfc = unary(
    "erfc",
    """Compute the complementary error function ``1 - erf(x)``, accurate to a few units in the last place even if tiny.

    After M. M. Shepherd and J. G. Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < inf,
    Mathematics of Computation 36, 1981.""",
    "[0.0, 30.0]", "[1.0, 0.0]",
)

# ---- erfcx

# ((1 + 2 a) exp(a * a) erfc(a) - 1) / s as a polynomial in 2 s - 1 with s = a / (a + 3), from Chebyshev's series for all a >= 0;
# errors 1e-9 and 4e-18
_ERFCX_FLOAT = (
    -1.953340397e-5, 2.808548799e-5, 0.0001900185594, -0.0004007651452, -0.001131496667, 0.004910518198, 0.0001353282138,
    -0.04767744724, 0.1842966958, -0.4228437386, 0.6821337032, -0.7772583177, 0.5060161169,
)
_ERFCX_DOUBLE = (
    -2.7020254643549197e-10, 2.296552149243454e-10, 3.2054083086445279e-9, -9.7948078463074433e-10, -2.050511941930542e-8,
    -6.8176271631197875e-9, 9.7397927904685726e-8, 1.0738320026817692e-7, -3.9746089991242909e-7, -8.3686990676503844e-7,
    1.5550395730197907e-6, 5.3904697068609968e-6, -6.8554499669042898e-6, -3.3345987973402535e-5, 4.324551841970042e-5,
    0.00020695327588376737, -0.00041727297564876977, -0.0011423915857785302, 0.0049197723140998211, 0.0001390113200529478,
    -0.047680041157748879, 0.18429609584557515, -0.4228434226761955, 0.68213374008172056, -0.77725832878862168,
    0.5060161165394593,
)


def _erfcx_reference(x: np.ndarray) -> np.ndarray:
    """The definition, with the square in extended precision; from 10 on the asymptotic series.

    SciPy's erfcx is up to 8 ulp off, and up to 500 below zero.
    """
    wide = np.asarray(x, np.longdouble)
    near = np.minimum(wide, 10.0)
    t = 0.5 / np.square(np.maximum(wide, 10.0))
    series = np.ones_like(t)
    for n in range(16, 0, -1):
        series = 1 - (2 * n - 1) * t * series
    product = np.exp(near * near) * apply_each(math.erfc)(near)
    return np.asarray(np.where(wide < 10, product, np.sqrt(t * (2 / np.pi)) * series)).astype(x.dtype)


def _erfcx_formula(m: Any, x: Any) -> Any:
    """Compute ``(1 + s p) / (1 + 2 a)`` with ``a = abs(x)``, subtracted from ``2 exp(a * a)`` below zero."""
    single = x.dtype == FLOAT32
    largest, last = x.dtype.largest, 9.4 if single else 26.63  # at -last the result is infinite, but exp is not
    first, *rest = _ERFCX_FLOAT if single else _ERFCX_DOUBLE
    half, a = m.const(0.5, x), m.abs(x)
    b = m.select(m.gt(a, m.const(largest, x)), m.const(largest, x), a)  # finite; NaN stays
    s = m.div(b, m.add(b, m.const(3, x)))
    q = m.sub(m.add(s, s), m.const(1, x))
    p = m.const(first, x)
    for coefficient in rest:
        p = m.add(m.mul(p, q), m.const(coefficient, x))
    r = m.div(half, m.add(a, half))
    right = m.add(r, m.mul(r, m.mul(s, p)))
    b = m.select(m.gt(a, m.const(last, x)), m.const(last, x), a)
    square = m.mul(b, b)
    lost = m.fma(b, b, m.neg(square))  # the rounding error of the square, which exp would amplify
    bell = m.exp(square)
    left = m.add(bell, m.sub(m.mul(bell, lost), m.mul(half, right)))  # doubled last, so that it overflows where the result does
    return m.select(m.lt(x, m.const(0, x)), m.add(left, left), right)


def _erfcx_derivative(g: Node, out: Node, x: Node) -> tuple[Node]:
    """Return ``2 x erfcx(x) - 2 / sqrt(pi)`` times g. For large x, where this cancels, use the asymptotic series."""
    c, wide = call_primitive, x.dtype.computed
    y, x = out if wide is x.dtype else c.erfcx(cast(x, wide)), cast(x, wide)
    start, terms = (10.0, 10) if wide is FLOAT64 else (6.0, 6)
    far, zero, one = c.greater(x, number(start, wide)), number(0.0, wide), number(1.0, wide)
    near = c.where(far, zero, x)
    rule = c.subtract(c.multiply(c.add(near, near), c.where(far, zero, y)), number(2 / math.sqrt(math.pi), wide))
    t = c.square(c.reciprocal(c.where(far, x, one)))
    series = one
    for n in range(terms, 0, -1):
        series = c.subtract(one, c.multiply(c.multiply(number(n + 0.5, wide), t), series))
    tail = c.multiply(c.multiply(number(-1 / math.sqrt(math.pi), wide), t), series)
    return (c.multiply(g, cast(c.where(far, tail, rule), g.dtype)),)


entry("erfcx", 1, FLOATS, _erfcx_reference, _erfcx_formula, _erfcx_derivative, flops=70, exact=False)
erfcx = unary(
    "erfcx",
    """Compute the scaled complementary error function ``exp(x**2) * erfc(x)``, which neither overflows nor underflows for x > 0.

    After M. M. Shepherd and J. G. Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < inf,
    Mathematics of Computation 36, 1981.""",
    "[0.0, -wf.inf, wf.inf]", "[1.0, inf, 0.0]",
)
