"""The state of each thread: limits of immediate work, the active trace and profile, the device, arrays that are pending."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from weft.graph.node import Node


class Tracing(Protocol):
    """What a trace offers to cells."""

    looks: str  # why a look is refused here; empty where it is allowed

    def read(self, cell: Any) -> Node: ...
    def write(self, cell: Any, node: Node) -> None: ...
    def scalar(self, value: float, dtype: Any) -> Node | None: ...


class Undo(Protocol):
    """What remembers what cells held: see ``weft.transforms.write_log``."""

    def note(self, cell: Any) -> None: ...
    def take(self, later: Any) -> None: ...


class Watching(Protocol):
    """What a profile puts in the place of what runs."""

    def executable(self, graph: Any) -> Any: ...
    def twin(self, jitted: Any) -> Any: ...


class Handles(list[Any]):
    """Weak references to the Arrays of one thread whose contents are pending, see ``weft.runtime.pending``; some are dead by now.

    limit: when there are so many, see how much is pending. swept: up to here dead ones were swept out; came: how many have come
    since all were looked at; counted: how many there were when what is pending was counted, and known: how many nodes that
    was; waits: enough is pending to be computed at a good place, or (until) when there are so many. line: where it was last.
    """

    __slots__ = ("came", "counted", "known", "limit", "line", "swept", "until", "waits")

    def __init__(self) -> None:
        super().__init__()
        self.limit = 32
        self.swept = self.came = self.counted = self.known = self.until = 0
        self.waits = False
        self.line: Any = None


_ENVIRONMENT = {"": None, "cpu": None, "cpu:0": None, "auto": None, "gpu:0": "gpu"}
_GIVEN = os.environ.get("WEFT_DEVICE", "")
_set: Any = threading.local.__setattr__
_DECIDING = frozenset(("inside", "flush", "watch", "device", "at_once"))


class _Local(threading.local):
    # where programs of new threads run: None for the CPU, another device's name, or the Figures by which each is placed ("auto",
    # which ``weft/__init__.py`` looks up): see ``transforms/settings.py``
    chosen: Any = _ENVIRONMENT.get(_GIVEN, _GIVEN)
    place: Any  # the same of this thread
    device: str | None = None  # its name; None also where programs are placed, for what is small runs on the CPU then
    trace: Any = None  # the innermost trace of this thread
    keep: int = 0  # above 0: looks leave the graph as it is, a gradient is going to walk it
    variables: frozenset[Any] = frozenset()  # nodes that a gradient differentiates by while it calls the user's function
    inside: int = 0  # above 0: in a trace or a gradient, where jitted functions are inlined
    flush: bool = False  # programs made now flush denormals to zero
    watch: Watching | None = None  # a profile of what this thread runs
    patience: float = 1.0  # how much of the time to compile it a graph may lose before it is compiled, see ``tiers.py``; 0: none
    refused: Any = None  # who was refused bytes that he could have written to, and where: see ``Looks._exported``
    at_once: int  # bytes: results up to so many are computed in the operator, see ``compute_now.py``; 0: none
    small: int  # the same where operators may do so here and now, else 0: what the words above come to, set with them

    def __init__(self) -> None:
        self.handles = Handles()
        self.at_once = 128 << 10
        self.place = _Local.chosen
        self.device = self.place if isinstance(self.place, str) else None

    def __setattr__(self, name: str, value: Any) -> None:
        _set(self, name, value)
        if name in _DECIDING:  # asked by every operator, set seldom
            elsewhere = self.inside or self.flush or self.watch is not None or self.device is not None
            _set(self, "small", 0 if elsewhere else self.at_once)


LOCAL = _Local()
