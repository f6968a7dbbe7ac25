"""Schedules: functions of the number of completed steps that return a factor of the learning rate.

An optimizer calls its schedule inside the step with its own count, an Array, so a new rate does not compile anything. Any
function of that Array is a schedule; those of this module have a readable ``repr``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.array import Array
from weft.functions.elementwise.ufuncs import cos, floor, maximum, minimum
from weft.process.docstrings import complete_module
from weft.process.name_errors import explain_missing_names


@dataclass(frozen=True, repr=False, eq=False)
class Schedule:
    """A schedule: a rule with its name and options.

    Attributes
    ----------
    name : name of the function that created the schedule
    options : dict
    rule : function of the number of completed steps that returns the factor

    >>> wf.optim.schedules.warmup(100, wf.optim.schedules.cosine(1000))
    warmup(steps=100, then=cosine(steps=1000, least=0.0))
    """

    name: str
    options: dict[str, Any]
    rule: Callable[[Array], Any]

    def __call__(self, count: Array) -> Any:
        """Return the factor after ``count`` steps."""
        return self.rule(count)

    def __reduce__(self) -> tuple[Any, ...]:
        return globals()[self.name], tuple(self.options.values())  # the rule is a closure, which pickle cannot save

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v!r}' for k, v in self.options.items() if v is not None)})"


def constant(factor: float = 1.0) -> Schedule:
    """Return a constant ``factor``.

    Parameters
    ----------
    factor : float

    >>> wf.optim.schedules.constant(0.5)(wf.array(7.0))
    0.5
    """
    return Schedule("constant", {"factor": factor}, lambda count: factor)


def step(every: int, factor: float = 0.1) -> Schedule:
    """Multiply the rate by ``factor`` after each ``every`` steps.

    Parameters
    ----------
    every : int, at least 1

    Raises
    ------
    ValueError
        ``every`` is below 1.

    >>> wf.optim.schedules.step(10, 0.5)(wf.array([0.0, 9.0, 10.0, 20.0])).tolist()
    [1.0, 1.0, 0.5, 0.25]
    """
    _check_at_least_1("step", "every", every)
    # the half keeps rounding from reaching the next multiple
    return Schedule("step", {"every": every, "factor": factor}, lambda count: factor ** floor((count + 0.5) / every))


def exponential(factor: float) -> Schedule:
    """Multiply the rate by ``factor`` at every step.

    Parameters
    ----------
    factor : float, positive

    Raises
    ------
    ValueError
        ``factor`` is not positive.

    >>> wf.optim.schedules.exponential(0.5)(wf.array([0.0, 1.0, 2.0])).tolist()
    [1.0, 0.5, 0.25]
    """
    if not factor > 0:
        raise ValueError(f"exponential: factor must be positive, not {factor}")
    return Schedule("exponential", {"factor": factor}, lambda count: factor**count)


def cosine(steps: int, least: float = 0.0) -> Schedule:
    """Fall from 1 to ``least`` in ``steps`` steps along half a cosine, then stay at ``least``.

    I. Loshchilov and F. Hutter, SGDR: stochastic gradient descent with warm restarts, ICLR 2017 (one period).

    Parameters
    ----------
    steps : int, at least 1
    least : float, the final factor

    Raises
    ------
    ValueError
        ``steps`` is below 1.

    >>> [round(v, 6) for v in wf.optim.schedules.cosine(10)(wf.array([0.0, 5.0, 10.0, 99.0])).tolist()]
    [1.0, 0.5, 0.0, 0.0]
    """
    _check_at_least_1("cosine", "steps", steps)

    def rule(count: Array) -> Any:
        return least + (1 - least) * 0.5 * (1 + cos(minimum(count, steps) * (math.pi / steps)))

    return Schedule("cosine", {"steps": steps, "least": least}, rule)


def linear(steps: int, least: float = 0.0) -> Schedule:
    """Fall from 1 to ``least`` in ``steps`` steps along a straight line, then stay at ``least``.

    >>> wf.optim.schedules.linear(4)(wf.array([0.0, 1.0, 4.0, 9.0])).tolist()
    [1.0, 0.75, 0.0, 0.0]
    """
    _check_at_least_1("linear", "steps", steps)
    return Schedule("linear", {"steps": steps, "least": least}, lambda count: 1 - minimum(count / steps, 1) * (1 - least))


def multistep(milestones: Sequence[int], factor: float = 0.1) -> Schedule:
    """Multiply the rate by ``factor`` after each of the given numbers of steps.

    Parameters
    ----------
    milestones : ints, at least 1

    Raises
    ------
    ValueError
        A milestone is below 1.

    >>> wf.optim.schedules.multistep([10, 15], 0.5)(wf.array([0.0, 9.0, 10.0, 15.0])).tolist()
    [1.0, 1.0, 0.5, 0.25]
    """
    for m in milestones:
        _check_at_least_1("multistep", "a milestone", m)
    at = tuple(milestones)

    def rule(count: Array) -> Any:
        return factor ** sum((count >= m).astype(count.dtype) for m in at)

    return Schedule("multistep", {"milestones": at, "factor": factor}, rule)


def warmup(steps: int, then: Callable[[Array], Any] | None = None) -> Schedule:
    """Rise from ``1 / steps`` to 1 in the first ``steps`` steps, then follow the schedule ``then``, counted from there.

    Parameters
    ----------
    then : Schedule, optional
        By default the factor stays at 1.

    >>> wf.optim.schedules.warmup(4, wf.optim.schedules.exponential(0.5))(wf.array([0.0, 1.0, 3.0, 4.0, 5.0])).tolist()
    [0.25, 0.5, 1.0, 1.0, 0.5]
    """
    _check_at_least_1("warmup", "steps", steps)

    def rule(count: Array) -> Any:
        ramp = minimum((count + 1) / steps, 1)
        return ramp if then is None else ramp * then(maximum(count - steps, 0))

    return Schedule("warmup", {"steps": steps, "then": then}, rule)


def _check_at_least_1(function: str, name: str, value: int) -> None:
    if not value >= 1:
        raise ValueError(f"{function}: {name} must be at least 1, not {value}")


explain_missing_names(sys.modules[__name__])
complete_module(globals(), (constant, step, exponential, multistep), (cosine, linear, warmup))
