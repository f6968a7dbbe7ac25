"""solve: initial value problems of ordinary differential equations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.array import Array
from weft.errors import ShapeError, SolverError, short
from weft.functions.support.arguments import check_real, check_real_scalar
from weft.ode.adjoint import Backsolve, run_with_adjoint
from weft.ode.control import PI, ConstantSteps
from weft.ode.drive import OUT_OF_STEPS, Problem, run
from weft.ode.events import Event, Watcher
from weft.ode.runge_kutta import Tsit5
from weft.ode.states import lay_out, pair_of_slopes, read_times, slope_of
from weft.ode.symplectic import Symplectic
from weft.runtime.context import CONTEXT
from weft.transforms.vmap import vmap


@dataclass(frozen=True)
class Solution:
    """The result of :func:`solve`.

    Parameters
    ----------
    ts, ys : the times and the states there, stacked along a first axis
    t_event, y_event : time and state of the first root of the event, NaN without one; tuples of them for a sequence of events;
        None without events
    steps, accepted, rejected : numbers of steps
    evaluations : of f, without those of Jacobians
    status : 0: the last time was reached. 1: a terminal event ended the solution. 2: the steps ran out. 3: the state is not
        finite, or the step size became too small. States at times that were not reached are the last state after a terminal
        event, else NaN

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
        The steps run out, or the solution cannot go on, in a call outside of jit, grad, vmap and loops. Inside of them,
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
    >>> round(float(wf.grad(last)(1.0)), 4)
    -0.2707
    """
    readable = not CONTEXT.transform_depth
    layout, start = lay_out(y0)
    times = read_times(ts, layout.dtype, readable)
    _check_solver(solver)
    _check_tolerances(rtol, atol, start.shape, readable)
    _check_options(control, max_steps, dt0, adjoint)
    if control is None:
        control = PI() if solver.error_order else ConstantSteps()
    if isinstance(control, PI) and not solver.error_order:
        raise ValueError(f"solve: {type(solver).__name__} does not estimate its error: use control=ConstantSteps()")
    if not (events is None or isinstance(events, Event | tuple | list)):
        raise TypeError(f"solve: events is {short(events)}, but must be an Event or a sequence of them")
    if save is not None and not callable(save):
        raise TypeError(f"solve: save is {short(save)}, but must be a function (t, y, args)")
    watched = () if events is None else (events,) if isinstance(events, Event) else tuple(events)
    if not all(isinstance(e, Event) for e in watched):
        raise TypeError("solve: events must be an Event or a sequence of them")
    if isinstance(control, ConstantSteps) and dt0 is None and watched:
        raise ValueError("solve: events need steps whose size does not depend on ts: give dt0, or use control=PI()")
    if isinstance(solver, Symplectic):
        slope: Any = pair_of_slopes(f, layout, y0, args)
        start = start.reshape(-1)
    else:
        if not callable(f):
            raise TypeError(f"solve: f is {short(f)} ({type(f).__name__}), but must be a function (t, y, args)")
        slope = slope_of(f, layout, args)
    problem = Problem(slope, solver, control, rtol, atol, max_steps, dt0, Watcher(watched, layout, args))
    if adjoint is None:
        out = run(problem, start, times)
    else:
        if watched or isinstance(solver, Symplectic):
            raise ValueError("solve: Backsolve() takes no events and no symplectic solvers: use adjoint=None")
        out = run_with_adjoint(problem, lambda args: slope_of(f, layout, args), start, times, args)
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


def _check_solver(solver: object) -> None:
    """Raise a TypeError if ``solver`` is not a method of this package."""
    if not all(hasattr(solver, name) for name in ("start", "step", "error_order")) or isinstance(solver, type):
        raise TypeError(f"solve: solver is {short(solver)}, but must be a method such as wf.ode.Tsit5()")


def _check_tolerances(rtol: object, atol: object, shape: tuple[int, ...], readable: bool) -> None:
    """Raise an error for tolerances that do not fit. shape : of the state as one array. readable : arrays have values here"""
    for name, value in (("rtol", rtol), ("atol", atol)):
        size = np.shape(check_real(np.asarray(value) if isinstance(value, list | tuple) else value, "solve", name))
        if len(size) > len(shape) or any(n not in (1, m) for n, m in zip(size[::-1], shape[::-1], strict=False)):
            raise ShapeError(f"solve: {name} has shape {size}, but must be a number, or have the shape of the state, {shape}")
        has_value = isinstance(value, int | float | np.ndarray) or (isinstance(value, Array) and readable)
        if has_value and not np.all(np.asarray(value) > 0):
            raise ValueError(f"solve: {name} is {short(value)}, but must be positive")


def _check_options(control: object, max_steps: object, dt0: object, adjoint: object) -> None:
    """Raise an error for other arguments of :func:`solve` that do not fit."""
    if control is not None and not isinstance(control, PI | ConstantSteps):
        raise TypeError(f"solve: control is {short(control)}, but must be PI(), ConstantSteps() or None")
    if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"solve: max_steps is {short(max_steps)}, but must be an int of at least 1")
    if dt0 is not None:
        check_real_scalar(dt0, "solve", "dt0")
    if isinstance(dt0, int | float) and not 0 < dt0 < float("inf"):
        raise ValueError(f"solve: dt0 is {dt0!r}, but must be positive: it is a size, ts has the direction")
    if adjoint is not None and not isinstance(adjoint, Backsolve):
        raise TypeError(f"solve: adjoint is {short(adjoint)}, but must be Backsolve() or None")
