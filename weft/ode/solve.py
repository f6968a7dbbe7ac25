"""solve: initial value problems of ordinary differential equations.

The loop over steps is native: a ``while_loop`` whose number of steps depends on the errors. Times at which the state is returned
cost no steps: each step evaluates its polynomial there. Two ways are used. With few returned numbers, every step computes its
polynomial at all times and keeps those inside of the step, in the same kernels. With more than ``MAX_MASKED``, a loop over
the times runs steps until it reaches each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from weft.array import Array
from weft.errors import SolverError, short
from weft.functions.creation.fill import asarray, ones, ones_like, zeros, zeros_like
from weft.functions.elementwise.clip_compare import clip
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import isfinite, maximum, sign
from weft.functions.indexing.where import where
from weft.functions.shape.join_split import concat
Backsolve = type(None)
from weft.ode.control import PI, ConstantSteps, error_norm, first_step
from weft.ode.events import Event, EventState, Watcher
from weft.ode.runge_kutta import Tsit5
from weft.ode.states import Layout, lay_out, pair_of_slopes, read_times, slope_of
from weft.ode.steps import Solver, Step, evaluate
from weft.ode.symplectic import Symplectic
from weft.runtime.context import CONTEXT
from weft.transforms.control import scan, while_loop
from weft.transforms.vmap import vmap

DONE, STOPPED, OUT_OF_STEPS, FAILED = 0, 1, 2, 3
MAX_MASKED = 512  # numbers in ``ys`` up to which each step visits all times
_LAST = 0.99  # a step that covers this part of the remaining time is stretched to all of it


@dataclass(frozen=True)
class Solution:
    """The result of :func:`solve`.

    ts, ys : the times and the states there, stacked along a first axis
    t_event, y_event : time and state of the first root of the event, NaN without one; tuples of them for a sequence of events;
        None without events
    steps, accepted, rejected : numbers of steps
    evaluations : of f, without those of Jacobians
    status : 0: the last time was reached. 1: a terminal event ended the solution. 2: the steps ran out. 3: the state is not finite,
        or the step size became too small

    Examples
    --------
    >>> import weft as wf
    >>> s = wf.ode.solve(lambda t, y, args: -y, 1.0, [0.0, 1.0])
    >>> int(s.status), int(s.steps) == int(s.accepted) + int(s.rejected)
    (0, True)
    """

    ts: Any
    ys: Any
    t_event: Any
    y_event: Any
    steps: Any
    accepted: Any
    rejected: Any
    evaluations: Any
    status: Any


def solve(
    f: Any, y0: Any, ts: Any, *, args: Any = None, solver: Any = Tsit5(), rtol: Any = 1e-3, atol: Any = 1e-6,  # noqa: B008  frozen
    control: PI | ConstantSteps | None = None, save: Callable[..., Any] | None = None,
    events: Event | Sequence[Event] | None = None, adjoint: Backsolve | None = None, max_steps: int = 4096, dt0: Any = None,
) -> Solution:
    """Solve ``dy/dt = f(t, y, args)`` with ``y(ts[0]) = y0``.

    Under :func:`weft.vmap` each example has step sizes of its own. A state with a batch axis has one step size for all.

    Gradients flow to ``y0``, ``ts``, ``args`` and all arrays that ``f`` reads. They are those of the steps that were taken; the
    memory for them grows with the number of steps, see ``adjoint``.

    Parameters
    ----------
    f : function (t, y, args) -> dy/dt, a tree like ``y0``. For symplectic solvers a pair of functions: dq/dt of (t, p, args) and
        dp/dt of (t, q, args)
    y0 : tree of float Arrays or numbers; for symplectic solvers a pair (q, p)
    ts : increasing or decreasing times at which the state is returned; the first is the start. They cost no steps
    args : tree, passed on to ``f``
    solver : a method of ``wf.ode``: ``Tsit5()``, ``Dopri8()``, ``Kvaerno5()`` for stiff equations, ``Leapfrog()``, ...
    rtol, atol : float, or Array like a state that is one array: steps keep the estimated error below ``atol + rtol * |y|``
    control : ``PI()`` or ``ConstantSteps()``; None is ``PI()`` if the solver estimates its error, else ``ConstantSteps()``
    save : function (t, y, args) -> tree, whose results at ``ts`` are returned instead of the states
    events : an :class:`Event`, or a sequence of them
    adjoint : ``Backsolve()`` for gradients by the adjoint equation, whose memory does not grow with the number of steps
    max_steps : int. A gradient reserves memory for so many steps, and uses that of the steps that are taken
    dt0 : float, the size of the first step, or of all steps with ``ConstantSteps()``. None chooses it; with ``ConstantSteps()``
        the times ``ts`` are the steps

    Returns
    -------
    Solution

    Raises
    ------
    SolverError
        The steps run out, or state or step size are not finite: if ``solve`` is called outside of jit, grad, vmap and loops. Inside,
        ``status`` says so, and the states at times that were not reached are NaN.
    ShapeError, DTypeError, TypeError, ValueError
        ``f`` returns another tree than ``y0``, times turn back, a tolerance is not positive, the solver is none.

    References
    ----------
    Hairer, Nørsett and Wanner: Solving Ordinary Differential Equations I. 1993.
    Kidger: On Neural Differential Equations. 2022.

    Examples
    --------
    >>> import weft as wf
    >>> s = wf.ode.solve(lambda t, y, rate: -rate * y, 1.0, [0.0, 1.0, 2.0], args=1.0, rtol=1e-5)
    >>> s.ys.round(4)
    array([1.    , 0.3679, 0.1353], dtype=float32)

    The derivative of the last state by the rate:

    >>> last = lambda rate: wf.ode.solve(lambda t, y, rate: -rate * y, 1.0, [0.0, 2.0], args=rate, rtol=1e-5).ys[-1]
    >>> wf.grad(last)(1.0).round(4)
    Scalar(-0.2707, dtype=float32)
    """
    readable = not CONTEXT.transform_depth
    layout, start = lay_out(y0)
    times = read_times(ts, layout.dtype, readable)
    _check(solver, rtol, atol, control, max_steps, adjoint)
    if control is None:
        control = PI() if solver.error_order else ConstantSteps()
    if isinstance(control, PI) and not solver.error_order:
        raise ValueError(f"solve: {type(solver).__name__} does not estimate its error: use control=ConstantSteps()")
    watched = () if events is None else (events,) if isinstance(events, Event) else tuple(events)
    if not all(isinstance(e, Event) for e in watched):
        raise TypeError("solve: events must be an Event or a sequence of them")
    by_times = isinstance(control, ConstantSteps) and dt0 is None
    if by_times and watched:
        raise ValueError("solve: events need steps whose size does not depend on ts: give dt0, or use control=PI()")
    if isinstance(solver, Symplectic):
        slope: Any = pair_of_slopes(f, layout, y0, args)
        start = start.reshape(-1)
    else:
        if not callable(f):
            raise TypeError(f"solve: f is {short(f)} ({type(f).__name__}), but must be a function (t, y, args)")
        slope = slope_of(f, layout, args)
    problem = Problem(slope, solver, control, rtol, atol, max_steps, dt0, Watcher(watched, layout, args))
    if adjoint is not None:
        raise NotImplementedError
    out = run_at_times(problem, start, times) if by_times else run(problem, start, times)
    ys = layout.unpack(out.ys, times.shape)
    if save is not None:
        ys = vmap(lambda t, y: save(t, y, args))(times, ys)
    place = [layout.unpack(y) for y in out.y_event]
    single = isinstance(events, Event)
    solution = Solution(
        times, ys, None if events is None else out.t_event[0] if single else tuple(out.t_event),
        None if events is None else place[0] if single else tuple(place), out.accepted + out.rejected, out.accepted, out.rejected,
        (out.accepted + out.rejected) * solver.evaluations + out.evaluations, out.status,
    )
    if readable and (status := int(out.status)) >= OUT_OF_STEPS:
        raise _error(status, float(out.t), layout.unpack(out.y), max_steps)
    return solution


def _error(status: int, t: float, y: Any, max_steps: int) -> SolverError:
    if status == OUT_OF_STEPS:
        reason = f"{max_steps} steps were taken; give a larger max_steps, larger tolerances, or a solver for stiff equations"
    else:
        reason = "the state is not finite or the step size became too small; the solution may not exist beyond"
    return SolverError(f"solve: stopped at t = {t:g}: {reason}", t, y)


def _check(solver: Any, rtol: Any, atol: Any, control: Any, max_steps: Any, adjoint: Any) -> None:
    if not all(hasattr(solver, name) for name in ("start", "step", "error_order")) or isinstance(solver, type):
        raise TypeError(f"solve: solver is {short(solver)}, but must be a method such as wf.ode.Tsit5()")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if isinstance(value, int | float | np.ndarray) and not np.all(np.asarray(value) > 0):
            raise ValueError(f"solve: {name} is {short(value)}, but must be positive")
    if control is not None and not isinstance(control, PI | ConstantSteps):
        raise TypeError(f"solve: control is {short(control)}, but must be PI(), ConstantSteps() or None")
    if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"solve: max_steps is {short(max_steps)}, but must be an int of at least 1")
    if adjoint is not None and not isinstance(adjoint, Backsolve):
        raise TypeError(f"solve: adjoint is {short(adjoint)}, but must be Backsolve() or None")


class Problem(NamedTuple):
    """What all steps have in common."""

    slope: Any
    solver: Solver
    control: PI | ConstantSteps
    rtol: Any
    atol: Any
    max_steps: int
    dt0: Any
    watcher: Watcher

    @property
    def adaptive(self) -> bool:
        """Return whether steps are chosen by their errors."""
        return isinstance(self.control, PI)


class Result(NamedTuple):
    """The states at the times, and what :class:`Solution` says of the way there.

    t, y : where the solution ended
    evaluations : of f outside of steps
    """

    ys: Array
    t: Array
    y: Array
    accepted: Any
    rejected: Any
    evaluations: int
    status: Any
    t_event: Sequence[Array] = ()
    y_event: Sequence[Array] = ()


class Attempt(NamedTuple):
    """A step and what became of it.

    t, h, y : its start, its signed size, the state at its start
    end : the time of its end, that of an event that ends the solution
    """

    step: Step
    t: Array
    h: Array
    y: Array
    end: Array
    end_state: Array
    accepted: Array


def run(problem: Problem, y: Array, times: Array) -> Result:
    """Return the states at ``times``, by steps that do not depend on them."""
    t, last = times[0], times[-1]
    direction, count = sign(last - t), times.shape[0]
    scale = problem.atol + problem.rtol * absolute(y)
    slope, evaluations = problem.solver.start(problem.slope, t, y), 1
    if problem.dt0 is not None:
        h = absolute(asarray(problem.dt0, dtype=times.dtype))
    else:
        h = first_step(problem.slope, t, last, y, slope, scale, problem.solver.error_order)
        evaluations = 2
    state: dict[str, Any] = {"t": t, "h": h, "y": y, "slope": slope, "accepted": 0, "rejected": 0}
    if problem.adaptive and problem.control.pcoeff:
        state["error"] = ones((), dtype=y.dtype)
    if problem.watcher.events:
        state["events"] = problem.watcher.start(t, y)
    if count == 1:
        ys = y.reshape(1, *y.shape)
    elif count * y.size <= MAX_MASKED:
        state, ys = _run_masked(problem, state, times, direction)
    else:
        state, ys = _run_by_intervals(problem, state, times, direction)
    beyond = ((times - state["t"]) * direction > 0).reshape(count, *[1] * y.ndim)
    rest, stopped = float("nan"), None
    events: EventState | None = state.get("events")
    status = where(state["t"] == last, DONE, where(state["accepted"] + state["rejected"] < problem.max_steps, FAILED, OUT_OF_STEPS))
    status = where(isfinite(state["y"]).all(), status, FAILED)
    if events is not None:
        stopped = events.stopped
        rest = where(stopped, state["y"], float("nan"))
        status = where(stopped, STOPPED, status)
    return Result(
        where(beyond, rest, ys), state["t"], state["y"], state["accepted"], state["rejected"], evaluations, status,
        events.times if events else (), events.states if events else (),
    )


def _attempt(problem: Problem, state: dict[str, Any], last: Array, direction: Array) -> tuple[dict[str, Any], Attempt]:
    """Return the state after one step, and the step."""
    solver, control, t, y = problem.solver, problem.control, state["t"], state["y"]
    rest = last - t
    final = state["h"] >= _LAST * absolute(rest)
    h = where(final, rest, direction * state["h"])
    step = solver.step(problem.slope, t, h, y, state["slope"], problem.atol + problem.rtol * absolute(y))
    after = {**state}
    if problem.adaptive:
        error = error_norm(step.error, problem.atol + problem.rtol * maximum(absolute(y), absolute(step.y)))
        if step.converged is not None:
            error = where(step.converged, error, maximum(error, 2.0))
        accepted = error <= 1
        previous = state.get("error")
        factor = control.factor(error, previous, solver.error_order)
        after["h"] = absolute(h) * factor.astype(h.dtype)
        if previous is not None:
            after["error"] = where(accepted, error, previous)
    else:
        accepted = asarray(True) if step.converged is None else step.converged
    end, end_state = where(final, last, t + h), step.y
    if problem.watcher.events:
        after["events"], part = problem.watcher.watch(state["events"], t, h, y, step, accepted)
        ended = part < 2
        end = where(ended, t + h * part.astype(h.dtype), end)
        end_state = where(ended, evaluate(y, step.polynomial, part), end_state)
    after.update(
        t=where(accepted, end, t), y=where(accepted, end_state, y), slope=where(accepted, step.slope, state["slope"]),
        accepted=state["accepted"] + accepted, rejected=state["rejected"] + ~accepted,
    )
    return after, Attempt(step, t, h, y, end, end_state, accepted)


def _goes_on(problem: Problem, state: dict[str, Any], last: Array) -> Array:
    """Return whether the solution takes another step: the end is not reached, and the step size is not too small."""
    least = 4 * float(np.finfo(state["t"].dtype).eps)
    going = (state["t"] != last) & (state["h"] > least * absolute(state["t"]))
    if not problem.adaptive:  # an implicit step whose equations are not solved would be repeated as it was
        going = going & (state["rejected"] == 0)
    return going & ~state["events"].stopped if "events" in state else going


def _run_masked(problem: Problem, state: dict[str, Any], times: Array, direction: Array) -> tuple[dict[str, Any], Array]:
    """Run the steps; each computes its polynomial at all times."""
    last, y = times[-1], state["y"]
    columns = (times.shape[0], *[1] * y.ndim)
    grid = times.reshape(columns)

    def body(state: dict[str, Any]) -> dict[str, Any]:
        after, a = _attempt(problem, state, last, direction)
        inside = ((grid - a.t) * direction > 0) & ((grid - a.end) * direction <= 0) & a.accepted
        part = clip((grid - a.t) / a.h, 0.0, 1.0).astype(y.dtype)
        at = where(grid == a.end, a.end_state, evaluate(a.y, a.step.polynomial, part))
        return {**after, "ys": where(inside, at, state["ys"])}

    start = {**state, "ys": zeros((times.shape[0], *y.shape), dtype=y.dtype) + y}
    out = while_loop(lambda s: _goes_on(problem, s, last), body, start, max_steps=problem.max_steps)
    return out, out.pop("ys")


def _run_by_intervals(problem: Problem, state: dict[str, Any], times: Array, direction: Array) -> tuple[dict[str, Any], Array]:
    """Run the steps up to each time, and compute the last step's polynomial there."""
    last, y = times[-1], state["y"]
    state = {**state, "before": state["t"], "width": ones_like(state["t"]), "first": y, "polynomial": [zeros_like(y)] * problem.solver.degree}

    def body(state: dict[str, Any]) -> dict[str, Any]:
        after, a = _attempt(problem, state, last, direction)
        return {
            **after, "before": where(a.accepted, a.t, state["before"]), "width": where(a.accepted, a.h, state["width"]),
            "first": where(a.accepted, a.y, state["first"]),
            "polynomial": [where(a.accepted, new, old) for new, old in zip(a.step.polynomial, state["polynomial"], strict=True)],
        }

    def reach(state: dict[str, Any], time: Array) -> tuple[dict[str, Any], Array]:
        def goes_on(s: dict[str, Any]) -> Array:
            few = s["accepted"] + s["rejected"] < problem.max_steps
            return _goes_on(problem, s, last) & ((time - s["t"]) * direction > 0) & few

        state = while_loop(goes_on, body, state, max_steps=problem.max_steps)
        part = clip((time - state["before"]) / state["width"], 0.0, 1.0).astype(y.dtype)
        return state, where(time == state["t"], state["y"], evaluate(state["first"], state["polynomial"], part))

    state, rows = scan(reach, state, times[1:])
    return state, concat([y.reshape(1, *y.shape), rows])


def run_at_times(problem: Problem, y: Array, times: Array) -> Result:
    """Return the states at ``times``, by one step from each to the next."""
    slope = problem.solver.start(problem.slope, times[0], y)
    count = times.shape[0]
    if count == 1:
        return Result(y.reshape(1, *y.shape), times[0], y, 0, 0, 1, where(isfinite(y).all(), DONE, FAILED))

    def body(carry: tuple[Array, Array, Array], ends: tuple[Array, Array]) -> tuple[tuple[Array, Array, Array], Array]:
        y, slope, converged = carry
        t, end = ends
        step = problem.solver.step(problem.slope, t, end - t, y, slope, problem.atol + problem.rtol * absolute(y))
        return (step.y, step.slope, converged if step.converged is None else converged & step.converged), step.y

    (end, _, converged), rows = scan(body, (y, slope, asarray(True)), (times[:-1], times[1:]))
    status = where(isfinite(end).all() & converged, DONE, FAILED)
    return Result(concat([y.reshape(1, *y.shape), rows]), times[-1], end, count - 1, 0, 1, status)
