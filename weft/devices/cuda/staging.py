"""Copies between NumPy's memory and a card's, through memory that the card reads and writes by itself.

Two pieces take turns: while the card copies one, the host fills or empties the other.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from weft.devices.cuda.driver import Driver

PIECE = 4 << 20  # bytes


class Staging:
    """Of one card, to be asked under the device's lock."""

    def __init__(self, driver: Driver, piece: int = PIECE) -> None:
        self._driver, self._piece, self._turn = driver, piece, 0
        self._pieces: list[tuple[int, np.ndarray]] = []
        self._marks: list[Any] = [None, None]
        self._busy = [False, False]

    def _next(self) -> int:
        """The number of a piece that the card is done with."""
        if not self._pieces:
            for _ in range(2):
                address = self._driver.pinned(self._piece)
                memory = (ctypes.c_uint8 * self._piece).from_address(address)
                self._pieces.append((address, np.ctypeslib.as_array(memory)))
        self._turn = 1 - self._turn
        self._done(self._turn)
        return self._turn

    def _done(self, k: int) -> None:
        if self._busy[k]:
            self._driver.wait(self._marks[k])
            self._busy[k] = False

    def _marked(self, k: int) -> None:
        self._marks[k] = self._driver.mark(self._marks[k])
        self._busy[k] = True

    def upload(self, pointer: int, source: np.ndarray) -> None:
        """Bytes to the card; ``source`` has been read when this returns, and what follows on the card waits for it."""
        for first in range(0, source.size, self._piece):
            part = source[first : first + self._piece]
            k = self._next()
            address, memory = self._pieces[k]
            memory[: part.size] = part
            self._driver.upload(pointer + first, address, part.size)
            self._marked(k)

    def download(self, pointer: int, target: np.ndarray) -> None:
        """Bytes from the card, which are there when this returns: everything before has been done by then."""
        waiting: list[tuple[int, int, int]] = []

        def emptied() -> None:
            k, first, size = waiting.pop(0)
            self._done(k)
            target[first : first + size] = self._pieces[k][1][:size]

        for first in range(0, target.size, self._piece):
            if len(waiting) == 2:
                emptied()
            size = min(self._piece, target.size - first)
            k = self._next()
            self._driver.download(self._pieces[k][0], pointer + first, size)
            self._marked(k)
            waiting.append((k, first, size))
        while waiting:
            emptied()
