"""minimize: find the parameters of the smallest loss, by any optimizer, a quasi-Newton method or least squares.

A run is a loop of native calls, each of which makes many steps. Methods that search along lines work on all parameters as one
vector (``objective``). Optimizers write the arrays of a copy of the parameters (``FirstOrder``).
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from weft.array import Array, wrap_array
from weft.errors import short, warn
from weft.functions.creation.fill import array, asarray, full, zeros
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import isfinite, maximum
from weft.functions.indexing.where import where
from weft.functions.reductions.folds import max as largest
from weft.optim import update_rules
from weft.optim.least_squares import GaussNewton, LevenbergMarquardt
from weft.optim.objective import Loss, Objective, State, Status, Variables, gradient_size
from weft.optim.optimizer import Optimizer
from weft.optim.quasi_newton import BFGS, LBFGS, Descent, check_count
from weft.optim.sam import SAM
from weft.process.interrupts import catch_interrupt
from weft.transforms.control import while_loop
from weft.transforms.grad import value_and_grad
from weft.transforms.jit import jit
from weft.transforms.tree import flatten, is_container, is_module, tree_map, unflatten

CALL_S = 0.05  # aim for the time of a native call of many steps: Ctrl-C and the display wait for its end
SHOW_S = 0.05  # least time between two displays
BAR_WIDTH = 30  # characters of the progress bar
FIRST_STEPS = 8  # of the first native call

_METHODS: dict[str, Callable[[], Any]] = {
    "lbfgs": LBFGS, "bfgs": BFGS, "gaussnewton": GaussNewton, "levenbergmarquardt": LevenbergMarquardt, "lm": LevenbergMarquardt,
    **{
        name.lower(): kind for name, kind in vars(update_rules).items()
        if isinstance(kind, type) and issubclass(kind, Optimizer) and kind is not Optimizer and name[0] != "_"
    },
}


@dataclass(frozen=True)
class MinimizeResult:
    """The result of :func:`minimize`.

    Attributes
    ----------
    params : the parameters after the last step, a tree like those given
    best_params : the parameters of the smallest loss that a step ended with
    loss, best_loss : floats, their losses. For least squares half the sum of the squared residuals
    steps : int, the number of completed steps
    evaluations : int, the number of times that the loss (or the residuals) was computed
    converged : whether the run ended because the gradient is small, or because the loss no longer changes, as ``success`` of
        SciPy's L-BFGS-B. The loss may stop to change in its dtype although the gradient is large: ``message`` says which it was
    message : why the run ended
    gradient_size : float, the largest element of the gradient after the last step, projected on the bounds
    interrupted : whether Ctrl-C ended the run
    aux : the second result of the loss at ``params``, with ``has_aux=True``
    """

    params: Any = field(repr=False)
    best_params: Any = field(repr=False)
    loss: float
    best_loss: float
    steps: int
    evaluations: int
    converged: bool
    message: str
    gradient_size: float
    interrupted: bool = False
    aux: Any = field(default=None, repr=False)


class _Run(Protocol):
    """A run of one method; both functions return the state after native calls."""

    def start(self, batch: tuple[Any, ...]) -> State: ...

    def advance(self, state: State, until: Array, batch: tuple[Any, ...]) -> State: ...

    def rebuild(self, x: Any) -> Any: ...

    def gradient_size(self, state: State) -> Array: ...


def minimize(
    loss: Callable[..., Any], params: Any, method: Any = "L-BFGS", *, steps: int = 1000,
    callback: Callable[[int, Any, float], Any] | None = None, every: int = 1, data: Any = None, tol: float | None = None,
    bounds: tuple[Any, Any] | None = None, has_aux: bool = False, progress: bool = False,
) -> MinimizeResult:
    """Return the parameters for which a loss is smallest, starting from ``params``, which stay as they are.

    Parameters
    ----------
    loss : function (params) or, with ``data``, (params, batch) that returns one number; for GaussNewton and LevenbergMarquardt an
        array or a tree of residuals. It is traced once or twice for a run, not called at each step, so it cannot read values
    params : tree of arrays and numbers (dict, list, tuple, dataclass, Module), or one of them. Float leaves are changed;
        an array that stands in two places is one variable
    method : "L-BFGS", "BFGS", "Gauss-Newton", "Levenberg-Marquardt", the name of an optimizer, or an instance:
        :class:`LBFGS`, :class:`BFGS`, :class:`GaussNewton`, :class:`LevenbergMarquardt`, or any :class:`Optimizer`, which goes
        on with its state if it has one
    steps : int, the largest number of steps
    callback : function (step, params, loss), called after every ``every`` steps and after the last one. ``loss`` is that of the
        ``params`` it gets. The run ends if it returns True
    every : int, the number of steps between two calls of ``callback``, which are one native call
    data : one batch (an array, or a tuple, dict or dataclass), or an iterable of batches: a Loader, a list or a generator. An
        iterable needs an optimizer as method; each step takes the next batch, and iterates again at the end
    tol : float, the run ends when the largest element of the gradient is at most this; 1e-5 by default, for optimizers none. For
        least squares it is relative: the cosine of residuals and a column of the Jacobian (LevenbergMarquardt), or the part of
        the residuals that a step removes (GaussNewton); by default the root of the dtype's epsilon
    bounds : (lower, upper), each None, a number, or a tree like ``params``; for L-BFGS and BFGS
    has_aux : whether ``loss`` returns (loss, aux). ``aux`` of the last parameters is in the result
    progress : whether to show a bar, the step and the loss on one line of the terminal, elsewhere the last step alone

    Returns
    -------
    MinimizeResult
        Ctrl-C ends the run after the current native call, at most some tens of milliseconds later. A line search that finds no
        lower loss, and a loss that is not finite, end the run too: see ``message``. The latter also warns.

    Raises
    ------
    TypeError, ValueError
        An argument is invalid, or the method does not take ``bounds`` or several batches.
    ShapeError, DTypeError
        The loss is not one real number; there is nothing to change in ``params``, or something is complex.
    TraceError
        ``loss`` reads a value.

    Examples
    --------
    >>> import weft as wf
    >>> def rosenbrock(p):
    ...     return 100 * (p["y"] - p["x"] ** 2) ** 2 + (1 - p["x"]) ** 2
    >>> start = {"x": wf.array(-1.0, dtype="float64"), "y": wf.array(2.0, dtype="float64")}
    >>> result = wf.optim.minimize(rosenbrock, start)
    >>> result.converged, round(float(result.params["x"]), 4)
    (True, 1.0)

    First Adam, then BFGS from where it ended:

    >>> rough = wf.optim.minimize(rosenbrock, start, wf.optim.Adam(0.05), steps=200)
    >>> fine = wf.optim.minimize(rosenbrock, rough.params, "BFGS")
    >>> fine.loss < 1e-9 < rough.loss
    True
    """
    method = _as_method(method)
    check_count("minimize", "every", every)
    if not isinstance(steps, int | np.integer) or isinstance(steps, bool) or steps < 0:
        raise ValueError(f"minimize: steps is {steps!r}, but must be an int of at least 0")
    if tol is not None and not (isinstance(tol, int | float | np.number) and tol >= 0):
        raise ValueError(f"minimize: tol is {short(tol)}, but must be a number of at least 0, or None")
    for name, function in (("loss", loss), ("callback", callback)):
        if not callable(function) and (name == "loss" or function is not None):
            raise TypeError(f"minimize: {name} is {short(function)}, but must be a function")
    batches = _Batches(data, isinstance(method, Optimizer))
    main = Loss(loss, has_aux)
    run: Any
    if isinstance(method, Optimizer):
        if bounds is not None:
            _refuse_bounds(method)
        run = FirstOrder(main, Variables(params), method, tol)
    else:
        run = _Searching(main, Variables(params), method, tol, bounds)
    return _drive(run, main, batches, int(steps), callback, every, progress)


def _drive(
    run: _Run, main: Loss, batches: _Batches, steps: int, callback: Callable[[int, Any, float], Any] | None, every: int,
    progress: bool,
) -> MinimizeResult:
    """Make the steps of a run, and return its result."""
    message, interrupted, chunk, shown = "", False, FIRST_STEPS, 0.0
    with catch_interrupt() as interrupt:
        batch = batches.take()
        if batch is None:
            raise ValueError("minimize: data has no batch")
        state = tree_map(array, run.start(batch))  # no two fields share memory, so that the next call is the only trace
        done, status = int(state.steps), int(state.status)
        while status == Status.RUNNING and done < steps and not message:
            if batches.iterator is not None:
                batch = batches.take()
                if batch is None:
                    message = f"the data ended after {done} steps"
                    break
            size = every if callback is not None else chunk
            size = 1 if batches.iterator is not None else size
            begin = time.perf_counter()
            state = run.advance(state, array(min(done + size, steps), dtype="int64"), batch)
            done, status = int(state.steps), int(state.status)
            now = time.perf_counter()
            chunk = max(1, chunk // 2) if now - begin > CALL_S else chunk if now - begin > CALL_S / 2 else 2 * chunk
            is_last = status != Status.RUNNING or done >= steps
            if progress and now - shown >= SHOW_S:
                shown = now
                _show(done, steps, float(state.loss), is_last=False)
            if callback is not None and (is_last or done % every == 0):
                shown_params = tree_map(lambda x: x.copy() if isinstance(x, Array) else x, run.rebuild(state.x))
                if callback(done, shown_params, float(state.loss)):  # what it writes does not change the run
                    message = f"the callback ended the run after {done} steps"
            if interrupt.to_stop and not message:
                interrupted, message = True, f"Ctrl-C ended the run after {done} steps"
    loss = float(state.loss)
    if progress:
        _show(done, steps, loss, is_last=True)
    slope = float(run.gradient_size(state))
    message = message or _message(status, done, loss, str(state.loss.dtype), steps, slope)
    if status == Status.NOT_FINITE:
        warn(f"minimize: {message}")
    params, last = run.rebuild(state.x), batch or ()
    return MinimizeResult(
        params, run.rebuild(state.best_x), loss, float(state.best_loss), done, int(state.evaluations),
        status in (Status.SMALL_GRADIENT, Status.SMALL_CHANGE), message, slope, interrupted,
        jit(main.loss_and_aux)(params, *last)[1] if main.has_aux else None,
    )


def _message(status: int, done: int, loss: float, dtype: str, steps: int, size: float) -> str:
    return {
        Status.RUNNING: f"all {steps} steps are done",
        Status.SMALL_GRADIENT: f"the gradient is within tol after {done} steps",
        Status.SMALL_CHANGE:
            f"the loss no longer changes in {dtype} after {done} steps; the gradient's largest element is {size:.3g}",
        Status.NO_LOWER_LOSS: f"the search of step {done} found no lower loss than {loss:.6g}",
        Status.NOT_FINITE: f"the {'gradient is not finite' if math.isfinite(loss) else f'loss is {loss}'} at step {done}",
    }[status]


def _show(done: int, steps: int, loss: float, is_last: bool) -> None:
    text = f"step {done}/{steps}  loss {loss:.6g}"
    if sys.stdout.isatty():
        filled = BAR_WIDTH * done // max(1, steps)
        print(f"\r[{'=' * filled}{' ' * (BAR_WIDTH - filled)}] {text}\x1b[K", end="\n" if is_last else "", flush=True)
    elif is_last:
        print(text, flush=True)


def _as_method(method: Any) -> Any:
    if isinstance(method, str):
        kind = _METHODS.get(method.lower().replace("-", "").replace("_", "").replace(" ", ""))
        if kind is None:
            names = ", ".join(sorted({k.__name__ for k in _METHODS.values()}))  # type: ignore[attr-defined]
            raise ValueError(f"minimize: there is no method {method!r}; there are {names}")
        return kind()
    if not isinstance(method, Optimizer | Descent | LevenbergMarquardt):
        made = f": give an instance, {method.__name__}(...)" if isinstance(method, type) else ""
        raise TypeError(
            f"minimize: method is {short(method)}, but must be a name, an Optimizer, BFGS, LBFGS, GaussNewton or "
            f"LevenbergMarquardt{made}"
        )
    return method


def _refuse_bounds(method: Any) -> None:
    raise ValueError(
        f"minimize: {type(method).__name__} has no bounds: take method='L-BFGS', or map free parameters into the bounds "
        "within the loss"
    )


class _Batches:
    """The batches of a run: none, one, or those of an iterable."""

    def __init__(self, data: Any, is_first_order: bool) -> None:
        self.single_batch: tuple[Any, ...] = ()
        self.source: Iterable[Any] | None = None
        self.iterator: Iterator[Any] | None = None
        if isinstance(data, Array | np.ndarray) or (is_container(data) and not isinstance(data, list)):
            self.single_batch = (_as_arrays(data),)
        elif hasattr(type(data), "__iter__"):
            if not is_first_order:
                raise ValueError(
                    "minimize: data is an iterable of batches, whose losses differ: take an optimizer such as wf.optim.Adam(), "
                    "or give one batch, as an array, a tuple or a dict"
                )
            self.source, self.iterator = data, iter(data)
        elif data is not None:
            kind = type(data).__name__
            raise TypeError(f"minimize: data is {short(data)} ({kind}), but must be a batch or an iterable of batches")

    def take(self) -> tuple[Any, ...] | None:
        """Return the arguments of the loss beside the parameters for the next step; None if no batch is left."""
        if self.source is None or self.iterator is None:
            return self.single_batch
        for _ in range(2):
            for batch in self.iterator:
                return (_as_arrays(batch),)
            self.iterator = iter(self.source)
        return None


def _as_arrays(batch: Any) -> Any:
    """Return a batch with arrays of weft in place of NumPy's, which a jitted function would otherwise copy at each call."""
    leaves, structure = flatten(batch, modules=False)
    return unflatten(structure, [asarray(x) if isinstance(x, np.ndarray) else x for x in leaves])


class _Searching:
    """A run of a method that works on one vector."""

    def __init__(self, main: Loss, variables: Variables, method: Any, tol: float | None, bounds: Any) -> None:
        self.rebuild, self.method = variables.rebuild, method
        self.first_vector = variables.vector
        lower = upper = None
        if bounds is not None:
            if not method.has_bounds:
                _refuse_bounds(method)
            if not isinstance(bounds, tuple) or len(bounds) != 2:  # a list may be SciPy's, of a pair for each parameter
                raise TypeError("minimize: bounds must be a tuple (lower, upper), each None, a number or a tree like params")
            lower, upper = variables.bounds_vector(bounds[0], "lower"), variables.bounds_vector(bounds[1], "upper")
            if not bool((lower <= upper).all()):
                raise ValueError("minimize: a lower bound is above the upper bound, or not a number")
        default = method.default_tol or float(np.finfo(self.first_vector.dtype).eps) ** 0.5
        dtype = self.first_vector.dtype

        def objective(batch: tuple[Any, ...]) -> Objective:
            def residuals(x: Array) -> Array:
                return main.residuals(variables.rebuild(x), *batch).astype(dtype)

            def value(x: Array) -> Array:
                if method.wants_residuals:
                    r = residuals(x)
                    return 0.5 * (r @ r)
                return main.value(variables.rebuild(x), *batch).astype(dtype)

            return Objective(value_and_grad(value), residuals, lower, upper, default if tol is None else float(tol))

        self._objective = objective(())  # for its bounds
        self._start = jit(lambda x, batch: method.start(objective(batch), objective(batch).project(x)))

        def advance(state: State, until: Array, batch: tuple[Any, ...]) -> State:
            return while_loop(
                lambda s: (s.steps < until) & (s.status == Status.RUNNING), lambda s: method.step(objective(batch), s), state
            )

        self._advance = jit(advance)

    def gradient_size(self, state: State) -> Array:
        return gradient_size(self._objective, state.x, state.gradient)

    def start(self, batch: tuple[Any, ...]) -> State:
        return self._start(self.first_vector, batch)

    def advance(self, state: State, until: Array, batch: tuple[Any, ...]) -> State:
        return self._advance(state, until, batch)


class FirstOrder:
    """A run with an optimizer. In its ``State``, ``x``, ``gradient`` and ``best_x`` are lists of one array for each variable.

    The gradient is computed after the update and kept for the next step, so that a state's loss is that of its parameters.
    """

    def __init__(self, loss: Loss, variables: Variables, method: Optimizer, tol: float | None) -> None:
        self.variables, self.method, self.tol = variables, method, tol
        self.arrays = [wrap_array(x.node) for x in variables.unravel(variables.vector)]
        tree = variables.fill(self.arrays)
        self.model: Any
        if is_module(tree):
            names = {id(array): name for name, array in tree.parameters().items()}
            self.names, self.model = [names[id(x)] for x in self.arrays], tree
            self.loss = loss.value
        else:
            self.names = variables.names()
            self.model = dict(zip(self.names, self.arrays, strict=True))
            self.loss = lambda named, *batch: loss.value(variables.fill([named[n] for n in self.names]), *batch)
        if method.step_count is None:
            method.init(self.model)
        self._start, self._advance = jit(self._trace_start), jit(self._trace_advance)

    def rebuild(self, x: list[Array]) -> Any:
        """Return the tree of parameters with these variables."""
        return self.variables.fill(x)

    def start(self, batch: tuple[Any, ...]) -> State:
        return self._with_arrays(self._start(batch))

    def advance(self, state: State, until: Array, batch: tuple[Any, ...]) -> State:
        return self._with_arrays(self._advance(replace(state, x=[]), until, batch))

    def gradient_size(self, state: State) -> Array:
        """Return the largest element of the gradient."""
        return _size(state.gradient)

    def _with_arrays(self, state: State) -> State:
        return replace(state, x=self._snapshot())

    def _snapshot(self) -> list[Array]:
        return [wrap_array(x.node) for x in self.arrays]

    def _evaluate(self, batch: tuple[Any, ...]) -> tuple[Array, dict[str, Array]]:
        value, gradient = value_and_grad(self.loss)(self.model, *batch)
        named = gradient.parameters() if is_module(gradient) else gradient
        return value, {name: named[name] for name in self.names}

    def _status(self, loss: Array, gradient: list[Array]) -> Array:
        status = full((), Status.RUNNING, dtype="int64")
        if self.tol is not None:
            status = where(_size(gradient) <= self.tol, Status.SMALL_GRADIENT, Status.RUNNING).astype("int64")
        return where(isfinite(loss), status, Status.NOT_FINITE)

    def _trace_start(self, batch: tuple[Any, ...]) -> State:
        loss, named = self._evaluate(batch)
        gradient, count = list(named.values()), zeros((), dtype="int64")
        return State([], loss, gradient, self._snapshot(), loss, count, count + 1, self._status(loss, gradient), {})

    def _trace_advance(self, state: State, until: Array, batch: tuple[Any, ...]) -> State:
        each = 2 if isinstance(self.method, SAM) else 1

        def step(s: State) -> State:
            slopes = dict(zip(self.names, s.gradient, strict=True))
            self.method.update(self.model, slopes, loss=s.loss, gradient_at=lambda: self._evaluate(batch)[1])
            loss, named = self._evaluate(batch)
            gradient = list(named.values())
            is_best = (loss < s.best_loss) | ~isfinite(s.best_loss)
            best = [where(is_best, x, b) for x, b in zip(self.arrays, s.best_x, strict=True)]
            status = self._status(loss, gradient)
            best_loss = where(is_best, loss, s.best_loss)
            return State([], loss, gradient, best, best_loss, s.steps + 1, s.evaluations + each, status, {})

        return while_loop(lambda s: (s.steps < until) & (s.status == Status.RUNNING), step, state)


def _size(gradient: list[Array]) -> Array:
    size = zeros((), dtype="float32")
    for g in gradient:
        size = maximum(size, largest(absolute(g))) if g.size else size
    return size
