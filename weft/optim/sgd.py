"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from weft.array import Array
from weft.optim.optimizer import Optimizer


class SGD(Optimizer):
    """``p -= lr * v`` with ``v = momentum * v + g`` (PyTorch's form; ``nesterov`` looks ahead).

    Parameters
    ----------
    lr : float, the learning rate
    momentum : float in [0, 1)
    nesterov : bool

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

    def __init__(self, lr: float = 0.01, momentum: float = 0.0, nesterov: bool = False) -> None:
        super().__init__(lr)
        if not 0.0 <= momentum < 1.0:
            raise ValueError(f"SGD: momentum must lie in [0, 1), not {momentum}")
        if nesterov and not momentum:
            raise ValueError("SGD: nesterov needs a momentum above 0")
        self.momentum, self.nesterov = momentum, nesterov
        self.slots = ("velocity",) if momentum else ()

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        if not self.momentum:
            return p - lr * g, {}
        v = self.momentum * state["velocity"] + g
        return p - lr * (g + self.momentum * v if self.nesterov else v), {"velocity": v}
