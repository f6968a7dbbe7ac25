"""Uniform, normal and integer random numbers, from the hidden state or from a key.

Element i of a draw is word ``i & 3`` of Philox4x32-10(key, base + (i >> 2)). Without ``key=`` the pair (key, base) comes from the
hidden state, and a draw advances ``base``; a jitted function therefore draws new numbers at every call, the same as without jit.
With ``key=`` the numbers depend on the key alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import add, mul
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import number_node, operands
from weft.dtypes.formats import BOOL, DEFAULT, FLOAT32, FLOATS, INT64, INTEGERS, UINT64, Format
from weft.dtypes.parse import parse_dtype
from weft.eager.peek import peek
from weft.errors import DTypeError, ShapeError, name_called_function
from weft.functions.random import state
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, Shape, cast, number, op
from weft.process.docstrings import complete_docs
from weft.runtime.traced_int import TRACED_TYPES, TracedInt, computed

__all__ = [
    "bernoulli", "exponential", "integers", "normal", "rand", "randint", "randn", "random", "standard_normal", "uniform",
]

_NUMBERS = frozenset((int, float))


def _float_dtype(dtype: Any, function: str) -> Format:
    form = DEFAULT.real if dtype is None else parse_dtype(dtype)
    if form not in FLOATS:
        raise DTypeError(f"{function}: dtype={form} must be a float dtype; use wf.random.integers for integers")
    return form


def _size(size: Any, function: str, *parameters: Any) -> Shape:
    if all([type(p) in _NUMBERS or type(p) is TracedInt for p in parameters]):
        return () if size is None else arguments.shape_tuple(size, function, "size")
    shapes = [arguments.shape_of(p, function) for p in parameters]
    shape = arguments.broadcast_shapes(function, *shapes)
    if size is None:
        return shape
    result = arguments.shape_tuple(size, function, "size")
    if arguments.broadcast_shapes(function, shape, result) != result:
        raise ShapeError(f"{function}: size={result} does not fit parameters of shape {shape}")
    return result


def _scale_unit(unit: Array, offset: Any, scale: Any) -> Array:
    """Return ``offset + scale * unit`` in the dtype of the draw."""
    if not (arguments.is_number(scale) and scale == 1):
        unit = _combine(unit, mul, "multiply", scale)
    if not (arguments.is_number(offset) and offset == 0):
        unit = _combine(unit, add, "add", offset)
    return unit


def _combine(unit: Array, operation: Any, name: str, x: Any) -> Array:
    drawn_node = unit.node
    if arguments.is_number(x) and drawn_node.value is not None and not drawn_node.dtype.narrow:  # a small array
        return operation(unit, float(x))
    return wrap(op(name, drawn_node, _parameter(x, drawn_node.dtype)))


def _parameter(x: Any, dtype: Format) -> Node:
    return number_node(computed(float, x), dtype) if arguments.is_number(x) else arguments.held(x, dtype, "random", "parameter")


def uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None, *, key: Any = None, dtype: Any = None) -> Array:
    """Draw numbers distributed uniformly over [low, high).

    Parameters
    ----------
    low, high : number or array
    size : int or tuple of int, optional
        The shape of the result; by default the shape that the other parameters broadcast to.
    key : Array, optional
        The key to draw from, instead of the hidden state.
    dtype : dtype, optional
        A float dtype, float32 by default.

    Returns
    -------
    Array of that shape and dtype

    Raises
    ------
    DTypeError, ShapeError, ValueError
        ``dtype`` is not a float dtype or ``key`` is not a key; ``size`` does not fit the parameters; a parameter is out of range.

    Examples
    --------
    >>> x = wf.random.uniform(-1, 1, size=(2, 3), key=wf.random.key(0))
    >>> x.shape, bool((abs(x) <= 1).all())
    ((2, 3), True)
    """
    form = _float_dtype(dtype, "uniform")
    shape = _size(size, "uniform", low, high)
    unit = state.drawn(state.uniform_node, key, "uniform", shape, form)
    are_numbers = arguments.is_number(low) and arguments.is_number(high)
    width = high - low if are_numbers else wrap(op("subtract", _parameter(high, form), _parameter(low, form)))
    return _scale_unit(unit, low, width)


def random(size: Any = None, *, key: Any = None, dtype: Any = None) -> Array:
    """Draw uniform numbers in [0, 1).

    Examples
    --------
    >>> wf.random.random((2, 2)).shape
    (2, 2)
    """
    return uniform(0.0, 1.0, size, key=key, dtype=dtype)


def normal(loc: Any = 0.0, scale: Any = 1.0, size: Any = None, *, key: Any = None, dtype: Any = None) -> Array:
    """Draw normally distributed numbers (Box and Muller).

    Parameters
    ----------
    loc, scale : number or array
        Mean and standard deviation; ``scale`` must not be negative.

    Examples
    --------
    >>> abs(float(wf.random.normal(5.0, 1.0, size=1000, key=wf.random.key(0)).mean()) - 5.0) < 0.2
    True
    """
    form = _float_dtype(dtype, "normal")
    shape = _size(size, "normal", loc, scale)
    refuse("normal", "scale", scale, NOT_NEGATIVE)
    return _scale_unit(state.drawn(state.normal_node, key, "normal", shape, form), loc, scale)


def standard_normal(size: Any = None, *, key: Any = None, dtype: Any = None) -> Array:
    """Draw normal numbers of mean 0 and standard deviation 1.

    Examples
    --------
    >>> wf.random.standard_normal(3).shape
    (3,)
    """
    return normal(0.0, 1.0, size, key=key, dtype=dtype)


def randn(*shape: int, key: Any = None, dtype: Any = None) -> Array:
    """Draw like :func:`standard_normal`, with the extents as arguments.

    Parameters
    ----------
    shape : int
        The extents of the result, one per argument.

    Examples
    --------
    >>> wf.random.randn(2, 3).shape
    (2, 3)
    """
    return normal(0.0, 1.0, shape, key=key, dtype=dtype)


def rand(*shape: int, key: Any = None, dtype: Any = None) -> Array:
    """Draw like :func:`random`, with the extents as arguments.

    Parameters
    ----------
    shape : int
        The extents of the result, one per argument.

    Examples
    --------
    >>> wf.random.rand(2, 3).shape
    (2, 3)
    """
    return uniform(0.0, 1.0, shape, key=key, dtype=dtype)


def exponential(scale: Any = 1.0, size: Any = None, *, key: Any = None, dtype: Any = None) -> Array:
    """Draw exponentially distributed numbers.

    Parameters
    ----------
    scale : number or array
        The mean; it must not be negative.

    Examples
    --------
    >>> bool((wf.random.exponential(2.0, size=5) >= 0).all())
    True
    """
    form = _float_dtype(dtype, "exponential")
    shape = _size(size, "exponential", scale)
    refuse("exponential", "scale", scale, NOT_NEGATIVE)
    return _scale_unit(state.drawn(state.decay, key, "exponential", shape, form), 0.0, scale)


def bernoulli(p: Any = 0.5, size: Any = None, *, key: Any = None) -> Array:
    """Draw True with probability ``p``, else False.

    Parameters
    ----------
    p : number or array
        The probability, from 0 to 1; an array is not checked.

    Returns
    -------
    Array of bool

    Examples
    --------
    >>> wf.random.bernoulli(0.3, size=4).dtype
    dtype('bool')
    """
    shape = _size(size, "bernoulli", p)
    unit = state.drawn(state.uniform_node, key, "bernoulli", shape, FLOAT32)
    if arguments.is_number(p) and not 0 <= p <= 1:
        raise ValueError(f"bernoulli: p={p} must be from 0 to 1")
    return wrap(op("less", unit.node, _parameter(p, FLOAT32)))


def integers(
    low: Any, high: Any = None, size: Any = None, *, endpoint: bool = False, key: Any = None, dtype: Any = None
) -> Array:
    """Draw integers from ``low`` up to but not including ``high``, all equally likely.

    Each is the upper half of the product of 64 random bits and the width: its probability is exact to 1 part in 2**64 / width.

    Parameters
    ----------
    low, high : int or array of integers
        If ``high`` is missing: from 0 up to ``low``.
    endpoint : bool
        Include ``high``.
    dtype : dtype, optional
        An integer dtype or bool, int64 by default.

    Raises
    ------
    ValueError, DTypeError, ShapeError
        The range is empty, or ``dtype`` cannot hold it; ``dtype`` is not an integer dtype; else as :func:`uniform`.

    Examples
    --------
    >>> x = wf.random.integers(6, size=100) + 1
    >>> int(x.min()) >= 1 and int(x.max()) <= 6
    True
    """
    if low is None:
        raise DTypeError("integers: low is None; an integer or an array of them is needed")
    if high is None:
        low, high = 0, low
    form = INT64 if dtype is None else parse_dtype(dtype)
    if form not in INTEGERS and form is not BOOL:
        raise DTypeError(f"integers: dtype={form} must be an integer dtype")
    shape = _size(size, "integers", low, high)
    if isinstance(low, (int, np.integer)) and isinstance(high, (int, np.integer)):
        first, width = int(low), int(high) - int(low) + bool(endpoint)
        if width < 1:
            raise ValueError(name_called_function(f"integers: there is no integer from low={low} to high={high}"))
        least, greatest = (0, 1) if form is BOOL else (form.least, form.greatest)
        if first < least or first + width - 1 > greatest:
            raise ValueError(
                name_called_function(f"integers: low={low}, high={high} do not fit into {form}; choose another dtype")
            )
        word = None if shape else state.draw_int(key, "integers")
        if word is not None:
            return wrap(state.integer(first + (word * width >> 64), form))
        return wrap(state.scale_to_range(state.wide(state.open_words(key, "integers"), shape), width, first, form))
    start, stop = (cast(n, INT64) for n in operands(low, high))
    span = op("subtract", stop, start)
    if endpoint:
        span = op("add", span, number(1, INT64))
    offset = state.high_product(wrap(state.wide(state.open_words(key, "integers"), shape)), wrap(cast(span, UINT64)), False)
    return wrap(cast(op("add", cast(offset.node, INT64), start), form))


def randint(low: Any, high: Any = None, size: Any = None, *, key: Any = None, dtype: Any = None) -> Array:
    """Draw like :func:`integers`, under NumPy's older name.

    Examples
    --------
    >>> wf.random.randint(10, size=3).shape
    (3,)
    """
    return integers(low, high, size, key=key, dtype=dtype)


Rule = tuple[str, Callable[[Any], Any]]  # the text of the error, and whether a value breaks the rule

NOT_NEGATIVE: Rule = "must not be negative", lambda x: x < 0
POSITIVE: Rule = "must be above 0", lambda x: np.logical_not(x > 0)
CHANCE: Rule = "must be above 0 and at most 1", lambda x: np.logical_not((x > 0) & (x <= 1))

RULES = {
    ("laplace", "scale"): NOT_NEGATIVE, ("logistic", "scale"): NOT_NEGATIVE, ("gumbel", "scale"): NOT_NEGATIVE,
    ("lognormal", "sigma"): NOT_NEGATIVE, ("rayleigh", "scale"): NOT_NEGATIVE, ("weibull", "a"): NOT_NEGATIVE,
    ("pareto", "a"): POSITIVE, ("power", "a"): POSITIVE, ("wald", "mean"): POSITIVE, ("wald", "scale"): POSITIVE,
    ("geometric", "p"): CHANCE,
}


def refuse(function: str, parameter: str, value: Any, rule: Rule) -> None:
    """Raise ValueError if a parameter breaks its rule. Pending and traced values are not checked."""
    current = value if type(value) in (int, float) else _current_value(value)
    broken = current is not None and rule[1](current)
    if bool(broken) if type(broken) in TRACED_TYPES else broken is not False and np.any(broken):
        argument = f"{parameter}={value}" if current is value else parameter
        raise ValueError(name_called_function(f"{function}: {argument} {rule[0]}"))


def refuse_all(function: str, parameters: Iterable[str], values: Iterable[Any]) -> None:
    """Check all parameters of a distribution."""
    by_name = dict(zip(parameters, values, strict=True))
    for name, value in by_name.items():
        if (function, name) in RULES:
            refuse(function, name, value, RULES[function, name])
    if function == "triangular":
        left, mode, right = (_current_value(x) for x in by_name.values())
        if left is None or mode is None or right is None:
            return
        if np.any((left > mode) | (mode > right) | (left == right)):
            raise ValueError(name_called_function("triangular: left <= mode <= right and left < right are needed"))


def _current_value(value: Any) -> Any:
    """Return the value that a parameter has now, or None if it is pending or traced."""
    if isinstance(value, Array):
        arrays = None if value.weak else peek(value.node)
        return None if arrays is None else arrays[0]
    if isinstance(value, list | tuple):
        return None if any([isinstance(x, Array) for x in value]) else np.asarray(value)
    return value if isinstance(value, int | float | np.ndarray | np.generic) else None


complete_docs(uniform, random, normal, standard_normal, randn, rand, exponential, bernoulli, integers)
complete_docs(integers, randint)
