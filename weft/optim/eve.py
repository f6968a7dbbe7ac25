"""Eve: Adam with a rate for all that follows the loss."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import maximum, minimum
from weft.functions.indexing.where import where
from weft.optim.adam import Adam


class Eve(Adam):
    """Adam divided by the running mean of how much the loss changes: slow where it jumps, fast where it is flat.

    ``update`` needs ``loss=``, the value of the loss; ``wf.train.fit`` gives it.

    Parameters
    ----------
    lr, eps : as for :class:`Adam`
    betas : (float, float, float), decay of the two means and of the change of the loss
    c : float above 1; changes are kept within [1/c, c]
    least : float, the loss at the optimum (0 for cross entropy and mse)
    options : weight_decay, schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        ``betas`` outside [0, 1), or ``c`` not above 1; from ``update``: no ``loss=``; else as :class:`Optimizer`.

    References
    ----------
    H. Hayashi, J. Koushik, G. Neubig, Eve: a gradient based optimization method with locally and globally adaptive
    learning rates, arXiv:1611.01505v3, algorithm 1.

    Examples
    --------
    >>> import weft as wf
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
        above = maximum(minimum(now, before) - self.least, 1e-30)  # a loss at or below the optimum counts as a jump
        change = minimum(maximum(absolute(now - before) / above, 1 / self.c), self.c)
        b3 = self.betas[2]
        return {"objective": now, "change": where(t > 1, b3 * shared["change"] + (1 - b3) * change, 1.0)}

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        m, v = self._means(g, state)
        return p - self._move(m, v, lr / state["change"], t), {"mean": m, "square": v}
