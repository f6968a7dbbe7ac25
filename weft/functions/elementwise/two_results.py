"""Element-wise functions with two results, and those of integers that loop: divmod, modf, frexp, gcd and their kin."""

from __future__ import annotations

from typing import Any

from weft.array import Array, wrap
from weft.array.operations import OPERATIONS, no_complex
from weft.dtypes.formats import BOOL, COMPLEX, FLOATS, INT32, of_elements
from weft.dtypes.parse import layout, spelled
from weft.errors import DTypeError, short
from weft.functions.elementwise.ufuncs import copysign, describe, floor_divide, isinf, logical_and, remainder, signbit, trunc
from weft.functions.indexing.where import where as choose
from weft.functions.support.arguments import Node, cast, finish, into, may_cast, node, number, op
from weft.functions.support.unbound import unbound


def _out(function: str, out: Any, order: str) -> tuple[Any, Any]:
    """Both places where results go; ``order`` is refused where it is no word."""
    layout(order, function)
    if out is None:
        return None, None
    if not isinstance(out, tuple) or len(out) != 2:
        raise DTypeError(f"{function}: out must be a tuple of two arrays, not {short(out)}")
    return out


@unbound
def divmod(
    x1: Any, x2: Any, /, out: Any = None, where: Any = True, dtype: Any = None, casting: str = "same_kind", order: str = "K",
    subok: bool = True,
) -> tuple[Array, Array]:
    """``x1 // x2`` and ``x1 % x2``.

    Parameters
    ----------
    x1, x2 : array or number
    out : pair of Array, optional
    where, dtype, casting, order, subok : as in :func:`add`

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
    first, second = _out("divmod", out, order)
    return floor_divide(x1, x2, first, where, dtype, casting), remainder(x1, x2, second, where, dtype, casting)


@unbound
def modf(
    x: Any, /, out: Any = None, where: Any = True, dtype: Any = None, casting: str = "same_kind", order: str = "K",
    subok: bool = True,
) -> tuple[Array, Array]:
    """What stands behind the point, and the whole number in front of it; both have the sign of ``x``.

    Parameters
    ----------
    x : array or number
    out : pair of Array, optional
    where, dtype, casting, order, subok : as in :func:`add`

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
    value = wrap(_elements(_asked("modf", x, dtype, casting)))
    whole = copysign(trunc(value), value)
    rest = copysign(choose(isinf(value), 0.0, value - whole), value)
    first, second = _out("modf", out, order)
    return _left("modf", rest.node, first, where), _left("modf", whole.node, second, where)


def _asked(function: str, x: Any, dtype: Any, casting: str) -> Node:
    """The operand in the dtype that was asked for."""
    value = node(x, function)
    if dtype is None:
        return value
    wanted = spelled(dtype)
    if not may_cast(value.dtype, wanted, casting, function):
        raise DTypeError(f"{function}: dtype={wanted} cannot hold an operand of {value.dtype}; cast it, or use casting='unsafe'")
    return cast(value, wanted)


def _left(function: str, found: Node, out: Any, where: Any) -> Array:
    """A result, where ``where`` holds; elsewhere ``out`` as it is, or zeros."""
    if where is True:
        return finish(found, out, function)
    old = number(0, found.dtype) if out is None else node(out, function, "out")
    mask = cast(node(where, function, "where"), BOOL)
    return finish(op("where", mask, into(found, old.dtype, function) if out is not None else found, old), out, function)


def _elements(value: Node) -> Node:
    return cast(value, of_elements(value.dtype))


def _exponent(value: Node) -> Node:
    """The powers of two, as integers of the same width, from the bits of the numbers."""
    form = value.dtype.computed
    x, bits = cast(value, form), form.integer
    small = op("less", op("abs", x), number(2.0 ** (2 - form.bias), form))  # denormal numbers are made larger first
    x = op("where", small, op("multiply", x, number(2.0 ** (form.mantissa + 2), form)), x)
    word = op("bitcast", x, dtype=bits)
    mask = ((1 << form.exponent) - 1) << form.mantissa
    field = op("bitwise_right_shift", op("bitwise_and", word, number(mask, bits)), number(form.mantissa, bits))
    power = op("subtract", field, op("where", small, number(form.bias + form.mantissa + 1, bits), number(form.bias - 1, bits)))
    plain = op("logical_and", op("isfinite", x), op("not_equal", x, number(0, form)))
    return op("where", plain, power, number(0, bits))


@unbound
def frexp(
    x: Any, /, out: Any = None, where: Any = True, dtype: Any = None, casting: str = "same_kind", order: str = "K",
    subok: bool = True,
) -> tuple[Array, Array]:
    """Mantissas from 0.5 to 1 and exponents of 2: ``x`` is ``mantissa * 2**exponent``.

    Parameters
    ----------
    x : array or number
    out : pair of Array, optional
    where, dtype, casting, order, subok : as in :func:`add`

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
    value = _elements(_asked("frexp", x, dtype, casting))
    if value.dtype in COMPLEX:
        raise no_complex("frexp", value.dtype)
    exponent = _exponent(value)
    mantissa = OPERATIONS["ldexp"].node(wrap(value), wrap(op("negative", exponent)))  # so its derivative is that power of two
    first, second = _out("frexp", out, order)
    return _left("frexp", mantissa, first, where), _left("frexp", cast(exponent, INT32), second, where)


def fix(x: Any, out: Array | None = None) -> Array:
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
    value = wrap(node(x, function))
    if value.node.dtype in COMPLEX:
        raise no_complex(function, value.node.dtype)
    if value.node.dtype not in FLOATS:
        return finish(isinf(value).node, out, function)
    negative = signbit(value)
    return finish(logical_and(isinf(value), negative if below else ~negative).node, out, function)


def isneginf(x: Any, out: Array | None = None) -> Array:
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


def isposinf(x: Any, out: Array | None = None) -> Array:
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


for _function in (divmod, modf, frexp):
    describe(_function, _function.__name__)
