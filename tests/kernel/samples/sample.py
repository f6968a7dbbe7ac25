"""Calls of primitives that tests make: samples that must compute, and samples that must be refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


@dataclass(frozen=True, slots=True)
class Sample:
    """One call: NumPy arrays, parameters, and what it covers.

    ``tag`` is one of zero, one, prime, broadcast, strided, special (NaN and infinity), usual.
    """

    arrays: tuple[np.ndarray, ...]
    params: dict[str, Any] = field(default_factory=dict)
    tag: str = "usual"


class ErrorSample(NamedTuple):
    """A call that must be refused, with the pattern that its message must match."""

    arrays: tuple[np.ndarray, ...]
    params: dict[str, Any]
    error: type[Exception]
    match: str
