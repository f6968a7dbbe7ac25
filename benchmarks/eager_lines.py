"""Single lines of textbook programs: small draws, copies, readings and writings, each a thousand times in a step.

Programs are pairs of functions as in ``eager_small.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from eager_libraries import Library
from eager_small import Program

REPEATS = 1000


def _repeated(lib: Library, line: Callable[[], Any], shown: Callable[[], list]) -> Program:
    """A step runs ``line`` a thousand times and looks at what the last one gave."""

    def step(k: int) -> None:
        for _ in range(REPEATS - 1):
            line()
        lib.look(line())

    return step, shown


def randn(lib: Library) -> Program:
    """A draw of 3 x 4 numbers. Every library has its own generator, so only the shape is compared."""
    draw = lib.xp.random.randn
    return _repeated(lib, lambda: draw(3, 4), lambda: [np.array(draw(3, 4).shape)])


def _softmax_rows(lib: Library) -> tuple[Any, Any, Any]:
    """Probabilities of 10 rows, the rows' numbers and their labels."""
    r = np.random.default_rng(34)
    return lib.array(r.random((10, 12), np.float32)), lib.xp.arange(10), lib.array(r.integers(0, 12, 10))


def copy_and_subtract(lib: Library) -> Program:
    """The gradient of softmax with cross entropy: one is taken from a copy of the probabilities at the labels."""
    y, rows, labels = _softmax_rows(lib)

    def line() -> Any:
        d = y.copy()
        d[rows, labels] -= 1
        return d

    return _repeated(lib, line, lambda: [line()])


def read_pairs(lib: Library) -> Program:
    y, rows, labels = _softmax_rows(lib)
    return _repeated(lib, lambda: y[rows, labels], lambda: [y[rows, labels]])


def argmax(lib: Library) -> Program:
    y, _, _ = _softmax_rows(lib)
    return _repeated(lib, lambda: y.argmax(), lambda: [y.argmax()])


def empty(lib: Library) -> Program:
    """Memory for the states of a recurrent layer. What it holds is not compared."""
    make, dtype = lib.xp.empty, lib.xp.float32
    return _repeated(lib, lambda: make((10, 5, 100), dtype=dtype), lambda: [np.array(make((10, 5, 100), dtype=dtype).shape)])


def write_slice(lib: Library) -> Program:
    """A recurrent layer's state, written into the states of all times."""
    r = np.random.default_rng(35)
    hs, hh = lib.xp.zeros((10, 5, 100), dtype=lib.xp.float32), lib.array(r.random((10, 100), np.float32))

    def line() -> Any:
        hs[:, 2, :] = hh
        return hs

    return _repeated(lib, line, lambda: [line()])


def write_mask(lib: Library) -> Program:
    """A rectifier's gradient in place."""
    r = np.random.default_rng(36)
    given = r.standard_normal((10, 50)).astype(np.float32)
    o, mask = lib.array(given), lib.array(given <= 0)

    def line() -> Any:
        o[mask] = 0
        return o

    return _repeated(lib, line, lambda: [line()])


def add_at(lib: Library) -> Program:
    """An embedding's gradient: rows are added to a table, some of them twice."""
    r = np.random.default_rng(37)
    table, rows = lib.xp.zeros((100, 5), dtype=lib.xp.float32), lib.array(r.integers(0, 100, 10))
    values, add = lib.array(r.integers(-4, 5, (10, 5)).astype(np.float32)), lib.xp.add.at

    def line() -> Any:
        add(table, rows, values)
        return table

    return _repeated(lib, line, lambda: [table])


def kept_scalars(lib: Library) -> Program:
    """A corpus' words are read one by one and kept, as a list of contexts keeps them."""
    corpus = lib.array(np.random.default_rng(38).integers(0, 100, REPEATS))
    kept: list = []

    def step(k: int) -> None:
        for i in range(REPEATS):
            kept.append(corpus[i])

    return step, lambda: [np.array([int(x) for x in kept[-REPEATS:]])]
