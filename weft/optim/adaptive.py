"""Steps scaled by what each element's gradients were: AdaGrad, RMSprop (two forms), AdaDelta, SMORMS3."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.functions.creation.fill import full, ones
from weft.functions.elementwise.ufuncs import minimum, sqrt
from weft.optim.optimizer import Optimizer, state_dtype


class AdaGrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients.

    Parameters
    ----------
    lr : float, the learning rate
    eps : float, added to the root
    initial_accumulator_value : float, what the sum begins with
    options : weight_decay, schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        A negative ``initial_accumulator_value``; else as :class:`Optimizer`.

    References
    ----------
    J. Duchi, E. Hazan, Y. Singer, Adaptive subgradient methods for online learning and stochastic optimization, JMLR 2011.

    Examples
    --------
    >>> import weft as wf
    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.AdaGrad(lr=0.5).update(p, {"w": wf.array([3.0, -7.0])})
    >>> p["w"].tolist()
    [0.5, 2.5]
    """

    slots = ("sum",)

    def __init__(self, lr: float = 0.01, eps: float = 1e-10, initial_accumulator_value: float = 0.0, **options: Any) -> None:
        self.eps, self.initial_accumulator_value = eps, initial_accumulator_value
        super().__init__(lr, **options)

    def check(self) -> None:
        first = self.initial_accumulator_value
        self._need(first >= 0, "initial_accumulator_value must not be negative, not {}", first)

    def start(self, slot: str, p: Array) -> Array:
        return full(p.shape, self.initial_accumulator_value, dtype=state_dtype(p.dtype))

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        total = state["sum"] + g * g
        return p - lr * g / (sqrt(total) + self.eps), {"sum": total}


class RMSprop(Optimizer):
    """Steps divided by the root of a running mean of the squared gradients.

    Parameters
    ----------
    lr : float, the learning rate
    rho : float in [0, 1), decay of the mean (the lecture has 0.9)
    eps : float, added to the root
    momentum : float in [0, 1)
    centered : bool, divide by the root of the running variance (below a constant gradient steps grow)
    options : weight_decay, schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        ``rho`` or ``momentum`` outside [0, 1); else as :class:`Optimizer`.

    References
    ----------
    T. Tieleman and G. Hinton, Neural networks for machine learning, lecture 6.5, Coursera 2012. Defaults: PyTorch's.

    Examples
    --------
    >>> import weft as wf
    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.RMSprop(lr=0.05).update(p, {"w": wf.array([3.0, -7.0])})
    >>> [round(v, 4) for v in p["w"].tolist()]
    [0.5, 2.5]
    """

    def __init__(
        self, lr: float = 0.01, rho: float = 0.99, eps: float = 1e-8, momentum: float = 0.0, centered: bool = False,
        **options: Any,
    ) -> None:
        self.rho, self.eps, self.momentum, self.centered = rho, eps, momentum, centered
        super().__init__(lr, **options)

    def check(self) -> None:
        self._need_fractions(rho=self.rho, momentum=self.momentum)
        self.slots = ("square",) + ("mean",) * bool(self.centered) + ("velocity",) * bool(self.momentum)

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        if self.centered:
            new = _variance(g, state["mean"], state["square"], self.rho)
        else:
            new = {"square": self.rho * state["square"] + (1 - self.rho) * (g * g)}
        move = g / (sqrt(new["square"]) + self.eps)
        if self.momentum:
            new["velocity"] = move = self.momentum * state["velocity"] + move
        return p - lr * move, new


def _variance(g: Array, mean: Array, variance: Array, rho: float) -> dict[str, Array]:
    """Running mean and variance. Mean square less squared mean, as a recurrence of its own: it cannot turn negative."""
    off = g - mean
    return {"mean": mean + (1 - rho) * off, "square": rho * (variance + (1 - rho) * (off * off))}


class RMSpropGraves(Optimizer):
    """RMSprop by the running variance of the gradient instead of its mean square, with momentum.

    Parameters
    ----------
    lr : float, the learning rate
    rho : float in [0, 1), decay of mean and variance
    momentum : float in [0, 1)
    eps : float, added under the root
    options : weight_decay, schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        ``rho`` or ``momentum`` outside [0, 1); else as :class:`Optimizer`.

    References
    ----------
    A. Graves, Generating sequences with recurrent neural networks, arXiv:1308.0850, equations 38 to 41.

    Examples
    --------
    >>> import weft as wf
    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.RMSpropGraves(lr=0.1).update(p, {"w": wf.array([3.0, -7.0])})
    >>> [round(v, 3) for v in p["w"].tolist()]
    [0.541, 2.459]
    """

    slots = ("mean", "square", "velocity")

    def __init__(self, lr: float = 1e-4, rho: float = 0.95, momentum: float = 0.9, eps: float = 1e-4, **options: Any) -> None:
        self.rho, self.momentum, self.eps = rho, momentum, eps
        super().__init__(lr, **options)

    def check(self) -> None:
        self._need_fractions(rho=self.rho, momentum=self.momentum)

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        new = _variance(g, state["mean"], state["square"], self.rho)
        v = self.momentum * state["velocity"] - lr * g / sqrt(new["square"] + self.eps)
        return p + v, {**new, "velocity": v}


class AdaDelta(Optimizer):
    """Steps in the unit of the parameter: gradients times the ratio of past steps to past gradients.

    Parameters
    ----------
    lr : float, a factor of the step (1 in the paper)
    rho : float in [0, 1), decay of both means (PyTorch's default; the paper and Keras take 0.95)
    eps : float, added under both roots
    options : weight_decay, schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        ``rho`` outside [0, 1), or ``eps`` not positive; else as :class:`Optimizer`.

    References
    ----------
    M. D. Zeiler, ADADELTA: an adaptive learning rate method, arXiv:1212.5701, algorithm 1.

    Examples
    --------
    >>> import weft as wf
    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.AdaDelta(rho=0.95).update(p, {"w": wf.array([3.0, -7.0])})
    >>> [round(v, 4) for v in p["w"].tolist()]
    [0.9955, 2.0045]
    """

    slots = ("square", "moved")

    def __init__(self, lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, **options: Any) -> None:
        self.rho, self.eps = rho, eps
        super().__init__(lr, **options)

    def check(self) -> None:
        self._need_fractions(rho=self.rho)
        self._need(self.eps > 0, "eps must be positive, not {}: the first steps grow from it", self.eps)

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        square = self.rho * state["square"] + (1 - self.rho) * (g * g)
        move = sqrt((state["moved"] + self.eps) / (square + self.eps)) * g
        moved = self.rho * state["moved"] + (1 - self.rho) * (move * move)
        return p - lr * move, {"square": square, "moved": moved}


class SMORMS3(Optimizer):
    """RMSprop with a memory as long as the gradient agrees with itself; the rate is only an upper limit.

    Parameters
    ----------
    lr : float, the largest learning rate
    eps : float, added to the divisors
    options : weight_decay, schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        As :class:`Optimizer`.

    References
    ----------
    S. Funk, RMSprop loses to SMORMS3: beware the epsilon, sifter.org/~simon/journal/20150420.html, 2015.

    Examples
    --------
    >>> import weft as wf
    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.SMORMS3(lr=0.1).update(p, {"w": wf.array([3.0, -7.0])})
    >>> [round(v, 4) for v in p["w"].tolist()]
    [0.8586, 2.1414]
    """

    slots = ("mean", "square", "memory")

    def __init__(self, lr: float = 1e-3, eps: float = 1e-16, **options: Any) -> None:
        self.eps = eps
        super().__init__(lr, **options)

    def start(self, slot: str, p: Array) -> Array:
        return ones(p.shape, dtype=state_dtype(p.dtype)) if slot == "memory" else super().start(slot, p)

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        share = 1 / (state["memory"] + 1)
        mean = state["mean"] + share * (g - state["mean"])
        square = state["square"] + share * (g * g - state["square"])
        agreement = mean * mean / (square + self.eps)
        move = minimum(agreement, lr) * g / (sqrt(square) + self.eps)
        return p - move, {"mean": mean, "square": square, "memory": 1 + state["memory"] * (1 - agreement)}
