"""Element-wise functions with two results, and those of integers that loop: divmod, modf, frexp, gcd and their kin."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.convert import operands
from weft.errors import DTypeError
from weft.formats import BOOL, COMPLEX, COMPLEX128, FLOAT64, FLOATS, INT32, INT64, INTEGERS, of_elements
from weft.functions.choosing import where
from weft.functions.common import Node, broadcast_shapes, cast, finish, node, number, of_numpy, op
from weft.functions.elementwise import copysign, floor_divide, isinf, logical_and, power, remainder, signbit, trunc


def _out(out: Any) -> tuple[Any, Any]:
    return (None, None) if out is None else tuple(out)


def divmod(x1: Any, x2: Any, /, out: Any = None) -> tuple[Array, Array]:
    """``x1 // x2`` and ``x1 % x2``.

    Parameters
    ----------
    x1, x2 : array or number
    out : pair of Array, optional

    Returns
    -------
    two Arrays

    Raises
    ------
    ShapeError
        Shapes that do not broadcast.

    Examples
    --------
    >>> import weft as wf
    >>> [x.tolist() for x in wf.divmod(wf.array([7, -7]), 4)]
    [[1, -2], [3, 1]]
    """
    first, second = _out(out)
    return floor_divide(x1, x2, first), remainder(x1, x2, second)


def modf(x: Any, /, out: Any = None) -> tuple[Array, Array]:
    """What stands behind the point, and the whole number in front of it; both have the sign of ``x``.

    Parameters
    ----------
    x : array or number
    out : pair of Array, optional

    Returns
    -------
    two Arrays of floats

    Raises
    ------
    DTypeError
        Complex numbers.

    Examples
    --------
    >>> import weft as wf
    >>> [y.tolist() for y in wf.modf(wf.array([1.5, -2.25]))]
    [[0.5, -0.25], [1.0, -2.0]]
    """
    value = wrap(_elements(node(x, "modf")))
    whole = copysign(trunc(value), value)
    rest = copysign(where(isinf(value), 0.0, value - whole), value)
    first, second = _out(out)
    return finish(rest.node, first, "modf"), finish(whole.node, second, "modf")


def _elements(value: Node) -> Node:
    return cast(value, of_elements(value.dtype))


def _real(value: Node, function: str) -> Node:
    if value.dtype in COMPLEX:
        raise DTypeError(f"{function}: the dtype {value.dtype} has no {function}; take wf.real(x), wf.imag(x) or wf.abs(x)")
    return value


def _exponent(value: Node) -> tuple[Node, Node]:
    """Mantissas from 0.5 to 1, and exponents as integers of the same width, from the bits of the numbers."""
    form = value.dtype.computed
    x, bits = cast(value, form), form.integer
    small = op("less", op("abs", x), number(2.0 ** (2 - form.bias), form))  # denormal numbers are made larger first
    x = op("where", small, op("multiply", x, number(2.0 ** (form.mantissa + 2), form)), x)
    word = op("bitcast", x, dtype=bits)
    mask = ((1 << form.exponent) - 1) << form.mantissa
    field = op("bitwise_right_shift", op("bitwise_and", word, number(mask, bits)), number(form.mantissa, bits))
    kept = op("bitwise_and", word, number(~mask, bits))
    half = op("bitcast", op("bitwise_or", kept, number((form.bias - 1) << form.mantissa, bits)), dtype=form)
    power = op("subtract", field, op("where", small, number(form.bias + form.mantissa + 1, bits), number(form.bias - 1, bits)))
    plain = op("logical_and", op("isfinite", x), op("not_equal", x, number(0, form)))
    return op("where", plain, half, x), op("where", plain, power, number(0, bits))


def frexp(x: Any, /, out: Any = None) -> tuple[Array, Array]:
    """Mantissas from 0.5 to 1 and exponents of 2: ``x`` is ``mantissa * 2**exponent``.

    Parameters
    ----------
    x : array or number
    out : pair of Array, optional

    Returns
    -------
    Array of floats and Array of int32

    Raises
    ------
    DTypeError
        Complex numbers.

    Examples
    --------
    >>> import weft as wf
    >>> [y.tolist() for y in wf.frexp(wf.array([8.0, 0.75]))]
    [[0.5, 0.75], [4, 0]]
    """
    value = _real(_elements(node(x, "frexp")), "frexp")
    mantissa, exponent = _exponent(value)
    first, second = _out(out)
    return finish(cast(mantissa, value.dtype), first, "frexp"), finish(cast(exponent, INT32), second, "frexp")


def ldexp(x1: Any, x2: Any, /, out: Array | None = None) -> Array:
    """``x1 * 2**x2``, where the power alone may overflow.

    Parameters
    ----------
    x1 : array or number
    x2 : array of integers
    out : Array, optional

    Returns
    -------
    Array of floats, of the shape that both broadcast to

    Raises
    ------
    DTypeError, ShapeError
        Complex numbers, exponents that are no integers; shapes that do not broadcast.

    Examples
    --------
    >>> import weft as wf
    >>> wf.ldexp(wf.array([0.75, 1.0]), [2, -1]).tolist()
    [3.0, 0.5]
    """
    value, power = _real(_elements(node(x1, "ldexp", "x1")), "ldexp"), node(x2, "ldexp", "x2")
    if power.dtype not in INTEGERS and power.dtype != BOOL:
        raise DTypeError(f"ldexp: x2 must hold integers, but has dtype {power.dtype}; cast with .astype('int64')")
    broadcast_shapes("ldexp", value.shape, power.shape)
    form = value.dtype.computed
    bits, most = form.integer, form.bias - 1
    found, rest = cast(value, form), cast(power, INT64)
    for _ in range(4):  # each power is a float whose bits are known: as often as leads from the least number to the largest
        step = op("minimum", op("maximum", rest, number(-most, INT64)), number(most, INT64))
        rest = op("subtract", rest, step)
        field = cast(op("add", step, number(form.bias, INT64)), bits)
        factor = op("bitcast", op("bitwise_left_shift", field, number(form.mantissa, bits)), dtype=form)
        found = op("multiply", found, factor)
    return finish(cast(found, value.dtype), out, "ldexp")


def _integers(function: str, x1: Any, x2: Any, out: Any) -> Array:
    a, b = operands(x1, x2)
    if a.dtype not in INTEGERS:
        raise DTypeError(f"{function}: integers are needed, but the dtype is {a.dtype}; cast with .astype('int64')")
    broadcast_shapes(function, a.shape, b.shape)
    return finish(of_numpy(getattr(np, function)(wrap(a).numpy(), wrap(b).numpy())).node, out, function)


def gcd(x1: Any, x2: Any, /, out: Array | None = None) -> Array:
    """The greatest common divisor; computes at once, in NumPy.

    Parameters
    ----------
    x1, x2 : array of integers
    out : Array, optional

    Returns
    -------
    Array of the shape that both broadcast to

    Raises
    ------
    DTypeError, ShapeError, TraceError
        No integers; shapes that do not broadcast; inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.gcd(wf.array([12, 7]), 8).tolist()
    [4, 1]
    """
    return _integers("gcd", x1, x2, out)


def lcm(x1: Any, x2: Any, /, out: Array | None = None) -> Array:
    """The least common multiple; computes at once, in NumPy.

    Parameters
    ----------
    x1, x2, out : as in :func:`gcd`

    Returns
    -------
    Array of the shape that both broadcast to

    Raises
    ------
    DTypeError, ShapeError, TraceError
        As :func:`gcd`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.lcm(wf.array([12, 7]), 8).tolist()
    [24, 56]
    """
    return _integers("lcm", x1, x2, out)


def float_power(x1: Any, x2: Any, /, out: Array | None = None) -> Array:
    """``x1 ** x2`` in float64.

    Parameters
    ----------
    x1, x2 : array or number
    out : Array, optional

    Returns
    -------
    Array of float64, or complex128 where an operand is complex

    Raises
    ------
    ShapeError
        Shapes that do not broadcast.

    Examples
    --------
    >>> import weft as wf
    >>> wf.float_power(wf.array([2, 4]), -1).tolist()
    [0.5, 0.25]
    """
    a, b = (wrap(cast(n, COMPLEX128 if n.dtype in COMPLEX else FLOAT64)) for n in operands(x1, x2))
    return finish(power(a, b).node, out, "float_power")


def fix(x: Any, /, out: Array | None = None) -> Array:
    """Rounded towards zero: :func:`trunc`.

    Parameters
    ----------
    x : array or number
    out : Array, optional

    Returns
    -------
    Array of the shape of ``x``

    Examples
    --------
    >>> import weft as wf
    >>> wf.fix(wf.array([1.5, -1.5])).tolist()
    [1.0, -1.0]
    """
    return trunc(x, out)


def _infinite(function: str, x: Any, below: bool, out: Any) -> Array:
    value = wrap(_real(node(x, function), function))
    if value.node.dtype not in FLOATS:
        return finish(isinf(value).node, out, function)
    negative = signbit(value)
    return finish(logical_and(isinf(value), negative if below else ~negative).node, out, function)


def isneginf(x: Any, /, out: Array | None = None) -> Array:
    """Whether x is negative infinity.

    Parameters
    ----------
    x : array or number
    out : Array, optional

    Returns
    -------
    Array of bool

    Raises
    ------
    DTypeError
        Complex numbers.

    Examples
    --------
    >>> import weft as wf
    >>> wf.isneginf(wf.array([-wf.inf, wf.inf])).tolist()
    [True, False]
    """
    return _infinite("isneginf", x, True, out)


def isposinf(x: Any, /, out: Array | None = None) -> Array:
    """Whether x is positive infinity.

    Parameters
    ----------
    x : array or number
    out : Array, optional

    Returns
    -------
    Array of bool

    Raises
    ------
    DTypeError
        Complex numbers.

    Examples
    --------
    >>> import weft as wf
    >>> wf.isposinf(wf.array([-wf.inf, wf.inf])).tolist()
    [False, True]
    """
    return _infinite("isposinf", x, False, out)
