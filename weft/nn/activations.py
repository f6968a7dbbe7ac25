"""Activation functions: ordinary array code, which the compiler fuses with the operations around it.

All accept an array of any shape (integers become float32), keep its shape and dtype, and propagate NaN. Both branches of
each ``where`` stay finite: an infinity in the branch not selected would make the gradient NaN.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from weft.array import Array, wrap
from weft.array.convert import as_node
from weft.dtypes.api import is_inexact
from weft.errors import AxisError, ShapeError
from weft.functions import random
from weft.functions.creation.fill import asarray, full, ones
from weft.functions.dtype_info.half_precision import to_compute_dtype, to_storage_dtype
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import erf, exp, expm1, hypot, log, log1p, stop_gradient
from weft.functions.elementwise.ufuncs import tanh as _tanh
from weft.functions.indexing.where import where
from weft.functions.support.arguments import floating
from weft.nn.module import Module
from weft.nn.size_arguments import extents
from weft.process.docstrings import complete_docs

F = TypeVar("F", bound=Callable[..., Array])

PAPERS: dict[str, str] = {}  # function name -> the paper, for the layers' documentation

PARAMETERS = {
    "lambd": "lambd : number >= 0, half the width of the interval around 0",
    "threshold": "threshold : number",
    "value": "value : number, the result at and below the threshold",
    "min_val": "min_val, max_val : numbers, the bounds",
    "negative_slope": "negative_slope : number, the slope below 0",
    "alpha": "alpha : number > 0; the result tends to -alpha for large negative x",
    "approximate": 'approximate : "none" or "tanh" (the cheaper formula of the paper)',
    "beta": "beta : number or array that broadcasts against x, the sharpness",
    "p": "p : number or array that broadcasts against x, the slope of the other branch",
    "p1": "p1, p2 : numbers or arrays that broadcast against x, the slopes of the two branches",
    "dim": "dim : int, the axis",
    "weight": "weight : (), (1,) or (C,), the slope below 0: one for all channels, or one per channel (axis 1)",
}

_ERRORS = {
    "approximate": ("ValueError", "``approximate`` is neither \"none\" nor \"tanh\"."),
    "dim": ("AxisError", "``x`` has no such axis."),
    "weight": ("ShapeError", "``weight`` does not fit the channels."),
}


def section(title: str, *lines: str) -> str:
    """Return a section of a docstring, or nothing without lines."""
    return "\n    ".join(["", title, "-" * len(title), *lines, ""]) if lines else ""


def parameter_lines(names: Iterable[str]) -> list[str]:
    """Return the docstring lines of these parameters."""
    return [PARAMETERS[n] for n in names if n in PARAMETERS]


def raises_lines(names: Iterable[str]) -> list[str]:
    """Return the Raises lines for these parameters."""
    return [line for n in names if n in _ERRORS for line in (_ERRORS[n][0], f"    {_ERRORS[n][1]}")]


def _activation(example: str, shown: str, paper: str = "", exact: bool = False) -> Callable[[F], F]:
    """Return a decorator that completes a docstring: it adds parameters, result, errors, reference and an example.

    Functions that are not ``exact`` (rounded only once) compute 16-bit arrays in float32.
    """

    def complete(f: F) -> F:
        code = f.__code__
        names = code.co_varnames[1 : code.co_argcount]
        reference = section("References", paper) if paper else ""
        PAPERS[f.__name__] = paper
        f.__doc__ = f"""{(f.__doc__ or "").strip()}
{section("Parameters", "x : array of any shape", *parameter_lines(names))}
    Returns
    -------
    Array
        Of the shape and dtype of ``x``.
{section("Raises", *raises_lines(names))}{reference}
    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.{f.__name__}({example}).numpy().astype("float64").round(4).tolist()
    {shown}
    """
        return f if exact else _in_float32(f)

    return complete


def _in_float32(f: F) -> F:
    @functools.wraps(f)
    def in_float32(x: Any, *args: Any, **kwargs: Any) -> Array:
        x = _float(x)
        return to_storage_dtype(f(to_compute_dtype(x), *args, **kwargs), x)

    return in_float32  # type: ignore[return-value]


def _float(x: Any) -> Array:
    return x if isinstance(x, Array) and is_inexact(x.dtype) else wrap(floating(as_node(x)))


@_activation("wf.array([-2.0, 0.0, 3.0])", "[0.0, 0.0, 1.0]", "McCulloch, Pitts: A logical calculus. 1943.", exact=True)
def step(x: Any) -> Array:
    """Return 1 above 0, else 0; the gradient is 0 everywhere."""
    x = stop_gradient(_float(x))
    return where(x > 0, 1, where(x <= 0, 0, x))


@_activation("wf.array([-2.0, 3.0])", "[-2.0, 3.0]", exact=True)
def identity(x: Any) -> Array:
    """Return x."""
    return _float(x)


@_activation("wf.array([-2.0, 0.1, 0.75])", "[-2.0, 0.0, 0.75]", exact=True)
def hardshrink(x: Any, lambd: Any = 0.5) -> Array:
    """Return x outside ``[-lambd, lambd]``, else 0."""
    x = _float(x)
    return where(absolute(x) <= lambd, 0, x)


@_activation("wf.array([-2.0, 0.1, 0.75])", "[-1.5, 0.0, 0.25]", "Donoho: De-noising by soft-thresholding. 1995.", exact=True)
def softshrink(x: Any, lambd: Any = 0.5) -> Array:
    """Move x towards 0 by ``lambd``; values within ``[-lambd, lambd]`` become 0."""
    x = _float(x)
    return where(absolute(x) <= lambd, 0, where(x < 0, x + lambd, x - lambd))


@_activation("wf.array([-2.0, 0.1, 0.75]), 0.5, 9.0", "[9.0, 9.0, 0.75]", exact=True)
def threshold(x: Any, threshold: Any, value: Any) -> Array:
    """Return x above ``threshold``, else ``value``."""
    x = _float(x)
    return where(x <= threshold, value, x)


@_activation("wf.array([-4.0, 0.0, 1.5])", "[0.0, 0.5, 0.75]", "Courbariaux et al.: BinaryConnect. 2015.")
def hardsigmoid(x: Any) -> Array:
    """Return x / 6 + 1 / 2, limited to [0, 1]."""
    x = _float(x)
    return where(x <= -3, 0, where(x >= 3, 1, x * (1.0 / 6.0) + 0.5))


@_activation("wf.array([-4.0, 0.25, 1.5])", "[-1.0, 0.25, 1.0]", "Collobert: Large scale machine learning. 2004.", exact=True)
def hardtanh(x: Any, min_val: Any = -1.0, max_val: Any = 1.0) -> Array:
    """Limit x to ``[min_val, max_val]``; the slope at the bounds is 0."""
    x = _float(x)
    return where(x <= min_val, min_val, where(x >= max_val, max_val, x))


@_activation("wf.array([-1.0, 2.0])", "[0.0, 2.0]", "Nair, Hinton: Rectified linear units. 2010.", exact=True)
def relu(x: Any) -> Array:
    """Return max(x, 0); the slope at 0 is 0."""
    x = _float(x)
    return where(x <= 0, 0, x)


@_activation("wf.array([-1.0, 2.0, 9.0])", "[0.0, 2.0, 6.0]", "Krizhevsky: Convolutional deep belief networks. 2010.", exact=True)
def relu6(x: Any) -> Array:
    """Limit x to [0, 6]."""
    return hardtanh(x, 0.0, 6.0)


@_activation("wf.array([-1.0, 2.0]), 0.25", "[-0.25, 2.0]", "Maas et al.: Rectifier nonlinearities. 2013.", exact=True)
def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Array:
    """Return x above 0, ``negative_slope * x`` below."""
    x = _float(x)
    return where(x > 0, x, x * negative_slope)


@_activation("wf.array([-1.0, 2.0]), wf.array([0.25])", "[-0.25, 2.0]", "He et al.: Deep into rectifiers. 2015.", exact=True)
def prelu(x: Any, weight: Any) -> Array:
    """Return x above 0, ``weight * x`` below, with a learned weight."""
    x = _float(x)
    return where(x > 0, x, x * channels(weight, x, "prelu"))


@_activation("wf.array([-1.0, 2.0])", "[-0.6321, 2.0]", "Clevert et al.: Exponential linear units. 2015.")
def elu(x: Any, alpha: Any = 1.0) -> Array:
    """Return x above 0, ``alpha * (exp(x) - 1)`` below."""
    x = _float(x)
    return where(x > 0, x, expm1(where(x > 0, 0, x)) * alpha)


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@_activation("wf.array([0.0, 1.0])", "[0.0, 1.0507]", "Klambauer et al.: Self-normalizing neural networks. 2017.")
def selu(x: Any) -> Array:
    """Return ``1.0507 * elu(x, 1.6733)``, which preserves mean 0 and variance 1."""
    x = _float(x)
    return where(x > 0, x * _SELU_SCALE, expm1(where(x > 0, 0, x)) * (_SELU_SCALE * _SELU_ALPHA))


@_activation("wf.array([-1.0, 2.0]), 2.0", "[-0.7869, 2.0]", "Barron: Continuously differentiable ELU. 2017.")
def celu(x: Any, alpha: Any = 1.0) -> Array:
    """Return x above 0, ``alpha * (exp(x / alpha) - 1)`` below; its slope is continuous."""
    x = _float(x)
    return where(x > 0, x, expm1(where(x > 0, 0, x) / alpha) * alpha)


@_activation("wf.array([-1.0, 0.0])", "[0.2689, 0.5]")
def sigmoid(x: Any) -> Array:
    """Return 1 / (1 + exp(-x)), without overflow and with full relative accuracy near 0."""
    x = _float(x)
    is_positive = x >= 0
    e = exp(where(is_positive, -x, x))
    return where(is_positive, 1, e) / (e + 1)


@_activation("wf.array([0.0, 100.0])", "[-0.6931, -0.0]")
def logsigmoid(x: Any) -> Array:
    """Return log(sigmoid(x)), finite where the sigmoid underflows."""
    x = _float(x)
    is_positive = x >= 0
    return where(is_positive, 0, x) - log1p(exp(where(is_positive, -x, x)))


@_activation("wf.array([0.0, 100.0])", "[0.6931, 100.0]", "Dugas et al.: Incorporating second-order knowledge. 2000.")
def softplus(x: Any, beta: Any = 1.0) -> Array:
    """Return log(1 + exp(beta * x)) / beta, without overflow."""
    return -logsigmoid(_float(x) * -beta) / beta


@_activation("wf.array([-1.0, 3.0])", "[-0.5, 0.75]", "Bergstra et al.: Quadratic polynomials learn better features. 2009.")
def softsign(x: Any) -> Array:
    """Return x / (1 + abs(x))."""
    x = _float(x)
    return x / (absolute(x) + 1)


@_activation("wf.array([0.0])", "[0.0]", exact=True)
def tanh(x: Any) -> Array:
    """Return the hyperbolic tangent."""
    return _tanh(x)


@_activation("wf.array([-1.0, 1.0])", "[-0.2384, 0.2384]")
def tanhshrink(x: Any) -> Array:
    """Return x - tanh(x)."""
    x = _float(x)
    return x - _tanh(x)


@_activation("wf.array([-1.0, 0.0, 1.0])", "[-0.7929, 0.0, 1.2071]")
def bent_identity(x: Any) -> Array:
    """Return (sqrt(x * x + 1) - 1) / 2 + x, accurate near 0."""
    x = _float(x)
    return x + x * (x / (hypot(x, 1.0) + 1)) * 0.5


@_activation("wf.array([-1.0, 1.0])", "[-0.1587, 0.8413]", "Hendrycks, Gimpel: Gaussian error linear units. 2016.")
def gelu(x: Any, approximate: str = "none") -> Array:
    """Return x times the normal distribution function of x."""
    x = _float(x)
    if approximate == "none":
        return x * 0.5 * (erf(x * math.sqrt(0.5)) + 1)
    if approximate != "tanh":
        raise ValueError(f'gelu: approximate must be "none" or "tanh", not {approximate!r}')
    limited = where(x > 12, 12, where(x < -12, -12, x))  # outside, tanh is exactly +-1, and the cube could overflow
    inner = _tanh((limited * limited * limited * 0.044715 + limited) * math.sqrt(2 / math.pi))
    return x * (inner + 1) * 0.5


@_activation("wf.array([-1.0, 1.0])", "[-0.2689, 0.7311]", "Elfwing et al.: Sigmoid-weighted linear units. 2017.")
def silu(x: Any) -> Array:
    """Return x * sigmoid(x)."""
    x = _float(x)
    return x * sigmoid(x)


@_activation("wf.array([-1.0, 1.0]), 2.0", "[-0.1192, 0.8808]", "Ramachandran et al.: Searching for activation functions. 2017.")
def swish(x: Any, beta: Any = 1.0) -> Array:
    """Return x * sigmoid(beta * x)."""
    x = _float(x)
    return x * sigmoid(x * beta)


@_activation("wf.array([-1.0, 1.0])", "[-0.3034, 0.8651]", "Misra: Mish, a self regularized activation. 2019.")
def mish(x: Any) -> Array:
    """Return x * tanh(softplus(x))."""
    x = _float(x)
    return x * _tanh(softplus(x))


@_activation("wf.array([-1.0, 1.0])", "[-0.3521, 0.9913]", "Liu, Di: TanhExp, a smooth activation. 2020.")
def tanhexp(x: Any) -> Array:
    """Return x * tanh(exp(x))."""
    x = _float(x)
    return x * _tanh(exp(where(x > 5, 5, x)))  # tanh(exp(5)) is 1 in every dtype


_ACON = "Ma et al.: Activate or not, learning customized activation. 2021."


@_activation("wf.array([-1.0, 1.0])", "[-0.2689, 0.7311]", _ACON)
def acon_a(x: Any, beta: Any = 1.0) -> Array:
    """Return a smooth max(x, 0): ``x * sigmoid(beta * x)``."""
    return swish(x, beta)


@_activation("wf.array([-1.0, 1.0])", "[-0.4906, 0.7594]", _ACON)
def acon_b(x: Any, beta: Any = 1.0, p: Any = 0.25) -> Array:
    """Return a smooth max(x, p * x): ``(1 - p) * x * sigmoid(beta * (1 - p) * x) + p * x``."""
    return acon_c(x, beta, 1.0, p)


@_activation("wf.array([-1.0, 1.0]), 1.0, 1.0, 0.25", "[-0.4906, 0.7594]", _ACON)
def acon_c(x: Any, beta: Any = 1.0, p1: Any = 1.0, p2: Any = 0.0) -> Array:
    """Return a smooth max(p1 * x, p2 * x): ``(p1 - p2) * x * sigmoid(beta * (p1 - p2) * x) + p2 * x``."""
    x = _float(x)
    difference = x * (p1 - p2)
    return difference * sigmoid(difference * beta) + x * p2


def _shift(x: Array, dim: int, name: str) -> Array:
    """Subtract the maximum along ``dim``, as a constant for gradients."""
    if not -x.ndim <= dim < x.ndim:
        raise AxisError(f"{name}: dim={dim}, but x has shape {x.shape}")
    return x - stop_gradient(x.max(axis=dim, keepdims=True)) if x.shape[dim] else x


@_activation("wf.array([0.0, 0.0])", "[0.5, 0.5]", "Bridle: Probabilistic interpretation of network outputs. 1990.")
def softmax(x: Any, dim: int = -1) -> Array:
    """Return exp(x) divided by its sum along an axis, without overflow."""
    e = exp(_shift(_float(x), dim, "softmax"))
    return e / e.sum(axis=dim, keepdims=True)


@_activation("wf.array([0.0, 0.0])", "[0.5, 0.5]")
def softmin(x: Any, dim: int = -1) -> Array:
    """Return softmax(-x): the smallest element has the largest share."""
    return softmax(-_float(x), dim)


@_activation("wf.array([0.0, 0.0])", "[-0.6931, -0.6931]")
def log_softmax(x: Any, dim: int = -1) -> Array:
    """Return log(softmax(x)), finite where the softmax underflows."""
    shifted = _shift(_float(x), dim, "log_softmax")
    return shifted - log(exp(shifted).sum(axis=dim, keepdims=True))


def channels(weight: Any, x: Array, name: str) -> Any:
    """Reshape ``weight`` to broadcast along the channels (axis 1) of ``x``; numbers are returned unchanged."""
    if not isinstance(weight, Array) or weight.size == 1:
        return weight.reshape(()) if isinstance(weight, Array) else weight
    if weight.ndim != 1 or x.ndim < 2 or x.shape[1] != weight.size:
        raise ShapeError(f"{name}: parameters of shape {weight.shape} do not fit the channels (axis 1) of x {x.shape}")
    return weight.reshape((1, -1) + (1,) * (x.ndim - 2))


def _layer(name: str, function: Callable[..., Array], example: str = "") -> type[Module]:
    """Return a Module that applies a function; its constructor takes the function's parameters after ``x``."""
    settings = list(inspect.signature(function).parameters.values())[1:]
    signature = inspect.Signature(settings)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        Module.__init__(self)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            fix = f"; {name}{signature}(x) applies the layer" if any(hasattr(a, "shape") for a in args) else ""
            raise TypeError(f"{name}{signature}: {error}{fix}") from None
        bound.apply_defaults()
        for setting, value in bound.arguments.items():
            setattr(self, setting, value)

    def forward(self: Any, x: Array) -> Array:
        return function(x, *(getattr(self, s.name) for s in settings))

    __init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *settings]
    )
    summary = (function.__doc__ or "").split("\n", 1)[0]
    reference = PAPERS.get(function.__name__, "")
    names = [s.name for s in settings]
    errors = ["TypeError", "    The layer has no such setting.", *raises_lines(names)]
    document = f"""{summary}

    :func:`weft.nn.{function.__name__}` as a layer, for arrays of any shape.
    {reference}
{section("Parameters", *parameter_lines(names))}{section("Raises", *errors)}
    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.{name}({example})(wf.array([-1.0, 0.5])).shape
    (2,)
    """
    body = {"__init__": __init__, "forward": forward, "__doc__": document, "__module__": __name__, "__qualname__": name}
    return type(name, (Module,), body)


def _layers(**functions: Callable[..., Array]) -> list[type[Module]]:
    """Return the layer of each function under the name of its argument."""
    return [_layer(name, function) for name, function in functions.items()]


Step, Identity, BentIdentity, Softsign = _layers(Step=step, Identity=identity, BentIdentity=bent_identity, Softsign=softsign)
Hardshrink, Softshrink, Tanhshrink = _layers(Hardshrink=hardshrink, Softshrink=softshrink, Tanhshrink=tanhshrink)
Sigmoid, Hardsigmoid, LogSigmoid = _layers(Sigmoid=sigmoid, Hardsigmoid=hardsigmoid, LogSigmoid=logsigmoid)
Tanh, Hardtanh, TanhExp = _layers(Tanh=tanh, Hardtanh=hardtanh, TanhExp=tanhexp)
ReLU, ReLU6, LeakyReLU = _layers(ReLU=relu, ReLU6=relu6, LeakyReLU=leaky_relu)
ELU, SELU, CELU, GELU = _layers(ELU=elu, SELU=selu, CELU=celu, GELU=gelu)
Softmax, Softmin, LogSoftmax, Softplus = _layers(Softmax=softmax, Softmin=softmin, LogSoftmax=log_softmax, Softplus=softplus)
SiLU, Swish, Mish = _layers(SiLU=silu, Swish=swish, Mish=mish)
Threshold = _layer("Threshold", threshold, "0.1, 20.0")


class PReLU(Module):
    """Return x above 0, ``weight * x`` below, with a learned weight.

    He et al.: Deep into rectifiers. 2015.

    Parameters
    ----------
    num_parameters : int, 1 or the number of channels (axis 1)
    init : float, the initial weight

    Raises
    ------
    ShapeError
        ``num_parameters`` is not positive; called: it is neither 1 nor the number of channels.

    >>> wf.nn.PReLU()(wf.array([-1.0, 2.0])).tolist()
    [-0.25, 2.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        (self.num_parameters,) = extents("PReLU", num_parameters=num_parameters)
        self.weight = full((self.num_parameters,), float(init))

    def forward(self, x: Any) -> Array:
        return prelu(x, self.weight)


class AconA(Module):
    """Apply :func:`weft.nn.acon_a` with a learned sharpness ``beta`` per channel (axis 1).

    Ma et al.: Activate or not, learning customized activation. 2021.

    >>> wf.nn.AconA(3)(wf.ones((2, 3))).shape
    (2, 3)
    """

    def __init__(self, num_parameters: int = 1) -> None:
        super().__init__()
        (self.num_parameters,) = extents(type(self).__name__, num_parameters=num_parameters)
        self.beta = ones((self.num_parameters,))

    def per_channel(self, x: Any, *parameters: Array) -> list[Array]:
        """Return the parameters reshaped to broadcast along the channels of ``x``."""
        x = asarray(x)
        return [channels(p, x, type(self).__name__) for p in parameters]

    def forward(self, x: Any) -> Array:
        return acon_a(x, *self.per_channel(x, self.beta))


class AconB(AconA):
    """Apply :func:`weft.nn.acon_b` with learned ``beta`` and ``p`` per channel (axis 1).

    Ma et al.: Activate or not, learning customized activation. 2021.

    Parameters
    ----------
    p : float, the initial slope of the lower branch

    >>> wf.nn.AconB(3)(wf.ones((2, 3))).shape
    (2, 3)
    """

    def __init__(self, num_parameters: int = 1, p: float = 0.25) -> None:
        super().__init__(num_parameters)
        self.p = full(self.beta.shape, float(p))

    def forward(self, x: Any) -> Array:
        return acon_b(x, *self.per_channel(x, self.beta, self.p))


class AconC(AconA):
    """Apply :func:`weft.nn.acon_c` with learned ``beta``, ``p1`` and ``p2`` per channel (axis 1).

    ``p1`` and ``p2`` start as normal random numbers.

    Ma et al.: Activate or not, learning customized activation. 2021.

    >>> sorted(wf.nn.AconC(3).parameters())
    ['beta', 'p1', 'p2']
    """

    def __init__(self, num_parameters: int = 1) -> None:
        super().__init__(num_parameters)
        self.p1, self.p2 = (random.normal(size=self.beta.shape) for _ in range(2))

    def forward(self, x: Any) -> Array:
        return acon_c(x, *self.per_channel(x, self.beta, self.p1, self.p2))


complete_docs(PReLU, AconA, AconB, AconC)
