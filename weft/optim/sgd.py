"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.optim.optimizer import Optimizer


class SGD(Optimizer):
    """``p -= lr * v`` with ``v = momentum * v + (1 - dampening) * g``, and ``v = g`` in the first step (PyTorch's form).

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
        ``momentum`` or ``dampening`` outside [0, 1), or ``nesterov`` that does not go with them; else as :class:`Optimizer`.

    References
    ----------
    I. Sutskever et al., On the importance of initialization and momentum in deep learning, ICML 2013.

    Examples
    --------
    >>> import weft as wf
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
        share = (1 - self.dampening * (t > 1).astype(t.dtype)) * g if self.dampening else g
        v = self.momentum * state["velocity"] + share
        return p - lr * (g + self.momentum * v if self.nesterov else v), {"velocity": v}
