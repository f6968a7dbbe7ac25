"""Lion and LAMB: made for large models and large batches."""

from __future__ import annotations

from typing import Any

from weft.array import Array, wrap
from weft.functions.elementwise.ufuncs import sign, sqrt
from weft.functions.indexing.where import where
from weft.functions.support.arguments import norm_root
from weft.optim.adam import Adam
from weft.optim.optimizer import debias


class Lion(Adam):
    """Steps of one size, in the direction of the sign of a mean; one slot of state.

    Parameters
    ----------
    lr : float, the learning rate, 3 to 10 times smaller than Adam's
    betas : (float, float), weight of the mean in the step, decay of the mean
    weight_decay : float, shrinks the parameter itself; 3 to 10 times AdamW's
    options : schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        As :class:`Adam`.

    References
    ----------
    X. Chen et al., Symbolic discovery of optimization algorithms, NeurIPS 2023, algorithm 2.

    Examples
    --------
    >>> import weft as wf
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
        del self.eps  # nothing is divided

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        b1, b2 = self.betas
        off = state["mean"] - g  # both means begin here: what they share keeps them in one kernel
        return p - lr * sign(g + b1 * off), {"mean": g + b2 * off}


class LAMB(Adam):
    """Adam whose step for each parameter is as long as the parameter, times the rate.

    Parameters
    ----------
    lr, betas : as for :class:`Adam`
    eps : float, added to the root
    weight_decay : float, part of the step before its length is taken
    options : schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        As :class:`Adam`.

    References
    ----------
    Y. You et al., Large batch optimization for deep learning: training BERT in 76 minutes, ICLR 2020, algorithm 2 (with
    the identity as scaling function; where a norm is 0 the step is Adam's).

    Examples
    --------
    >>> import weft as wf
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

    def _decayed(self, p: Array, g: Array, lr) -> tuple[Array, Array]:
        return p, g

    def rule(self, p: Array, g: Array, state: dict[str, Array], lr, t: Array) -> tuple[Array, dict[str, Array]]:
        m, v = self._means(g, state)
        correction = debias(self.betas[1], t) ** 0.5
        move = (correction / debias(self.betas[0], t)) * m / (sqrt(v) + self.eps * correction)
        if self.weight_decay:
            move = move + self.weight_decay * p
        length, stride = [wrap(norm_root((x * x).sum().node)) for x in (p, move)]
        trust = where((length > 0) & (stride > 0), length / stride, 1.0)
        return p - (lr * trust) * move, {"mean": m, "square": v}
