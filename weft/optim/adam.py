"""Adam."""

from __future__ import annotations

from weft.array import Array
from weft.functions.elementwise import sqrt
from weft.optim.optimizer import Optimizer


class Adam(Optimizer):
    """Steps scaled by running means of the gradient and of its square.

    Parameters
    ----------
    lr : float, the learning rate
    betas : (float, float), decay of the two means
    eps : float, added to the root

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

    slots = ("mean", "square")

    def __init__(self, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8) -> None:
        super().__init__(lr)
        if not all(0.0 <= b < 1.0 for b in betas):
            raise ValueError(f"Adam: betas must lie in [0, 1), not {betas}")
        self.betas, self.eps = betas, eps

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        b1, b2 = self.betas
        m = b1 * state["mean"] + (1 - b1) * g
        v = b2 * state["square"] + (1 - b2) * (g * g)
        correction = sqrt(1 - b2**t)  # numbers of the step, computed once: one root and one division an element
        return p - (lr * correction / (1 - b1**t)) * m / (sqrt(v) + self.eps * correction), {"mean": m, "square": v}
