"""Draws from distributions, random orders and choices.

A distribution whose inverse is a formula is drawn lazily; its draws are differentiable and work under jit. The others consume a
random number of words: NumPy draws them immediately, with its own Philox seeded from weft's sequence.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable, MutableSequence, Sequence
from operator import add, mul
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import number_node, promote_operands
from weft.dtypes.api import is_integer
from weft.dtypes.formats import BOOL, COMPLEX, DEFAULT, FLOAT32, FLOAT64, FLOATS, INT64, INTEGERS, UINT64, Format
from weft.dtypes.parse import parse_dtype
from weft.eager.materialise import can_compute, read_array
from weft.eager.peek import leaf, peek
from weft.errors import DTypeError, ShapeError, TraceError, name_called_function, warn
from weft.functions.elementwise.ufuncs import ceil, exp, expm1, log, maximum, minimum, sqrt, tan
from weft.functions.indexing.where import where
from weft.functions.random import state
from weft.functions.random.state import Words, draw, draw_int, integer, open_words, scale_to_range, uniform_node, wide
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, Shape, axis_index, cast, floating, node, number, op, shape_tuple, take_slices
from weft.graph.source_lines import user_frame, user_line
from weft.kernel.summation import running
from weft.process.docstrings import complete_module
from weft.runtime.context import CONTEXT
from weft.runtime.traced_int import TRACED_TYPES, TracedInt, compute_traced

DISTRIBUTIONS = [
    "beta", "binomial", "bytes", "chisquare", "dirichlet", "f", "gamma", "geometric", "gumbel", "hypergeometric", "laplace",
    "logistic", "lognormal", "logseries", "multinomial", "multivariate_hypergeometric", "multivariate_normal",
    "negative_binomial", "noncentral_chisquare", "noncentral_f", "pareto", "poisson", "power", "rayleigh", "standard_cauchy",
    "standard_exponential", "standard_gamma", "standard_t", "triangular", "vonmises", "wald", "weibull", "zipf",
]
__all__ = [
    "bernoulli", "categorical", "exponential", "integers", "normal", "rand", "randint", "randn", "random", "standard_normal",
    "uniform",
    *DISTRIBUTIONS,
]

_NUMBERS = frozenset((int, float))


def _float_dtype(dtype: Any, function: str) -> Format:
    form = DEFAULT.real if dtype is None else parse_dtype(dtype)
    if form not in FLOATS:
        raise DTypeError(f"{function}: dtype={form} must be a float dtype; use wf.random.integers for integers")
    return form


def _refuse_key(function: str, values: Sequence[Any], size: str = "size=shape, ") -> None:
    """Raise TypeError if the first argument is a key, as in JAX."""
    first = values[0]
    if isinstance(first, Array) and first.dtype == np.uint64 and not first.shape:
        is_shape = len(values) > 1 and isinstance(values[1], tuple | list)
        if is_shape or (can_compute(first.node) and int(first) >> 53):  # keys are 64 random bits
            function = name_called_function(f"{function}: ")[:-2]
            raise TypeError(f"{function}: the first argument is a key; in weft: wf.random.{function}({size}key=key)")


def _warn_shape(function: str, first: Any, second: Any, size: Any) -> None:
    """Warn if the only argument of a draw is a tuple of positive ints, the shape elsewhere: NumPy takes it as a parameter."""
    if type(first) is tuple and size is None and type(second) is float and second == 1.0:
        if first and all(type(n) is int and n > 0 for n in first):
            name = "loc" if function == "normal" else "low"
            warn(
                f"{function}: {first} is {name}, as in NumPy, so {len(first)} numbers are drawn; for an array of this shape "
                f"write wf.random.{function}(size={first})"
            )


def _size(size: Any, function: str, *parameters: Any) -> Shape:
    if all([type(p) in _NUMBERS or type(p) is TracedInt for p in parameters]):
        return () if size is None else arguments.shape_tuple(size, function, "size")
    _refuse_key(function, parameters)
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
    if arguments.is_number(x):
        return number_node(compute_traced(float, x), dtype)
    return arguments.convert_for_write(x, dtype, "random", "parameter")


def uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None, *, key: Any = None, dtype: Any = None) -> Array:
    """Draw numbers distributed uniformly over [low, high).

    ``low + (high - low) * u`` with u in [0, 1) is rounded, so as in NumPy ``high`` may occur: the rarer, the more numbers of the
    dtype lie between the two.

    Parameters
    ----------
    low, high : number or array
    size : int or tuple of int, optional
        The shape of the result; by default the shape that the other parameters broadcast to.
    dtype : dtype, optional
        A float dtype, float32 by default.

    Returns
    -------
    Array of that shape and dtype

    Raises
    ------
    DTypeError, ShapeError, ValueError
        ``dtype`` is not a float dtype or ``key`` is not a key; ``size`` does not fit the parameters; ``high - low`` is beyond the
        dtype.

    >>> x = wf.random.uniform(-1, 1, size=(2, 3), key=wf.random.key(0))
    >>> x.shape, bool((abs(x) <= 1).all())
    ((2, 3), True)
    """
    form = _float_dtype(dtype, "uniform")
    _warn_shape("uniform", low, high, size)
    shape = _size(size, "uniform", low, high)
    unit = state.draw(state.uniform_node, key, "uniform", shape, form)
    are_numbers = arguments.is_number(low) and arguments.is_number(high)
    width: Any = high - low if are_numbers else wrap(op("subtract", _parameter(high, form), _parameter(low, form)))
    if are_numbers and type(width) in (int, float) and abs(width) > form.largest:
        raise ValueError(f"uniform: high - low is {width:.6g}, and {form} ends at {form.largest:.6g}: draw in a wider dtype")
    return _scale_unit(unit, low, width)


def random(size: Any = None, *, key: Any = None, dtype: Any = None) -> Array:
    """Draw uniform numbers in [0, 1).

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

    >>> abs(float(wf.random.normal(5.0, 1.0, size=1000, key=wf.random.key(0)).mean()) - 5.0) < 0.2
    True
    """
    if key is None and dtype is None and type(loc) in _NUMBERS and type(scale) in _NUMBERS and scale >= 0:
        if (drawn := state.draw_plain(state.normal_node, size)) is not None:
            return _scale_unit(drawn, loc, scale)
    form = _float_dtype(dtype, "normal")
    _warn_shape("normal", loc, scale, size)
    shape = _size(size, "normal", loc, scale)
    refuse("normal", "scale", scale, NOT_NEGATIVE)
    return _scale_unit(state.draw(state.normal_node, key, "normal", shape, form), loc, scale)


def standard_normal(size: Any = None, *, key: Any = None, dtype: Any = None) -> Array:
    """Draw normal numbers of mean 0 and standard deviation 1.

    >>> wf.random.standard_normal(3).shape
    (3,)
    """
    return normal(0.0, 1.0, size, key=key, dtype=dtype)


def _refuse_shape(function: str, general: str, shape: tuple[Any, ...]) -> None:
    if len(shape) == 1 and isinstance(shape[0], tuple | list):
        extents = tuple(shape[0])
        separate = f"wf.random.{function}({', '.join(map(str, extents))})"
        tuples = f"wf.random.{general}(size={extents}) takes a tuple"
        raise DTypeError(f"{function}: the extents are arguments of their own, {separate}; {tuples}")


def randn(*shape: int, key: Any = None, dtype: Any = None) -> Array:
    """Draw like :func:`standard_normal`, with the extents as arguments.

    Parameters
    ----------
    shape : int
        The extents of the result, one per argument.

    >>> wf.random.randn(2, 3).shape
    (2, 3)
    """
    if key is None and dtype is None and (drawn := state.draw_plain(state.normal_node, shape)) is not None:
        return drawn
    _refuse_shape("randn", "normal", shape)
    return normal(0.0, 1.0, shape, key=key, dtype=dtype)


def rand(*shape: int, key: Any = None, dtype: Any = None) -> Array:
    """Draw like :func:`random`, with the extents as arguments.

    Parameters
    ----------
    shape : int
        The extents of the result, one per argument.

    >>> wf.random.rand(2, 3).shape
    (2, 3)
    """
    if key is None and dtype is None and (drawn := state.draw_plain(state.uniform_node, shape)) is not None:
        return drawn
    _refuse_shape("rand", "uniform", shape)
    return uniform(0.0, 1.0, shape, key=key, dtype=dtype)


def exponential(scale: Any = 1.0, size: Any = None, *, key: Any = None, dtype: Any = None) -> Array:
    """Draw exponentially distributed numbers.

    Parameters
    ----------
    scale : number or array
        The mean; it must not be negative.

    >>> bool((wf.random.exponential(2.0, size=5) >= 0).all())
    True
    """
    form = _float_dtype(dtype, "exponential")
    shape = _size(size, "exponential", scale)
    refuse("exponential", "scale", scale, NOT_NEGATIVE)
    return _scale_unit(state.draw(state.decay, key, "exponential", shape, form), 0.0, scale)


def bernoulli(p: Any = 0.5, size: Any = None, *, key: Any = None) -> Array:
    """Draw True with probability ``p``, else False.

    Parameters
    ----------
    p : number or array
        The probability, from 0 to 1; an array is not checked.

    Returns
    -------
    Array of bool

    >>> wf.random.bernoulli(0.3, size=4).dtype
    dtype('bool')
    """
    shape = _size(size, "bernoulli", p)
    unit = state.draw(state.uniform_node, key, "bernoulli", shape, FLOAT32)
    if arguments.is_number(p) and not 0 <= p <= 1:
        raise ValueError(f"bernoulli: p={p} must be from 0 to 1")
    return wrap(op("less", unit.node, _parameter(p, FLOAT32)))


def categorical(logits: Any, axis: int = -1, size: Any = None, *, key: Any = None) -> Array:
    """Draw the numbers of classes, from 0, with the probabilities ``softmax(logits)``.

    Running sums of the probabilities, in float64, are compared with one uniform number for each draw.

    Parameters
    ----------
    logits : array
        Logarithms of the probabilities, plus any number; -inf for a class that is not drawn.
    axis : int
        The axis of the classes.
    size : int or tuple of int, optional
        The shape of the result, to which the shape of ``logits`` without ``axis`` broadcasts; by default that shape.

    Returns
    -------
    Array of int64

    Raises
    ------
    ShapeError, AxisError, ValueError, DTypeError
        ``size`` does not fit ``logits``; ``logits`` has no such axis; there is no class, or one of ``logits`` is NaN or inf, or
        a row is -inf (not checked in large arrays, ``wf.jit``, gradients and the like); ``key`` is not a key.

    >>> logits = wf.log(wf.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]))
    >>> x = wf.random.categorical(logits)
    >>> int(x[0]) < 2, int(x[1]), wf.random.categorical(logits, size=(4, 2)).shape
    (True, 2, (4, 2))
    """
    _refuse_key("categorical", (logits,), "logits, ")
    x = wrap(_read_real(logits, "categorical", "logits"))
    axis = axis_index(axis, x.ndim, "categorical")
    rows = (*x.shape[:axis], *x.shape[axis + 1 :])
    shape = rows if size is None else shape_tuple(size, "categorical", "size")
    if len(shape) < len(rows) or any(n not in (1, m) for n, m in zip(rows[::-1], shape[::-1], strict=False)):
        raise ShapeError(f"categorical: size={shape} does not fit the shape {rows} of logits without axis {axis}")
    if not x.shape[axis]:
        raise ValueError(f"categorical: logits {x.shape} has no class along axis {axis}")
    greatest = x.max(axis=axis, keepdims=True)
    current = _current_value(greatest)
    if current is not None and not np.isfinite(current).all():
        raise ValueError("categorical: logits has NaN, inf, or a row of -inf; single -inf are for classes that are not drawn")
    weights = exp(x - greatest).transpose([d for d in range(x.ndim) if d != axis] + [axis])
    unit = draw(uniform_node, key, "categorical", shape, FLOAT64).node
    return wrap(_choose_by_weight(unit, weights.node))


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
        if (word := None if shape else state.draw_int(key, "integers")) is not None:
            return wrap(state.integer(first + (word * width >> 64), form))
        return wrap(state.scale_to_range(state.draw_wide(key, "integers", shape), width, first, form))
    first_values, last_values = _current_value(low), _current_value(high)
    if first_values is not None and last_values is not None and np.any(last_values < np.add(first_values, 1 - bool(endpoint))):
        fix = f"; size={high} is the keyword of a shape" if isinstance(high, tuple) and size is None else ""
        raise ValueError(name_called_function(f"integers: there is no integer from low={low} to high={high}{fix}"))
    start, stop = (cast(n, INT64) for n in promote_operands(low, high))
    span = op("subtract", stop, start)
    if endpoint:
        span = op("add", span, number(1, INT64))
    offset = state.high_product(wrap(state.wide(state.open_words(key, "integers"), shape)), wrap(cast(span, UINT64)), False)
    return wrap(cast(op("add", cast(offset.node, INT64), start), form))


def randint(low: Any, high: Any = None, size: Any = None, *, key: Any = None, dtype: Any = None) -> Array:
    """Draw like :func:`integers`, under NumPy's older name.

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


class Draw:
    """The uniform, exponential and normal numbers that a distribution's formula reads, in the shape of the draw."""

    def __init__(self, words: Words, shape: Shape, dtype: Format) -> None:
        self.words, self.shape, self.dtype = words, shape, dtype

    def uniform(self) -> Any:
        """Return uniform numbers in [0, 1)."""
        return wrap(uniform_node(self.words, self.shape, self.dtype))

    def exponential(self) -> Any:
        """Return exponential numbers of mean 1, bounded away from 0 so that they have a logarithm."""
        unit = uniform_node(self.words, self.shape, self.dtype)
        drawn = op("negative", op("log1p", op("negative", unit)))
        return wrap(op("maximum", drawn, number(2.0 ** -(self.dtype.mantissa + 3), self.dtype)))

    def normal(self) -> Any:
        return wrap(state.normal_node(self.words, self.shape, self.dtype))


Formula = Callable[..., Any]


def _parameter_array(x: Any, dtype: Format) -> Any:
    return wrap(number_node(compute_traced(float, x), dtype)) if arguments.is_number(x) else wrap(cast(node(x, "random"), dtype))


def _draw_by_formula(
    name: str, parameters: Iterable[str], values: list[Any], size: Any, key: Any, dtype: Any, formula: Formula, is_integer: bool,
) -> Array:
    form, shape = _float_dtype(dtype, name), _size(size, name, *values)
    refuse_all(name, parameters, values)
    within = FLOAT64 if is_integer else form.computed

    def numbers(words: Words, shape: Shape, result: Format) -> Node:
        result_array = formula(Draw(words, shape, within), *(_parameter_array(v, within) for v in values))
        return cast(result_array.node, result)

    all_numbers = all([type(v) in (int, float) for v in values])
    kind = (name, *map(repr, values), within) if all_numbers else None
    return draw(numbers, key, name, shape, INT64 if is_integer else form, kind)


def _refuse_in_trace(name: str) -> None:
    """Raise TraceError inside a trace: NumPy draws immediately, which a program cannot contain."""
    trace = CONTEXT.trace
    if trace is not None and trace.read_error:
        raise TraceError(
            f"{user_line(user_frame())}: NumPy draws random.{name} immediately, which is not possible inside "
            f"{trace.read_error}: draw outside and pass the numbers as an argument"
        )


def _draw_by_numpy(name: str, values: list[Any], size: Any, key: Any, dtype: Any, **options: Any) -> Array:
    _refuse_in_trace(name)
    word = draw_int(key, name)
    seed = int(arguments.read_now(wrap(wide(open_words(key, name), ())), name)) if word is None else word
    numpy_arguments = [arguments.read_now(v, name) if isinstance(v, Array) else v for v in values]
    shape = size if size is None else arguments.shape_tuple(size, name, "size")
    try:
        result = np.asarray(getattr(np.random.Generator(np.random.Philox(seed)), name)(*numpy_arguments, size=shape, **options))
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None
    if result.dtype.kind == "f":
        return arguments.from_numpy(result.astype((DEFAULT.real if dtype is None else parse_dtype(dtype)).numpy))
    return arguments.from_numpy(result)


def _define(name: str, summary: str, text: str, formula: Formula | None = None, is_integer: bool = False) -> Any:
    """Make the public function of a distribution from its parameters; without ``formula`` NumPy draws."""
    pairs = [part.partition("=") for part in text.split(", ") if part]
    parameters = {p: float(default) if default else inspect.Parameter.empty for p, _, default in pairs}
    kinds = [inspect.Parameter(p, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=d) for p, d in parameters.items()]
    size = inspect.Parameter("size", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
    only = [inspect.Parameter(p, inspect.Parameter.KEYWORD_ONLY, default=None) for p in ("key", "dtype")]
    signature = inspect.Signature([*kinds, size, *only])

    def function(*args: Any, **kwargs: Any) -> Array:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        *values, requested, key, dtype = bound.arguments.values()
        for p, value in zip(parameters, values, strict=True):
            if value is None:
                raise DTypeError(f"{name}: {p} is None; a number or an array is needed")
        if formula is None:
            return _draw_by_numpy(name, values, requested, key, dtype)
        return _draw_by_formula(name, parameters, values, requested, key, dtype, formula, is_integer)

    arguments.rename_function(function, name)
    function.__signature__ = signature  # type: ignore[attr-defined]
    lines = "\n".join(f"    {p} : number or array" for p in parameters)
    example = ", ".join(_EXAMPLE[p] for p, d in parameters.items() if d is inspect.Parameter.empty)
    at_once = "" if formula else " NumPy draws immediately."
    trace = "" if formula else "\n    TraceError\n        Inside a traced function."
    shape = "" if name in _VECTORS else ", size=3"
    shows = _VECTORS.get(name, "(3,)")
    function.__doc__ = f"""{summary}{at_once}

    Parameters
    ----------
{lines}
    size : int or tuple of int, optional
        The shape of the result; by default the shape that the parameters broadcast to.
    key : Array, optional
        The key to draw from, instead of the hidden state.
    dtype : dtype, optional
        A float dtype, float32 by default.

    Returns
    -------
    Array

    Raises
    ------
    ShapeError, DTypeError, ValueError
        ``size`` does not fit the parameters; ``dtype`` is not a float dtype or ``key`` is not a key; a parameter is out of
        range.{trace}

    >>> wf.random.{name}({example}{shape if example else shape[2:]}).shape
    {shows}
    """
    return function


_EXAMPLE = {
    "a": "2.0", "b": "3.0", "shape": "2.0", "df": "4.0", "dfnum": "4.0", "dfden": "5.0", "nonc": "1.0", "n": "5", "p": "0.5",
    "pvals": "[0.5, 0.5]", "alpha": "[1.0, 2.0]", "mu": "0.0", "kappa": "1.0", "mean": "1.0", "scale": "1.0", "left": "0.0",
    "mode": "0.5", "right": "1.0", "ngood": "5", "nbad": "5", "nsample": "3", "cov": "[[1.0, 0.0], [0.0, 1.0]]",
}
_VECTORS = {"multinomial": "(2,)", "dirichlet": "(2,)"}


def _triangular(d: Draw, left: Any, mode: Any, right: Any) -> Any:
    u, wide_ = d.uniform(), right - left
    rising = left + sqrt(u * wide_ * (mode - left))
    return where(u * wide_ < mode - left, rising, right - sqrt((1.0 - u) * wide_ * (right - mode)))


def _wald(d: Draw, mean: Any, scale: Any) -> Any:
    """Draw from the inverse Gaussian distribution.

    J. R. Michael, W. R. Schucany and R. W. Haas, The American Statistician 30, 1976.
    """
    y = mean * d.normal() ** 2
    x = mean + mean / (2.0 * scale) * (y - sqrt(4.0 * scale * y + y * y))
    return where(d.uniform() * (mean + x) <= mean, x, mean * mean / x)


laplace = _define(
    "laplace", "Draw from the Laplace distribution: two exponential distributions back to back.", "loc=0.0, scale=1.0",
    lambda d, loc, scale: loc + scale * (d.exponential() - d.exponential()),
)
logistic = _define(
    "logistic", "Draw from the logistic distribution.", "loc=0.0, scale=1.0",
    lambda d, loc, scale: loc + scale * (log(d.exponential()) - log(d.exponential())),
)
gumbel = _define(
    "gumbel", "Draw from Gumbel's distribution of largest values.", "loc=0.0, scale=1.0",
    lambda d, loc, scale: loc - scale * log(d.exponential()),
)
lognormal = _define(
    "lognormal", "Draw numbers whose logarithms are normally distributed.", "mean=0.0, sigma=1.0",
    lambda d, mean, sigma: exp(mean + sigma * d.normal()),
)
standard_exponential = _define("standard_exponential", "Draw exponential numbers of mean 1.", "", lambda d: d.exponential())
standard_cauchy = _define(
    "standard_cauchy", "Draw from the Cauchy distribution.", "", lambda d: tan(math.pi * (d.uniform() - 0.5)),
)
rayleigh = _define(
    "rayleigh", "Draw lengths of normally distributed vectors of a plane.", "scale=1.0",
    lambda d, s: s * sqrt(2.0 * d.exponential()),
)
weibull = _define("weibull", "Draw from the Weibull distribution of scale 1.", "a", lambda d, a: d.exponential() ** (1.0 / a))
pareto = _define("pareto", "Draw from the Pareto II (Lomax) distribution.", "a", lambda d, a: expm1(d.exponential() / a))
power = _define(
    "power", "Draw numbers from 0 to 1 with density ``a * x**(a - 1)``.", "a",
    lambda d, a: exp(-d.exponential() / a),
)
triangular = _define("triangular", "Draw from the triangular distribution.", "left, mode, right", _triangular)
wald = _define("wald", "Draw from the inverse Gaussian (Wald) distribution.", "mean, scale", _wald)
geometric = _define(
    "geometric", "Draw the number of trials up to the first success of probability ``p``.", "p",
    lambda d, p: maximum(ceil(d.exponential() / -log(1.0 - p)), 1.0), True,
)
gamma = _define("gamma", "Draw from the gamma distribution.", "shape, scale=1.0")
standard_gamma = _define("standard_gamma", "Draw from the gamma distribution of scale 1.", "shape")
beta = _define("beta", "Draw from the beta distribution.", "a, b")
chisquare = _define("chisquare", "Draw sums of ``df`` squared normal numbers.", "df")
noncentral_chisquare = _define("noncentral_chisquare", "Draw from the noncentral chi-square distribution.", "df, nonc")
f = _define("f", "Draw from the F distribution.", "dfnum, dfden")
noncentral_f = _define("noncentral_f", "Draw from the noncentral F distribution.", "dfnum, dfden, nonc")
standard_t = _define("standard_t", "Draw from Student's t distribution.", "df")
vonmises = _define("vonmises", "Draw angles around ``mu``.", "mu, kappa")
poisson = _define("poisson", "Draw numbers of events, ``lam`` on average.", "lam=1.0")
binomial = _define("binomial", "Draw numbers of successes in ``n`` trials.", "n, p")
negative_binomial = _define("negative_binomial", "Draw numbers of failures before ``n`` successes.", "n, p")
hypergeometric = _define("hypergeometric", "Draw numbers of good items in a sample.", "ngood, nbad, nsample")
logseries = _define("logseries", "Draw from the logarithmic series distribution.", "p")
zipf = _define("zipf", "Draw from Zipf's distribution.", "a")
multinomial = _define("multinomial", "Draw how often each outcome occurs in ``n`` trials.", "n, pvals")
dirichlet = _define("dirichlet", "Draw vectors of positive numbers that sum to 1.", "alpha")


def multivariate_normal(
    mean: Any, cov: Any, size: Any = None, check_valid: str = "warn", tol: float = 1e-8, *, method: str = "svd",
    key: Any = None, dtype: Any = None,
) -> Array:
    """Draw vectors from a multivariate normal distribution. NumPy draws them immediately.

    Parameters
    ----------
    mean : (N,) array
    cov : (N, N) array
        The covariance matrix.
    size : int or tuple of int, optional
        The number of vectors.
    check_valid : "warn", "raise" or "ignore"
        The reaction to a ``cov`` that is not positive semidefinite.
    tol : float
        The tolerance of that check.
    method : "svd", "eigh" or "cholesky"
        The factorisation that NumPy uses.
    dtype : dtype, optional
        A float dtype, float32 by default.

    Returns
    -------
    (*size, N) Array

    Raises
    ------
    ValueError, TraceError
        ``mean`` and ``cov`` do not fit each other; inside a traced function.

    >>> wf.random.multivariate_normal([0.0, 1.0], wf.eye(2), size=3).shape
    (3, 2)
    """
    _refuse_in_trace("multivariate_normal")
    numpy_arguments = [arguments.read_now(v, "multivariate_normal", n) for v, n in ((mean, "mean"), (cov, "cov"))]
    options = {"check_valid": check_valid, "tol": tol, "method": method}
    return _draw_by_numpy("multivariate_normal", numpy_arguments, size, key, dtype, **options)


def multivariate_hypergeometric(
    colors: Any, nsample: int, size: Any = None, method: str = "marginals", *, key: Any = None, dtype: Any = None,
) -> Array:
    """Draw how often each colour occurs in a sample without replacement. NumPy draws immediately.

    Parameters
    ----------
    colors : (N,) array of integers
        The number of items of each colour.
    nsample : int
        The number of items drawn.
    method : "marginals" or "count"
        NumPy's algorithm.

    Returns
    -------
    (*size, N) Array of integers

    Raises
    ------
    ValueError, TraceError
        ``nsample`` exceeds the number of items, or a count is negative; inside a traced function.

    >>> int(wf.random.default_rng(0).multivariate_hypergeometric([3, 5, 2], 4).sum())
    4
    """
    _refuse_in_trace("multivariate_hypergeometric")
    numpy_arguments = [arguments.read_now(colors, "multivariate_hypergeometric", "colors"), nsample]
    return _draw_by_numpy("multivariate_hypergeometric", numpy_arguments, size, key, dtype, method=method)


def bytes(length: int, *, key: Any = None) -> Any:
    """Return random bytes. They are computed immediately.

    Parameters
    ----------
    length : int

    Returns
    -------
    bytes

    Raises
    ------
    ShapeError, DTypeError, TraceError
        ``length`` is negative; ``key`` is not a key; inside a traced function.

    >>> len(wf.random.bytes(5))
    5
    """
    count = arguments.count_from_zero(length, "bytes", "length")
    _refuse_in_trace("bytes")
    words = arguments.read_now(wrap(cast(wide(open_words(key, "bytes"), (-(-count // 8),)), UINT64)), "bytes")
    return words.tobytes()[:count]


def _random_order(key: Any, function: str, count: int) -> Node:
    bits = wide(open_words(key, function), (count,))
    known_bits = peek(bits)
    return op("argsort", bits, axis=0) if known_bits is None else leaf(np.argsort(known_bits[0], kind="stable"), INT64)


def _as_count(x: Any) -> int | None:
    """Return an integer, also one in an array without dimensions, as int; None for other arguments."""
    if isinstance(x, Array | np.ndarray) and not x.ndim and is_integer(x.dtype):
        return operator.index(x)  # type: ignore[arg-type]
    return operator.index(x) if isinstance(x, (int, np.integer)) else None


def _read_slices(x: Any, function: str, argument: str) -> Node | np.ndarray:
    """Return the array to choose from or permute: a node, or a NumPy array of strings and other objects that weft cannot hold."""
    try:
        return node(x, function, argument)
    except (TypeError, ValueError):
        if (objects := _object_array(x)) is None:
            raise
        return objects


def _object_array(x: Any) -> np.ndarray | None:
    if not isinstance(x, list | tuple | np.ndarray):
        return None
    try:
        array = np.asarray(x)
    except ValueError:  # rows of different lengths
        return None
    return array if array.dtype.kind in "OUSTMm" else None


def permutation(x: Any, axis: int = 0, *, key: Any = None) -> Any:
    """Return the integers below ``x``, or the slices of an array along an axis, in random order.

    Parameters
    ----------
    x : int or array
        A list of strings or other objects is possible as well.
    axis : int
        The axis along which slices of an array are permuted.

    Returns
    -------
    Array
        (x,) of int64 for a number, else of the shape and dtype of ``x``; for strings and other objects a NumPy array.

    Raises
    ------
    AxisError, ShapeError, DTypeError
        ``x`` has no such axis; it is a negative number; ``key`` is not a key.

    >>> sorted(wf.random.permutation(4).tolist())
    [0, 1, 2, 3]
    """
    _refuse_key("permutation", (x,), "x, ")
    if (count := _as_count(x)) is not None:
        return wrap(_random_order(key, "permutation", shape_tuple(count, "permutation", "x")[0]))
    value = _read_slices(x, "permutation", "x")
    axis = axis_index(axis, len(value.shape), "permutation")
    order = _random_order(key, "permutation", value.shape[axis])
    if isinstance(value, np.ndarray):
        return np.take(value, wrap(order).numpy(), axis)
    return wrap(_take_slices(value, order, axis))


def _take_slices(value: Node, index: Node, axis: int) -> Node:
    """Take slices along an axis; the dimensions of ``index`` replace that axis."""
    rest = value.nbytes // max(1, value.shape[axis])
    if (operands := peek(value, index) if rest * index.size <= CONTEXT.max_eager_bytes else None) is not None:
        return leaf(np.asarray(operands[0].take(operands[1], axis)), value.dtype)
    return take_slices(value, index, axis)


def shuffle(x: Any, axis: int = 0, *, key: Any = None) -> None:
    """Permute the slices of ``x`` along an axis in place.

    Parameters
    ----------
    x : Array, NumPy array or list
        Written in place.
    axis : int
        The axis along which slices of an array are permuted.

    Raises
    ------
    DTypeError, AxisError
        ``x`` cannot be written in place, or ``key`` is not a key; ``x`` has no such axis.

    >>> x = wf.arange(4)
    >>> wf.random.shuffle(x)
    >>> sorted(x.tolist())
    [0, 1, 2, 3]
    """
    if isinstance(x, Array):
        x[...] = permutation(x, axis, key=key)
    elif isinstance(x, np.ndarray):
        x[...] = np.take(x, _random_places(key, x.shape[axis_index(axis, x.ndim, "shuffle")]), axis)
    elif isinstance(x, MutableSequence):
        before = list(x)
        for k, place in enumerate(_random_places(key, len(before))):
            x[k] = before[place]
    else:
        raise DTypeError(f"shuffle: x must be an array or a list, not a {type(x).__name__}: it is written to; see permutation")


def _random_places(key: Any, count: int) -> list[int]:
    places: list[int] = permutation(count, key=key).tolist()
    return places


def choice(
    a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int | None = None, *, key: Any = None
) -> Any:
    """Choose elements of ``a``, or integers below it, at random.

    Parameters
    ----------
    a : int or array
        A list of strings or other objects is possible as well.
    size : int or tuple of int, optional
        The shape of the choices; one element by default.
    replace : bool
        Whether an element may be chosen more than once.
    p : array, optional
        The probabilities, scaled to a sum of 1. Without replacement they apply to each choice among the remaining elements.
    axis : int, optional
        The axis along which slices of ``a`` are chosen; required if ``a`` has several dimensions.

    Returns
    -------
    Array
        Of the shape ``size``, followed by the other axes of ``a`` for slices. For strings and other objects one of them, or a
        NumPy array.

    Raises
    ------
    ValueError, ShapeError, AxisError, DTypeError
        There are too few elements, or too few of positive probability; ``a`` has several dimensions and no ``axis`` is given;
        ``p`` has another shape, or negative, NaN or infinite elements (not checked in ``wf.jit``, gradients and the like); ``a``
        has no such axis; ``key`` is not a key.

    >>> sorted(wf.random.choice(3, size=3, replace=False).tolist())
    [0, 1, 2]
    """
    _refuse_key("choice", (a,), "a, ")
    number = _as_count(a)
    value = None if number is not None else _read_slices(a, "choice", "a")
    if value is not None:
        if axis is None and len(value.shape) != 1:
            raise ValueError(
                name_called_function(f"choice: a has shape {value.shape}, but must have one dimension; axis=0 chooses rows")
            )
        axis = axis_index(axis or 0, len(value.shape), "choice")
    count = number if value is None else value.shape[axis or 0]
    assert count is not None
    shape = () if size is None else shape_tuple(size, "choice", "size")
    total = math.prod(shape)
    if count < 1 and total:
        raise ValueError("choice: a has no element to choose")
    if not replace and total > count:
        raise ValueError(f"choice: {total} different elements of {count} cannot be chosen; use replace=True")
    weights = None if p is None else _read_real(p, "choice", "p")
    if weights is not None and weights.shape != (count,):
        raise ShapeError(f"choice: p has shape {weights.shape}, but there are {count} elements to choose from")
    if weights is not None and count < 1:
        raise ValueError("choice: p is empty; at least one element must be above 0")
    index = _choose_indices(key, count, shape, replace, weights)
    if value is None or axis is None:
        return wrap(index)
    if isinstance(value, np.ndarray):
        return np.take(value, wrap(index).numpy(), axis)
    return wrap(_take_slices(value, index, axis))


def _read_real(x: Any, function: str, argument: str) -> Node:
    value = floating(node(x, function, argument))
    if value.dtype in COMPLEX:
        raise DTypeError(f"{function}: {argument} must be real numbers, not {value.dtype}")
    return value


def _choose_indices(key: Any, count: int, shape: arguments.Shape, replace: bool, weights: Node | None) -> Node:
    total = math.prod(shape)
    if weights is None and replace:
        if (word := None if shape else draw_int(key, "choice")) is not None:
            return integer(word * count >> 64, INT64)
        return scale_to_range(state.draw_wide(key, "choice", shape), count, 0, INT64)
    if weights is not None and not CONTEXT.transform_depth:
        _check_weights(read_array(weights), total if not replace else min(total, 1))
    if weights is not None and replace:
        return _choose_by_weight(draw(uniform_node, key, "choice", shape, FLOAT64).node, weights)
    if weights is None:
        order = _random_order(key, "choice", count)
    else:  # the largest values of log p + Gumbel noise are successive choices without replacement
        unit = op("subtract", number(1.0, FLOAT64), uniform_node(open_words(key, "choice"), (count,), FLOAT64))
        noise = op("log", op("negative", op("log", unit)))
        order = op("argsort", op("subtract", noise, op("log", cast(weights, FLOAT64))), axis=0)
    first = op("slice", order, start=(0,), step=(1,), shape=(total,))
    return first if shape == (total,) else op("reshape", first, shape=shape)


def _check_weights(p: np.ndarray, least: int) -> None:
    """Raise ValueError for weights by which nothing can be chosen; ``least``: how many elements need a positive one."""
    if not (p >= 0).all():
        raise ValueError("choice: p has numbers that are negative or NaN")
    count = np.count_nonzero(p)
    if count < least:
        raise ValueError(f"choice: {count} of the {p.size} numbers in p are above 0, but {least} elements are chosen")
    if not np.isfinite(p.sum(dtype=np.float64)):
        raise ValueError("choice: p or its sum is infinite")


def _choose_by_weight(unit: Node, weights: Node) -> Node:
    """Return how many running sums of the weights each random number reaches. The rows of weights broadcast against ``unit``."""
    most = weights.shape[-1] - 1  # rounding may give one more
    if (operands := peek(unit, weights)) is not None:
        sums_now = running(operands[1].astype(np.float64), "sum", np.dtype(np.float64))
        goal_now = operands[0] * sums_now[..., -1]
        if sums_now.ndim == 1:
            passed = sums_now.searchsorted(goal_now, "right")
        else:
            passed = (sums_now <= goal_now[..., None]).sum(axis=-1)
        index = np.minimum(passed, most)
        return leaf(index, INT64) if unit.shape else integer(int(index), INT64)
    sums = wrap(op("cumulative_sum", cast(weights, FLOAT64), axis=len(weights.shape) - 1))
    goal: Any = wrap(unit) * sums[..., -1]
    if sums.ndim == 1:

        def is_passed(at: Node) -> Node:
            return op("less_equal", op("gather", sums.node, at, axes=(0,)), goal.node)

        found = wrap(arguments.count_leading(most + 1, is_passed))
    else:
        found = (sums <= goal[..., None]).sum(axis=-1)
    return minimum(found, most).node


complete_module(
    globals(), (uniform, random, normal, standard_normal, randn, rand, exponential, bernoulli, categorical, integers),
    (integers, randint),
    (multivariate_normal, multivariate_hypergeometric), (permutation, choice),
)
