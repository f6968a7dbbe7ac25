"""Figures of a profile, from which text, page, picture and trace are made."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.placement.device_figures import Machine
from weft.tools.profile_reasons import Culprit
from weft.tools.profile_report import Event, KernelTime, Row


@dataclass(frozen=True, repr=False)
class Figures:
    """Base class of :class:`weft.tools.profile.Profile`, which documents the attributes."""

    name: str
    calls: int
    measured: float
    seconds: float
    inside: float
    phases: dict[str, float]
    layers: tuple[Row, ...]
    lines: tuple[Row, ...]
    kernels: tuple[KernelTime, ...]
    culprit: Culprit
    machine: Machine
    events: tuple[Event, ...] = field(repr=False)

    @property
    def outside(self) -> float:
        """Seconds of a call outside kernels: Python, and the calls of programs."""
        return max(0.0, self.seconds - self.inside)
