"""Small work in NumPy's style: single operations, elements, slices, shapes and numbers that were not met before.

A program is a function of the library: (step, show). ``step(k)`` does the k-th piece of work and looks at what it made;
``show()`` is what has come out, for the comparison with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from eager_libraries import Library

Program = tuple[Callable[[int], object], Callable[[], list]]
BATCH, BATCHES, ELEMENTS, FRESH = 20, 150, 1000, 100


def add_ten(lib: Library) -> Program:
    a, b, look = lib.array(np.arange(10, dtype=np.float32)), lib.array(np.ones(10, np.float32)), lib.look
    return lambda k: look(a + b), lambda: [a + b]


def sum_ten(lib: Library) -> Program:
    a = lib.array(np.arange(10, dtype=np.float32))
    return lambda k: float((a + 1).sum()), lambda: [(a + 1).sum()]


def slices(lib: Library) -> Program:
    """Minibatches of an array: step k multiplies the k-th, beginning anew after the last."""
    r, out = np.random.default_rng(31), []
    x = lib.array(r.standard_normal((BATCH * BATCHES, 100), np.float32))
    w = lib.array(r.standard_normal((100, 10), np.float32))

    def step(k: int) -> None:
        i = k % BATCHES
        y = x[i * BATCH : (i + 1) * BATCH] @ w
        lib.look(y)
        out[:] = [y]

    return step, lambda: out


def shapes(lib: Library) -> Program:
    """Step k adds to an array of k + 11 elements."""
    out, arrays = [], [lib.array(np.arange(k + 11, dtype=np.float32)) for k in range(FRESH)]

    def step(k: int) -> None:
        y = arrays[k] + 1.5
        lib.look(y)
        out[:] = [y]

    return step, lambda: out


def ints(lib: Library) -> Program:
    """Step k multiplies ten floats by the Python int k + 3."""
    out, a = [], lib.array(np.arange(10, dtype=np.float32))

    def step(k: int) -> None:
        y = a * (k + 3)
        lib.look(y)
        out[:] = [y]

    return step, lambda: out


def fill(lib: Library) -> Program:
    """A step fills an array element by element."""
    out = []

    def step(k: int) -> None:
        w = lib.xp.zeros(ELEMENTS, dtype=lib.xp.float32)
        if lib.functional:
            for i in range(ELEMENTS):
                w = w.at[i].set(0.5 * i)
        else:
            for i in range(ELEMENTS):
                w[i] = 0.5 * i
        lib.look(w)
        out[:] = [w]

    return step, lambda: out


def read(lib: Library) -> Program:
    """A step reads all elements of an array, each as a float."""
    out, a = [], lib.array(np.random.default_rng(32).standard_normal(ELEMENTS, np.float32))

    def step(k: int) -> None:
        total = 0.0
        for i in range(ELEMENTS):
            total += float(a[i])
        out[:] = [total]

    return step, lambda: out


def chain(lib: Library) -> Program:
    """A step asks for a thousand operations on 1e5 floats one after the other, and looks at the last."""
    x = lib.array(np.random.default_rng(33).standard_normal(100_000, np.float32))
    out = []

    def step(k: int) -> None:
        y = x
        for _ in range(500):
            y = y * 0.999
            y = y + 0.001
        lib.look(y)
        out[:] = [y]

    return step, lambda: out


def many_shapes(lib: Library) -> Program:
    """Step k computes with arrays of a shape that was not met before; it is for the memory that stays."""
    out = []

    def step(k: int) -> None:
        a = lib.xp.ones((3, k + 1), dtype=lib.xp.float32)
        y = (a * 2.0 + 1.0).sum(axis=0)
        lib.look(y)
        out[:] = [y]

    return step, lambda: out
