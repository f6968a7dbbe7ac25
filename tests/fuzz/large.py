"""A few steps on arrays of several chunks, beyond the second cache: threads, streams, blocked drivers."""

from __future__ import annotations

import random

import numpy as np

from tests.fuzz import elementwise, layers, moving
from tests.fuzz.expressions import check
from tests.fuzz.grow import FLOATS, Growth, Table
from tests.fuzz.program import Program

STEPS: Table = [
    (3.0, elementwise.operator), (1.0, elementwise.unary), (1.5, elementwise.number), (1.0, elementwise.choose),
    (0.5, elementwise.cast),
    (4.0, elementwise.reduction), (4.0, elementwise.centred), (1.5, elementwise.truth_reduction), (1.0, elementwise.place),
    (0.5, elementwise.running), (1.0, moving.sliced), (1.5, moving.turned), (1.0, moving.joined), (0.7, moving.padded),
    (0.7, moving.written),
    (0.8, moving.gathered), (0.6, moving.scattered), (1.5, layers.normalised), (1.0, layers.smooth_activation),
]
SHAPES = (
    (300, 257), (70001,), (1031, 65), (33, 2049), (40, 31, 64), (130, 520), (9000, 17), (3, 40000), (64, 16, 9, 9), (2, 260, 130),
)


def grown(r: random.Random) -> Program:
    """One or two large arrays and up to three steps; or a product or convolution of some size."""
    dtype = r.choices(FLOATS, (6, 2, 1, 1, 0.5, 0.5))[0]
    g = Growth(r, dtype, "normal", 400_000)
    roll = r.random()
    if roll < 0.3:
        m, n, k = (r.choice((1, 3, 17, 64, 65, 130, 257)) for _ in range(3))
        a, b = g.input((m, k) if r.random() < 0.7 else (k, m)), g.input((k, n) if r.random() < 0.7 else (n, k))
        left = a if g.shape(a) == (m, k) else f"{a}.T"
        right = b if g.shape(b) == (k, n) else f"{b}.T"
        g.add(r.choice((f"{left} @ {right}", f"wf.tanh({left} @ {right})", f"wf.maximum({left} @ {right} + 0.5, 0)")))
    elif roll < 0.4:
        c, o, s = r.choice((1, 3, 8)), r.choice((4, 8, 17)), r.choice((9, 16, 30))
        x, w = g.input((r.choice((1, 4)), c, s, s)), g.input((o, c, 3, 3))
        g.add(f"wf.nn.conv2d({x}, {w}, padding={r.choice((0, 1))}, stride={r.choice((1, 2))})")
    else:
        g.input(r.choice(SHAPES))
    if int(np.prod(g.shape(next(iter(g.values))))) < 400_000:
        for _ in range(r.randint(1, 3)):
            g.step(STEPS)
    return g.program("large", 2)


__all__ = ["check", "grown"]
