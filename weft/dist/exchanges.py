"""Exchanges beside the program: a thread runs them one after the other, in the order in which they begin."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Sequence
from queue import SimpleQueue
from typing import Any

import numpy as np

BUCKET_BYTES = 1 << 22  # of gradients: smaller exchanges cost more messages, larger ones begin later


def identify_thread() -> tuple[int, int]:
    """Return the numbers of this process and this thread."""
    return os.getpid(), threading.get_ident()


class Exchange:
    """An exchange that has begun. ``is_done`` is set when it has a result, or has failed."""

    def __init__(self, run: Callable[[], Any]) -> None:
        self.run, self.is_done = run, threading.Event()
        self.result: Any = None


class Exchanges:
    """The exchanges of a rank. After one has failed, all others fail with its error.

    thread : process and thread that runs them, or None if none has begun beside the program
    """

    def __init__(self) -> None:
        self.thread: tuple[int, int] | None = None
        self._is_awaited = False  # whether the program waits for one
        self._error: BaseException | None = None
        self._queue: SimpleQueue[Exchange] = SimpleQueue()
        self._last: Exchange | None = None
        self._numbered: dict[int, Exchange | np.ndarray] = {}

    def begin(self, run: Callable[[], Any]) -> Exchange:
        """Let the thread call ``run`` after the exchanges that have begun before."""
        self._last = exchange = Exchange(run)
        if self.thread is None:
            thread = threading.Thread(target=self._work, name="weft exchanges", daemon=True)
            thread.start()
            assert thread.ident is not None
            self.thread = os.getpid(), thread.ident
        self._queue.put(exchange)
        return exchange

    def finish(self, exchange: Exchange) -> Any:
        """Return the result of an exchange, or raise the error of the first that has failed."""
        self._wait(exchange)
        if exchange is self._last:
            self._last = None
        if self._error is not None:
            raise self._error
        return exchange.result

    def drain(self) -> None:
        """Wait until each exchange that has begun is done or has failed."""
        if self._last is not None and identify_thread() != self.thread:
            self._wait(self._last)
            self._last = None

    def is_beside(self) -> bool:
        """Return whether this thread runs an exchange that the program does not wait for."""
        return not self._is_awaited and identify_thread() == self.thread

    @property
    def is_idle(self) -> bool:
        """Return whether no exchange is running or waiting."""
        return self._last is None or self._last.is_done.is_set()

    def keep(self, number: int, exchange: Exchange | np.ndarray) -> None:
        """Keep an exchange, or the result of one that is done, under a number of its place in the program."""
        self._numbered[number] = exchange  # in place of one that a program began which then failed

    def take(self, number: int) -> Any:
        """Return the result of the exchange of this number, once."""
        exchange = self._numbered.pop(number)
        return self.finish(exchange) if isinstance(exchange, Exchange) else exchange

    def _wait(self, exchange: Exchange) -> None:
        self._is_awaited = True
        try:
            exchange.is_done.wait()
        finally:  # Ctrl-C, after which the program may go on
            self._is_awaited = False

    def _work(self) -> None:
        while True:
            exchange = self._queue.get()
            try:
                if self._error is None:
                    exchange.result = exchange.run()
            except BaseException as error:  # raised by ``finish``
                self._error = error
            is_done = exchange.is_done
            del exchange  # operand and result would remain in memory until the next one
            is_done.set()


def make_buckets(sizes: Sequence[tuple[Hashable, int]]) -> list[list[int]]:
    """Return the indices of gradients that are exchanged together. sizes : form and bytes of each gradient

    The last come first, as a backward pass computes them. Gradients of a bucket have one form, and at least ``BUCKET_BYTES``
    bytes, except in the last bucket of a form.
    """
    buckets: list[list[int]] = []
    filling: dict[Hashable, tuple[list[int], int]] = {}
    for k, (form, nbytes) in reversed(list(enumerate(sizes))):
        bucket, total = filling.pop(form, ([], 0))
        bucket.insert(0, k)
        if total + nbytes < BUCKET_BYTES:
            filling[form] = bucket, total + nbytes
        else:
            buckets.append(bucket)
    return buckets + [bucket for bucket, _ in filling.values()]
