"""The loops over steps: by the estimate of the error or with constant steps, and from one time to the next.

The loop is native: a ``while_loop`` whose number of steps depends on the errors. Times at which the state is returned cost no
steps: each step evaluates its polynomial there. Two ways are used. With few returned numbers, every step computes its polynomial
at all times and keeps those inside of the step, in the same kernels. With more than ``MAX_MASKED``, a loop over the times runs
steps until it reaches each time: for 1001 times and 400 steps that takes a twentieth of the time, for 101 times and 3 steps of a
gradient three times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.formats import BOOL
from weft.functions.creation.fill import asarray, ones, ones_like, zeros, zeros_like
from weft.functions.elementwise.compositions import clip
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import isfinite, maximum, not_equal, sign, stop_gradient
from weft.functions.indexing.where import where
from weft.functions.shape.axes import concat
from weft.graph.primitives.call import call
from weft.graph.primitives.table import constant
from weft.ode.control import PI, ConstantSteps, error_norm, first_step
from weft.ode.events import EventState, Watcher
from weft.ode.steps import Solver, Step, evaluate
from weft.transforms.control import scan, while_loop

DONE, STOPPED, OUT_OF_STEPS, FAILED = 0, 1, 2, 3
MAX_MASKED = 512  # numbers in ``ys`` up to which each step visits all times
_STRETCH_SHARE = 0.99  # a step that covers this part of the remaining time is stretched to all of it


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
    """Return the states at ``times``."""
    by_times = isinstance(problem.control, ConstantSteps) and problem.dt0 is None
    return _run_at_times(problem, y, times) if by_times else _run_between_times(problem, y, times)


def _run_between_times(problem: Problem, y: Array, times: Array) -> Result:
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
    if isinstance(problem.control, PI) and problem.control.pcoeff:
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
    events: EventState | None = state.get("events")
    steps = state["accepted"] + state["rejected"]
    status = where(state["t"] == last, DONE, where(steps < problem.max_steps, FAILED, OUT_OF_STEPS))
    status = where(isfinite(state["y"]).all(), status, FAILED)
    if events is not None:
        status = where(events.stopped, STOPPED, status)
    status = where((status == DONE) & beyond.any(), FAILED, status)  # times that turn back
    rest = state["y"] * where(status >= OUT_OF_STEPS, float("nan"), 1.0).astype(y.dtype)  # the derivative is NaN, too
    return Result(
        where(beyond, rest, ys), state["t"], state["y"], state["accepted"], state["rejected"], evaluations, status,
        events.times if events else (), events.states if events else (),
    )


def _attempt(problem: Problem, state: dict[str, Any], last: Array, direction: Array) -> tuple[dict[str, Any], Attempt]:
    """Return the state after one step, and the step."""
    solver, control, t, y = problem.solver, problem.control, state["t"], state["y"]
    rest = last - t
    final = state["h"] >= _STRETCH_SHARE * absolute(rest)
    width = where(final, rest, direction * state["h"])
    # A rejected step may be infinite, and then its derivative, 0 times infinity, would be NaN: derivatives compute it for size 0.
    is_kept = not_equal(wrap(call.after_step(state["accepted"].node)), state["accepted"])
    h = wrap(call.guard(is_kept.node, width.node, constant(0, width.node.dtype)))
    step = solver.step(problem.slope, t, h, y, state["slope"], problem.atol + problem.rtol * absolute(y))
    after = {**state}
    if isinstance(control, PI):
        assert step.error is not None
        error = error_norm(step.error, problem.atol + problem.rtol * maximum(absolute(y), absolute(step.y)))
        if step.converged is not None:
            error = where(step.converged, error, maximum(error, 2.0))
        accepted = error <= 1
        previous = state.get("error")
        factor = control.factor(error, previous, solver.error_order)
        after["h"] = stop_gradient(absolute(width) * factor.astype(h.dtype))
        if previous is not None:
            after["error"] = where(accepted, error, previous)
    else:
        accepted = asarray(True) if step.converged is None else step.converged
    after.update(accepted=state["accepted"] + accepted, rejected=state["rejected"] + ~accepted)
    # derivatives need no estimate of the error: they know what became of the step
    accepted = wrap(call.guard(constant(False, BOOL), accepted.node, is_kept.node))
    end, end_state = where(final, last, t + h), step.y
    if problem.watcher.events:
        after["events"], part = problem.watcher.find_events(state["events"], t, h, y, step, accepted)
        ended = part < 2
        end = where(ended, t + h * part.astype(h.dtype), end)
        end_state = where(ended, evaluate(y, step.polynomial, part), end_state)
    after.update(
        t=where(accepted, end, t), y=where(accepted, end_state, y), slope=where(accepted, step.slope, state["slope"]),
    )
    return after, Attempt(step, t, h, y, end, end_state, accepted)


def _goes_on(problem: Problem, state: dict[str, Any], last: Array) -> Array:
    """Return whether the solution takes another step: the end is not reached, and the step size is not too small."""
    least = 4 * float(np.finfo(state["t"].dtype).eps)
    going = (state["t"] != last) & (state["h"] > least * absolute(state["t"]))
    if isinstance(problem.control, ConstantSteps):  # an implicit step whose equations are not solved would be repeated as it was
        going = going & (state["rejected"] == 0)
    return going & ~state["events"].stopped if "events" in state else going


def _nonzero(h: Array) -> Array:
    """Return a step size to divide by. Under vmap, examples at the end take steps of size 0 along with the others."""
    return where(h == 0, 1.0, h)


def _run_masked(problem: Problem, state: dict[str, Any], times: Array, direction: Array) -> tuple[dict[str, Any], Array]:
    """Run the steps; each computes its polynomial at all times."""
    last, y = times[-1], state["y"]
    columns = (times.shape[0], *[1] * y.ndim)
    grid = times.reshape(columns)

    def body(state: dict[str, Any]) -> dict[str, Any]:
        after, a = _attempt(problem, state, last, direction)
        inside = ((grid - a.t) * direction > 0) & ((grid - a.end) * direction <= 0) & a.accepted
        part = clip((grid - a.t) / _nonzero(a.h), 0.0, 1.0).astype(y.dtype)
        at = where(grid == a.end, a.end_state, evaluate(a.y, a.step.polynomial, part))
        return {**after, "ys": where(inside, at, state["ys"])}

    start = {**state, "ys": zeros((times.shape[0], *y.shape), dtype=y.dtype) + y}
    out = while_loop(lambda s: _goes_on(problem, s, last), body, start, max_steps=problem.max_steps)
    return out, out.pop("ys")


def _run_by_intervals(problem: Problem, state: dict[str, Any], times: Array, direction: Array) -> tuple[dict[str, Any], Array]:
    """Run the steps up to each time, and compute the last step's polynomial there."""
    last, y = times[-1], state["y"]
    state = {
        **state, "before": state["t"], "width": ones_like(state["t"]), "first": y,
        "polynomial": [zeros_like(y)] * problem.solver.degree,
    }

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
        part = clip((time - state["before"]) / _nonzero(state["width"]), 0.0, 1.0).astype(y.dtype)
        return state, where(time == state["t"], state["y"], evaluate(state["first"], state["polynomial"], part))

    state, rows = scan(reach, state, times[1:])
    return state, concat([y.reshape(1, *y.shape), rows])


def _run_at_times(problem: Problem, y: Array, times: Array) -> Result:
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
