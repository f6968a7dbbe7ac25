"""Events: roots of functions of the state, found inside of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.array import Array
from weft.dtypes.formats import BOOL
from weft.errors import ShapeError, short
from weft.functions.creation.fill import asarray, full_like
from weft.functions.elementwise.compositions import clip
from weft.functions.elementwise.ufuncs import abs as absolute
from weft.functions.elementwise.ufuncs import isnan, minimum, sign, stop_gradient
from weft.functions.indexing.where import where
from weft.ode.states import Layout
from weft.ode.steps import Step, evaluate
from weft.transforms.control import while_loop
from weft.transforms.grad import value_and_grad

ITERATIONS = 50  # at most, in the search for a root


@dataclass(frozen=True)
class Event:
    """A root of ``g(t, y, args)``, a function whose result is one number.

    Parameters
    ----------
    g : function
    terminal : whether the solution ends at the root
    direction : 1 for roots at which g grows in the direction of integration, -1 for those at which it falls, 0 for both

    Raises
    ------
    TypeError, ValueError
        ``g`` is not a function, or ``direction`` is another number.

    Examples
    --------
    A ball that is dropped from a height of 5, until it hits the ground:

    >>> import weft as wf
    >>> fall = lambda t, y, args: (y[1], -9.81)
    >>> ground = wf.ode.Event(lambda t, y, args: y[0])
    >>> s = wf.ode.solve(fall, (5.0, 0.0), [0.0, 10.0], events=ground)
    >>> round(float(s.t_event), 4), round(float(s.y_event[1]), 3)
    (1.0096, -9.905)
    """

    g: Callable[..., Any]
    terminal: bool = True
    direction: int = 0

    def __post_init__(self) -> None:
        if not callable(self.g):
            raise TypeError(f"Event: g is {short(self.g)}, but must be a function (t, y, args)")
        if self.direction not in (-1, 0, 1):
            raise ValueError(f"Event: direction is {short(self.direction)}, but must be -1, 0 or 1")


class EventState(NamedTuple):
    """What the loop carries for its events.

    values : of the functions at the start of the step
    times, states : of the first root of each event, NaN before it
    stopped : whether a terminal event has occurred
    """

    values: tuple[Array, ...]
    times: tuple[Array, ...]
    states: tuple[Array, ...]
    stopped: Array


class Watcher:
    """The events of a solution."""

    def __init__(self, events: Sequence[Event], layout: Layout, args: Any) -> None:
        self.events, self.layout, self.args = events, layout, args

    def value(self, k: int, t: Array, y: Array) -> Array:
        """Return the value of one event's function."""
        out = self.events[k].g(t.astype(y.dtype), self.layout.unpack(y), self.args)
        if out is None or isinstance(out, bool) or (isinstance(out, Array) and out.node.dtype is BOOL):
            raise TypeError(f"solve: the function of event {k} returns {short(out)}, but must return a number that crosses 0")
        out = asarray(out, dtype=y.dtype)
        if out.shape:
            raise ShapeError(f"solve: g of events[{k}] returns an array of shape {out.shape}, but must return one number")
        return out

    def start(self, t: Array, y: Array) -> EventState:
        """Return the state at the first time."""
        numbers = range(len(self.events))
        nothing = float("nan")
        return EventState(
            tuple([self.value(k, t, y) for k in numbers]), tuple([full_like(t, nothing) for _ in numbers]),
            tuple([full_like(y, nothing) for _ in numbers]), asarray(False),
        )

    def find_events(
        self, state: EventState, t: Array, h: Array, y: Array, step: Step, accepted: Array,
    ) -> tuple[EventState, Array]:
        """Return the state after a step and the part of the step at which the solution ends, 2 if it does not."""
        values, roots, found = [], [], []
        end = asarray(2.0, dtype=y.dtype)
        for k, (event, before) in enumerate(zip(self.events, state.values, strict=True)):
            after = self.value(k, t + h, step.y)
            crossed = accepted & (before != 0) & (sign(before) * sign(after) <= 0)
            if event.direction:
                crossed = crossed & ((after - before) * event.direction > 0)
            root = self._find_root(k, t, h, y, step, crossed, before, after)
            if event.terminal:
                end = where(crossed, minimum(end, root), end)
            values.append(where(accepted, after, before))
            roots.append(root)
            found.append(crossed)
        times, states = [], []
        for root, crossed, time, place in zip(roots, found, state.times, state.states, strict=True):
            first = crossed & isnan(time) & (root <= end)
            times.append(where(first, t + h * root.astype(h.dtype), time))
            states.append(where(first, evaluate(y, step.polynomial, root), place))
        return EventState(tuple(values), tuple(times), tuple(states), state.stopped | (end < 2)), end

    def _find_root(
        self, k: int, t: Array, h: Array, y: Array, step: Step, crossed: Array, before: Array, after: Array,
    ) -> Array:
        """Return the part of the step at the root, by the method of false position (Illinois), with its derivative."""
        def value(part: Array) -> Array:
            return self.value(k, t + h * part.astype(h.dtype), evaluate(y, step.polynomial, part))

        def improve(s: dict[str, Array]) -> dict[str, Array]:
            span = s["high"] - s["low"]
            part = s["low"] - s["g_low"] * (span / where(s["g_high"] == s["g_low"], 1.0, s["g_high"] - s["g_low"]))
            part = clip(part, s["low"], s["high"])
            g = value(part)
            left = sign(g) == sign(s["g_low"])  # the root lies to the right of the new point
            again = left == s["left"]
            return {
                "low": where(left, part, s["low"]), "g_low": where(left, g, where(again, 0.5 * s["g_low"], s["g_low"])),
                "high": where(left, s["high"], part), "g_high": where(left, where(again, 0.5 * s["g_high"], s["g_high"]), g),
                "left": left, "part": part, "moved": absolute(part - s["part"]), "g": g,
            }

        zero = before * 0.0
        start = {
            "low": zero, "g_low": before, "high": zero + 1.0, "g_high": after, "left": zero != 0, "part": zero - 1.0,
            "moved": zero + 1.0, "g": before,
        }
        close = 2e-7 if zero.dtype.itemsize <= 4 else 1e-15
        part = stop_gradient(while_loop(
            lambda s: crossed & (s["moved"] > close) & (s["g"] != 0), improve, start, max_steps=ITERATIONS,
        )["part"])
        part = where(crossed, part, 1.0)
        for _ in range(2):  # Newton steps, whose first three derivatives are those of the root
            g, rate = value_and_grad(value)(part)
            part = where(crossed & (rate != 0), clip(part - g / where(rate == 0, 1.0, rate), 0.0, 1.0), part)
        return part
