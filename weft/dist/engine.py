"""What a message-passing library must offer: messages of bytes between two ranks, and an end of the whole job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np


class Request(Protocol):
    """A message on its way."""

    def Test(self) -> bool:
        """Return whether the message has been sent or received, and let the library work on it."""


class Engine(Protocol):
    """A message-passing library. Messages between two ranks that have one tag arrive in the order of sending.

    takes_threads : whether several threads may call it at the same time
    """

    rank: int
    size: int
    takes_threads: bool

    def isend(self, data: np.ndarray, to: int, tag: int) -> Request:
        """Begin to send contiguous bytes, which must not change before the request is done."""

    def irecv(self, data: np.ndarray, source: int, tag: int) -> Request:
        """Begin to receive as many bytes as ``data`` has."""

    def finish(self) -> None:
        """End the library's work on this rank, after the last message."""

    def abort(self, code: int) -> None:
        """End all ranks of the job with an exit code."""


class Waiter(Protocol):
    """A rank as the algorithms see it."""

    rank: int
    size: int

    def wait(self, requests: Sequence[tuple[Request, int]], what: str) -> None:
        """Wait until the requests, each with the rank at the other end, are done."""
