"""Array programs as people write them for NumPy: neighbours by roll and by slices, masks, broadcasting, iteration to a vector.

A program is (step, show), as in ``eager_small.py``. Those with masks meet arrays of other sizes at every step.
"""

from __future__ import annotations

import numpy as np
from eager_libraries import Library, put
from eager_small import Program

SIDE = 256
ROWS, COLUMNS = 240, 320  # of the Mandelbrot set
POINTS, WIDTH, MEANS = 5000, 16, 8
ORDER = 500


def _soup() -> np.ndarray:
    return (np.random.default_rng(41).random((SIDE, SIDE)) < 0.3).astype(np.int32)


def life_roll(lib: Library) -> Program:
    """The game of life on a torus; a step is a generation."""
    xp, held = lib.xp, [lib.array(_soup())]

    def step(k: int) -> None:
        a = held[0]
        n = sum(xp.roll(xp.roll(a, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        held[0] = xp.where((n == 3) | ((a == 1) & (n == 2)), 1, 0)
        lib.look(held[0])

    return step, lambda: held


def life_slices(lib: Library) -> Program:
    """The game of life inside a border of dead cells, written in place; a step is a generation."""
    held = [lib.array(_soup())]

    def step(k: int) -> None:
        z = held[0]
        n = (
            z[:-2, :-2] + z[:-2, 1:-1] + z[:-2, 2:] + z[1:-1, :-2] + z[1:-1, 2:] + z[2:, :-2] + z[2:, 1:-1] + z[2:, 2:]
        )
        birth = (n == 3) & (z[1:-1, 1:-1] == 0)
        survive = ((n == 2) | (n == 3)) & (z[1:-1, 1:-1] == 1)
        if lib.functional:
            z = lib.xp.zeros_like(z).at[1:-1, 1:-1].set(lib.xp.where(birth | survive, 1, 0))
        else:
            z[...] = 0
            z[1:-1, 1:-1][birth | survive] = 1
        held[0] = z
        lib.look(z)

    return step, lambda: held


def mandelbrot(lib: Library) -> Program:
    """How long points stay; a step is one more iteration of those that have not left."""
    y, x = np.meshgrid(np.linspace(-1.2, 1.2, ROWS), np.linspace(-2.2, 1.0, COLUMNS), indexing="ij")
    cr, ci = lib.array(x.astype(np.float32)), lib.array(y.astype(np.float32))
    held = [lib.xp.zeros_like(cr), lib.xp.zeros_like(cr), lib.xp.zeros_like(cr)]

    def step(k: int) -> None:
        zr, zi, count = held
        inside = zr * zr + zi * zi < 4.0
        r, i = zr[inside], zi[inside]
        held[0] = put(lib, zr, inside, r * r - i * i + cr[inside])
        held[1] = put(lib, zi, inside, 2.0 * r * i + ci[inside])
        held[2] = put(lib, count, inside, k)
        lib.look(held)

    return step, lambda: held[2:]


def k_means(lib: Library) -> Program:
    """A step assigns every point to its nearest mean, and moves the means."""
    r = np.random.default_rng(42)
    centres = 2.0 * r.standard_normal((MEANS, WIDTH))
    points = centres[r.integers(0, MEANS, POINTS)] + r.standard_normal((POINTS, WIDTH))
    x, held = lib.array(points.astype(np.float32)), [lib.array(points[:MEANS].astype(np.float32))]

    def step(k: int) -> None:
        c = held[0]
        distance = ((x[:, None, :] - c[None, :, :]) ** 2).sum(axis=2)
        nearest = lib.xp.argmin(distance, axis=1)
        for j in range(MEANS):
            mine = x[nearest == j]
            if len(mine):
                c = put(lib, c, j, mine.mean(axis=0))
        held[0] = c
        lib.look(c)

    return step, lambda: held


def power_iteration(lib: Library) -> Program:
    """A step multiplies, normalises, and looks at the eigenvalue, as a test for convergence does."""
    half = np.random.default_rng(43).standard_normal((ORDER, ORDER))
    a = lib.array((half @ half.T / ORDER).astype(np.float32))
    held = [lib.array(np.ones(ORDER, np.float32)), 0.0]

    def step(k: int) -> None:
        w = a @ held[0]
        held[0] = w / lib.xp.sqrt((w * w).sum())
        held[1] = float(held[0] @ (a @ held[0]))

    return step, lambda: held[1:]
