"""Loops that textbooks write out in NumPy: a step of an RNN and of an LSTM, counts of neighbouring words, windows by slices.

Programs are pairs of functions as in ``eager_small.py``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from eager_libraries import Library, put
from eager_small import Program

BATCH, IN, WIDE = 20, 100, 100  # of the recurrent layers
WORDS, VOCABULARY = 10_000, 400  # of the corpus whose neighbours are counted
IMAGES, CHANNELS, SIDE, WINDOW = 10, 3, 28, 5


def _recurrent(lib: Library, gates: int) -> tuple[Any, ...]:
    """Return input, state, cell and weights of a layer."""
    r = np.random.default_rng(71)
    shapes = (BATCH, IN), (BATCH, WIDE), (BATCH, WIDE), (IN, gates * WIDE), (WIDE, gates * WIDE), (gates * WIDE,)
    return tuple(lib.array(0.1 * r.standard_normal(shape).astype(np.float32)) for shape in shapes)


def rnn_step(lib: Library) -> Program:
    """A layer's step forward and backward."""
    xp, (x, h, dh, wx, wh, b) = lib.xp, _recurrent(lib, 1)
    out: list = []

    def step(k: int) -> None:
        h_next = xp.tanh(xp.dot(h, wh) + xp.dot(x, wx) + b)
        dt = dh * (1 - h_next**2)
        db = xp.sum(dt, axis=0)
        out[:] = [h_next, xp.dot(dt, wh.T), xp.dot(dt, wx.T), xp.dot(x.T, dt), xp.dot(h.T, dt), db]
        lib.look(out)

    return step, lambda: out


def lstm_step(lib: Library) -> Program:
    """A layer's step forward and backward."""
    xp, (x, h, c, wx, wh, b) = lib.xp, _recurrent(lib, 4)
    out: list = []

    def sigmoid(z: Any) -> Any:
        return 1 / (1 + xp.exp(-z))

    def step(k: int) -> None:
        a = xp.dot(x, wx) + xp.dot(h, wh) + b
        f, g = sigmoid(a[:, :WIDE]), xp.tanh(a[:, WIDE : 2 * WIDE])
        i, o = sigmoid(a[:, 2 * WIDE : 3 * WIDE]), sigmoid(a[:, 3 * WIDE :])
        c_next = f * c + g * i
        tanh_c = xp.tanh(c_next)
        h_next = o * tanh_c
        ds = h_next * o * (1 - tanh_c**2) + c_next
        di, df, do, dg = ds * g, ds * c, h_next * tanh_c, ds * i
        di *= i * (1 - i)
        df *= f * (1 - f)
        do *= o * (1 - o)
        dg *= 1 - g**2
        da = xp.hstack((df, dg, di, do))
        out[:] = [h_next, ds * f, xp.dot(da, wx.T), xp.dot(da, wh.T), xp.dot(x.T, da), xp.dot(h.T, da), da.sum(axis=0)]
        lib.look(out)

    return step, lambda: out


def co_occurrence(lib: Library) -> Program:
    """A step counts which words stand beside which in a text."""
    xp = lib.xp
    corpus = lib.array(np.random.default_rng(72).integers(0, VOCABULARY, WORDS))
    out: list = []

    def step(k: int) -> None:
        matrix, size = xp.zeros((VOCABULARY, VOCABULARY), dtype=xp.int32), len(corpus)
        for place, word in enumerate(corpus):
            left, right = place - 1, place + 1
            if left >= 0:
                matrix[word, corpus[left]] += 1
            if right < size:
                matrix[word, corpus[right]] += 1
        lib.look(matrix)
        out[:] = [matrix]

    return step, lambda: out


def _windows(lib: Library, images: int, channels: int) -> Program:
    xp = lib.xp
    x = lib.array(np.random.default_rng(73).random((images, channels, SIDE, SIDE), np.float32))
    out: list = []

    def step(k: int) -> None:
        side = SIDE + 2 - WINDOW + 1
        padded = xp.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], "constant")
        col = xp.zeros((images, channels, WINDOW, WINDOW, side, side), dtype=xp.float32)
        for i in range(WINDOW):
            for j in range(WINDOW):
                col = put(lib, col, (slice(None), slice(None), i, j), padded[:, :, i : i + side, j : j + side])
        out[:] = [col.transpose(0, 4, 5, 1, 2, 3).reshape(images * side * side, -1)]
        lib.look(out)

    return step, lambda: out


def im2col_of_one(lib: Library) -> Program:
    """The windows of one image side by side, written slice by slice."""
    return _windows(lib, 1, 1)


def im2col(lib: Library) -> Program:
    """The windows of ten images of three channels."""
    return _windows(lib, IMAGES, CHANNELS)
