"""AdaBound and AMSBound: Adam's steps between limits that close on one rate."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.functions.elementwise.ufuncs import maximum, minimum, sqrt
from weft.optim.adam import Adam, AMSGrad
from weft.optim.optimizer import debias


class AdaBound(Adam):
    """Adam at first, SGD at last: each element's rate stays within limits that both tend to ``final_lr``.

    The form of the authors' program: bias is corrected, and ``final_lr`` follows the schedule.

    Parameters
    ----------
    lr, betas, eps : as for :class:`Adam`
    final_lr : float, the rate that the limits tend to
    gamma : float, how fast they close
    options : weight_decay, schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        ``final_lr`` not positive, or ``gamma`` outside (0, 1); else as :class:`Adam`.

    References
    ----------
    L. Luo, Y. Xiong, Y. Liu, X. Sun, Adaptive gradient methods with dynamic bound of learning rate, ICLR 2019.

    Examples
    --------
    >>> import weft as wf
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
        rate = lr * debias(self.betas[1], t) ** 0.5 / debias(self.betas[0], t)
        return minimum(maximum(rate / (sqrt(v) + self.eps), low), high) * m


class AMSBound(AdaBound):
    """AdaBound with AMSGrad's divisor, the largest mean square so far.

    Parameters
    ----------
    lr, betas, eps, final_lr, gamma : as for :class:`AdaBound`
    options : weight_decay, schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        As :class:`AdaBound`.

    References
    ----------
    L. Luo, Y. Xiong, Y. Liu, X. Sun, Adaptive gradient methods with dynamic bound of learning rate, ICLR 2019.

    Examples
    --------
    >>> import weft as wf
    >>> p = {"w": wf.array([1.0, 2.0])}
    >>> wf.optim.AMSBound(lr=0.5).update(p, {"w": wf.array([1.0, -1.0])})
    >>> [round(v, 3) for v in p["w"].tolist()]
    [0.5, 2.5]
    """

    slots = AMSGrad.slots
    rule = AMSGrad.rule
