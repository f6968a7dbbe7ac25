"""Optimizers: each is one update rule, array code for one parameter."""

from __future__ import annotations

from typing import Any

from weft.array import Array, wrap, wrap_array
from weft.functions.creation.fill import full, ones
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import exp, maximum, minimum, sign, sqrt
from weft.functions.indexing.where import where
from weft.functions.support.arguments import norm_root
from weft.optim.optimizer import Optimizer, bias_correction, state_dtype
from weft.process.docstrings import complete_docs

__all__ = [
    "AMSBound", "AMSGrad", "AdaBelief", "AdaBound", "AdaDelta", "AdaGrad", "AdaMax", "Adam", "AdamW", "Eve", "LAMB", "Lion",
    "Nadam", "RMSprop", "RMSpropGraves", "SGD", "SMORMS3", "SantaE", "SantaSSS",
]


class SGD(Optimizer):
    """Gradient descent ``p -= lr * v`` with ``v = momentum * v + (1 - dampening) * g``, as in PyTorch.

    In the first step ``v = g``.

    I. Sutskever et al., On the importance of initialization and momentum in deep learning, ICML 2013.

    Parameters
    ----------
    lr : float, the learning rate
    momentum : float in [0, 1)
    nesterov : bool, look ahead: ``p -= lr * (g + momentum * v)``
    dampening : float in [0, 1)
    options : weight_decay, schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        ``momentum`` or ``dampening`` is outside [0, 1); ``nesterov`` without momentum, or with dampening; else as
        :class:`Optimizer`.

    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.SGD(lr=0.5).update(p, {"w": wf.array([1.0, 1.0])})
    >>> p["w"].tolist()
    [0.5, 1.5]
    """

    def __init__(
        self, lr: float = 0.01, momentum: float = 0.0, nesterov: bool = False, dampening: float = 0.0, **options: Any,
    ) -> None:
        self.momentum, self.nesterov, self.dampening = momentum, nesterov, dampening
        super().__init__(lr, **options)

    def check(self) -> None:
        self._need_fractions(momentum=self.momentum, dampening=self.dampening)
        self._need(not self.nesterov or self.momentum > 0, "nesterov needs a momentum above 0")
        self._need(not self.nesterov or not self.dampening, "nesterov takes no dampening")
        self.slots = ("velocity",) if self.momentum else ()

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        if not self.momentum:
            return p - lr * g, {}
        damped = (1 - self.dampening * (t > 1).astype(t.dtype)) * g if self.dampening else g
        v = self.momentum * state["velocity"] + damped
        return p - lr * (g + self.momentum * v if self.nesterov else v), {"velocity": v}


class Adam(Optimizer):
    """Steps scaled by running means of the gradient and of its square.

    D. P. Kingma and J. Ba, Adam: a method for stochastic optimization, ICLR 2015, algorithm 1.

    Parameters
    ----------
    betas : (float, float), decay of the two means
    eps : float, added to the root

    Raises
    ------
    ValueError
        A beta is outside [0, 1); else as :class:`Optimizer`.

    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.Adam(lr=0.5).update(p, {"w": wf.array([1.0, -1.0])})
    >>> [round(v, 3) for v in p["w"].tolist()]
    [0.5, 2.5]
    """

    slots: tuple[str, ...] = ("mean", "square")

    def __init__(self, lr: float = 1e-3, betas: tuple[float, ...] = (0.9, 0.999), eps: float = 1e-8, **options: Any) -> None:
        self.betas, self.eps = betas, eps
        super().__init__(lr, **options)

    def check(self) -> None:
        self._need_betas(2)

    def _need_betas(self, count: int) -> None:
        is_valid = isinstance(self.betas, tuple | list) and len(self.betas) == count and all(0.0 <= b < 1.0 for b in self.betas)
        self._need(is_valid, "betas must be {} numbers in [0, 1), not {}", count, self.betas)

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        m, v = self._means(g, state)
        return p - self._move(m, v, lr, t), {"mean": m, "square": v}

    def _means(self, g: Array, state: dict[str, Array]) -> tuple[Array, Array]:
        b1, b2 = self.betas[:2]
        return b1 * state["mean"] + (1 - b1) * g, b2 * state["square"] + (1 - b2) * (g * g)

    def _move(self, m: Array, v: Array, lr, t: Array) -> Array:
        b1, b2 = self.betas[:2]
        correction = bias_correction(b2, t) ** 0.5  # computed once per step, which leaves one root and one division per element
        return (lr * correction / bias_correction(b1, t)) * m / (sqrt(v) + self.eps * correction)


class AdamW(Adam):
    """Adam with decoupled weight decay: ``p *= 1 - lr * weight_decay`` before the step.

    I. Loshchilov and F. Hutter, Decoupled weight decay regularization, ICLR 2019, algorithm 2.

    Parameters
    ----------
    weight_decay : float
    options : schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.AdamW(lr=0.5, weight_decay=0.1).update(p, {"w": wf.array([1.0, -1.0])})
    >>> [round(v, 3) for v in p["w"].tolist()]
    [0.45, 2.4]
    """

    decoupled = True

    def __init__(
        self, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.01,
        **options: Any,
    ) -> None:
        super().__init__(lr, betas, eps, weight_decay=weight_decay, **options)


class AMSGrad(Adam):
    """Adam whose divisor never shrinks: the largest mean square so far, bias corrected as in PyTorch and Keras.

    S. J. Reddi, S. Kale, S. Kumar, On the convergence of Adam and beyond, ICLR 2018, algorithm 2.

    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.AMSGrad(lr=0.5).update(p, {"w": wf.array([1.0, -1.0])})
    >>> [round(v, 3) for v in p["w"].tolist()]
    [0.5, 2.5]
    """

    slots = ("mean", "square", "largest")

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        m, v = self._means(g, state)
        largest = maximum(state["largest"], v)
        return p - self._move(m, largest, lr, t), {"mean": m, "square": v, "largest": largest}


class AdaMax(Adam):
    """Adam divided by the decaying maximum of the gradient's magnitude instead of the root of the mean square.

    D. P. Kingma and J. Ba, Adam: a method for stochastic optimization, ICLR 2015, algorithm 2.

    Parameters
    ----------
    eps : float, added to the magnitude of the gradient

    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.AdaMax(lr=0.5).update(p, {"w": wf.array([1.0, -1.0])})
    >>> [round(v, 3) for v in p["w"].tolist()]
    [0.5, 2.5]
    """

    slots = ("mean", "largest")

    def __init__(self, lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, **options: Any) -> None:
        super().__init__(lr, betas, eps, **options)

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        b1, b2 = self.betas
        m = b1 * state["mean"] + (1 - b1) * g
        largest = maximum(b2 * state["largest"], absolute(g) + self.eps)
        return p - (lr / bias_correction(b1, t)) * m / largest, {"mean": m, "largest": largest}


class Nadam(Adam):
    """Adam with Nesterov's momentum: the step looks ahead along the mean that the next step will use.

    T. Dozat, Incorporating Nesterov momentum into Adam, ICLR workshop 2016.

    Parameters
    ----------
    momentum_decay : float; the momentum of step t is ``betas[0] * (1 - 0.96**(t * momentum_decay) / 2)``

    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.Nadam(lr=0.5).update(p, {"w": wf.array([1.0, -1.0])})
    >>> [round(v, 3) for v in p["w"].tolist()]
    [0.472, 2.528]
    """

    shared_start = {"product": 1.0}

    def __init__(
        self, lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, momentum_decay: float = 4e-3,
        **options: Any,
    ) -> None:
        self.momentum_decay = momentum_decay
        super().__init__(lr, betas, eps, **options)

    def numbers(self, shared: dict[str, Array], t: Array, loss: Array | None) -> dict[str, Array]:
        return {"product": shared["product"] * self._momentum(t)}

    def _momentum(self, t: Array) -> Array:
        return self.betas[0] * (1 - 0.5 * 0.96 ** (t * self.momentum_decay))

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        m, v = self._means(g, state)
        correction = bias_correction(self.betas[1], t) ** 0.5
        next_momentum = self._momentum(t + 1)
        g_factor = lr * correction * (1 - self._momentum(t)) / (1 - state["product"])
        m_factor = lr * correction * next_momentum / (1 - state["product"] * next_momentum)
        return p - (g_factor * g + m_factor * m) / (sqrt(v) + self.eps * correction), {"mean": m, "square": v}


class AdaBelief(Adam):
    """Adam divided by the deviation of the gradient from its running mean: steps are large where the gradient is as predicted.

    J. Zhuang et al., AdaBelief optimizer: adapting stepsizes by the belief in observed gradients, NeurIPS 2020, algorithm 2.

    Parameters
    ----------
    eps : float, added to the mean square and to the root (the default of the authors' program)

    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.AdaBelief(lr=0.5).update(p, {"w": wf.array([1.0, -1.0])})
    >>> [round(v, 3) for v in p["w"].tolist()]
    [0.444, 2.556]
    """

    def __init__(self, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-16, **options: Any) -> None:
        super().__init__(lr, betas, eps, **options)

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        b1, b2 = self.betas
        m = b1 * state["mean"] + (1 - b1) * g
        deviation = g - m
        v = b2 * state["square"] + (1 - b2) * (deviation * deviation) + self.eps
        return p - self._move(m, v, lr, t), {"mean": m, "square": v}


class AdaGrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients.

    J. Duchi, E. Hazan, Y. Singer, Adaptive subgradient methods for online learning and stochastic optimization, JMLR 2011.

    Parameters
    ----------
    eps : float, added to the root
    initial_accumulator_value : float, initial value of the sum

    Raises
    ------
    ValueError
        ``initial_accumulator_value`` is negative; else as :class:`Optimizer`.

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

    T. Tieleman and G. Hinton, Neural networks for machine learning, lecture 6.5, Coursera 2012. Defaults: PyTorch's.

    Parameters
    ----------
    rho : float in [0, 1), decay of the mean (0.9 in the lecture)
    eps : float, added to the root
    centered : bool, divide by the root of the running variance (steps grow under a constant gradient)

    Raises
    ------
    ValueError
        ``rho`` or ``momentum`` is outside [0, 1); else as :class:`Optimizer`.

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
            new = _mean_and_variance(g, state["mean"], state["square"], self.rho)
        else:
            new = {"square": self.rho * state["square"] + (1 - self.rho) * (g * g)}
        move = g / (sqrt(new["square"]) + self.eps)
        if self.momentum:
            new["velocity"] = move = self.momentum * state["velocity"] + move
        return p - lr * move, new


def _mean_and_variance(g: Array, mean: Array, variance: Array, rho: float) -> dict[str, Array]:
    """Return the running mean and variance.

    The variance has its own recurrence, since mean square less squared mean can become negative by rounding.
    """
    deviation = g - mean
    return {"mean": mean + (1 - rho) * deviation, "square": rho * (variance + (1 - rho) * (deviation * deviation))}


class RMSpropGraves(Optimizer):
    """RMSprop with momentum that divides by the running variance of the gradient instead of its mean square.

    A. Graves, Generating sequences with recurrent neural networks, arXiv:1308.0850, equations 38 to 41.

    Parameters
    ----------
    rho : float in [0, 1), decay of mean and variance
    eps : float, added under the root

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
        new = _mean_and_variance(g, state["mean"], state["square"], self.rho)
        v = self.momentum * state["velocity"] - lr * g / sqrt(new["square"] + self.eps)
        return p + v, {**new, "velocity": v}


class AdaDelta(Optimizer):
    """Steps in the unit of the parameter: gradients times the ratio of past steps to past gradients.

    M. D. Zeiler, ADADELTA: an adaptive learning rate method, arXiv:1212.5701, algorithm 1.

    Parameters
    ----------
    lr : float, a factor of the step (1 in the paper)
    rho : float in [0, 1), decay of both means (PyTorch's default; 0.95 in the paper and Keras)
    eps : float, added under both roots

    Raises
    ------
    ValueError
        ``rho`` is outside [0, 1), or ``eps`` is not positive; else as :class:`Optimizer`.

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
    """RMSprop whose means remember more steps while the gradients agree; the learning rate is only an upper limit.

    S. Funk, RMSprop loses to SMORMS3: beware the epsilon, sifter.org/~simon/journal/20150420.html, 2015.

    Parameters
    ----------
    lr : float, the largest learning rate
    eps : float, added to the divisors

    Raises
    ------
    ValueError
        As :class:`Optimizer`.

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


class AdaBound(Adam):
    """Adam that becomes SGD: the rate of each element stays within bounds that both converge to ``final_lr``.

    As in the authors' program, bias is corrected, and ``final_lr`` follows the schedule.

    L. Luo, Y. Xiong, Y. Liu, X. Sun, Adaptive gradient methods with dynamic bound of learning rate, ICLR 2019.

    Parameters
    ----------
    final_lr : float, the rate to which the bounds converge
    gamma : float, how fast the bounds converge

    Raises
    ------
    ValueError
        ``final_lr`` is not positive, or ``gamma`` is outside (0, 1); else as :class:`Adam`.

    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.AdaBound(lr=0.5).update(p, {"w": wf.array([1.0, -1.0])})
    >>> [round(v, 3) for v in p["w"].tolist()]
    [0.5, 2.5]
    """

    needs_rate = True

    def __init__(
        self, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, final_lr: float = 0.1,
        gamma: float = 1e-3, **options: Any,
    ) -> None:
        self.final_lr, self.gamma = final_lr, gamma
        super().__init__(lr, betas, eps, **options)

    def check(self) -> None:
        super().check()
        self._need(self.final_lr > 0, "final_lr must be positive, not {}", self.final_lr)
        self._need(0 < self.gamma < 1, "gamma must lie in (0, 1), not {}", self.gamma)

    def _move(self, m: Array, v: Array, lr, t: Array) -> Array:
        final = self.final_lr / self._first_lr * lr
        low, high = final * (1 - 1 / (self.gamma * t + 1)), final * (1 + 1 / (self.gamma * t))
        rate = lr * bias_correction(self.betas[1], t) ** 0.5 / bias_correction(self.betas[0], t)
        return minimum(maximum(rate / (sqrt(v) + self.eps), low), high) * m


class AMSBound(AdaBound):
    """AdaBound with AMSGrad's divisor, the largest mean square so far.

    L. Luo, Y. Xiong, Y. Liu, X. Sun, Adaptive gradient methods with dynamic bound of learning rate, ICLR 2019.

    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.AMSBound(lr=0.5).update(p, {"w": wf.array([1.0, -1.0])})
    >>> [round(v, 3) for v in p["w"].tolist()]
    [0.5, 2.5]
    """

    slots = AMSGrad.slots
    rule = AMSGrad.rule


class Eve(Adam):
    """Adam divided by the running mean of the relative change of the loss: slow where the loss varies, fast where it is flat.

    ``update`` needs ``loss=``, the value of the loss; ``wf.train.fit`` passes it.

    H. Hayashi, J. Koushik, G. Neubig, Eve: a gradient based optimization method with locally and globally adaptive
    learning rates, arXiv:1611.01505v3, algorithm 1.

    Parameters
    ----------
    betas : (float, float, float), decay of the two means and of the change of the loss
    c : float above 1; changes are limited to [1/c, c]
    least : float, the loss at the optimum (0 for cross entropy and mse)

    Raises
    ------
    ValueError
        A beta is outside [0, 1), or ``c`` is not above 1; from ``update``: ``loss=`` is missing; else as :class:`Optimizer`.

    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> optimizer = wf.optim.Eve(lr=0.5)
    >>> value, slope = wf.value_and_grad(lambda p: (p["w"] ** 2).sum())(p)
    >>> optimizer.update(p, slope, loss=value)
    >>> [round(v, 3) for v in p["w"].tolist()]
    [0.5, 1.5]
    """

    shared_start = {"objective": 0.0, "change": 1.0}
    needs_loss = True

    def __init__(
        self, lr: float = 1e-3, betas: tuple[float, float, float] = (0.9, 0.999, 0.999), eps: float = 1e-8, c: float = 10.0,
        least: float = 0.0, **options: Any,
    ) -> None:
        self.c, self.least = c, least
        super().__init__(lr, betas, eps, **options)

    def check(self) -> None:
        self._need_betas(3)
        self._need(self.c > 1, "c must be above 1, not {}", self.c)

    def numbers(self, shared: dict[str, Array], t: Array, loss: Array | None) -> dict[str, Array]:
        assert loss is not None
        now = loss.astype(t.dtype).reshape(())
        before = shared["objective"]
        above = maximum(minimum(now, before) - self.least, 1e-30)  # a loss at or below the optimum gives the largest change
        change = minimum(maximum(absolute(now - before) / above, 1 / self.c), self.c)
        b3 = self.betas[2]
        return {"objective": now, "change": where(t > 1, b3 * shared["change"] + (1 - b3) * change, 1.0)}

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        m, v = self._means(g, state)
        return p - self._move(m, v, lr / state["change"], t), {"mean": m, "square": v}


class Lion(Adam):
    """Steps of constant size in the direction of the sign of a mean, which is the only state.

    X. Chen et al., Symbolic discovery of optimization algorithms, NeurIPS 2023, algorithm 2.

    Parameters
    ----------
    lr : float, the learning rate, 3 to 10 times smaller than Adam's
    betas : (float, float), weight of the mean in the step, decay of the mean
    weight_decay : float, decoupled as in :class:`AdamW`; 3 to 10 times AdamW's

    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.Lion(lr=0.5).update(p, {"w": wf.array([3.0, -7.0])})
    >>> p["w"].tolist()
    [0.5, 2.5]
    """

    slots = ("mean",)
    decoupled = True

    def __init__(
        self, lr: float = 1e-4, betas: tuple[float, float] = (0.9, 0.99), weight_decay: float = 0.0, **options: Any,
    ) -> None:
        super().__init__(lr, betas, weight_decay=weight_decay, **options)
        del self.eps  # Lion has no divisor

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        b1, b2 = self.betas
        difference = state["mean"] - g  # shared by both means, which keeps them in one kernel
        return p - lr * sign(g + b1 * difference), {"mean": g + b2 * difference}


class LAMB(Adam):
    """Adam with each parameter's step rescaled to the norm of the parameter times the learning rate.

    Y. You et al., Large batch optimization for deep learning: training BERT in 76 minutes, ICLR 2020, algorithm 2 (with
    the identity as scaling function; where a norm is 0 the step is Adam's).

    Parameters
    ----------
    weight_decay : float, added to the step before its norm is taken

    >>> p = {"w": wf.array([3.0, 4.0])}
    >>> wf.optim.LAMB(lr=0.1, weight_decay=0.0).update(p, {"w": wf.array([1.0, -1.0])})
    >>> [round(v, 4) for v in p["w"].tolist()]
    [2.6464, 4.3536]
    """

    by_element = False

    def __init__(
        self, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-6, weight_decay: float = 0.01,
        **options: Any,
    ) -> None:
        super().__init__(lr, betas, eps, weight_decay=weight_decay, **options)

    def _decay(self, p: Array, g: Array, lr) -> tuple[Array, Array]:
        return p, g

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        m, v = self._means(g, state)
        correction = bias_correction(self.betas[1], t) ** 0.5
        move = (correction / bias_correction(self.betas[0], t)) * m / (sqrt(v) + self.eps * correction)
        if self.weight_decay:
            move = move + self.weight_decay * p
        length, stride = [wrap(norm_root((x * x).sum().node)) for x in (p, move)]
        trust = where((length > 0) & (stride > 0), length / stride, 1.0)
        return p - (lr * trust) * move, {"mean": m, "square": v}


complete_docs(SGD, Adam, AdaGrad, RMSprop, AdaDelta, SMORMS3)
complete_docs(RMSprop, RMSpropGraves)
complete_docs(Adam, AdamW, AMSGrad, AdaMax, Nadam, AdaBelief, AdaBound, Eve)
complete_docs(AdamW, Lion, LAMB)
complete_docs(AdaBound, AMSBound)


class SantaE(Optimizer):
    """Santa with Euler's scheme: until step ``burnin`` it explores with noise of temperature ``t**-anneal``, then it refines.

    Noise and initial momentum come from ``wf.random``'s state: ``wf.random.seed`` fixes them. The momentum is drawn when the
    state is created: by ``init``, or before all other draws of the jitted function or loop whose first step creates it. The
    paper does not define the preconditioner before the first step; here it is that of the first step, so that parameters do
    not jump. The paper divides by the momentum; momenta below a tenth of ``sqrt(lr / t**anneal)`` are replaced there, since
    single elements would jump.

    The noise moves an element by about ``scale**1.5 * sqrt(2 * lr)`` in a step, with ``scale`` at most ``1 / eps`` where the
    gradient is near 0: the paper's 1e-8 is for losses summed over all examples and a very small ``lr``, and diverges for mean
    losses. Friction grows by the square of the momentum, and Euler's scheme diverges where it exceeds 2: SantaSSS bears larger
    rates.

    C. Chen, D. Carlson, Z. Gan, C. Li, L. Carin, Bridging the gap between stochastic gradient MCMC and stochastic
    optimization, AISTATS 2016, algorithm 1.

    Parameters
    ----------
    lr : float, the learning rate (eta)
    sigma : float in [0, 1), decay of the mean square
    eps : float, added under the root (lambda); it bounds the noise of elements with small gradients
    anneal : float, the inverse temperature of step t is ``t**anneal``
    burnin : int, steps of exploration
    c : float, initial friction in units of the root of ``lr``
    n : float, divides the gradients in the mean square (the paper's N)
    options : weight_decay, schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        ``sigma`` is outside [0, 1), ``eps`` or ``n`` is not positive, or ``burnin`` is negative; else as :class:`Optimizer`.

    >>> wf.random.seed(0)
    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> optimizer = wf.optim.SantaE(lr=1e-4)
    >>> for _ in range(3):
    ...     optimizer.update(p, wf.grad(lambda p: (p["w"] ** 2).sum())(p))
    >>> p["w"].shape
    (2,)
    """

    slots = ("momentum", "friction", "square", "scale")
    needs_rate = True

    def __init__(
        self, lr: float = 0.001, sigma: float = 0.95, eps: float = 0.03, anneal: float = 0.5, burnin: int = 100, c: float = 5.0,
        n: float = 16.0, **options: Any,
    ) -> None:
        self.sigma, self.eps, self.anneal, self.burnin, self.c, self.n = sigma, eps, anneal, burnin, c, n
        super().__init__(lr, **options)

    def check(self) -> None:
        self._need_fractions(sigma=self.sigma)
        self._need(self.eps > 0, "eps must be positive, not {}", self.eps)
        self._need(self.n > 0, "n must be positive, not {}", self.n)
        self._need(self.burnin >= 0, "burnin must not be negative, not {}", self.burnin)

    def start(self, slot: str, p: Array) -> Array:
        dtype, lr = state_dtype(p.dtype), self.lr or self._first_lr  # the rule divides by the momentum, which must not be 0
        if slot == "momentum":
            from weft.functions.random import normal  # most rules need no random numbers

            return wrap_array(normal(0.0, lr**0.5, p.shape, dtype=dtype).node)  # of shape () an array that can be written
        return full(p.shape, self.c * lr**0.5 if slot == "friction" else 0.0, dtype=dtype)

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        u, a = state["momentum"], state["friction"]
        square, scale, heat, kick = self._noise_terms(g, state, lr, t)
        is_exploring = t < self.burnin
        friction = where(is_exploring, a + (u * u - heat), a)
        momentum = where(is_exploring, kick, 0.0) + (1 - friction) * u - lr * scale * g
        new_state = {"momentum": momentum, "friction": friction, "square": square, "scale": scale}
        return p + scale * momentum, new_state

    def _noise_terms(self, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, Array, Array, Array]:
        """Return mean square, preconditioner, ``lr`` over the inverse temperature, and the momentum that the noise adds."""
        square = self.sigma * state["square"] + ((1 - self.sigma) / self.n**2) * (g * g)
        scale = 1 / sqrt(sqrt(square) + self.eps)
        old_scale = where(t > 1, state["scale"], scale)
        heat = lr / t**self.anneal
        from weft.functions.random import normal

        noise = normal(0.0, 1.0, g.shape, dtype=g.dtype)
        u = state["momentum"]
        inverse = u / maximum(u * u, 0.01 * heat)  # 1 / u, which has no bound, for all but the smallest momenta
        return square, scale, heat, heat * (1 - old_scale / scale) * inverse + sqrt(2 * heat * old_scale) * noise


class SantaSSS(SantaE):
    """Santa with the symmetric splitting scheme, which is more accurate than Euler's.

    C. Chen, D. Carlson, Z. Gan, C. Li, L. Carin, Bridging the gap between stochastic gradient MCMC and stochastic
    optimization, AISTATS 2016, algorithm 2 (supplement).

    >>> wf.random.seed(0)
    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.SantaSSS(lr=1e-4).update(p, {"w": wf.array([1.0, -1.0])})
    >>> p["w"].shape
    (2,)
    """

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        u, a = state["momentum"], state["friction"]
        square, scale, heat, kick = self._noise_terms(g, state, lr, t)
        is_exploring = t < self.burnin
        p = p + scale * u * 0.5
        friction = where(is_exploring, a + (u * u - heat) * 0.5, a)
        damping = exp(-0.5 * friction)
        momentum = damping * (damping * u - lr * scale * g + where(is_exploring, kick, 0.0))
        friction = where(is_exploring, friction + (momentum * momentum - heat) * 0.5, friction)
        new_state = {"momentum": momentum, "friction": friction, "square": square, "scale": scale}
        return p + scale * momentum * 0.5, new_state


complete_docs(SantaE, SantaSSS)
