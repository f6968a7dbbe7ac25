"""Element-wise functions: arithmetic, comparisons, powers, exponentials, trigonometry, bits, special functions.

Each is a :class:`Ufunc` with NumPy's arguments ``out``, ``where``, ``dtype``, ``casting`` and methods ``reduce``, ``accumulate``,
``outer``, ``at``. What an operation means is a record in ``weft/array/operations.py``, which operators and NumPy's ufuncs use
too.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from weft.array import Array, Scalar, wrap
from weft.array.convert import exact_operands, in_dtype
from weft.array.operations import OPERATIONS, Operation
from weft.array.operators import call, short_way
from weft.dtypes.formats import BOOL, COMPLEX, FLOAT32, FLOAT64, FLOATS, INEXACT, of_elements, summed, weak
from weft.dtypes.parse import layout, spelled
from weft.eager.apply import bind
from weft.errors import DTypeError, ShapeError
from weft.functions.support.arguments import (
    CASTINGS,
    NUMBERS,
    Node,
    alias,
    axis_index,
    axis_tuple,
    broadcast,
    cast,
    finish,
    held,
    integer_node,
    into,
    looked,
    may_cast,
    named,
    node,
    number,
    of_numpy,
    op,
    parts_of,
    refuse_promotion,
    reshaped,
    sliced,
    whole,
    widened,
)
from weft.functions.support.unbound import as_method
from weft.graph.primitives import derivatives as d
from weft.graph.primitives.call import call as call_primitive
from weft.graph.primitives.elementwise import each, entry
from weft.graph.primitives.table import TABLE

_GROUPED = frozenset((
    "add", "multiply", "maximum", "minimum", "fmax", "fmin", "logical_and", "logical_or", "logical_xor", "bitwise_and",
    "bitwise_or", "bitwise_xor", "logaddexp", "logaddexp2", "hypot",
))
_MONOIDS = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "min", "logical_or": "max",
}
_PYTHON = (bool, int, float, complex)
_FOREIGN = frozenset("gGOMmqQ")  # letters of dtypes that weft has not, or that it has under another letter, as int64 is "l"
_FLOATING = ("logaddexp", "logaddexp2", "hypot")
_IDENTITY: dict[str, Any] = {
    "add": 0, "multiply": 1, "logical_and": True, "logical_or": False, "logical_xor": False, "bitwise_and": -1, "bitwise_or": 0,
    "bitwise_xor": 0, "logaddexp": -np.inf, "logaddexp2": -np.inf, "hypot": 0, "gcd": 0,
}


class Ufunc(Protocol):
    """What type checkers know of an element-wise function."""

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
    """Give a function the attributes of NumPy's ufunc ``name`` that say what it takes; of its types those that weft has."""
    numpys: Any = getattr(np, name, None)
    numpys = numpys if isinstance(numpys, np.ufunc) else None
    function.nin, function.nout = (arity, 1) if numpys is None else (numpys.nin, numpys.nout)
    function.nargs = function.nin + function.nout
    function.types = [] if numpys is None else [types for types in numpys.types if _FOREIGN.isdisjoint(types)]
    function.ntypes = len(function.types)
    function.signature = None if numpys is None else numpys.signature
    function.identity = None if numpys is None else numpys.identity


def equip(function: Any, operation: Operation) -> None:
    """Give a function of elements what ufuncs have."""
    describe(function, operation.ufunc, operation.arity)
    function.at = partial(at, operation)
    if operation.arity == 2:
        function.outer = partial(outer, as_method(function))
        function.reduce, function.accumulate = partial(reduce, operation), partial(accumulate, operation)
        function.reduceat = partial(reduceat, operation)


def asked(ask: Callable[..., Array], xs: tuple[Any, ...], out: Any) -> Array:
    """What a function gives for an ``out``: floats made of integers are float64 where that is, which NumPy makes of them."""
    found = ask(*xs)
    if found.node.dtype is not FLOAT32 or widened(FLOAT32, out) is not FLOAT64:
        return found
    nodes = [x if type(x) in NUMBERS else node(x, "out") for x in xs]
    if any(isinstance(n, Node) and n.dtype in INEXACT for n in nodes):
        return found
    return ask(*(wrap(cast(n, FLOAT64) if isinstance(n, Node) else held(n, FLOAT64, "out", "x")) for n in nodes))


def special(ask: Callable[..., Array], name: str, xs: tuple[Any, ...], out: Any, where: Any, dtype: Any, casting: str) -> Array:
    """A call with ``where=`` or ``dtype=``."""
    refuse_promotion(name, casting, *xs)
    if where is not True and name == "pow" and isinstance(xs[1], Array | np.ndarray):  # negative powers that are left out pass
        power = node(xs[1], name)
        mask = cast(node(where, name, "where"), BOOL)
        xs = (xs[0], wrap(op("where", mask, power, number(1, power.dtype))))
    if dtype is not None or casting not in CASTINGS:
        wanted = spelled(dtype)
        given = [  # Python's numbers have no dtype of their own
            in_dtype(x, wanted) if type(x) in _PYTHON and weak(type(x), wanted) is wanted else node(x, name) for x in xs
        ]
        lost = [n for n in given if not may_cast(n.dtype, wanted, casting, name)]
        sizes = wanted not in COMPLEX and all(n.dtype in COMPLEX for n in lost)  # of complex numbers
        have = " and ".join(n.dtype.name for n in given)
        if lost and not sizes and wanted is not BOOL:
            raise DTypeError(f"{name}: dtype={wanted} cannot hold operands of {have}; cast them, or use casting='unsafe'")
        found = ask(*xs) if lost or wanted is BOOL else ask(*(wrap(cast(n, wanted)) for n in given))  # BOOL: comparisons
        if found.node.dtype is not wanted:
            raise DTypeError(f"{name}: dtype={wanted} is not what it makes of {have}: {found.node.dtype}; cast the result")
    else:
        found = asked(ask, xs, out)
    if where is True:
        return finish(found.node, out, name, casting)
    mask = cast(node(where, name, "where"), BOOL)
    old = number(0, found.node.dtype) if out is None else node(out, name, "out")
    chosen = op("where", mask, into(found.node, old.dtype, name, casting) if out is not None else found.node, old)
    return finish(chosen, out, name)


def _plain(method: str, operation: Operation) -> Any:
    """NumPy's own, of those that go from the left."""
    return getattr(getattr(np, operation.ufunc or operation.name), method)


def _line(operation: Operation, x: Any, dtype: Any, out: Any = None) -> Node:
    """The operand in the dtype that a fold is computed in."""
    value = node(x, operation.name)
    if dtype is not None:
        wanted = spelled(dtype)
        within = BOOL if operation.name.startswith("logical") else operation.rule(operation.name, wanted)[1]
        if within is not wanted:
            raise DTypeError(f"{operation.name}: dtype={wanted} is not what it gives: of {wanted} it makes {within}")
        return cast(value, wanted)
    if out is not None:
        value = cast(value, widened(value.dtype, out))
    elif operation.name in ("add", "multiply"):
        value = cast(value, summed(value.dtype))
    if operation.name.startswith("logical"):
        return cast(value, BOOL)
    within = operation.rule(operation.name, value.dtype)[1]  # what the operation refuses it refuses of one element, too
    return cast(value, within) if operation.name in _FLOATING else value


def _from_left(method: str, operation: Operation, value: Node, **known: Any) -> Node:
    """What goes from the left, computed at once; floats that NumPy makes of integers are float32."""
    within = operation.rule(operation.name, value.dtype)[1]
    like = FLOAT32 if value.dtype not in INEXACT and within is FLOAT32 else None
    if like is not None:
        value = cast(value, FLOAT64)
    return of_numpy(_plain(method, operation)(wrap(value).numpy(), **known), like).node


def _joined(operation: Operation, x: Node, y: Node) -> Node:
    return operation.node(wrap(x), wrap(y))


def _with_axes(value: Node, name: str) -> Node:
    if not value.shape:
        raise DTypeError(f"{name}: the array has no dimensions, so there is nothing to go along")
    return value


def _monoid(operation: Operation, value: Node) -> str | None:
    """What primitives call an operation that they fold numbers by; sums and products of bools are bools."""
    return None if value.dtype is BOOL and operation.name in ("add", "multiply") else _MONOIDS.get(operation.name)


def _folded(operation: Operation, value: Node, axes: Sequence[int]) -> Node:
    """The fold of axes, which have an element; by halves where no primitive does it."""
    if all(value.shape[axis] == 1 for axis in axes):
        return value
    monoid = _monoid(operation, value)
    if monoid is not None:
        return op(f"reduce_{monoid}", value, axes=tuple(axes), keepdims=True)
    for axis in axes:
        while value.shape[axis] > 1:
            extent = value.shape[axis]
            half = extent // 2
            both = _joined(operation, sliced(value, axis, 0, half), sliced(value, axis, half, 2 * half))
            value = op("concat", both, cast(sliced(value, axis, 2 * half, extent), both.dtype), axis=axis) if extent % 2 else both
    return value


def reduce(
    operation: Operation, array: Any, /, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False,
    initial: Any = None, where: Any = True,
) -> Array:
    """All elements along axes joined; the first axis where none is named."""
    name = f"{operation.name}.reduce"
    value = _line(operation, array, dtype, out)
    axes = axis_tuple(axis, len(value.shape), name) if value.shape or axis not in (0, -1) else ()
    identity = _IDENTITY.get(operation.name)
    if where is not True and identity is None and initial is None:
        raise ValueError(f"{name}: where= needs initial=, since {operation.name} has no identity")
    if operation.name not in _GROUPED:
        if len(axes) > 1 and operation.name != "gcd":
            raise ValueError(f"{name}: {operation.name} goes along one axis, for its order matters")
        known = {"initial": initial, "where": where}
        known = {k: looked(v, name, k) for k, v in known.items() if v is not (True if k == "where" else None)}
        return finish(_from_left("reduce", operation, value, axis=axes, keepdims=keepdims, **known), out, name)
    first = None if initial is None else held(initial, value.dtype, name, "initial")
    neutral = first if identity is None else cast(node(identity, name), value.dtype)  # joined to others it changes nothing
    if where is not True:
        mask = broadcast(cast(node(where, name, "where"), BOOL), value.shape)
        assert neutral is not None  # or it was refused
        value = op("where", mask, value, neutral)
    if operation.name == "hypot" and first is None:
        value = op("abs", value)  # begun with 0: one element alone is a distance, too
    for a in axes:
        if not value.shape[a]:
            if neutral is None:
                raise ShapeError(f"{name}: an array of shape {value.shape} has no element along axis={a}, and no identity")
            value = broadcast(neutral, tuple(1 if d == a else n for d, n in enumerate(value.shape)))
    value = _folded(operation, value, axes)
    if first is not None:
        value = _joined(operation, value, first)
    shape = tuple(1 if d in axes else n for d, n in enumerate(value.shape) if keepdims or d not in axes)
    return finish(reshaped(value, shape), out, name)


def accumulate(operation: Operation, array: Any, /, axis: int = 0, dtype: Any = None, out: Any = None) -> Array:
    """Each element joined with all before it along an axis."""
    name = f"{operation.name}.accumulate"
    value = _with_axes(_line(operation, array, dtype, out), name)
    axis = axis_index(axis, len(value.shape), name)
    if operation.name not in _GROUPED:
        return finish(_from_left("accumulate", operation, value, axis=axis), out, name)
    monoid = _monoid(operation, value)
    if monoid is not None:
        return finish(op(f"cumulative_{monoid}", value, axis=axis), out, name)
    by = 1
    while by < value.shape[axis]:
        extent = value.shape[axis]
        both = _joined(operation, sliced(value, axis, 0, extent - by), sliced(value, axis, by, extent))
        value = op("concat", cast(sliced(value, axis, 0, by), both.dtype), both, axis=axis)
        by *= 2
    return finish(value, out, name)


def reduceat(operation: Operation, array: Any, indices: Any, /, axis: int = 0, dtype: Any = None, out: Any = None) -> Array:
    """Folds of the slices between indices, which are looked at; where the next one is not larger, one element."""
    name = f"{operation.name}.reduceat"
    value = _with_axes(_line(operation, array, dtype, out), name)
    axis = axis_index(axis, len(value.shape), name)
    starts = wrap(integer_node(indices, name, "indices", bools=True)).numpy().reshape(-1).tolist()
    extent = value.shape[axis]
    for i in starts:
        if not 0 <= i < extent:
            raise IndexError(f"{name}: index {i} is out of bounds for axis {axis} with size {extent}")
    if operation.name not in _GROUPED:
        return finish(_from_left("reduceat", operation, value, indices=starts, axis=axis), out, name)
    parts = []
    for k, i in enumerate(starts):
        stop = starts[k + 1] if k + 1 < len(starts) else extent
        parts.append(_folded(operation, sliced(value, axis, i, stop if stop > i else i + 1), (axis,)))
    if not parts:
        return finish(sliced(value, axis, 0, 0), out, name)
    return finish(parts[0] if len(parts) == 1 else op("concat", *parts, axis=axis), out, name)


def outer(function: Callable[..., Array], x1: Any, x2: Any, /, **options: Any) -> Array:
    """The function of each element of one with each element of the other."""
    a, b = map(wrap, exact_operands(x1, x2))
    return function(a.reshape(a.shape + (1,) * b.ndim), b, **options)


def at(operation: Operation, array: Any, indices: Any, /, *values: Any) -> None:
    """Written in place at indices, once for each of equal ones."""
    if not isinstance(array, Array) or isinstance(array, Scalar):
        raise DTypeError(f"{operation.name}.at: the array must be a weft Array, not {type(array).__name__}: it is written to")
    _plain("at", operation)(array, indices, *values)


__all__ = ["Ufunc"]

Unary = Ufunc
Binary = Ufunc

# ---- makers


def _document(function: Any, name: str, about: str, parameters: str, example: str, shows: str, raises: str = "") -> Any:
    named(function, name)
    function.__doc__ = f"""{about}

    Parameters
    ----------
{parameters}
    out : Array, optional
        Where to write the result; it needs the result's shape and a dtype that can hold it.
    where : array of bools, optional
        Elsewhere ``out`` stays as it is (zeros without an ``out``).
    dtype : dtype, optional
        What the operands are cast to first.
    casting : str, optional
        Which casts ``dtype`` may ask for: "same_kind", or "unsafe" for all.
    order, subok
        Do nothing: arrays of weft lie row by row, and there are no other classes of them.

    Returns
    -------
    Array
        Of the shape that the operands broadcast to.

    Raises
    ------
    ShapeError, DTypeError
        Shapes that do not broadcast, or dtypes the function does not take.
{raises}
    Examples
    --------
    >>> import weft as wf
    >>> {example}
    {shows}
    """
    return as_method(function)


def unary(name: str, about: str, example: str, shows: str) -> Unary:
    """A function of one operand that is an operation; ``example``: what it is called with, and the list that this shows."""
    ask, short = call(name, 1), short_way(name)

    def function(
        library: Any, x: Any, /, out: Array | None = None, where: Any = True, dtype: Any = None, casting: str = "same_kind",
        order: str = "K", subok: bool = True,
    ) -> Array:
        if where is not True or dtype is not None or casting != "same_kind" or order != "K":
            layout(order, name)
            return special(ask, name, (x,), out, where, dtype, casting)
        if out is not None:
            return finish(asked(ask, (x,), out).node, out, name)
        native = short.call
        found = native(x)
        if found is not None:
            return found
        if x is None:
            node(x, name)  # refuses it
        return ask(x)

    equip(function, OPERATIONS[name])
    return _document(function, name, about, "    x : array or number", f"wf.{name}({example}).tolist()", shows)


def binary(name: str, about: str, example: str, shows: str, raises: str = "") -> Binary:
    """The same of two operands."""
    ask, short = call(name, 2), short_way(name)

    def function(
        library: Any, x1: Any, x2: Any, /, out: Array | None = None, where: Any = True, dtype: Any = None,
        casting: str = "same_kind", order: str = "K", subok: bool = True,
    ) -> Array:
        if where is not True or dtype is not None or casting != "same_kind" or order != "K":
            layout(order, name)
            return special(ask, name, (x1, x2), out, where, dtype, casting)
        if out is not None:
            return finish(asked(ask, (x1, x2), out).node, out, name)
        native = short.call
        found = native(x1, x2)
        return ask(x1, x2) if found is None else found

    equip(function, OPERATIONS[name])
    return _document(function, name, about, "    x1, x2 : array or number", f"wf.{name}({example}).tolist()", shows, raises)


# ---- the table: arithmetic

add = binary("add", "``x1 + x2``; for bools: or.", "wf.array([1.0, 2.0]), 1.0", "[2.0, 3.0]")
subtract = binary("subtract", "``x1 - x2``.", "wf.array([1.0, 2.0]), 1.0", "[0.0, 1.0]")
multiply = binary("multiply", "``x1 * x2``; for bools: and.", "wf.array([1.0, 2.0]), 3.0", "[3.0, 6.0]")
divide = binary("divide", "``x1 / x2``; integers give float32.", "wf.array([1, 2]), 2", "[0.5, 1.0]")
floor_divide = binary(
    "floor_divide", "``x1 // x2``, rounded down; integers by zero are 0.", "wf.array([7, -7]), 2", "[3, -4]"
)
remainder = binary("remainder", "``x1 % x2``, with the sign of ``x2``.", "wf.array([7, -7]), 4", "[3, 1]")
pow = binary(
    "pow", "``x1 ** x2``; integers stay integers, and have no negative powers.", "wf.array([2.0, 3.0]), 2.0", "[4.0, 9.0]",
    "    ValueError\n        A negative power of integers, where it is known: a number, or an array that is computed.\n",
)
maximum = binary("maximum", "The larger of the two; NaN if either is NaN.", "wf.array([1.0, 5.0]), 3.0", "[3.0, 5.0]")
minimum = binary("minimum", "The smaller of the two; NaN if either is NaN.", "wf.array([1.0, 5.0]), 3.0", "[1.0, 3.0]")
fmax = binary("fmax", "The larger of the two; a NaN counts only beside a NaN.", "wf.array([1.0, wf.nan]), 3.0", "[3.0, 3.0]")
fmin = binary("fmin", "The smaller of the two; a NaN counts only beside a NaN.", "wf.array([1.0, wf.nan]), 3.0", "[1.0, 3.0]")
fmod = binary("fmod", "What is left of a division that is cut off: it has the sign of ``x1``.", "wf.array([7, -7]), 4", "[3, -3]")
heaviside = binary("heaviside", "0 below zero, 1 above it, ``x2`` at zero.", "wf.array([-1.0, 0.0, 2.0]), 0.5", "[0.0, 0.5, 1.0]")
negative = unary("negative", "``-x``.", "wf.array([1.0, -2.0])", "[-1.0, 2.0]")
positive = unary("positive", "``+x``: the same numbers.", "wf.array([1.0, -2.0])", "[1.0, -2.0]")
abs = unary("abs", "Absolute value.", "wf.array([1.0, -2.0])", "[1.0, 2.0]")
sign = unary("sign", "-1, 0 or 1; NaN for NaN.", "wf.array([-3.0, 0.0, 2.0])", "[-1.0, 0.0, 1.0]")
square = unary("square", "``x * x``.", "wf.array([-3.0, 2.0])", "[9.0, 4.0]")
sqrt = unary("sqrt", "Square root; NaN below zero.", "wf.array([4.0, 9.0])", "[2.0, 3.0]")
cbrt = unary("cbrt", "Cube root, of negative numbers too.", "wf.array([8.0, -27.0])", "[2.0, -3.0]")
reciprocal = unary(
    "reciprocal", "``1 / x``; of integers the whole part: 1 and -1 stay, the rest is 0.", "wf.array([4.0, 0.5])", "[0.25, 2.0]"
)
fabs = unary("fabs", "Absolute value, as a float.", "wf.array([1, -2])", "[1.0, 2.0]")

conj = unary("conj", "The complex conjugates; real numbers as they are.", "wf.array([1 + 2j])", "[(1-2j)]")

stop_gradient = unary("stop_gradient", "x, a constant for gradients.", "wf.array([1.0])", "[1.0]")

ldexp = binary(
    "ldexp", "``x1 * 2**x2`` with integers ``x2``, where the power alone may overflow.", "wf.array([0.75, 1.0]), [2, -1]",
    "[3.0, 0.5]",
)
float_power = binary(
    "float_power", "``x1 ** x2`` in float64, of complex numbers in complex128.", "wf.array([2, 4]), -1", "[0.5, 0.25]",
)
gcd = binary("gcd", "The greatest common divisor of integers; computes at once, in NumPy.", "wf.array([12, 7]), 8", "[4, 1]")
lcm = binary("lcm", "The least common multiple of integers; computes at once, in NumPy.", "wf.array([12, 7]), 8", "[24, 56]")

# ---- rounding

floor = unary("floor", "Rounded down.", "wf.array([1.5, -1.5])", "[1.0, -2.0]")
ceil = unary("ceil", "Rounded up.", "wf.array([1.5, -1.5])", "[2.0, -1.0]")
trunc = unary("trunc", "Rounded towards zero.", "wf.array([1.5, -1.5])", "[1.0, -1.0]")
rint = unary("rint", "The nearest whole number, halves to even, as a float.", "wf.array([1.5, 2.5])", "[2.0, 2.0]")


def round(a: Any, decimals: int = 0, out: Array | None = None) -> Array:
    """Rounded to ``decimals`` digits, halves to even.

    Parameters
    ----------
    a : array or number
    decimals : int
        Digits after the point; below zero, digits in front of it.
    out : Array, optional

    Returns
    -------
    Array of the shape and dtype of ``a``; bools become float32

    Raises
    ------
    ShapeError, DTypeError
        An ``out`` that does not fit.

    Examples
    --------
    >>> import weft as wf
    >>> wf.round(wf.array([0.5, 1.5, 2.6])).tolist()
    [0.0, 2.0, 3.0]
    >>> wf.round(wf.array([1.25, 3.5]), 1).tolist()[0] < 1.21
    True
    """
    value, decimals = node(a, "round", "a"), whole(decimals, "round", "decimals")
    if value.dtype == BOOL:
        if decimals:
            raise DTypeError(f"round: a is bool, which has no digits (decimals={decimals}); cast with .astype('float32')")
        value = cast(value, of_elements(BOOL))
    if value.dtype in COMPLEX:
        return finish(op("complex", *[round(wrap(part), decimals).node for part in parts_of(value)]), out, "round")
    if value.dtype in FLOATS and decimals == 0:
        return finish(bind(TABLE["round"], value), out, "round")
    if value.dtype not in FLOATS:
        return finish(_tens(value, -decimals) if decimals < 0 else value, out, "round")
    dtype, digits = value.dtype, builtins.min(builtins.abs(decimals), 400)  # float64 ends at 10**308
    wide = dtype if 10**digits <= dtype.largest else dtype.computed
    if 10**digits > wide.largest:  # these digits stand behind, or in front of, all that a number of this dtype has
        return finish(value if decimals > 0 else op("multiply", value, number(0, dtype)), out, "round")
    scale = number(10.0**digits, wide)
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return finish(cast(op(back, op("round", op(there, cast(value, wide), scale)), scale), dtype), out, "round")


def _tens(value: Node, digits: int) -> Node:
    """Integers to a multiple of a power of ten, without a detour over floats."""
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

exp = unary("exp", "e to the power x.", "wf.array([0.0])", "[1.0]")
exp2 = unary("exp2", "2 to the power x.", "wf.array([3.0])", "[8.0]")
expm1 = unary("expm1", "``exp(x) - 1``, exact near zero.", "wf.array([0.0])", "[0.0]")
log = unary("log", "Natural logarithm; NaN below zero.", "wf.array([1.0])", "[0.0]")
log1p = unary("log1p", "``log(1 + x)``, exact near zero.", "wf.array([0.0])", "[0.0]")
log2 = unary("log2", "Logarithm to base 2.", "wf.array([1.0])", "[0.0]")
log10 = unary("log10", "Logarithm to base 10.", "wf.array([1.0])", "[0.0]")
logaddexp = binary("logaddexp", "``log(exp(x1) + exp(x2))`` without overflow.", "wf.array([-wf.inf]), 0.0", "[0.0]")
logaddexp2 = binary("logaddexp2", "``log2(2**x1 + 2**x2)`` without overflow.", "wf.array([-wf.inf]), 0.0", "[0.0]")

# ---- trigonometry

sin = unary("sin", "Sine of x in radians.", "wf.array([0.0])", "[0.0]")
cos = unary("cos", "Cosine of x in radians.", "wf.array([0.0])", "[1.0]")
tan = unary("tan", "Tangent of x in radians.", "wf.array([0.0])", "[0.0]")
asin = unary("asin", "Inverse sine; NaN outside -1 to 1.", "wf.array([0.0])", "[0.0]")
acos = unary("acos", "Inverse cosine; NaN outside -1 to 1.", "wf.array([1.0])", "[0.0]")
atan = unary("atan", "Inverse tangent.", "wf.array([0.0])", "[0.0]")
atan2 = binary("atan2", "Angle of the point (x2, x1), -pi to pi.", "wf.array([0.0]), 1.0", "[0.0]")
sinh = unary("sinh", "Hyperbolic sine.", "wf.array([0.0])", "[0.0]")
cosh = unary("cosh", "Hyperbolic cosine.", "wf.array([0.0])", "[1.0]")
tanh = unary("tanh", "Hyperbolic tangent.", "wf.array([0.0])", "[0.0]")
asinh = unary("asinh", "Inverse hyperbolic sine.", "wf.array([0.0])", "[0.0]")
acosh = unary("acosh", "Inverse hyperbolic cosine; NaN below 1.", "wf.array([1.0])", "[0.0]")
atanh = unary("atanh", "Inverse hyperbolic tangent; NaN outside -1 to 1.", "wf.array([0.0])", "[0.0]")
hypot = binary("hypot", "``sqrt(x1**2 + x2**2)`` without overflow.", "wf.array([3.0]), 4.0", "[5.0]")
degrees = unary("degrees", "Radians as degrees.", "wf.array([0.0])", "[0.0]")
radians = unary("radians", "Degrees as radians.", "wf.array([0.0])", "[0.0]")

erf = unary("erf", "The error function.", "wf.array([0.0])", "[0.0]")

# ---- floating-point bits

copysign = binary("copysign", "``x1`` with the sign of ``x2``.", "wf.array([3.0]), -0.0", "[-3.0]")
nextafter = binary("nextafter", "The next number after ``x1`` towards ``x2``.", "wf.array([1.0]), 1.0", "[1.0]")
spacing = unary("spacing", "The distance to the next number, away from zero.", "wf.array([2.0**23])", "[1.0]")
signbit = unary("signbit", "Whether the sign is negative (true for -0.0).", "wf.array([-0.0, 1.0])", "[True, False]")
isnan = unary("isnan", "Whether x is NaN.", "wf.array([wf.nan, 1.0])", "[True, False]")
isinf = unary("isinf", "Whether x is infinite.", "wf.array([wf.inf, 1.0])", "[True, False]")
isfinite = unary("isfinite", "Neither NaN nor infinite.", "wf.array([wf.inf, 1.0])", "[False, True]")

# ---- comparisons and logic

equal = binary("equal", "``x1 == x2``.", "wf.array([1, 2]), 2", "[False, True]")
not_equal = binary("not_equal", "``x1 != x2``.", "wf.array([1, 2]), 2", "[True, False]")
less = binary("less", "``x1 < x2``.", "wf.array([1, 2]), 2", "[True, False]")
less_equal = binary("less_equal", "``x1 <= x2``.", "wf.array([1, 3]), 2", "[True, False]")
greater = binary("greater", "``x1 > x2``.", "wf.array([1, 3]), 2", "[False, True]")
greater_equal = binary("greater_equal", "``x1 >= x2``.", "wf.array([1, 2]), 2", "[False, True]")
logical_and = binary("logical_and", "Whether both are true (not zero).", "wf.array([1, 0]), 1", "[True, False]")
logical_or = binary("logical_or", "Whether one of them is true (not zero).", "wf.array([1, 0]), 0", "[True, False]")
logical_xor = binary("logical_xor", "Whether just one is true (not zero).", "wf.array([1, 0]), 1", "[False, True]")
logical_not = unary("logical_not", "Whether x is false (zero).", "wf.array([1, 0])", "[False, True]")
bitwise_and = binary("bitwise_and", "``x1 & x2``.", "wf.array([6, 3]), 2", "[2, 2]")
bitwise_or = binary("bitwise_or", "``x1 | x2``.", "wf.array([4, 3]), 2", "[6, 3]")
bitwise_xor = binary("bitwise_xor", "``x1 ^ x2``.", "wf.array([6, 3]), 2", "[4, 1]")
bitwise_invert = unary("bitwise_invert", "``~x``; for bools: not.", "wf.array([0, 1])", "[-1, -2]")
bitwise_count = unary("bitwise_count", "How many bits of the absolute value are 1.", "wf.array([7, -8])", "[3, 1]")
bitwise_left_shift = binary(
    "bitwise_left_shift", "``x1 << x2``; 0 when all bits have left.", "wf.array([1, 3]), 2", "[4, 12]"
)
bitwise_right_shift = binary("bitwise_right_shift", "``x1 >> x2``, keeping the sign.", "wf.array([8, -8]), 2", "[2, -2]")

# ---- NumPy's names

absolute = abs
arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh = acos, acosh, asin, asinh, atan, atan2, atanh
rad2deg, deg2rad = degrees, radians
around = alias(round, "around")
conjugate = conj
true_divide, mod, power = divide, remainder, pow
bitwise_not = invert = bitwise_invert
left_shift, right_shift = bitwise_left_shift, bitwise_right_shift

# ---- erfc

# ((1 + 2 a) exp(a * a) erfc(a) - 1) / s as a polynomial in 2 s - 1, where s is a / (a + 4): interpolated at Chebyshev's points
# between 0 and the number from which erfc is 0; off by 3e-9 and 5e-18
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
    """exp(-a * a) / (1 + 2 a) is most of it, and 1 + s p of that the rest: exact at 0, and no digits cancel at any a = abs(x)."""
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
    lost = m.fma(a, a, m.neg(square))  # of the square by rounding: exp would multiply it
    bell = m.exp(m.neg(square))
    more = m.sub(m.mul(s, p), m.add(lost, m.mul(lost, m.mul(s, p))))
    right = m.div(m.add(bell, m.mul(bell, more)), m.add(m.add(a, a), one))
    return m.select(m.lt(x, m.const(0, x)), m.sub(two, right), right)


entry(
    "erfc", 1, FLOATS, each(math.erfc), _erfc_formula,
    lambda g, out, x: d.erf(call_primitive.negative(g), out, x), flops=60, exact=False,
)
erfc = unary(
    "erfc",
    """The complementary error function ``1 - erf(x)``, to a few units of the last digit even where that is tiny.

    By the form of M. M. Shepherd and J. G. Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < inf,
    Mathematics of Computation 36, 1981.""",
    "wf.array([0.0, 30.0])", "[1.0, 0.0]",
)
