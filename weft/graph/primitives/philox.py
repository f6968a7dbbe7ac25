"""Philox4x32-10: random words from a counter and a key.

Salmon and others, 2011: "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10


def philox(w: Any, counter: Any, key: Any) -> list[Any]:
    """Return the four words for each 64-bit counter under each 64-bit key.

    ``w`` implements the arithmetic on its kind of numbers.
    """
    c = [w.low(counter), w.high(counter), w.number(0), w.number(0)]
    k = [w.low(key), w.high(key)]
    for turn in range(ROUNDS):
        if turn:
            k = [w.low(w.add(k[i], w.number(WEYL[i]))) for i in (0, 1)]
        p = [w.multiply(c[2 * i], w.number(MULTIPLIERS[i])) for i in (0, 1)]
        c = [w.xor(w.xor(w.high(p[1]), c[1]), k[0]), w.low(p[1]), w.xor(w.xor(w.high(p[0]), c[3]), k[1]), w.low(p[0])]
    return c


_ARRAYS = SimpleNamespace(  # arithmetic on uint64 numbers in NumPy arrays
    number=np.uint64, multiply=np.multiply, add=np.add, xor=np.bitwise_xor,
    low=lambda a: a & np.uint64(0xFFFFFFFF), high=lambda a: a >> np.uint64(32),
)


def word(key: np.ndarray, base: np.ndarray, element: np.ndarray) -> np.ndarray:
    """Return word ``element & 3`` of Philox4x32-10 under ``key`` at counter ``base + (element >> 2)``, in NumPy."""
    key, base, element = np.broadcast_arrays(*(np.asarray(x, np.uint64) for x in (key, base, element)))
    with np.errstate(over="ignore"):
        words = philox(_ARRAYS, base + (element >> np.uint64(2)), key)
    return np.choose((element & np.uint64(3)).astype(np.int64), np.broadcast_arrays(*words)).astype(np.uint32)


def half_word(key: np.ndarray, base: np.ndarray, element: np.ndarray) -> np.ndarray:
    """Return 16 random bits, in the upper half of a uint32: 32 elements share 16 words.

    Elements 0 to 15 of them take the lower halves, the others the upper halves, so that two vectors share the words of one.
    """
    element = np.asarray(element, np.uint64)
    words = word(key, base, element >> np.uint64(5) << np.uint64(4) | element & np.uint64(15))
    return np.where(element & np.uint64(16), words & np.uint32(0xFFFF0000), words << np.uint32(16))
