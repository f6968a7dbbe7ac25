"""Santa: annealed stochastic gradient MCMC that becomes stochastic optimization, in two discretizations."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.functions.creation.fill import full
from weft.functions.elementwise.ufuncs import exp, sqrt
from weft.functions.indexing.where import where
from weft.functions.random import normal
from weft.optim.optimizer import Optimizer, state_dtype
from weft.process.docstrings import complete_docs


class SantaE(Optimizer):
    """Santa with Euler's scheme: until step ``burnin`` it explores with noise of temperature ``t**-anneal``, then it refines.

    Noise and initial momentum come from ``wf.random``'s state: ``wf.random.seed`` fixes them. The momentum is drawn when the
    state is created: by ``init``, or before all other draws of the jitted function or loop whose first step creates it. The
    paper does not define the preconditioner before the first step; here it is that of the first step, so that parameters do
    not jump.

    C. Chen, D. Carlson, Z. Gan, C. Li, L. Carin, Bridging the gap between stochastic gradient MCMC and stochastic
    optimization, AISTATS 2016, algorithm 1.

    Parameters
    ----------
    lr : float, the learning rate (eta)
    sigma : float in [0, 1), decay of the mean square
    eps : float, added under the root (lambda)
    anneal : float, the inverse temperature of step t is ``t**anneal``
    burnin : int, steps of exploration
    c : float, initial friction in units of the root of ``lr``
    n : float, divides the gradients in the mean square (the paper's N)
    options : weight_decay, schedule, clip_value, clip_norm, groups: see :class:`Optimizer`

    Raises
    ------
    ValueError
        ``sigma`` is outside [0, 1), ``eps`` or ``n`` is not positive, or ``burnin`` is negative; else as :class:`Optimizer`.

    Examples
    --------
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
        self, lr: float = 0.01, sigma: float = 0.95, eps: float = 1e-8, anneal: float = 0.5, burnin: int = 100, c: float = 5.0,
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
            return normal(0.0, lr**0.5, p.shape, dtype=dtype)
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
        noise = normal(0.0, 1.0, g.shape, dtype=g.dtype)
        return square, scale, heat, heat * (1 - old_scale / scale) / state["momentum"] + sqrt(2 * heat * old_scale) * noise


class SantaSSS(SantaE):
    """Santa with the symmetric splitting scheme, which is more accurate than Euler's.

    C. Chen, D. Carlson, Z. Gan, C. Li, L. Carin, Bridging the gap between stochastic gradient MCMC and stochastic
    optimization, AISTATS 2016, algorithm 2 (supplement).

    Examples
    --------
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
