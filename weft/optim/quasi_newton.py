"""BFGS and L-BFGS: methods of ``minimize`` that estimate second derivatives from the changes of the gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from weft.array import Array
from weft.functions.creation.fill import eye, ones, zeros
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import logical_and, maximum, minimum, sqrt
from weft.functions.indexing.where import where
from weft.functions.linalg.products import outer
from weft.functions.reductions.folds import max as largest
from weft.functions.shape.axes import concatenate
from weft.optim.line_search import FLAT, NOISE, projected_search, strong_wolfe
from weft.optim.objective import Objective, State, Status, epsilon, first_state, next_state, stationary
from weft.transforms.control import scan

BOUND_TOLERANCE = 1e-3  # a variable within this distance of a bound goes there if the gradient pushes it outside


@dataclass(frozen=True)
class Descent:
    """Base of the methods that search along a line: a subclass has ``remember`` and ``direction``.

    armijo, curvature : the constants of the strong Wolfe conditions
    evaluations : the largest number of evaluations in one search
    """

    armijo: float = 1e-4
    curvature: float = 0.9
    evaluations: int = 25

    has_bounds: ClassVar[bool] = True
    wants_residuals: ClassVar[bool] = False
    scales_itself: ClassVar[bool] = False  # whether a step of length 1 is a good guess from the first step on
    expects_fall: ClassVar[bool] = False  # whether the first trial assumes that the loss falls as in the step before
    default_tol: ClassVar[float | None] = 1e-5  # None: the root of the dtype's epsilon

    def __post_init__(self) -> None:
        name = type(self).__name__
        if not 0 < self.armijo < self.curvature < 1:
            raise ValueError(f"{name}: 0 < armijo < curvature < 1 must hold, not {self.armijo} and {self.curvature}")
        check_count(name, "evaluations", self.evaluations)

    def memory(self, x: Array) -> dict[str, Array]:
        """Return what the method keeps between steps, before the first one."""
        return {}

    def remember(self, memory: dict[str, Array], step: Array, change: Array) -> dict[str, Array]:
        """Return the memory after a step and the change of the gradient."""
        return memory

    def direction(self, memory: dict[str, Array], gradient: Array) -> Array:
        """Return the direction of the next step."""
        return -gradient

    def start(self, objective: Objective, x: Array) -> State:
        """Return the state before the first step."""
        loss, gradient = objective.value_and_grad(x)
        memory = self.memory(x) | {"pairs": zeros((), dtype="int64"), "fall": zeros((), dtype=x.dtype)}
        return first_state(objective, x, loss, gradient, memory)

    def step(self, objective: Objective, state: State) -> State:
        """Return the state after one step.

        A search that fails is repeated in the direction of steepest descent, with an empty memory, before the run ends.
        """
        x, gradient, memory = state.x, state.gradient, state.memory
        pairs = memory["pairs"]
        is_held = _held_at_bounds(objective, x, gradient)
        free = gradient if is_held is None else where(is_held, 0.0, gradient)
        way = self.direction(memory, free)
        way = way if is_held is None else where(is_held, 0.0, way)
        is_descent = free @ way < 0  # false for NaN, and if rounding has spoiled the memory
        way = where(is_descent, way, -free)
        if is_held is not None:
            way = where(is_held, where(gradient > 0, objective.lower, objective.upper) - x, way)  # to the bound
        first = ones((), dtype=x.dtype)
        if not self.scales_itself:
            guess = minimum(1.0, -2.02 * memory["fall"] / (gradient @ way)) if self.expects_fall else first
            first = where(pairs > 0, where(guess > 0, guess, first), minimum(1.0, 1 / sqrt(way @ way)))
        if objective.lower is None:
            point = strong_wolfe(
                objective.value_and_grad, x, state.loss, gradient, way, first, self.armijo, self.curvature, self.evaluations
            )
        else:
            point = projected_search(
                objective.value_and_grad, x, state.loss, gradient, way, first, self.armijo, self.evaluations, objective.project
            )
        step, change = point.x - x, point.gradient - gradient
        product, square = step @ change, change @ change
        is_curved = logical_and(point.is_found, product > epsilon(x) * square)
        after = self.remember(memory, step, change)
        empty = self.memory(x)
        new = {n: where(point.is_found, where(is_curved, after[n], memory[n]), empty[n]) for n in empty}
        new["pairs"] = where(point.is_found, pairs + is_curved, 0)
        new["fall"] = state.loss - point.loss
        size = maximum(absolute(state.loss), absolute(point.loss))
        is_still = point.is_found & (absolute(state.loss - point.loss) <= NOISE * epsilon(x) * size)
        could_fall = -(gradient @ way) > FLAT * NOISE * epsilon(x) * absolute(state.loss)
        failed = where((pairs > 0) & could_fall, Status.RUNNING, where(could_fall, Status.NO_LOWER_LOSS, Status.SMALL_CHANGE))
        is_near = stationary(objective, point.x, point.gradient)
        status = where(
            point.is_found, where(logical_and(is_near == Status.RUNNING, is_still), Status.SMALL_CHANGE, is_near), failed
        )
        return next_state(state, point.x, point.loss, point.gradient, point.evaluations, status, new)


@dataclass(frozen=True)
class BFGS(Descent):
    """The method of Broyden, Fletcher, Goldfarb and Shanno, with a dense estimate of the inverse of the Hessian.

    The memory is quadratic in the number of parameters: take :class:`LBFGS` for more than a few thousand.

    Parameters
    ----------
    armijo, curvature : floats with 0 < armijo < curvature < 1, the constants of the strong Wolfe conditions
    evaluations : int, the largest number of evaluations in one line search

    Raises
    ------
    ValueError
        A constant is out of range.

    References
    ----------
    J. Nocedal and S. Wright, Numerical optimization, 2nd edition, 2006, algorithm 6.1.

    Examples
    --------
    >>> import weft as wf
    >>> result = wf.optim.minimize(lambda x: ((x - 3) ** 4).sum(), wf.zeros(2, dtype="float64"), wf.optim.BFGS())
    >>> result.params.round(1)
    array([3., 3.], dtype=float64)
    """

    expects_fall = True  # Nocedal and Wright, equation 3.60

    def memory(self, x: Array) -> dict[str, Array]:
        return {"inverse": eye(x.size, dtype=x.dtype)}

    def remember(self, memory: dict[str, Array], step: Array, change: Array) -> dict[str, Array]:
        product = step @ change
        h = memory["inverse"]  # starts as the identity: scaled as in equation 6.20, losses of nets fall more slowly
        moved = h @ change
        half = (0.5 * (1 + (change @ moved) / product) * step - moved) / product  # equation 6.17 as a sum of two outer products
        return {"inverse": h + outer(step, half) + outer(half, step)}

    def direction(self, memory: dict[str, Array], gradient: Array) -> Array:
        return -(memory["inverse"] @ gradient)


@dataclass(frozen=True)
class LBFGS(Descent):
    """BFGS that keeps the last steps and changes of the gradient instead of a matrix.

    With bounds, variables at a bound that the gradient pushes outside are held, and the search follows the path that bounds
    project.

    Parameters
    ----------
    history : int, the number of steps kept
    armijo, curvature, evaluations : as those of :class:`BFGS`

    Raises
    ------
    ValueError
        A constant is out of range.

    References
    ----------
    J. Nocedal and S. Wright, Numerical optimization, 2nd edition, 2006, algorithms 7.4 and 7.5. D. P. Bertsekas, Projected Newton
    methods for optimization problems with simple constraints, SIAM J. Control Optim. 20, 1982.

    Examples
    --------
    >>> import weft as wf
    >>> result = wf.optim.minimize(
    ...     lambda x: ((x - 3) ** 2).sum(), wf.zeros(2, dtype="float64"), wf.optim.LBFGS(history=5), bounds=(None, 1.0)
    ... )
    >>> result.params
    array([1., 1.], dtype=float64)
    """

    history: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("LBFGS", "history", self.history)

    def memory(self, x: Array) -> dict[str, Array]:
        rows, numbers = zeros((self.history, x.size), dtype=x.dtype), zeros(self.history, dtype=x.dtype)
        return {"steps": rows, "changes": rows, "inverses": numbers, "scale": ones((), dtype=x.dtype)}

    def remember(self, memory: dict[str, Array], step: Array, change: Array) -> dict[str, Array]:
        def append(rows: Array, row: Any) -> Array:
            return concatenate([rows[1:], row[None]])

        product = step @ change
        return {
            "steps": append(memory["steps"], step), "changes": append(memory["changes"], change),
            "inverses": append(memory["inverses"], 1 / product), "scale": product / (change @ change),
        }

    def direction(self, memory: dict[str, Array], gradient: Array) -> Array:
        rows = memory["steps"], memory["changes"], memory["inverses"]  # zeros where there is no pair

        def back(q: Array, row: tuple[Array, ...]) -> tuple[Array, Array]:
            step, change, inverse = row
            share = inverse * (step @ q)
            return q - share * change, share

        def forth(r: Array, row: tuple[Array, ...]) -> tuple[Array, None]:
            step, change, inverse, share = row
            return r + step * (share - inverse * (change @ r)), None

        q, shares = scan(back, gradient, rows, reverse=True)
        r, _ = scan(forth, memory["scale"] * q, (*rows, shares))
        return -r


def check_count(owner: str, name: str, value: Any) -> None:
    """Raise ValueError unless ``value`` is an int of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{owner}: {name} is {value!r}, but must be an int of at least 1")


def _held_at_bounds(objective: Objective, x: Array, gradient: Array) -> Array | None:
    """Return where a variable is at a bound and the gradient pushes it outside. None without bounds"""
    if objective.lower is None or objective.upper is None:
        return None
    reach = minimum(BOUND_TOLERANCE, largest(absolute(x - objective.project(x - gradient))))
    is_low = (x <= objective.lower + reach) & (gradient > 0)
    return is_low | ((x >= objective.upper - reach) & (gradient < 0))
