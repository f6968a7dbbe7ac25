"""Adam and its nearest kin: AdamW, AMSGrad, AdaMax, Nadam, AdaBelief."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import maximum, sqrt
from weft.optim.optimizer import Optimizer, debias


class Adam(Optimizer):
    """Steps scaled by running means of the gradient and of its square.

    Parameters
    ----------
    lr : float, the learning rate
    betas : (float, float), decay of the two means
    eps : float, added to the root
    options : weight_decay, schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        ``betas`` outside [0, 1); else as :class:`Optimizer`.

    References
    ----------
    D. P. Kingma and J. Ba, Adam: a method for stochastic optimization, ICLR 2015, algorithm 1.

    Examples
    --------
    >>> import weft as wf
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
        fine = len(self.betas) == count and all(0.0 <= b < 1.0 for b in self.betas)
        self._need(fine, "betas must be {} numbers in [0, 1), not {}", count, self.betas)

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        m, v = self._means(g, state)
        return p - self._move(m, v, lr, t), {"mean": m, "square": v}

    def _means(self, g: Array, state: dict[str, Array]) -> tuple[Array, Array]:
        b1, b2 = self.betas[:2]
        return b1 * state["mean"] + (1 - b1) * g, b2 * state["square"] + (1 - b2) * (g * g)

    def _move(self, m: Array, v: Array, lr, t: Array) -> Array:
        b1, b2 = self.betas[:2]
        correction = debias(b2, t) ** 0.5  # numbers of the step, computed once: one root and one division an element
        return (lr * correction / debias(b1, t)) * m / (sqrt(v) + self.eps * correction)


class AdamW(Adam):
    """Adam with weight decay that shrinks the parameter itself: ``p *= 1 - lr * weight_decay`` before the step.

    Parameters
    ----------
    lr, betas, eps : as for :class:`Adam`
    weight_decay : float
    options : schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        As :class:`Adam`.

    References
    ----------
    I. Loshchilov and F. Hutter, Decoupled weight decay regularization, ICLR 2019, algorithm 2.

    Examples
    --------
    >>> import weft as wf
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
    """Adam whose divisor never shrinks: the largest mean square so far. Bias is corrected as PyTorch and Keras do.

    Parameters
    ----------
    lr, betas, eps : as for :class:`Adam`
    options : weight_decay, schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        As :class:`Adam`.

    References
    ----------
    S. J. Reddi, S. Kale, S. Kumar, On the convergence of Adam and beyond, ICLR 2018, algorithm 2.

    Examples
    --------
    >>> import weft as wf
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
    """Adam with the largest gradient, slowly forgotten, in place of the root of the mean square.

    Parameters
    ----------
    lr, betas : as for :class:`Adam`
    eps : float, added to the size of the gradient
    options : weight_decay, schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        As :class:`Adam`.

    References
    ----------
    D. P. Kingma and J. Ba, Adam: a method for stochastic optimization, ICLR 2015, algorithm 2.

    Examples
    --------
    >>> import weft as wf
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
        return p - (lr / debias(b1, t)) * m / largest, {"mean": m, "largest": largest}


class Nadam(Adam):
    """Adam with Nesterov's momentum: the step looks ahead along the mean that the next step will use.

    Parameters
    ----------
    lr, betas, eps : as for :class:`Adam`
    momentum_decay : float; the momentum of step t is ``betas[0] * (1 - 0.96**(t * momentum_decay) / 2)``
    options : weight_decay, schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        As :class:`Adam`.

    References
    ----------
    T. Dozat, Incorporating Nesterov momentum into Adam, ICLR workshop 2016.

    Examples
    --------
    >>> import weft as wf
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
        correction = debias(self.betas[1], t) ** 0.5
        after = self._momentum(t + 1)
        of_g = lr * correction * (1 - self._momentum(t)) / (1 - state["product"])
        of_m = lr * correction * after / (1 - state["product"] * after)
        return p - (of_g * g + of_m * m) / (sqrt(v) + self.eps * correction), {"mean": m, "square": v}


class AdaBelief(Adam):
    """Adam divided by how far the gradient is from its running mean: large steps where it is as believed.

    Parameters
    ----------
    lr, betas : as for :class:`Adam`
    eps : float, added to the mean square and to the root (the authors' default for their program)
    options : weight_decay, schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        As :class:`Adam`.

    References
    ----------
    J. Zhuang et al., AdaBelief optimizer: adapting stepsizes by the belief in observed gradients, NeurIPS 2020, algorithm 2.

    Examples
    --------
    >>> import weft as wf
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
        off = g - m
        v = b2 * state["square"] + (1 - b2) * (off * off) + self.eps
        return p - self._move(m, v, lr, t), {"mean": m, "square": v}
