"""clip, nan_to_num and comparisons of whole arrays, made of element-wise primitives."""

from __future__ import annotations

from typing import Any

from weft.array import Array, wrap
from weft.array.convert import common, convert_operand, operands
from weft.dtypes.formats import COMPLEX, FLOAT64, FLOATS, INEXACT, INTEGERS, Format, compared, weak_compared
from weft.dtypes.parse import layout
from weft.eager.apply import bind
from weft.errors import DTypeError, ShapeError, renamed
from weft.functions.elementwise.ufuncs import add, equal, isnan, logical_and, logical_or, special
from weft.functions.reductions.folds import all
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, finish, node, number, op
from weft.functions.support.comparison_operands import lossless_operands
from weft.graph.node import Shape
from weft.graph.primitives.table import TABLE
from weft.process.docstrings import complete_docs
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

    Examples
    --------
    >>> wf.clip(wf.array([-1.0, 0.5, 7.0]), 0.0, 1.0).tolist()
    [0.0, 0.5, 1.0]
    """
    min, max = _merge_names(min, a_min, "min"), _merge_names(max, a_max, "max")
    if where is not True or dtype is not None or casting != "same_kind" or order != "K":
        layout(order, "clip")
        sides = [name for name, bound in (("min", min), ("max", max)) if bound is not None]
        inputs = (a, *[bound for bound in (min, max) if bound is not None])
        return special(lambda x, *to: clip(x, **dict(zip(sides, to, strict=True))), "clip", inputs, out, where, dtype, casting)
    value = node(a, "clip", "a")
    if value.dtype in INTEGERS:
        min, max = _drop_unreachable(value, min, "min"), _drop_unreachable(value, max, "max")
    bounds = [(name, bound) for name, bound in (("min", min), ("max", max)) if bound is not None]
    if not bounds:
        return finish(value, out, "clip")
    value, *limits = operands(a, *[bound for _, bound in bounds])
    for (name, _), limit in zip(bounds, limits, strict=True):
        try:
            value = bind(TABLE["maximum" if name == "min" else "minimum"], value, limit)
        except (ShapeError, DTypeError) as error:
            raise renamed(error, "clip", x1="a", x2=name) from None
    return finish(value, out, "clip")


def _merge_names(bound: Any, other: Any, name: str) -> Any:
    """Return a bound from the name it is given under."""
    if bound is not None and other is not None:
        raise TypeError(f"clip: {name} and a_{name} are two names of one bound; give one of them")
    return other if bound is None else bound


def _drop_unreachable(value: Node, bound: Any, name: str) -> Any:
    """Return a bound, or None if every element of the dtype satisfies it."""
    if is_int(bound):
        if bound <= value.dtype.least if name == "min" else bound >= value.dtype.greatest:
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

    Examples
    --------
    >>> import weft as wf
    >>> wf.nan_to_num(wf.array([wf.nan, 1.0])).tolist()
    [0.0, 1.0]
    """
    if not copy and isinstance(x, Array):
        return finish(nan_to_num(x, True, nan, posinf, neginf).node, x, "nan_to_num")
    value = node(x, "nan_to_num")
    for replacement, argument in ((nan, "nan"), (posinf, "posinf"), (neginf, "neginf")):
        if replacement is not None or argument == "nan":
            arguments.check_real(replacement, "nan_to_num", argument)
    if value.dtype in COMPLEX:
        parts = [nan_to_num(wrap(part), True, nan, posinf, neginf).node for part in arguments.split_complex(value)]
        return finish(op("complex", *parts))
    if value.dtype not in FLOATS:
        return finish(value)
    high = number(value.dtype.largest if posinf is None else posinf, value.dtype)
    low = number(-value.dtype.largest if neginf is None else neginf, value.dtype)
    zero = number(0, value.dtype)
    infinite = op("where", op("less", value, zero), low, high)
    value = op("where", op("isinf", value), infinite, value)
    return finish(op("where", op("isnan", value), number(nan, value.dtype), value))


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

    Examples
    --------
    >>> wf.isclose(wf.array([1.0, 2.0]), wf.array([1.0, 2.1])).tolist()
    [True, False]
    """
    pair, dtype = common((a, b), compared, weak_compared)
    a, b = (convert_operand(n, dtype if dtype in INEXACT else FLOAT64) for n in pair)
    try:
        distance = op("abs", op("subtract", a, b))
    except ShapeError as error:
        raise renamed(error, "isclose", x1="a", x2="b") from None
    part, finite = _tolerance_node(rtol, "rtol", b.dtype.part), op("logical_and", op("isfinite", a), op("isfinite", b))
    try:
        bound = op("add", _tolerance_node(atol, "atol", b.dtype.part), op("multiply", part, op("abs", b)))
        close = op("where", finite, op("less_equal", distance, bound), op("equal", a, b))
    except ShapeError as error:
        raise renamed(error, "isclose", x1="a", x2="the tolerance") from None
    if equal_nan:
        close = op("logical_or", close, op("logical_and", op("isnan", a), op("isnan", b)))
    return finish(close)


def _tolerance_node(tolerance: Any, argument: str, dtype: Format) -> Node:
    """Return a tolerance as a node: a Python number is a constant of the formula, an array an operand."""
    is_list = isinstance(tolerance, list | tuple)
    if not is_list and type(arguments.check_real(tolerance, "isclose", argument)) in arguments.NUMBERS:
        return number(tolerance, dtype)
    return arguments.held(tolerance, dtype, "isclose", argument)


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Return whether all elements are close (:func:`isclose`). Computes immediately.

    Returns
    -------
    bool

    Raises
    ------
    ShapeError, TraceError
        The shapes do not broadcast; inside a traced function, where values are not known.

    Examples
    --------
    >>> wf.allclose(wf.array([1.0]), 1.0)
    True
    """
    try:
        close = isclose(a, b, rtol, atol, equal_nan)
    except ShapeError as error:
        raise renamed(error, "allclose", x1="a", x2="b") from None
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

    Examples
    --------
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
    return equal(*[wrap(x) if isinstance(x, Node) else x for x in lossless_operands(a1, a2)])


def _shape(function: str, name: str, x: Any) -> Shape:
    return () if type(x) is int else node(x, function, name).shape  # an int may exceed every dtype


def array_equiv(a1: Any, a2: Any) -> bool:
    """Return whether two arrays broadcast and are equal then. Computes immediately.

    Examples
    --------
    >>> wf.array_equiv(wf.array([1, 2]), [[1, 2], [1, 2]])
    True
    """
    try:
        arguments.broadcast_shapes("array_equiv", _shape("array_equiv", "a1", a1), _shape("array_equiv", "a2", a2))
    except ValueError:
        return False
    return bool(all(_equal(a1, a2)))


complete_docs(add, clip)
complete_docs(isclose, allclose)
complete_docs(array_equal, array_equiv)
