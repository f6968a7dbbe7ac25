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


def rand(lib: Library) -> Program:
    draw = lib.xp.random.rand
    return _repeated(lib, lambda: draw(3), lambda: [np.array(draw(3).shape)])


def randint(lib: Library) -> Program:
    """A minibatch's rows."""
    draw = lib.xp.random.randint
    return _repeated(lib, lambda: draw(0, 60000, 10), lambda: [np.array(draw(0, 60000, 10).shape)])


def choice(lib: Library) -> Program:
    """A minibatch's rows, as a first book on deep learning draws them."""
    draw = lib.xp.random.choice
    return _repeated(lib, lambda: draw(1000, 10), lambda: [np.array(draw(1000, 10).shape)])


def normal(lib: Library) -> Program:
    draw = lib.xp.random.normal
    return _repeated(lib, lambda: draw(0.0, 0.1, (2, 3)), lambda: [np.array(draw(0.0, 0.1, (2, 3)).shape)])


def uniform(lib: Library) -> Program:
    """A single number, as exploration in a game draws it."""
    draw = lib.xp.random.uniform
    return _repeated(lib, lambda: draw(), lambda: [np.array(0.5)])


def copy(lib: Library) -> Program:
    y, _, _ = _softmax_rows(lib)
    return _repeated(lib, lambda: y.copy(), lambda: [y.copy()])


def subtract_pairs(lib: Library) -> Program:
    """The gradient of softmax with cross entropy, in place."""
    d, rows, labels = _softmax_rows(lib)

    def line() -> Any:
        d[rows, labels] -= 1
        return d

    return _repeated(lib, line, lambda: [line()])


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


def zeros(lib: Library) -> Program:
    make = lib.xp.zeros
    return _repeated(lib, lambda: make((3, 4)), lambda: [make((3, 4))])


def array_of_lists(lib: Library) -> Program:
    """Corners of a figure, a table of a game: numbers in lists of lists."""
    make, numbers = lib.xp.array, [[0.5 * i + j for i in range(4)] for j in range(3)]
    return _repeated(lib, lambda: make(numbers), lambda: [make(numbers)])


def array_of_ints(lib: Library) -> Program:
    make, numbers = lib.xp.array, list(range(10))
    return _repeated(lib, lambda: make(numbers), lambda: [make(numbers)])


def concatenate(lib: Library) -> Program:
    join, (y, _, _) = lib.xp.concatenate, _softmax_rows(lib)
    return _repeated(lib, lambda: join([y, y]), lambda: [join([y, y])])


def hstack(lib: Library) -> Program:
    """A recurrent layer's input and state side by side."""
    join, (y, _, _) = lib.xp.hstack, _softmax_rows(lib)
    return _repeated(lib, lambda: join((y, y)), lambda: [join((y, y))])


def append(lib: Library) -> Program:
    """A history that grows by a number at each turn; after 100 it begins anew."""
    xp, held = lib.xp, []
    empty_history = lib.array(np.zeros(0, np.float32))

    def line() -> Any:
        held[:] = [empty_history if not held or len(held[0]) == 100 else held[0]]
        held[0] = xp.append(held[0], 0.5)
        return held[0]

    return _repeated(lib, line, lambda: [line()])


def iterate(lib: Library) -> Program:
    """A step iterates over a thousand numbers, and adds them up."""
    corpus = lib.array(np.random.default_rng(38).integers(0, 100, REPEATS))
    out = []

    def step(k: int) -> None:
        total = 0
        for x in corpus:
            total += int(x)
        out[:] = [np.array(total)]

    return step, lambda: out


def iterate_rows(lib: Library) -> Program:
    """A step iterates over the thousand rows of a table, each of which is looked at."""
    table = lib.array(np.random.default_rng(39).random((REPEATS, 4), np.float32))
    out = []

    def step(k: int) -> None:
        total = 0.0
        for row in table:
            total += float(row[1])
        out[:] = [np.array(total)]

    return step, lambda: out


def element_of_table(lib: Library) -> Program:
    y, _, _ = _softmax_rows(lib)
    return _repeated(lib, lambda: y[3, 5], lambda: [y[3, 5]])


def row_of_table(lib: Library) -> Program:
    """A row is read and added to itself, so that it is no view any more."""
    y, _, _ = _softmax_rows(lib)

    def line() -> Any:
        row = y[3]
        return row + row

    return _repeated(lib, line, lambda: [line()])


def column_slice(lib: Library) -> Program:
    """A gate of a recurrent layer, and its square."""
    y, _, _ = _softmax_rows(lib)

    def line() -> Any:
        gate = y[:, 3:6]
        return gate * gate

    return _repeated(lib, line, lambda: [line()])


def read_mask(lib: Library) -> Program:
    y, _, _ = _softmax_rows(lib)
    return _repeated(lib, lambda: y[y > 0.5], lambda: [y[y > 0.5]])


def argmax_rows(lib: Library) -> Program:
    y, _, _ = _softmax_rows(lib)
    return _repeated(lib, lambda: y.argmax(axis=1), lambda: [y.argmax(axis=1)])


def maximum_of_all(lib: Library) -> Program:
    y, _, _ = _softmax_rows(lib)
    return _repeated(lib, lambda: y.max(), lambda: [y.max()])


def sum_rows(lib: Library) -> Program:
    y, _, _ = _softmax_rows(lib)
    return _repeated(lib, lambda: y.sum(axis=1, keepdims=True), lambda: [y.sum(axis=1, keepdims=True)])


def add_element(lib: Library) -> Program:
    """A count in a table."""
    table = lib.xp.zeros((10, 12), dtype=lib.xp.int32)

    def line() -> Any:
        table[3, 5] += 1
        return table

    return _repeated(lib, line, lambda: [table])


def write_mask(lib: Library) -> Program:
    """A rectifier's gradient in place."""
    r = np.random.default_rng(36)
    given = r.standard_normal((10, 50)).astype(np.float32)
    o, mask = lib.array(given), lib.array(given <= 0)

    def line() -> Any:
        o[mask] = 0
        return o

    return _repeated(lib, line, lambda: [line()])


def reshape(lib: Library) -> Program:
    y, _, _ = _softmax_rows(lib)
    return _repeated(lib, lambda: y.reshape(12, 10), lambda: [y.reshape(12, 10)])


def transpose(lib: Library) -> Program:
    y, _, _ = _softmax_rows(lib)
    return _repeated(lib, lambda: y.T, lambda: [y.T])


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
