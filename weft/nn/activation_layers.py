"""Activation layers. Those without parameters are made by ``_layer`` from the functions of ``activations``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from weft.array import Array
from weft.functions import random
from weft.functions.creation.fill import asarray, full, ones
from weft.nn import activations as A
from weft.nn.module import Module
from weft.nn.size_arguments import extents
from weft.process.docstrings import complete_docs


def _layer(name: str, function: Callable[..., Array], example: str = "", **defaults: Any) -> type[Module]:
    """Return a Module that applies a function; its constructor takes the function's parameters after ``x``."""
    settings = [p.replace(default=defaults.get(p.name, p.default)) for p in inspect.signature(function).parameters.values()][1:]
    signature = inspect.Signature(settings)

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        Module.__init__(self)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{name}{signature}: {error}") from None
        bound.apply_defaults()
        for setting, value in bound.arguments.items():
            setattr(self, setting, value)

    def forward(self: Any, x: Array) -> Array:
        return function(x, *(getattr(self, s.name) for s in settings))

    def extra_repr(self: Any) -> str:
        return ", ".join(f"{s.name}={getattr(self, s.name)!r}" for s in settings)

    __init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *settings]
    )
    summary = (function.__doc__ or "").split("\n", 1)[0]
    reference = A.PAPERS.get(function.__name__, "")
    names = [s.name for s in settings]
    errors = ["TypeError", "    The layer has no such setting.", *A.refused(names)]
    document = f"""{summary}

    :func:`weft.nn.{function.__name__}` as a layer, for arrays of any shape.
    {reference}
{A.section("Parameters", *A.described(names))}{A.section("Raises", *errors)}
    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.{name}({example})(wf.array([-1.0, 0.5])).shape
    (2,)
    """
    body = {
        "__init__": __init__, "forward": forward, "extra_repr": extra_repr, "__doc__": document, "__module__": __name__,
        "__qualname__": name,
    }
    return type(name, (Module,), body)


Step = _layer("Step", A.step)
Identity = _layer("Identity", A.identity)
BentIdentity = _layer("BentIdentity", A.bent_identity)
Hardshrink = _layer("Hardshrink", A.hardshrink)
Softshrink = _layer("Softshrink", A.softshrink)
Threshold = _layer("Threshold", A.threshold, "0.1, 20.0")
Sigmoid = _layer("Sigmoid", A.sigmoid)
Hardsigmoid = _layer("Hardsigmoid", A.hardsigmoid)
LogSigmoid = _layer("LogSigmoid", A.logsigmoid)
Tanh = _layer("Tanh", A.tanh)
Tanhshrink = _layer("Tanhshrink", A.tanhshrink)
Hardtanh = _layer("Hardtanh", A.hardtanh)
ReLU = _layer("ReLU", A.relu)
ReLU6 = _layer("ReLU6", A.relu6)
LeakyReLU = _layer("LeakyReLU", A.leaky_relu)
ELU = _layer("ELU", A.elu)
SELU = _layer("SELU", A.selu)
CELU = _layer("CELU", A.celu)
GELU = _layer("GELU", A.gelu)
Softmax = _layer("Softmax", A.softmax)
Softmin = _layer("Softmin", A.softmin)
LogSoftmax = _layer("LogSoftmax", A.log_softmax)
Softplus = _layer("Softplus", A.softplus)
Softsign = _layer("Softsign", A.softsign)
SiLU = _layer("SiLU", A.silu)
Swish = _layer("Swish", A.swish)
Mish = _layer("Mish", A.mish)
TanhExp = _layer("TanhExp", A.tanhexp)


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

    Examples
    --------
    >>> wf.nn.PReLU()(wf.array([-1.0, 2.0])).tolist()
    [-0.25, 2.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        self.weight = full((_count("PReLU", num_parameters),), float(init))

    def forward(self, x: Any) -> Array:
        return A.prelu(x, self.weight)

    def extra_repr(self) -> str:
        return f"{self.weight.size}"


class AconA(Module):
    """Apply :func:`weft.nn.acon_a` with a learned sharpness ``beta`` per channel (axis 1).

    Ma et al.: Activate or not, learning customized activation. 2021.

    Examples
    --------
    >>> wf.nn.AconA(3)(wf.ones((2, 3))).shape
    (2, 3)
    """

    def __init__(self, num_parameters: int = 1) -> None:
        super().__init__()
        self.beta = ones((_count(type(self).__name__, num_parameters),))

    def per_channel(self, x: Any, *parameters: Array) -> list[Array]:
        """Return the parameters reshaped to broadcast along the channels of ``x``."""
        x = asarray(x)
        return [A.channels(p, x, type(self).__name__) for p in parameters]

    def forward(self, x: Any) -> Array:
        return A.acon_a(x, *self.per_channel(x, self.beta))

    def extra_repr(self) -> str:
        return f"{self.beta.size}"


class AconB(AconA):
    """Apply :func:`weft.nn.acon_b` with learned ``beta`` and ``p`` per channel (axis 1).

    Ma et al.: Activate or not, learning customized activation. 2021.

    Parameters
    ----------
    p : float, the initial slope of the lower branch

    Examples
    --------
    >>> wf.nn.AconB(3)(wf.ones((2, 3))).shape
    (2, 3)
    """

    def __init__(self, num_parameters: int = 1, p: float = 0.25) -> None:
        super().__init__(num_parameters)
        self.p = full(self.beta.shape, float(p))

    def forward(self, x: Any) -> Array:
        return A.acon_b(x, *self.per_channel(x, self.beta, self.p))


class AconC(AconA):
    """Apply :func:`weft.nn.acon_c` with learned ``beta``, ``p1`` and ``p2`` per channel (axis 1).

    ``p1`` and ``p2`` start as normal random numbers.

    Ma et al.: Activate or not, learning customized activation. 2021.

    Examples
    --------
    >>> sorted(wf.nn.AconC(3).parameters())
    ['beta', 'p1', 'p2']
    """

    def __init__(self, num_parameters: int = 1) -> None:
        super().__init__(num_parameters)
        self.p1, self.p2 = (random.normal(size=self.beta.shape) for _ in range(2))

    def forward(self, x: Any) -> Array:
        return A.acon_c(x, *self.per_channel(x, self.beta, self.p1, self.p2))


def _count(layer: str, count: int) -> int:
    return extents(layer, num_parameters=count)[0]


complete_docs(PReLU, AconA, AconB, AconC)
