"""Parameters of distributions that mean nothing, refused where their values are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from weft.array import Array
from weft.eager.peek import at_hand
from weft.errors import as_called
from weft.runtime.traced_int import GIVEN

Rule = tuple[str, Callable[[Any], Any]]  # how it is said, and whether numbers break it

NOT_NEGATIVE: Rule = "must not be negative", lambda x: x < 0
POSITIVE: Rule = "must be above 0", lambda x: np.logical_not(x > 0)
CHANCE: Rule = "must be above 0 and at most 1", lambda x: np.logical_not((x > 0) & (x <= 1))

RULES = {
    ("laplace", "scale"): NOT_NEGATIVE, ("logistic", "scale"): NOT_NEGATIVE, ("gumbel", "scale"): NOT_NEGATIVE,
    ("lognormal", "sigma"): NOT_NEGATIVE, ("rayleigh", "scale"): NOT_NEGATIVE, ("weibull", "a"): NOT_NEGATIVE,
    ("pareto", "a"): POSITIVE, ("power", "a"): POSITIVE, ("wald", "mean"): POSITIVE, ("wald", "scale"): POSITIVE,
    ("geometric", "p"): CHANCE,
}


def refuse(function: str, parameter: str, value: Any, rule: Rule) -> None:
    """ValueError for numbers that break a rule; what is not computed yet, or not known in a trace, is not looked at."""
    known = value if type(value) in (int, float) else _known(value)
    broken = known is not None and rule[1](known)
    if bool(broken) if type(broken) in GIVEN else broken is not False and np.any(broken):
        said = f"{parameter}={value}" if known is value else parameter
        raise ValueError(as_called(f"{function}: {said} {rule[0]}"))


def refuse_all(function: str, parameters: Iterable[str], values: Iterable[Any]) -> None:
    """The same for all parameters of a distribution."""
    by_name = dict(zip(parameters, values, strict=True))
    for name, value in by_name.items():
        if (function, name) in RULES:
            refuse(function, name, value, RULES[function, name])
    if function == "triangular":
        left, mode, right = (_known(x) for x in by_name.values())
        if left is None or mode is None or right is None:
            return
        if np.any((left > mode) | (mode > right) | (left == right)):
            raise ValueError(as_called("triangular: left <= mode <= right and left < right are needed"))


def _known(value: Any) -> Any:
    if isinstance(value, Array):
        held = None if value.weak else at_hand(value.node)
        return None if held is None else held[0]
    if isinstance(value, list | tuple):
        return None if any([isinstance(x, Array) for x in value]) else np.asarray(value)
    return value if isinstance(value, int | float | np.ndarray | np.generic) else None
