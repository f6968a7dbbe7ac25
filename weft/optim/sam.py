"""SAM: sharpness-aware minimization around another optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.array import Array
from weft.functions.dtype_info.half_precision import to_compute_dtype
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.optim.array_writes import write_together
from weft.optim.clipping import global_norm
from weft.optim.optimizer import Optimizer
from weft.optim.update_arguments import match_gradients
from weft.transforms.write_log import call_atomically


class SAM(Optimizer):
    """Sharpness-aware minimization: climb by ``rho`` along the gradient and apply the gradient found there at the starting point.

    ``update`` needs ``gradient_at=``, a function without arguments that returns the gradients at the current parameters;
    ``wf.train.fit`` passes it. Under ``wf.jit`` both gradients and the step are one native call. Rates, schedules, groups,
    clipping and weight decay are those of the inner optimizer.

    P. Foret, A. Kleiner, H. Mobahi, B. Neyshabur, Sharpness-aware minimization for efficiently improving generalization,
    ICLR 2021, algorithm 1. J. Kwon et al., ASAM, ICML 2021.

    Parameters
    ----------
    optimizer : Optimizer that performs the step
    rho : float, how far to climb, in the norm of all parameters together
    adaptive : bool, climb in units of each parameter's magnitude (ASAM)

    Raises
    ------
    TypeError, ValueError
        ``optimizer`` is not an Optimizer; ``rho`` is not positive, or ``update`` is called without ``gradient_at=``.

    Examples
    --------
    >>> import weft as wf
    >>> p = {"w": wf.array([3.0, 4.0])}
    >>> slope = lambda: wf.grad(lambda p: (p["w"] ** 2).sum())(p)
    >>> wf.optim.SAM(wf.optim.SGD(lr=0.5), rho=0.5).update(p, slope(), gradient_at=slope)
    >>> [round(v, 3) for v in p["w"].tolist()]
    [-0.3, -0.4]
    """

    def __init__(self, optimizer: Optimizer, rho: float = 0.05, adaptive: bool = False) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"SAM: optimizer must be an Optimizer, not {type(optimizer).__name__}")
        self.optimizer, self.rho, self.adaptive = optimizer, rho, adaptive
        self._need(rho > 0, "rho must be positive, not {}", rho)

    @property
    def lr(self) -> float:  # type: ignore[override]
        """The learning rate of the optimizer inside."""
        return self.optimizer.lr

    @lr.setter
    def lr(self, value: float) -> None:
        self.optimizer.lr = value

    @property
    def state(self) -> dict[str, dict[str, Array]]:  # type: ignore[override]
        """The state of the inner optimizer."""
        return self.optimizer.state

    @property
    def step_count(self) -> Array | None:  # type: ignore[override]
        """The number of steps of the inner optimizer."""
        return self.optimizer.step_count

    def init(self, model: Any) -> Optimizer:
        self.optimizer.init(model)
        return self

    def arrays(self) -> dict[str, Array]:
        return self.optimizer.arrays()

    def update(
        self, model: Any, gradients: Any, lr: float | Array | None = None, *,
        loss: Array | None = None, gradient_at: Callable[[], Any] | None = None,
    ) -> None:
        """Update ``model`` as :meth:`Optimizer.update` does; ``gradient_at`` is required."""
        if gradient_at is None:
            raise ValueError("SAM: update needs gradient_at=, a function that returns the gradients at the current parameters")
        call_atomically(self._climb_and_step, (model, *match_gradients(model, gradients), lr, loss, gradient_at), {})

    def _climb_and_step(
        self, model: Any, parameters: dict[str, Array], slopes: dict[str, Array], lr: float | Array | None, loss: Array | None,
        gradient_at: Callable[[], Any],
    ) -> None:
        original = {name: p.copy() for name, p in parameters.items()}
        wide = {name: to_compute_dtype(p) for name, p in original.items()}
        units: dict[str, Any] = {name: absolute(p) if self.adaptive else 1.0 for name, p in wide.items()}
        steps = {name: unit * to_compute_dtype(slopes[name]) for name, unit in units.items()}
        factor = self.rho / (global_norm(steps) + 1e-12)
        write_together([(p, wide[name] + factor * units[name] * steps[name]) for name, p in parameters.items()])
        try:
            slopes_there = gradient_at()
        finally:
            for name, p in parameters.items():
                p[...] = original[name]
        self.optimizer.update(model, slopes_there, lr, loss=loss)
