"""Gauss-Newton and Levenberg-Marquardt: methods of ``minimize`` for losses that are sums of squares.

The function returns the residuals, and the loss is half the sum of their squares. The Jacobian is computed in forward mode, one
column for each parameter, or in reverse mode if there are more parameters than residuals: all of it in one batched pass.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from weft.array import Array
from weft.functions.creation.fill import eye, full, zeros
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import isfinite, maximum, sqrt
from weft.functions.indexing.where import where
from weft.functions.linalg.decompositions import lstsq
from weft.functions.reductions.folds import all as every
from weft.functions.reductions.folds import max as largest
from weft.functions.reductions.folds import sum as total
from weft.functions.shape.axes import concatenate
from weft.optim.line_search import NOISE
from weft.optim.objective import Objective, State, Status, epsilon, first_state, next_state
from weft.optim.quasi_newton import Descent, check_count
from weft.transforms.control import while_loop
from weft.transforms.grad import vjp
from weft.transforms.jacobians import jacfwd
from weft.transforms.vmap import vmap


def residuals_and_jacobian(objective: Objective, x: Array) -> tuple[Array, Array]:
    """Return the residuals (m,) and their derivatives (m, n)."""
    def twice(x: Array) -> tuple[Array, Array]:
        r = objective.residuals(x)
        return r, r

    r, pull = vjp(objective.residuals, x)
    if x.size <= r.size:
        try:
            jacobian, r = jacfwd(twice, has_aux=True)(x)
            return r, jacobian
        except TypeError:  # derivatives in reverse only, such as those of Backsolve
            pass
    (jacobian,) = vmap(pull)(eye(r.size, dtype=r.dtype))
    return r, jacobian


def _solve(matrix: Array, goal: Array) -> Array:
    """Return the least squares solution; of a matrix that is not finite 0, where LAPACK would raise."""
    is_finite = every(isfinite(matrix)) & every(isfinite(goal))
    return lstsq(where(is_finite, matrix, 0.0), where(is_finite, goal, 0.0)).x


def _angle(r: Array, jacobian: Array) -> Array:
    """Return the largest cosine between the residuals and a column of the Jacobian, which is 0 at a minimum."""
    sizes = sqrt(total(jacobian * jacobian, axis=0) * (r @ r))
    return largest(where(sizes > 0, absolute(r @ jacobian) / where(sizes > 0, sizes, 1.0), 0.0))


@dataclass(frozen=True)
class GaussNewton(Descent):
    """Steps to the minimum of the linearised residuals, with a line search. The loss returns the residuals.

    Quadratic convergence if the residuals are small at the minimum; :class:`LevenbergMarquardt` is safer far from it.

    Parameters
    ----------
    armijo, curvature, evaluations : as those of :class:`BFGS`

    Raises
    ------
    ValueError
        A constant is out of range.

    References
    ----------
    J. Nocedal and S. Wright, Numerical optimization, 2nd edition, 2006, section 10.3.

    Examples
    --------
    >>> import weft as wf
    >>> t = wf.linspace(0, 2, 9, dtype="float64")
    >>> fit = wf.optim.minimize(
    ...     lambda p: p["a"] * wf.exp(p["k"] * t) - 2 * wf.exp(-t), {"a": 1.0, "k": 0.0}, wf.optim.GaussNewton()
    ... )
    >>> round(float(fit.params["a"]), 3), round(float(fit.params["k"]), 3)
    (2.0, -1.0)
    """

    has_bounds, wants_residuals, default_tol = False, True, None

    scales_itself = True

    def memory(self, x: Array) -> dict[str, Array]:
        return {"direction": zeros(x.size, dtype=x.dtype)}

    def direction(self, memory: dict[str, Array], gradient: Array) -> Array:
        return memory["direction"]

    def start(self, objective: Objective, x: Array) -> State:
        return self._look_ahead(objective, super().start(objective, x))

    def step(self, objective: Objective, state: State) -> State:
        return self._look_ahead(objective, super().step(objective, state))

    def _look_ahead(self, objective: Objective, state: State) -> State:
        """Return the state with the direction of the next step.

        The run has converged if that step lowers the linearised loss by a part within the tolerance only (the relative offset of
        Bates and Watts, Technometrics 23, 1981).
        """
        r, jacobian = residuals_and_jacobian(objective, state.x)
        way = -_solve(jacobian, r)
        fall = maximum(-(state.gradient @ way), 0.0)
        is_minimum = (fall <= objective.tol**2 * 2 * state.loss) | (state.loss == 0)
        is_open = (state.status == Status.RUNNING) | (state.status == Status.SMALL_GRADIENT)
        status = where(is_open, where(is_minimum, Status.SMALL_GRADIENT, Status.RUNNING), state.status)
        return replace(state, status=status, memory=state.memory | {"direction": way})


@dataclass(frozen=True)
class LevenbergMarquardt:
    """Gauss-Newton steps that are damped where the linearisation does not hold. The loss returns the residuals.

    Parameters
    ----------
    damping : float, the first damping, relative to the squared columns of the Jacobian
    evaluations : int, the largest number of trials in one step

    Raises
    ------
    ValueError
        A constant is out of range.

    References
    ----------
    J. Moré, The Levenberg-Marquardt algorithm: implementation and theory, 1978 (scaling). K. Madsen, H. B. Nielsen,
    O. Tingleff, Methods for non-linear least squares problems, 2nd edition, 2004, algorithm 3.16 (damping).

    Examples
    --------
    >>> import weft as wf
    >>> t = wf.linspace(0, 2, 9, dtype="float64")
    >>> fit = wf.optim.minimize(
    ...     lambda p: p["a"] * wf.exp(p["k"] * t) - 2 * wf.exp(-t), {"a": 9.0, "k": 1.0}, wf.optim.LevenbergMarquardt()
    ... )
    >>> round(float(fit.params["a"]), 3), round(float(fit.params["k"]), 3)
    (2.0, -1.0)
    """

    damping: float = 1e-3
    evaluations: int = 30

    has_bounds, wants_residuals, default_tol = False, True, None

    def __post_init__(self) -> None:
        if not self.damping > 0:
            raise ValueError(f"LevenbergMarquardt: damping must be positive, not {self.damping}")
        check_count("LevenbergMarquardt", "evaluations", self.evaluations)

    def start(self, objective: Objective, x: Array) -> State:
        """Return the state before the first step."""
        r, jacobian = residuals_and_jacobian(objective, x)
        memory = {
            "residuals": r, "jacobian": jacobian, "scale": _scale(jacobian), "damping": full((), self.damping, dtype=x.dtype),
        }
        state = first_state(objective, x, 0.5 * (r @ r), r @ jacobian, memory)
        is_minimum = (_angle(r, jacobian) <= objective.tol) | (state.loss == 0)
        status = where(is_minimum, Status.SMALL_GRADIENT, Status.RUNNING)
        return replace(state, status=where(state.status == Status.NOT_FINITE, Status.NOT_FINITE, status))

    def step(self, objective: Objective, state: State) -> State:
        """Return the state after the first trial that lowers the loss; each trial that does not raises the damping."""
        memory, x, n = state.memory, state.x, state.x.size
        r, jacobian, scale = memory["residuals"], memory["jacobian"], memory["scale"]
        one = full((), 1.0, dtype=x.dtype)
        goal = concatenate([-r, zeros(n, dtype=x.dtype)])

        def trial(s: tuple[Any, ...]) -> tuple[Any, ...]:
            damping, growth, _, _, count, _ = s
            rows = concatenate([jacobian, sqrt(damping) * scale[:, None] * eye(n, dtype=x.dtype)])
            move = _solve(rows, goal)
            there = objective.residuals(x + move)
            loss = 0.5 * (there @ there)
            expected = 0.5 * (move @ (damping * scale * scale * move - state.gradient))
            gain = (state.loss - loss) / expected
            good = isfinite(loss) & (gain > 0)
            eased = damping * maximum(1 / 3, 1 - (2 * gain - 1) ** 3)
            is_tiny = every(absolute(move) <= NOISE * epsilon(x) * absolute(x)) | (expected <= epsilon(x) * state.loss)
            return where(good, eased, damping * growth), 2 * growth, x + move, good, count + 1, is_tiny

        start = (memory["damping"], 2 * one, x, zeros((), dtype="bool"), zeros((), dtype="int64"), zeros((), dtype="bool"))
        end = while_loop(lambda s: ~s[3] & ~s[5] & (s[4] < self.evaluations), trial, start)
        damping, _, point, good, count, is_tiny = end
        new_x = where(good, point, x)
        r, jacobian = residuals_and_jacobian(objective, new_x)
        loss, gradient = 0.5 * (r @ r), r @ jacobian
        is_minimum = (_angle(r, jacobian) <= objective.tol) | (loss == 0)
        status = where(is_tiny, Status.SMALL_CHANGE, where(good, Status.RUNNING, Status.NO_LOWER_LOSS))
        status = where(is_minimum, Status.SMALL_GRADIENT, status)
        new = {"residuals": r, "jacobian": jacobian, "scale": maximum(scale, _scale(jacobian)), "damping": damping}
        return next_state(state, new_x, loss, gradient, count, status, new)


def _scale(jacobian: Array) -> Array:
    size = sqrt(total(jacobian * jacobian, axis=0))
    return where(size > 0, size, 1.0)
