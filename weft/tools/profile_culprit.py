"""The culprit of a profile: the place to look at first, and the one sentence that says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.tools.profile_reasons import Reason
from weft.tools.profile_report import OUTSIDE, KernelTime, Place
from weft.tools.profile_words import percent, short


@dataclass(frozen=True)
class Culprit:
    """What to look at first.

    Attributes
    ----------
    line, layer, phase : where, "" where it is nowhere in particular
    seconds : that it takes, a call; lost : of these above the floor
    reason : in one word or two: "memory-bound", "too small", "not vectorised", "host primitive", "quadratic", ...
    sentence : all of it
    """

    line: str
    layer: str
    phase: str
    seconds: float
    lost: float
    reason: str
    sentence: str


def culprit_of(
    kernels: Sequence[KernelTime], reasons: dict[int, Reason], whole: float, outside: float, why: Reason, blamed: Place
) -> Culprit:
    """The place that loses most above the floor; where all are near it, the place that takes most."""
    lost: dict[Place, float] = {}
    taken: dict[Place, float] = {}
    worst: dict[Place, tuple[float, KernelTime]] = {}
    for kernel in kernels:
        for part in kernel.parts:
            share = part.seconds / kernel.seconds if kernel.seconds else 0.0
            lost[part.place] = lost.get(part.place, 0.0) + share * kernel.lost
            taken[part.place] = taken.get(part.place, 0.0) + part.seconds
            worst[part.place] = max(worst.get(part.place, (-1.0, kernel)), (part.seconds, kernel), key=lambda x: x[0])
    by = lost if max(lost.values(), default=0.0) + outside > 0.3 * whole else taken
    place = max(by, key=by.__getitem__, default=None)
    same = place is not None and place.line == blamed.line != ""
    if place is None or (outside > by[place] and not same):
        extra = f"{_where(blamed)}: " if blamed.line else ""
        sentence = f"Culprit: {extra}{percent(outside / whole)} of the time is outside of kernels. {_sentence(why)}"
        return Culprit(blamed.line, "", "", outside, outside, why.name, sentence)
    kernel = worst[place][1]
    reason = reasons[id(kernel)]
    estimated = len(kernel.parts) > 1
    took, above = taken[place], lost[place]
    time = f"{percent(took / whole, estimated)} of the time"
    if same and outside > took:
        took, above, reason = took + outside, above + outside, why
        time = f"{percent(took / whole, True)} of the time, almost all of it in Python"
    if place.layer and len({p.layer for p in taken if p.line == place.line}) > 1:
        place = replace(place, line="")  # the line of the whole model says nothing more
    sentence = f"Culprit: {_where(place)}, {time}. {_sentence(reason)}"
    return Culprit(place.line, place.layer, place.phase, took, above, reason.name, sentence)


def _where(place: Place) -> str:
    layer = f"{place.layer} ({place.kind})" if place.kind and place.kind != place.layer else place.layer
    parts = [f"{layer}, {place.phase}"] if layer else []
    if place.line:
        inside = f" in {place.function}" if place.function and not place.function.startswith("<") else ""
        parts.append(f"{place.source + '  ' if place.source else ''}({short(place.line)}{inside})")
    return ", ".join(parts) or f"{OUTSIDE[1:-1]}, {place.phase}"


def _sentence(reason: Reason) -> str:
    why = reason.why[0].upper() + reason.why[1:] + "."
    return f"{why} {reason.advice}." if reason.advice else why
