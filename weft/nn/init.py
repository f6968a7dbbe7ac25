"""Initializers: new arrays of a given shape, drawn from the library's random state (``wf.random.seed``).

Each accepts a shape, or an array whose shape and dtype it uses: ``layer.weight = wf.nn.init.xavier_uniform(layer.weight)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.array import Array
from weft.dtypes.formats import DEFAULT
from weft.errors import ShapeError
from weft.functions import random
from weft.functions.creation.fill import asarray, full
from weft.functions.elementwise.compositions import clip
from weft.functions.elementwise.ufuncs import erf
from weft.nn.size_arguments import int_or_none
from weft.process.docstrings import complete_module

__all__ = [
    "calculate_gain", "constant", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "kaiming_normal",
    "kaiming_uniform", "lecun_normal", "lecun_uniform", "normal", "ones", "orthogonal", "truncated_normal", "uniform",
    "xavier_normal", "xavier_uniform", "zeros",
]

Shape = Array | Sequence[int] | int


def _target(shape: Any) -> tuple[tuple[int, ...], Any]:
    """Return the shape and dtype that ``shape`` requests: those of an array, or a shape and the default float dtype."""
    if isinstance(shape, Array):
        return shape.shape, shape.dtype
    width = int_or_none(shape)
    return (tuple(shape) if width is None else (width,)), DEFAULT.real.numpy


def _draw(draw: Any, first: float, second: float, shape: Shape) -> Array:
    """Return random numbers of the shape and dtype of ``shape``; 16-bit ones are drawn in float32."""
    size, dtype = _target(shape)
    return _convert(draw(first, second, size, dtype=dtype if dtype.itemsize > 4 else np.float32), dtype)


def _convert(x: Array, dtype: Any) -> Array:
    return asarray(x) if x.dtype == dtype else x.astype(dtype)


def constant(shape: Shape, val: float) -> Array:
    """Return an array filled with ``val``.

    Parameters
    ----------
    shape : int, tuple of ints, or Array
        An Array stands for its shape and dtype; otherwise the dtype is float32.
    val : float

    >>> wf.nn.init.constant((2,), 0.5).tolist()
    [0.5, 0.5]
    """
    size, dtype = _target(shape)
    return full(size, float(val), dtype)


def zeros(shape: Shape) -> Array:
    """Return an array of zeros.

    >>> wf.nn.init.zeros(2).tolist()
    [0.0, 0.0]
    """
    return constant(shape, 0.0)


def ones(shape: Shape) -> Array:
    """Return an array of ones.

    >>> wf.nn.init.ones(2).tolist()
    [1.0, 1.0]
    """
    return constant(shape, 1.0)


def uniform(shape: Shape, a: float = 0.0, b: float = 1.0) -> Array:
    """Draw from the uniform distribution over [a, b).

    Parameters
    ----------
    a, b : float, the bounds

    >>> wf.nn.init.uniform((3, 2), -1.0, 1.0).shape
    (3, 2)
    """
    return _draw(random.uniform, a, b, shape)


def normal(shape: Shape, mean: float = 0.0, std: float = 1.0) -> Array:
    """Draw from a normal distribution.

    Parameters
    ----------
    mean, std : float

    >>> wf.nn.init.normal((3, 2), std=0.1).shape
    (3, 2)
    """
    return _draw(random.normal, mean, std, shape)


def truncated_normal(shape: Shape, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0) -> Array:
    """Draw from a normal distribution truncated to [a, b], by inverting its distribution function.

    Parameters
    ----------
    mean, std : float
    a, b : float, the bounds (of the numbers, not in units of ``std``)

    Raises
    ------
    ValueError
        ``a`` is not below ``b``, ``std`` is not above 0, or the distribution has almost no mass between the bounds.

    >>> bool((abs(wf.nn.init.truncated_normal((100,))) <= 2).all())
    True
    """
    size, dtype = _target(shape)
    if not a < b or std <= 0:
        raise ValueError(f"truncated_normal: a={a} must be below b={b}, and std={std} above 0")
    low, high = (math.erf((bound - mean) / (std * math.sqrt(2))) for bound in (a, b))
    if not low < high:
        raise ValueError(f"truncated_normal: [{a}, {b}] lies too far from mean={mean}, std={std}")
    probability = random.uniform(low, high, size, dtype="float64")
    return _convert(clip(_inverse_erf(probability) * (std * math.sqrt(2)) + mean, a, b), dtype)


def _inverse_erf(y: Array) -> Array:
    """Return the inverse error function: Winitzki's closed form (2008), then two steps of Newton's method."""
    from weft.functions.elementwise.ufuncs import copysign, exp, log1p, sqrt

    y = clip(y, -1.0 + 1e-15, 1.0 - 1e-15)
    c = 0.147
    log = log1p(-y * y)
    part = log * 0.5 + 2 / (math.pi * c)
    x = copysign(sqrt(sqrt(part * part - log / c) - part), y)
    for _ in range(2):
        x = x - (erf(x) - y) * exp(x * x) * (math.sqrt(math.pi) / 2)
    return x


def _fans(name: str, size: tuple[int, ...]) -> tuple[int, int]:
    """Return fan in and fan out of a weight (out, in, ...)."""
    if len(size) < 2 or not math.prod(size):
        raise ShapeError(f"{name}: a weight must be (out, in, ...) with two dimensions or more and not empty, not {size}")
    field = math.prod(size[2:])
    return size[1] * field, size[0] * field


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor that keeps the variance constant through an activation.

    Parameters
    ----------
    nonlinearity : "linear", "conv1d" ..., "sigmoid", "tanh", "relu", "leaky_relu" or "selu"
    param : float, the slope below 0 of "leaky_relu" (0.01)

    Returns
    -------
    float

    Raises
    ------
    ValueError
        ``nonlinearity`` is unknown.

    >>> round(wf.nn.init.calculate_gain("relu"), 4)
    1.4142
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope * slope))
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5.0 / 3.0, "relu": math.sqrt(2.0), "selu": 0.75}
    gains |= {f"conv{t}{d}d": 1.0 for d in (1, 2, 3) for t in ("", "_transpose")}
    if nonlinearity not in gains:
        raise ValueError(f"calculate_gain: unknown nonlinearity {nonlinearity!r}; known are leaky_relu, {', '.join(gains)}")
    return gains[nonlinearity]


def xavier_uniform(shape: Shape, gain: float = 1.0) -> Array:
    """Draw from the uniform distribution within ``+-gain * sqrt(6 / (fan_in + fan_out))``; also ``glorot_uniform``.

    Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks. 2010.

    Parameters
    ----------
    shape : tuple of ints, or Array
        The shape (out, in, ...) of a weight. An Array stands for its shape and dtype; otherwise the dtype is float32.
    gain : float, see :func:`calculate_gain`

    Raises
    ------
    ShapeError
        The shape has fewer than two dimensions, or no elements.

    >>> wf.nn.init.xavier_uniform((4, 3)).shape
    (4, 3)
    """
    limit = gain * math.sqrt(6.0 / sum(_fans("xavier_uniform", _target(shape)[0])))
    return uniform(shape, -limit, limit)


def xavier_normal(shape: Shape, gain: float = 1.0) -> Array:
    """Draw from a normal distribution with deviation ``gain * sqrt(2 / (fan_in + fan_out))``; also ``glorot_normal``.

    Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks. 2010.

    >>> wf.nn.init.xavier_normal((4, 3)).shape
    (4, 3)
    """
    return normal(shape, 0.0, gain * math.sqrt(2.0 / sum(_fans("xavier_normal", _target(shape)[0]))))


def _kaiming(name: str, shape: Shape, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f'{name}: mode must be "fan_in" or "fan_out", not {mode!r}')
    fan = _fans(name, _target(shape)[0])[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform(shape: Shape, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Array:
    """Draw from a uniform distribution with deviation ``gain / sqrt(fan)``; also ``he_uniform``.

    He et al.: Delving deep into rectifiers. 2015.

    Parameters
    ----------
    a : float, the slope below 0 of "leaky_relu"
    mode : "fan_in" preserves the variance of activations, "fan_out" that of gradients
    nonlinearity : see :func:`calculate_gain`

    Raises
    ------
    ShapeError, ValueError
        The shape has fewer than two dimensions, or no elements; ``mode`` or ``nonlinearity`` is unknown.

    >>> wf.nn.init.kaiming_uniform((4, 3), nonlinearity="relu").shape
    (4, 3)
    """
    limit = math.sqrt(3.0) * _kaiming("kaiming_uniform", shape, a, mode, nonlinearity)
    return uniform(shape, -limit, limit)


def kaiming_normal(shape: Shape, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Array:
    """Draw from a normal distribution with deviation ``gain / sqrt(fan)``; also ``he_normal``.

    He et al.: Delving deep into rectifiers. 2015.

    >>> wf.nn.init.kaiming_normal((4, 3)).shape
    (4, 3)
    """
    return normal(shape, 0.0, _kaiming("kaiming_normal", shape, a, mode, nonlinearity))


def lecun_uniform(shape: Shape) -> Array:
    """Draw from a uniform distribution with deviation ``1 / sqrt(fan_in)``.

    LeCun et al.: Efficient backprop. 1998.

    >>> wf.nn.init.lecun_uniform((4, 3)).shape
    (4, 3)
    """
    limit = math.sqrt(3.0) * _kaiming("lecun_uniform", shape, 0.0, "fan_in", "linear")
    return uniform(shape, -limit, limit)


def lecun_normal(shape: Shape) -> Array:
    """Draw from a normal distribution with deviation ``1 / sqrt(fan_in)``, the one for :class:`weft.nn.SELU`.

    Klambauer et al.: Self-normalizing neural networks. 2017.

    >>> wf.nn.init.lecun_normal((4, 3)).shape
    (4, 3)
    """
    return normal(shape, 0.0, _kaiming("lecun_normal", shape, 0.0, "fan_in", "linear"))


def orthogonal(shape: Shape, gain: float = 1.0) -> Array:
    """Return orthogonal rows (or columns, if there are more rows) of length ``gain``; computed by NumPy.

    Saxe et al.: Exact solutions to the nonlinear dynamics of learning in deep linear neural networks. 2013.

    >>> w = wf.nn.init.orthogonal((2, 3))
    >>> abs(w @ w.T).numpy().round(3).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    size, dtype = _target(shape)
    _fans("orthogonal", size)
    rows, columns = size[0], math.prod(size[1:])
    samples = random.normal(size=(max(rows, columns), min(rows, columns)), dtype="float64").numpy()
    q, r = np.linalg.qr(samples)
    q = q * np.where(np.diag(r) < 0, -1.0, 1.0)  # without this factor the distribution is not uniform
    return _convert(asarray(gain * (q.T if rows < columns else q).reshape(size)), dtype)


glorot_uniform, glorot_normal = xavier_uniform, xavier_normal
he_uniform, he_normal = kaiming_uniform, kaiming_normal


complete_module(
    globals(), (constant, zeros, ones, uniform, normal, truncated_normal), (xavier_uniform, xavier_normal, lecun_uniform,
    lecun_normal, orthogonal), (xavier_uniform, kaiming_uniform), (kaiming_uniform, kaiming_normal),
)
