"""More distributions, NumPy's parameters and names.

Where the inverse of the distribution is a formula, the draw is lazy, differentiable and fine under jit. The others need as
many words as chance will have it: NumPy draws them at once, by its own Philox, from a seed that weft's sequence gives.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.convert import number_node
from weft.dtypes.formats import DEFAULT, FLOAT64, FLOATS, INT64, UINT64, Format
from weft.dtypes.parse import spelled
from weft.errors import DTypeError, ShapeError, TraceError
from weft.functions.elementwise.ufuncs import ceil, exp, expm1, log, maximum, sqrt, tan
from weft.functions.indexing.where import where
from weft.functions.random.basic_draws import refuse_all
from weft.functions.random.state import Words, drawn, drawn_word, gauss, unit_interval, wide, words_of
from weft.functions.support.arguments import (
    Node,
    Shape,
    broadcast_shapes,
    cast,
    is_number,
    looked,
    named,
    node,
    number,
    of_numpy,
    op,
    shape_of,
    shape_tuple,
    whole,
)
from weft.graph.source_lines import user_frame, user_line
from weft.runtime.context import LOCAL
from weft.runtime.traced_int import computed

__all__ = [
    "beta", "binomial", "bytes", "chisquare", "dirichlet", "f", "gamma", "geometric", "gumbel", "hypergeometric", "laplace",
    "logistic", "lognormal", "logseries", "multinomial", "multivariate_hypergeometric", "multivariate_normal",
    "negative_binomial", "noncentral_chisquare", "noncentral_f", "pareto", "poisson", "power", "rayleigh", "standard_cauchy",
    "standard_exponential", "standard_gamma", "standard_t", "triangular", "vonmises", "wald", "weibull", "zipf",
]


class Draw:
    """What a formula is given: uniform, exponential and normal numbers of the shape that is asked for."""

    def __init__(self, words: Words, shape: Shape, dtype: Format) -> None:
        self.words, self.shape, self.dtype = words, shape, dtype

    def uniform(self) -> Any:
        """From 0 to 1, without 1."""
        return wrap(unit_interval(self.words, self.shape, self.dtype))

    def exponential(self) -> Any:
        """Never 0, so that it has a logarithm."""
        unit = unit_interval(self.words, self.shape, self.dtype)
        drawn = op("negative", op("log1p", op("negative", unit)))
        return wrap(op("maximum", drawn, number(2.0 ** -(self.dtype.mantissa + 3), self.dtype)))

    def normal(self) -> Any:
        return wrap(gauss(self.words, self.shape, self.dtype))


Formula = Callable[..., Any]


def _parameter(x: Any, dtype: Format) -> Any:
    return wrap(number_node(computed(float, x), dtype)) if is_number(x) else wrap(cast(node(x, "random"), dtype))


def _drawn(
    name: str, parameters: Iterable[str], values: list[Any], size: Any, key: Any, dtype: Any, formula: Formula, whole: bool,
) -> Array:
    wanted = DEFAULT.real if dtype is None else spelled(dtype)
    if wanted not in FLOATS:
        raise DTypeError(f"{name}: dtype={wanted} must be a float dtype")
    shape = broadcast_shapes(name, *(shape_of(v, name) for v in values))
    if size is not None:
        given = shape_tuple(size, name, "size")
        if broadcast_shapes(name, shape, given) != given:
            raise ShapeError(f"{name}: size={given} does not hold parameters of shape {shape}")
        shape = given
    refuse_all(name, parameters, values)
    within = FLOAT64 if whole else wanted.computed

    def numbers(words: Words, shape: Shape, result: Format) -> Node:
        found = formula(Draw(words, shape, within), *(_parameter(v, within) for v in values))
        return cast(found.node, result)

    plain = all([type(v) in (int, float) for v in values])
    kind = (name, *map(repr, values), within) if plain else None
    return drawn(numbers, key, name, shape, INT64 if whole else wanted, kind)


def _refuse_inside(name: str) -> None:
    """What NumPy draws it draws now, which cannot be part of a program."""
    trace = LOCAL.trace
    if trace is not None and trace.looks:
        raise TraceError(
            f"{user_line(user_frame())}: NumPy draws what random.{name} gives, at once, and so not inside {trace.looks}: "
            "draw outside, and hand in what was drawn"
        )


def _asked_of_numpy(name: str, values: list[Any], size: Any, key: Any, dtype: Any, **more: Any) -> Array:
    _refuse_inside(name)
    word = drawn_word(key, name)
    seed = int(looked(wrap(wide(words_of(key, name), ())), name)) if word is None else word
    known = [looked(v, name) if isinstance(v, Array) else v for v in values]
    asked = size if size is None else shape_tuple(size, name, "size")
    try:
        found = np.asarray(getattr(np.random.Generator(np.random.Philox(seed)), name)(*known, size=asked, **more))
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None
    if found.dtype.kind == "f":
        return of_numpy(found.astype((DEFAULT.real if dtype is None else spelled(dtype)).numpy))
    return of_numpy(found)


def _makes(name: str, about: str, parameters: dict[str, Any], formula: Formula | None = None, whole: bool = False) -> Any:
    """A function of the distribution's parameters, ``size`` and ``key``; without a formula NumPy draws."""
    kinds = [inspect.Parameter(p, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=d) for p, d in parameters.items()]
    size = inspect.Parameter("size", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
    only = [inspect.Parameter(p, inspect.Parameter.KEYWORD_ONLY, default=None) for p in ("key", "dtype")]
    signature = inspect.Signature([*kinds, size, *only])

    def function(*args: Any, **kwargs: Any) -> Array:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        *values, wanted, key, dtype = bound.arguments.values()
        for p, value in zip(parameters, values, strict=True):
            if value is None:
                raise DTypeError(f"{name}: {p} is None; a number or an array is needed")
        if formula is None:
            return _asked_of_numpy(name, values, wanted, key, dtype)
        return _drawn(name, parameters, values, wanted, key, dtype, formula, whole)

    named(function, name)
    function.__signature__ = signature  # type: ignore[attr-defined]
    lines = "\n".join(f"    {p} : number or array" for p in parameters)
    example = ", ".join(_EXAMPLE[p] for p, d in parameters.items() if d is inspect.Parameter.empty)
    at_once = "" if formula else " NumPy draws them, at once."
    trace = "" if formula else "\n    TraceError\n        Inside a traced function."
    shape = "" if name in _VECTORS else ", size=3"
    shows = _VECTORS.get(name, "(3,)")
    function.__doc__ = f"""{about}{at_once}

    Parameters
    ----------
{lines}
    size : int or tuple of int, optional
        The shape; by default what the parameters broadcast to.
    key : Array, optional
        Draw from this key and not from the hidden state.
    dtype : dtype, optional
        Of floats; float32 by default.

    Returns
    -------
    Array

    Raises
    ------
    ShapeError, DTypeError, ValueError
        A ``size`` that does not hold the parameters; no float dtype, or no key; parameters that mean nothing.{trace}

    Examples
    --------
    >>> import weft as wf
    >>> wf.random.{name}({example}{shape if example else shape[2:]}).shape
    {shows}
    """
    return function


_NEEDED = inspect.Parameter.empty
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
    """J. R. Michael, W. R. Schucany and R. W. Haas, The American Statistician 30, 1976."""
    y = mean * d.normal() ** 2
    x = mean + mean / (2.0 * scale) * (y - sqrt(4.0 * scale * y + y * y))
    return where(d.uniform() * (mean + x) <= mean, x, mean * mean / x)


laplace = _makes(
    "laplace", "Two exponential distributions back to back.", {"loc": 0.0, "scale": 1.0},
    lambda d, loc, scale: loc + scale * (d.exponential() - d.exponential()),
)
logistic = _makes(
    "logistic", "The logistic distribution.", {"loc": 0.0, "scale": 1.0},
    lambda d, loc, scale: loc + scale * (log(d.exponential()) - log(d.exponential())),
)
gumbel = _makes(
    "gumbel", "Gumbel's distribution of largest values.", {"loc": 0.0, "scale": 1.0},
    lambda d, loc, scale: loc - scale * log(d.exponential()),
)
lognormal = _makes(
    "lognormal", "Numbers whose logarithms are normal.", {"mean": 0.0, "sigma": 1.0},
    lambda d, mean, sigma: exp(mean + sigma * d.normal()),
)
standard_exponential = _makes("standard_exponential", "Exponential numbers of mean 1.", {}, lambda d: d.exponential())
standard_cauchy = _makes("standard_cauchy", "Cauchy's distribution.", {}, lambda d: tan(math.pi * (d.uniform() - 0.5)))
rayleigh = _makes("rayleigh", "Lengths of normal vectors of a plane.", {"scale": 1.0}, lambda d,
        s: s * sqrt(2.0 * d.exponential()))
weibull = _makes("weibull", "Weibull's distribution of scale 1.", {"a": _NEEDED}, lambda d, a: d.exponential() ** (1.0 / a))
pareto = _makes("pareto", "Pareto's second distribution.", {"a": _NEEDED}, lambda d, a: expm1(d.exponential() / a))
power = _makes("power", "From 0 to 1, of density ``a * x**(a - 1)``.", {"a": _NEEDED}, lambda d, a: exp(-d.exponential() / a))
triangular = _makes(
    "triangular", "A density of one peak and straight sides.", {"left": _NEEDED, "mode": _NEEDED, "right": _NEEDED}, _triangular,
)
wald = _makes("wald", "The inverse normal distribution.", {"mean": _NEEDED, "scale": _NEEDED}, _wald)
geometric = _makes(
    "geometric", "How many tries until the first success, of probability ``p`` each.", {"p": _NEEDED},
    lambda d, p: maximum(ceil(d.exponential() / -log(1.0 - p)), 1.0), True,
)
gamma = _makes("gamma", "The gamma distribution.", {"shape": _NEEDED, "scale": 1.0})
standard_gamma = _makes("standard_gamma", "The gamma distribution of scale 1.", {"shape": _NEEDED})
beta = _makes("beta", "The beta distribution.", {"a": _NEEDED, "b": _NEEDED})
chisquare = _makes("chisquare", "Sums of squares of normal numbers.", {"df": _NEEDED})
noncentral_chisquare = _makes("noncentral_chisquare", "The same, around another point.", {"df": _NEEDED, "nonc": _NEEDED})
f = _makes("f", "Fisher's distribution.", {"dfnum": _NEEDED, "dfden": _NEEDED})
noncentral_f = _makes("noncentral_f", "The same, around another point.", {"dfnum": _NEEDED, "dfden": _NEEDED, "nonc": _NEEDED})
standard_t = _makes("standard_t", "Student's distribution.", {"df": _NEEDED})
vonmises = _makes("vonmises", "Angles around ``mu``.", {"mu": _NEEDED, "kappa": _NEEDED})
poisson = _makes("poisson", "Numbers of events, ``lam`` on average.", {"lam": 1.0})
binomial = _makes("binomial", "Numbers of successes in ``n`` tries.", {"n": _NEEDED, "p": _NEEDED})
negative_binomial = _makes("negative_binomial", "Failures before ``n`` successes.", {"n": _NEEDED, "p": _NEEDED})
hypergeometric = _makes(
    "hypergeometric", "Good ones among a sample.", {"ngood": _NEEDED, "nbad": _NEEDED, "nsample": _NEEDED},
)
logseries = _makes("logseries", "The logarithmic series distribution.", {"p": _NEEDED})
zipf = _makes("zipf", "Zipf's distribution.", {"a": _NEEDED})
multinomial = _makes("multinomial", "How often each of several outcomes in ``n`` tries.", {"n": _NEEDED, "pvals": _NEEDED})
dirichlet = _makes("dirichlet", "Parts of a whole.", {"alpha": _NEEDED})


def multivariate_normal(
    mean: Any, cov: Any, size: Any = None, check_valid: str = "warn", tol: float = 1e-8, *, method: str = "svd",
    key: Any = None, dtype: Any = None,
) -> Array:
    """Normal vectors. NumPy draws them, at once.

    Parameters
    ----------
    mean : (N,) array
    cov : (N, N) array
        The covariances.
    size : int or tuple of int, optional
    check_valid : "warn", "raise" or "ignore"
        What is done where ``cov`` is no matrix of covariances.
    tol : float
        How far off it may be.
    method : "svd", "eigh" or "cholesky"
        How NumPy factors it.
    key, dtype : as in :func:`uniform`

    Returns
    -------
    (*size, N) Array

    Raises
    ------
    ValueError, TraceError
        Covariances that do not fit; inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> wf.random.multivariate_normal([0.0, 1.0], wf.eye(2), size=3).shape
    (3, 2)
    """
    _refuse_inside("multivariate_normal")
    known = [looked(v, "multivariate_normal", n) for v, n in ((mean, "mean"), (cov, "cov"))]
    more = {"check_valid": check_valid, "tol": tol, "method": method}
    return _asked_of_numpy("multivariate_normal", known, size, key, dtype, **more)


def multivariate_hypergeometric(
    colors: Any, nsample: int, size: Any = None, method: str = "marginals", *, key: Any = None, dtype: Any = None,
) -> Array:
    """How many of each colour are drawn, without putting back. NumPy draws them, at once.

    Parameters
    ----------
    colors : (N,) array of integers
        How many of each colour there are.
    nsample : int
        How many are drawn.
    size : int or tuple of int, optional
    method : "marginals" or "count"
    key, dtype : as in :func:`multinomial`

    Returns
    -------
    (*size, N) Array of integers

    Raises
    ------
    ValueError, TraceError
        More draws than there are, or negative counts; inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> int(wf.random.default_rng(0).multivariate_hypergeometric([3, 5, 2], 4).sum())
    4
    """
    _refuse_inside("multivariate_hypergeometric")
    known = [looked(colors, "multivariate_hypergeometric", "colors"), nsample]
    return _asked_of_numpy("multivariate_hypergeometric", known, size, key, dtype, method=method)


def bytes(length: int, *, key: Any = None) -> Any:
    """Random bytes; computes at once.

    Parameters
    ----------
    length : int
    key : Array, optional

    Returns
    -------
    bytes

    Raises
    ------
    ShapeError, DTypeError, TraceError
        A negative length; no key; inside a traced function.

    Examples
    --------
    >>> import weft as wf
    >>> len(wf.random.bytes(5))
    5
    """
    count = whole(length, "bytes", "length")
    if count < 0:
        raise ShapeError(f"bytes: length={count} must not be negative")
    _refuse_inside("bytes")
    words = looked(wrap(cast(wide(words_of(key, "bytes"), (-(-count // 8),)), UINT64)), "bytes")
    return words.tobytes()[:count]

