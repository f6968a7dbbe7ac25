"""All that is asked of a driver of cards: memory, copies, launches, marks and graphs, in the order of one stream.

So the launcher runs over any driver: NVIDIA's (``nvidia.py``), and in tests one that records, checks and interprets.
"""

from __future__ import annotations

from typing import Any, Protocol

from weft.devices.cuda.adapter import Code


class OutOfMemory(Exception):
    """The card has no such piece of memory left."""


class DriverError(RuntimeError):
    """The driver refused something: its name for that, and what was asked."""


def dotted(version: int) -> str:
    """Return a version as people write it: 12.4 for 12040, as the driver gives it."""
    return f"{version // 1000}.{version % 1000 // 10}"


class Driver(Protocol):
    """One card. All but :meth:`wait`, :meth:`synchronise` and what makes things returns before it is done; things are done in the
    order in which they were asked for, by whatever thread. Addresses are plain integers."""

    name: str
    capability: int  # 90: 9.0
    total: int  # bytes of its memory
    stream: int  # what everything is asked for in the order of, as CUDA calls it

    def enter(self) -> None:
        """Let the calling thread ask."""
        ...

    # memory: of the card, and of the host where copies need not wait for it

    def allocate(self, nbytes: int) -> int:
        """Raises OutOfMemory."""
        ...

    def release(self, address: int) -> None:
        """Give memory back, once what was asked for so far is done."""
        ...

    def trim(self) -> None:
        """Give what the driver keeps of released memory back to the system."""
        ...

    def free(self) -> int:
        """Bytes that nobody has."""
        ...

    def pinned(self, nbytes: int) -> int:
        """Memory of the host that the card reads and writes by itself; for as long as the process lives."""
        ...

    def upload(self, target: int, source: int, nbytes: int) -> None:
        """From pinned memory."""
        ...

    def download(self, target: int, source: int, nbytes: int) -> None:
        """To pinned memory."""
        ...

    def copy(self, target: int, source: int, nbytes: int) -> None: ...

    def zero(self, target: int, nbytes: int) -> None: ...

    # kernels

    def load(self, code: Code) -> Any:
        """A function, until it is unloaded."""
        ...

    def unload(self, function: Any) -> None:
        """Give back what :meth:`load` took, once no launch of it is under way."""
        ...

    def launch(self, function: Any, grid: tuple[int, int], code: Code, parameters: int) -> None:
        """parameters : the address of an array of addresses of values; these are read before it returns"""
        ...

    # time

    def mark(self, mark: Any = None) -> Any:
        """Remember this moment, in a mark that is there or a new one."""
        ...

    def wait(self, mark: Any) -> None:
        """Return when everything up to a mark is done."""
        ...

    def reached(self, mark: Any) -> bool:
        """Whether everything up to a mark is done."""
        ...

    def stamp(self) -> Any:
        """A mark that knows its time."""
        ...

    def passed(self, first: Any, second: Any) -> float:
        """Seconds between two such marks that are reached."""
        ...

    def synchronise(self) -> None: ...

    # others on the same card, who have streams of their own; 1 and 2 are CUDA's default streams

    def lead(self, stream: int) -> None:
        """What others ask for on a stream from here on waits for what was asked for here."""
        ...

    def follow(self, stream: int) -> None:
        """What is asked for here from here on waits for what others asked for on a stream."""
        ...

    def settle(self) -> None:
        """Return when all that anybody asked for on this card is done."""
        ...

    def lies(self, address: int) -> int | None:
        """The number of the card on which an address lies; None where it is no card's memory."""
        ...

    # graphs

    def record(self) -> None:
        """From here on nothing is done but recorded; memory must not be asked for."""
        ...

    def recorded(self) -> Any:
        """What was recorded, as a graph."""
        ...

    def replay(self, graph: Any) -> None: ...

    def drop(self, graph: Any) -> None: ...
