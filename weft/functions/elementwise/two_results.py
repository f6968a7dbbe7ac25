"""Element-wise functions with two results, and relatives of rounding and infinity tests: divmod, modf, frexp, fix, isposinf."""

from __future__ import annotations

from typing import Any

from weft.array import Array, wrap
from weft.array.operations import OPERATIONS, no_complex
from weft.dtypes.formats import BOOL, COMPLEX, FLOATS, INT32, elementwise_float_format
from weft.dtypes.parse import layout, parse_dtype
from weft.errors import DTypeError, short
from weft.functions.elementwise import ufuncs
from weft.functions.indexing.where import where as choose
from weft.functions.support.arguments import Node, cast, finish, into, may_cast, node, number, op
from weft.functions.support.unbound import unbound
from weft.process.docstrings import complete_docs


def _parse_outs(function: str, out: Any, order: str) -> tuple[Any, Any]:
    """Return both arrays of ``out``, and validate ``order``."""
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
    """Return ``x1 // x2`` and ``x1 % x2``.

    Parameters
    ----------
    x1, x2 : array or number
    out : pair of Array, optional
        The arrays that the results are written to.

    Returns
    -------
    two Arrays

    Raises
    ------
    ShapeError
        The shapes do not broadcast.

    Examples
    --------
    >>> import weft as wf
    >>> [x.tolist() for x in wf.divmod(wf.array([7, -7]), 4)]
    [[1, -2], [3, 1]]
    """
    first, second = _parse_outs("divmod", out, order)
    return ufuncs.floor_divide(x1, x2, first, where, dtype, casting), ufuncs.remainder(x1, x2, second, where, dtype, casting)


@unbound
def modf(
    x: Any, /, out: Any = None, where: Any = True, dtype: Any = None, casting: str = "same_kind", order: str = "K",
    subok: bool = True,
) -> tuple[Array, Array]:
    """Return the fractional and the integral part; both have the sign of ``x``.

    Parameters
    ----------
    x : array or number

    Returns
    -------
    two Arrays of floats

    Raises
    ------
    DTypeError
        ``x`` is complex.

    Examples
    --------
    >>> [y.tolist() for y in wf.modf(wf.array([1.5, -2.25]))]
    [[0.5, -0.25], [1.0, -2.0]]
    """
    value = wrap(_elements(_read_operand("modf", x, dtype, casting)))
    integral = ufuncs.copysign(ufuncs.trunc(value), value)
    fraction = ufuncs.copysign(choose(ufuncs.isinf(value), 0.0, value - integral), value)
    first, second = _parse_outs("modf", out, order)
    return _write_result("modf", fraction.node, first, where), _write_result("modf", integral.node, second, where)


def _read_operand(function: str, x: Any, dtype: Any, casting: str) -> Node:
    """Cast the operand to the requested dtype."""
    value = node(x, function)
    if dtype is None:
        return value
    form = parse_dtype(dtype)
    if not may_cast(value.dtype, form, casting, function):
        raise DTypeError(f"{function}: dtype={form} cannot hold an operand of {value.dtype}; cast it, or use casting='unsafe'")
    return cast(value, form)


def _write_result(function: str, result: Node, out: Any, where: Any) -> Array:
    """Write a result to ``out``, where the mask ``where`` holds; without ``out`` the other elements are zero."""
    if where is True:
        return finish(result, out, function)
    old = number(0, result.dtype) if out is None else node(out, function, "out")
    mask = cast(node(where, function, "where"), BOOL)
    return finish(op("where", mask, into(result, old.dtype, function) if out is not None else result, old), out, function)


def _elements(value: Node) -> Node:
    return cast(value, elementwise_float_format(value.dtype))


def _exponent(value: Node) -> Node:
    """Compute the exponents of frexp from the bits of the numbers, as integers of the same width."""
    form = value.dtype.computed
    x, bits = cast(value, form), form.integer
    small = op("less", op("abs", x), number(2.0 ** (2 - form.bias), form))  # subnormal numbers are scaled first
    x = op("where", small, op("multiply", x, number(2.0 ** (form.mantissa + 2), form)), x)
    word = op("bitcast", x, dtype=bits)
    mask = ((1 << form.exponent) - 1) << form.mantissa
    field = op("bitwise_right_shift", op("bitwise_and", word, number(mask, bits)), number(form.mantissa, bits))
    power = op("subtract", field, op("where", small, number(form.bias + form.mantissa + 1, bits), number(form.bias - 1, bits)))
    is_regular = op("logical_and", op("isfinite", x), op("not_equal", x, number(0, form)))
    return op("where", is_regular, power, number(0, bits))


@unbound
def frexp(
    x: Any, /, out: Any = None, where: Any = True, dtype: Any = None, casting: str = "same_kind", order: str = "K",
    subok: bool = True,
) -> tuple[Array, Array]:
    """Return mantissas from 0.5 to 1 and exponents of 2: ``x`` is ``mantissa * 2**exponent``.

    Returns
    -------
    Array of floats and Array of int32

    Examples
    --------
    >>> [y.tolist() for y in wf.frexp(wf.array([8.0, 0.75]))]
    [[0.5, 0.75], [4, 0]]
    """
    value = _elements(_read_operand("frexp", x, dtype, casting))
    if value.dtype in COMPLEX:
        raise no_complex("frexp", value.dtype)
    exponent = _exponent(value)
    mantissa = OPERATIONS["ldexp"].node(wrap(value), wrap(op("negative", exponent)))  # its derivative is that power of two
    first, second = _parse_outs("frexp", out, order)
    return _write_result("frexp", mantissa, first, where), _write_result("frexp", cast(exponent, INT32), second, where)


def fix(x: Any, out: Array | None = None) -> Array:
    """Round towards zero, as :func:`trunc`.

    Returns
    -------
    Array of the shape of ``x``

    Examples
    --------
    >>> wf.fix(wf.array([1.5, -1.5])).tolist()
    [1.0, -1.0]
    """
    return ufuncs.trunc(x, out)


def _is_signed_infinity(function: str, x: Any, below: bool, out: Any) -> Array:
    value = wrap(node(x, function))
    if value.node.dtype in COMPLEX:
        raise no_complex(function, value.node.dtype)
    if value.node.dtype not in FLOATS:
        return finish(ufuncs.isinf(value).node, out, function)
    negative = ufuncs.signbit(value)
    return finish(ufuncs.logical_and(ufuncs.isinf(value), negative if below else ~negative).node, out, function)


def isneginf(x: Any, out: Array | None = None) -> Array:
    """Return whether each element is negative infinity.

    Returns
    -------
    Array of bool

    Raises
    ------
    DTypeError
        ``x`` is complex.

    Examples
    --------
    >>> wf.isneginf(wf.array([-wf.inf, wf.inf])).tolist()
    [True, False]
    """
    return _is_signed_infinity("isneginf", x, True, out)


def isposinf(x: Any, out: Array | None = None) -> Array:
    """Return whether each element is positive infinity.

    Examples
    --------
    >>> wf.isposinf(wf.array([-wf.inf, wf.inf])).tolist()
    [False, True]
    """
    return _is_signed_infinity("isposinf", x, False, out)


for _function in (divmod, modf, frexp):
    ufuncs.describe(_function, _function.__name__)
complete_docs(ufuncs.add, divmod)
complete_docs(divmod, modf)
complete_docs(modf, frexp)
complete_docs(ufuncs.trunc, fix, isneginf)
complete_docs(isneginf, isposinf)
