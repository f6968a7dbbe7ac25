"""The interface of a driver of cards: memory, copies, launches, events and graphs, ordered by one stream.

The launcher runs over any driver: NVIDIA's (``nvidia.py``), or in tests one that records, checks and interprets.
"""

from __future__ import annotations

from typing import Any, Protocol

from weft.devices.cuda.adapter import Code


class OutOfMemory(Exception):
    """The card has no free piece of memory of the requested size."""


class DriverError(RuntimeError):
    """The driver rejected a call. The text names the error and the call."""


def dotted(version: int) -> str:
    """Return a driver's version number as text: 12040 as 12.4."""
    return f"{version // 1000}.{version % 1000 // 10}"


class Driver(Protocol):
    """One card. Calls are asynchronous, except :meth:`wait`, :meth:`synchronise`, :meth:`settle` and those that create objects.

    Operations run in the order of the calls, from whatever thread. Addresses are integers.
    """

    name: str
    capability: int  # 90 is 9.0
    total: int  # bytes of memory
    stream: int  # CUDA's handle of the stream that orders all operations

    def enter(self) -> None:
        """Make the card current in the calling thread."""

    # memory of the card, and pinned memory of the host

    def allocate(self, nbytes: int) -> int:
        """Return memory of the card. Raises OutOfMemory."""

    def release(self, address: int) -> None:
        """Free memory after the operations issued so far."""

    def trim(self) -> None:
        """Return released memory that the driver keeps to the system."""

    def free(self) -> int:
        """Return the bytes of free memory."""

    def pinned(self, nbytes: int) -> int:
        """Return host memory that the card accesses directly. It lives as long as the process."""

    def upload(self, target: int, source: int, nbytes: int) -> None:
        """Copy from pinned memory to the card."""

    def download(self, target: int, source: int, nbytes: int) -> None:
        """Copy from the card to pinned memory."""

    def copy(self, target: int, source: int, nbytes: int) -> None: ...

    def zero(self, target: int, nbytes: int) -> None: ...

    # kernels

    def load(self, code: Code) -> Any:
        """Load a function; it stays loaded until :meth:`unload`."""

    def unload(self, function: Any) -> None:
        """Unload a function. No launch of it may be running."""

    def launch(self, function: Any, grid: tuple[int, int], code: Code, parameters: int) -> None:
        """Launch a function. parameters: address of an array of addresses of values, which are read before it returns."""

    # time

    def mark(self, mark: Any = None) -> Any:
        """Record an event, in ``mark`` or a new one."""

    def wait(self, mark: Any) -> None:
        """Return when all operations before a mark are done."""

    def reached(self, mark: Any) -> bool:
        """Return whether all operations before a mark are done."""

    def stamp(self) -> Any:
        """Record an event with a time."""

    def passed(self, first: Any, second: Any) -> float:
        """Return the seconds between two such events, both reached, and destroy them."""

    def synchronise(self) -> None: ...

    # streams of other libraries on the same card; 1 and 2 are CUDA's default streams

    def lead(self, stream: int) -> None:
        """Make later operations of another stream wait for the operations issued here so far."""

    def follow(self, stream: int) -> None:
        """Make later operations here wait for the operations of another stream so far."""

    def settle(self) -> None:
        """Return when all operations on this card, of all libraries, are done."""

    def lies(self, address: int) -> int | None:
        """Return the number of the card that an address belongs to; None if it is not a card's memory."""

    # graphs

    def record(self) -> None:
        """Begin recording: operations are recorded, not run. Memory must not be allocated."""

    def recorded(self) -> Any:
        """End recording and return the operations as a graph."""

    def replay(self, graph: Any) -> None: ...

    def drop(self, graph: Any) -> None: ...
