"""Functions composed of ufuncs: clipping, comparing, parts of complex numbers, two results, packed bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import convert_operand, numpy_node, promote_operands, read_operands
from weft.array.operations import OPERATIONS, complex_error
from weft.dtypes import formats
from weft.dtypes.formats import BOOL, COMPLEX, FLOAT64, FLOATS, INTEGERS, UINT8, elementwise_float_format, weak_compared
from weft.dtypes.parse import layout, parse_dtype
from weft.eager.apply import bind
from weft.errors import DTypeError, ShapeError, rename_error, short
from weft.functions.creation.fill import asarray
from weft.functions.elementwise import ufuncs
from weft.functions.elementwise.ufuncs import add, equal, isnan, logical_and, logical_or, special
from weft.functions.indexing.where import where as choose
from weft.functions.reductions.folds import all
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, cast, check_int, floating, node, number, op, reshape_node, unbound, wrap_result
from weft.graph.node import Shape
from weft.graph.primitives.table import TABLE
from weft.process.docstrings import complete_module
from weft.runtime.traced_int import is_int


def clip(
    a: Any, min: Any = None, max: Any = None, out: Array | None = None, *, a_min: Any = None, a_max: Any = None,
    where: Any = True, dtype: Any = None, casting: str = "same_kind", order: str = "K", subok: bool = True,
) -> Array:
    """Limit ``a`` to the range from ``min`` to ``max``; None leaves a side open.

    Parameters
    ----------
    a : array or number
    min, max : array or number, optional
        The bounds; if they cross, the result is ``max``. NaN in any operand gives NaN.
    a_min, a_max : array or number, optional
        NumPy's other names of ``min`` and ``max``.

    Returns
    -------
    Array
        Of the shape that ``a`` and the bounds broadcast to, and the dtype they promote to.

    Raises
    ------
    ShapeError, DTypeError, TypeError
        A bound does not broadcast with ``a``, or ``out`` does not fit; a bound is given under both names.

    >>> wf.clip(wf.array([-1.0, 0.5, 7.0]), 0.0, 1.0).tolist()
    [0.0, 0.5, 1.0]
    """
    min, max = _merge_names(min, a_min, "min"), _merge_names(max, a_max, "max")
    if where is not True or dtype is not None or casting != "same_kind" or order != "K":
        sides = [name for name, bound in (("min", min), ("max", max)) if bound is not None]
        inputs = (a, *[bound for bound in (min, max) if bound is not None])
        return special(
            lambda x, *to: clip(x, **dict(zip(sides, to, strict=True))), "clip", inputs, out, where, dtype, casting, order,
        )
    value = node(a, "clip", "a")
    if value.dtype in INTEGERS:
        min, max = _drop_unreachable(value, min, "min"), _drop_unreachable(value, max, "max")
    bounds = [(name, bound) for name, bound in (("min", min), ("max", max)) if bound is not None]
    if not bounds:
        return wrap_result(value, out, "clip")
    value, *limits = promote_operands(a, *[bound for _, bound in bounds])
    for (name, _), limit in zip(bounds, limits, strict=True):
        try:
            value = bind(TABLE["maximum" if name == "min" else "minimum"], value, limit)
        except (ShapeError, DTypeError) as error:
            raise rename_error(error, "clip", x1="a", x2=name) from None
    return wrap_result(value, out, "clip")


def _merge_names(bound: Any, other: Any, name: str) -> Any:
    """Return a bound from the name it is given under."""
    if bound is not None and other is not None:
        raise TypeError(f"clip: {name} and a_{name} are two names of one bound; give one of them")
    return other if bound is None else bound


def _drop_unreachable(value: Node, bound: Any, name: str) -> Any:
    """Return a bound, or None if every element of the dtype satisfies it."""
    if is_int(bound) and (bound <= value.dtype.least if name == "min" else bound >= value.dtype.greatest):
        return None
    return bound


def nan_to_num(
    x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None,
) -> Array:
    """Replace NaN and infinities by numbers.

    Parameters
    ----------
    x : array or number
    copy : bool
        False: write into ``x``, an Array.
    nan, posinf, neginf : float, optional
        The replacements; None: the largest and the smallest number of the dtype.

    Returns
    -------
    Array of the shape and dtype of ``x``

    >>> wf.nan_to_num(wf.array([wf.nan, 1.0])).tolist()
    [0.0, 1.0]
    """
    if not copy and isinstance(x, Array):
        return wrap_result(nan_to_num(x, True, nan, posinf, neginf).node, x, "nan_to_num")
    value = node(x, "nan_to_num")
    for replacement, argument in ((nan, "nan"), (posinf, "posinf"), (neginf, "neginf")):
        if replacement is not None or argument == "nan":
            arguments.check_real(replacement, "nan_to_num", argument)
    if value.dtype in COMPLEX:
        parts = [nan_to_num(wrap(part), True, nan, posinf, neginf).node for part in arguments.split_complex(value)]
        return wrap_result(op("complex", *parts))
    if value.dtype not in FLOATS:
        return wrap_result(value)
    high = number(value.dtype.largest if posinf is None else posinf, value.dtype)
    low = number(-value.dtype.largest if neginf is None else neginf, value.dtype)
    zero = number(0, value.dtype)
    infinite = op("where", op("less", value, zero), low, high)
    value = op("where", op("isinf", value), infinite, value)
    return wrap_result(op("where", op("isnan", value), number(nan, value.dtype), value))


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Array:
    """Return whether ``abs(a - b) <= atol + rtol * abs(b)``; equal infinities are close.

    Parameters
    ----------
    a, b : array or number
    rtol, atol : float or array
        The tolerances relative to ``b`` and absolute.
    equal_nan : bool
        Whether NaN is close to NaN.

    Returns
    -------
    Array of bool, of the shape that all operands broadcast to

    Raises
    ------
    ShapeError
        The shapes do not broadcast.

    >>> wf.isclose(wf.array([1.0, 2.0]), wf.array([1.0, 2.1])).tolist()
    [True, False]
    """
    pair, dtype = read_operands((a, b), _compared_in_registers, weak_compared)
    a, b = (convert_operand(n, dtype if dtype in formats.INEXACT else FLOAT64) for n in pair)
    try:
        distance = op("abs", op("subtract", a, b))
    except ShapeError as error:
        raise rename_error(error, "isclose", x1="a", x2="b") from None
    part, finite = _tolerance_node(rtol, "rtol", b.dtype.part), op("logical_and", op("isfinite", a), op("isfinite", b))
    try:
        bound = op("add", _tolerance_node(atol, "atol", b.dtype.part), op("multiply", part, op("abs", b)))
        close = op("where", finite, op("less_equal", distance, bound), op("equal", a, b))
    except ShapeError as error:
        raise rename_error(error, "isclose", x1="a", x2="the tolerance") from None
    if equal_nan:
        close = op("logical_or", close, op("logical_and", op("isnan", a), op("isnan", b)))
    return wrap_result(close)


def _compared_in_registers(a: formats.Format, b: formats.Format) -> formats.Format:
    """Return the format in which numbers are compared. Floats that do not promote count as the wider ones that compute them."""
    return formats.compared(*(f.computed if f.alone else f for f in (a, b)))


def _tolerance_node(tolerance: Any, argument: str, dtype: formats.Format) -> Node:
    """Return a tolerance as a node: a Python number is a constant of the formula, an array an operand."""
    is_list = isinstance(tolerance, list | tuple)
    if not is_list and type(arguments.check_real(tolerance, "isclose", argument)) in arguments.NUMBERS:
        return number(tolerance, dtype)
    return arguments.convert_for_write(tolerance, dtype, "isclose", argument)


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Return whether all elements are close (:func:`isclose`). Computes immediately.

    Returns
    -------
    bool

    Raises
    ------
    ShapeError, TraceError
        The shapes do not broadcast; inside a traced function, where values are not known.

    >>> wf.allclose(wf.array([1.0]), 1.0)
    True
    """
    try:
        close = isclose(a, b, rtol, atol, equal_nan)
    except ShapeError as error:
        raise rename_error(error, "allclose", x1="a", x2="b") from None
    return bool(all(close))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Return whether shapes and all elements are equal. Computes immediately.

    Parameters
    ----------
    a1, a2 : array_like
    equal_nan : bool
        Whether NaN is equal to NaN.

    Raises
    ------
    TraceError
        Inside a traced function, where values are not known.

    >>> wf.array_equal(wf.array([1, 2]), [1, 2])
    True
    """
    a, b = _shape("array_equal", "a1", a1), _shape("array_equal", "a2", a2)
    if equal_nan and a == b:
        return bool(all(logical_or(_equal(a1, a2), logical_and(isnan(a1), isnan(a2)))))
    return a == b and bool(all(_equal(a1, a2)))


def _equal(a1: Any, a2: Any) -> Array:
    if isinstance(a1, Array) and isinstance(a2, Array):
        return equal(a1, a2)
    return equal(*[wrap(x) if isinstance(x, Node) else x for x in arguments.lossless_operands(a1, a2)])


def _shape(function: str, name: str, x: Any) -> Shape:
    return () if type(x) is int else node(x, function, name).shape  # an int may exceed every dtype


def array_equiv(a1: Any, a2: Any) -> bool:
    """Return whether two arrays broadcast and are equal then. Computes immediately.

    >>> wf.array_equiv(wf.array([1, 2]), [[1, 2], [1, 2]])
    True
    """
    try:
        arguments.broadcast_shapes("array_equiv", _shape("array_equiv", "a1", a1), _shape("array_equiv", "a2", a2))
    except ValueError:
        return False
    return bool(all(_equal(a1, a2)))


def real(val: Any) -> Array:
    """Return the real parts of ``val``; real numbers unchanged.

    Parameters
    ----------
    val : array_like

    Returns
    -------
    Array of the shape of ``val``, float32 for complex64, float64 for complex128
        For a complex Array a view, which writes through.

    >>> wf.real(wf.array([1 + 2j, 3.0])).tolist()
    [1.0, 3.0]
    """
    if isinstance(val, Array):
        return val.real
    value = node(val, "real", "val")
    return wrap(op("real", value) if value.dtype in COMPLEX else value)


def imag(val: Any) -> Array:
    """Return the imaginary parts of ``val``; zeros for real numbers.

    >>> wf.imag(wf.array([1 + 2j, 3.0])).tolist()
    [2.0, 0.0]
    """
    return val.imag if isinstance(val, Array) else wrap(_imaginary_part(node(val, "imag", "val")))


def _imaginary_part(value: Node) -> Node:
    return op("imag", value) if value.dtype in COMPLEX else arguments.broadcast(number(0, value.dtype), value.shape)


def angle(z: Any, deg: bool = False) -> Array:
    """Return the angles of complex numbers from the positive real axis, -pi to pi.

    Parameters
    ----------
    z : array_like
    deg : bool
        In degrees instead of radians.

    Returns
    -------
    Array of floats

    >>> wf.angle(wf.array([1.0, 1j, -1.0]), deg=True).tolist()
    [0.0, 90.0, 180.0]
    """
    value = node(z, "angle", "z")
    value = floating(value) if value.dtype is BOOL else cast(value, elementwise_float_format(value.dtype))
    y, x = _imaginary_part(value), op("real", value) if value.dtype in COMPLEX else value
    angles = op("atan2", y, x)
    return wrap(op("multiply", angles, number(180 / math.pi, angles.dtype)) if deg else angles)


def real_if_close(a: Any, tol: float = 100) -> Array:
    """Return the real parts if all imaginary parts are negligible, else ``a``. Complex elements are computed.

    Parameters
    ----------
    tol : float
        The largest negligible imaginary part: above 1 in machine epsilons of the dtype, else absolute.

    Returns
    -------
    Array of the shape of ``a``

    Raises
    ------
    TraceError
        Inside a traced function, because the dtype depends on the values.

    >>> wf.real_if_close(wf.array([2.1 + 4e-14j, 5.2 + 3e-15j], dtype="complex128"), tol=1000).dtype
    dtype('float64')
    """
    value = asarray(a)
    if value.node.dtype not in COMPLEX:
        return value
    elements = arguments.read_now(value, "real_if_close", "a")
    bound = tol * np.finfo(elements.real.dtype).eps if tol > 1 else tol
    return wrap(op("real", value.node)) if bool((np.abs(elements.imag) < bound).all()) else value


def sort_complex(a: Any) -> Array:
    """Sort by real parts, then by imaginary parts, along the last axis; return complex numbers.

    Parameters
    ----------
    a : array_like with a dimension or more

    Returns
    -------
    Array of complex64 or complex128; a complex array keeps its dtype

    Raises
    ------
    AxisError
        ``a`` has no dimensions.

    >>> wf.sort_complex([5, 3, 6, 2, 1]).tolist()
    [(1+0j), (2+0j), (3+0j), (5+0j), (6+0j)]
    """
    value = node(a, "sort_complex", "a")
    axis = arguments.axis_index(-1, len(value.shape), "sort_complex")
    if value.dtype in COMPLEX:
        return wrap(op("sort", value, axis=axis) if value.size else value)
    short = value.dtype.kind in ("signed", "unsigned") and value.dtype.bits <= 16
    part = formats.FLOAT32 if short else FLOAT64 if formats.DEFAULT.wide else floating(value).dtype.computed
    line = cast(value, part)
    return wrap(cast(op("sort", line, axis=axis) if value.size else line, formats.complex_format(part)))


def isreal(x: Any) -> Array:
    """Return whether the imaginary part of each element is zero.

    Returns
    -------
    Array of bool, of the shape of ``x``

    >>> wf.isreal(wf.array([1 + 2j, 3.0])).tolist()
    [False, True]
    """
    part = _imaginary_part(node(x, "isreal"))
    return wrap(op("equal", part, number(0, part.dtype)))


def iscomplex(x: Any) -> Array:
    """Return whether the imaginary part of each element is not zero.

    >>> wf.iscomplex(wf.array([1 + 2j, 3.0])).tolist()
    [True, False]
    """
    return wrap(cast(_imaginary_part(node(x, "iscomplex")), BOOL))


def iscomplexobj(x: Any) -> bool:
    """Return whether an array, a list or a number has a complex dtype, whatever its elements are.

    >>> wf.iscomplexobj(wf.zeros(2, dtype="complex64")), wf.iscomplexobj(1.5)
    (True, False)
    """
    return node(x, "iscomplexobj").dtype in COMPLEX


def isrealobj(x: Any) -> bool:
    """Return whether an array, a list or a number has a dtype that is not complex.

    >>> wf.isrealobj(wf.zeros(2)), wf.isrealobj([1j])
    (True, False)
    """
    return not iscomplexobj(x)


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

    >>> [y.tolist() for y in wf.modf(wf.array([1.5, -2.25]))]
    [[0.5, -0.25], [1.0, -2.0]]
    """
    value = wrap(_read_operand("modf", x, dtype, casting))
    integral = ufuncs.copysign(ufuncs.trunc(value), value)
    fraction = ufuncs.copysign(choose(ufuncs.isinf(value), 0.0, value - integral), value)
    results = zip((fraction.node, integral.node), _parse_outs("modf", out, order), strict=True)
    pair = [arguments.wrap_masked_result(result, place, "modf", where) for result, place in results]
    return pair[0], pair[1]


def _read_operand(function: str, x: Any, dtype: Any, casting: str) -> Node:
    """Cast the operand to the requested dtype, and then to a float dtype."""
    value = node(x, function)
    value = value if dtype is None else arguments.cast_by(casting, value, parse_dtype(dtype), function, "x")
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

    >>> [y.tolist() for y in wf.frexp(wf.array([8.0, 0.75]))]
    [[0.5, 0.75], [4, 0]]
    """
    value = _read_operand("frexp", x, dtype, casting)
    if value.dtype in COMPLEX:
        raise complex_error("frexp", value.dtype)
    exponent = _exponent(value)
    mantissa = OPERATIONS["ldexp"].node(wrap(value), wrap(op("negative", exponent)))  # its derivative is that power of two
    results = zip((mantissa, cast(exponent, formats.INT32)), _parse_outs("frexp", out, order), strict=True)
    pair = [arguments.wrap_masked_result(result, place, "frexp", where) for result, place in results]
    return pair[0], pair[1]


def fix(x: Any, out: Array | None = None) -> Array:
    """Round towards zero, as :func:`trunc`.

    Returns
    -------
    Array of the shape of ``x``

    >>> wf.fix(wf.array([1.5, -1.5])).tolist()
    [1.0, -1.0]
    """
    return ufuncs.trunc(x, out)


def _is_signed_infinity(function: str, x: Any, below: bool, out: Any) -> Array:
    value = wrap(node(x, function))
    if value.node.dtype in COMPLEX:
        raise complex_error(function, value.node.dtype)
    if value.node.dtype not in FLOATS:
        return wrap_result(ufuncs.isinf(value).node, out, function)
    negative = ufuncs.signbit(value)
    return wrap_result(ufuncs.logical_and(ufuncs.isinf(value), negative if below else ~negative).node, out, function)


def isneginf(x: Any, out: Array | None = None) -> Array:
    """Return whether each element is negative infinity.

    Returns
    -------
    Array of bool

    Raises
    ------
    DTypeError
        ``x`` is complex.

    >>> wf.isneginf(wf.array([-wf.inf, wf.inf])).tolist()
    [True, False]
    """
    return _is_signed_infinity("isneginf", x, True, out)


def isposinf(x: Any, out: Array | None = None) -> Array:
    """Return whether each element is positive infinity.

    >>> wf.isposinf(wf.array([-wf.inf, wf.inf])).tolist()
    [False, True]
    """
    return _is_signed_infinity("isposinf", x, False, out)


for _function in (divmod, modf, frexp):
    ufuncs.describe(_function, _function.__name__)


def _bit_shifts(function: str, bitorder: str, shape: tuple[int, ...]) -> Node:
    if bitorder not in ("big", "little"):
        raise ValueError(f"{function}: bitorder={bitorder!r} must be 'big' or 'little'")
    order = np.arange(8, dtype=np.uint8)
    return reshape_node(numpy_node(order[::-1] if bitorder == "big" else order), shape)


def packbits(a: Any, /, axis: int | None = None, bitorder: str = "big") -> Array:
    """Pack eight bools or integers (true if not zero) into each byte along an axis; zeros fill the last byte.

    Parameters
    ----------
    a : array of bools or integers
    axis : int, optional
        None: the array is flattened.
    bitorder : "big" or "little"
        "big": the first of eight becomes the highest bit.

    Returns
    -------
    Array of uint8

    Raises
    ------
    DTypeError, AxisError, ValueError
        ``a`` holds floats; it has no such axis; ``bitorder`` is unknown.

    >>> wf.packbits(wf.array([True, False, True])).tolist()
    [160]
    """
    value = node(a, "packbits", "a")
    if value.dtype not in INTEGERS and value.dtype != BOOL:
        raise DTypeError(f"packbits: a must hold bools or integers, but has dtype {value.dtype}")
    value, axis = arguments.flat_axis(value, axis, "packbits", numbers=True)
    shape = value.shape
    count = -(-shape[axis] // 8)
    high = tuple(8 * count - n if k == axis else 0 for k, n in enumerate(shape))
    bits = op("pad", cast(cast(value, BOOL), UINT8), low=(0,) * len(shape), high=high, value=0)
    rows = reshape_node(bits, (*shape[:axis], count, 8, *shape[axis + 1 :]))
    shifts = _bit_shifts("packbits", bitorder, (8,) + (1,) * (len(shape) - axis - 1))
    return wrap(cast(op("reduce_sum", op("bitwise_left_shift", rows, shifts), axes=(axis + 1,), keepdims=False), UINT8))


def unpackbits(a: Any, /, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """Unpack the bits of bytes along an axis, one per element.

    Parameters
    ----------
    a : array of uint8
    axis : int, optional
        None: the array is flattened.
    count : int, optional
        The number of bits returned along the axis; a negative number drops bits at the end, an excess is filled with zeros.
    bitorder : "big" or "little"
        "big": the highest bit comes first.

    Returns
    -------
    Array of uint8, zeros and ones

    Raises
    ------
    DTypeError, AxisError, ValueError
        ``a`` is not uint8; it has no such axis; ``bitorder`` is unknown, or ``count`` drops more bits than there are.

    >>> wf.unpackbits(wf.array([160], dtype="uint8"), count=3).tolist()
    [1, 0, 1]
    """
    value = node(a, "unpackbits", "a")
    if value.dtype != UINT8:
        raise DTypeError(f"unpackbits: a must hold uint8, but has dtype {value.dtype}")
    value, axis = arguments.flat_axis(value, axis, "unpackbits", numbers=True)
    shape = value.shape
    separated = reshape_node(value, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
    shifts = _bit_shifts("unpackbits", bitorder, (8,) + (1,) * (len(shape) - axis - 1))
    bits = op("bitwise_and", op("bitwise_right_shift", separated, shifts), number(1, UINT8))
    extent = 8 * shape[axis]
    all_bits = wrap(reshape_node(bits, (*shape[:axis], extent, *shape[axis + 1 :])))
    if count is None:
        return all_bits
    length = check_int(count, "unpackbits", "count")
    if length < -extent:
        raise ValueError(f"unpackbits: count={length} takes away more than the {extent} bits along axis {axis}")
    length = extent + length if length < 0 else length
    if length > extent:
        high = tuple(length - extent if k == axis else 0 for k in range(len(shape)))
        return wrap(op("pad", all_bits.node, low=(0,) * len(shape), high=high, value=0))
    return all_bits[(slice(None),) * axis + (slice(0, length),)]


complete_module(
    globals(), (add, clip), (isclose, allclose), (array_equal, array_equiv), (real, imag), (isreal, iscomplex), (iscomplexobj,
    isrealobj), (ufuncs.add, divmod), (divmod, modf), (modf, frexp), (ufuncs.trunc, fix, isneginf), (isneginf, isposinf),
)
