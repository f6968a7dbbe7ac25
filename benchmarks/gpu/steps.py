"""The steps of ``weft bench gpu``, the most important first, with their shares of the time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

VITAL = ("driver", "compiler", "loading", "copies", "launch")  # rows of the first step that all other steps need
COMPILERS = 16  # maximum number of compiling processes, each of which loads Triton


@dataclass(frozen=True)
class Step:
    """One step of the benchmark.

    Attributes
    ----------
    name : name for ``--only`` and for its file
    room : module of the step
    function : the module's function that yields the rows
    weight : share of the time, relative to the other steps
    title : description
    spoken : whether each row is printed as a sentence when it is done; such a step comes first and takes at most ``weight``
        seconds
    """

    name: str
    room: str
    weight: float
    title: str
    function: str = "rows"
    spoken: bool = False


# Compiling 2,600 launches takes 220 s of one core with Triton 3.9, 190 s with 3.6, and generating them 4 s; half as much again is
# reserved for starting processes, loading, and slower cores. In 8 minutes a unit of weight is about a second.
_LOADING = 8 + 360 // min(os.cpu_count() or 1, COMPILERS)

STEPS = (
    Step("basics", "basics", 60, "what everything rests on, part by part", spoken=True),
    Step("load", "correct", _LOADING, "all code of the primitive samples is compiled and loaded", "load"),
    Step("primitives", "correct", 80, "every primitive and its derivatives against NumPy, in memory with a pattern", "check"),
    Step("scatters", "correct", 15, "writes to places that meet, again and again: the same bits", "scatters"),
    Step("launch", "launch", 15, "what starting a kernel takes, by itself and in a graph"),
    Step("shares", "shares", 30, "what only moves data, as a share of a copy"),
    Step("products", "products", 60, "products of square matrices beside cuBLAS"),
    Step("convolutions", "convolutions", 50, "convolutions beside cuDNN"),
    Step("convnets", "convnets", 70, "AlexNet, VGG, Overfeat, GoogLeNet: forward, backward and update"),
    Step("attention", "attention", 25, "attention beside PyTorch's"),
    Step("learner", "learner", 25, "an epoch of 60,000 small images, as weft train has it"),
    Step("small", "small", 20, "a step of a tiny net, and of a transformer"),
    Step("crossover", "crossover", 15, "from which size on the GPU pays: estimated and measured"),
    Step("sanitizer", "sanitizer", 25, "NVIDIA's compute-sanitizer on small programs"),
)
NAMES = tuple([step.name for step in STEPS])


def broken(record: dict[str, Any]) -> str | None:
    """Return the first row of a step's record that is vital and does not work, or None."""
    rows = [row for row in record["rows"] if record["step"] == "basics" and row["name"] in VITAL]
    return next((row["name"] for row in rows if "error" in row or not row["right"]), None)
