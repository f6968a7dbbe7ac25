"""Cell: everything mutable. It holds the node that is its content now; a write gives it another node.

Nodes never change their meaning, so the node itself is the cell's version: whoever remembers what a cell held
(views, captured inputs of a jitted function) compares nodes by identity.

While a function is traced its cells are not touched: the trace keeps what was read and written, see
``weft.transforms.trace``. ``LOCAL`` says which trace this thread is in.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from weft.graph.node import Node


class Tracing(Protocol):
    """What a trace offers to cells."""

    looks: str  # why a look is refused here; empty where it is allowed

    def read(self, cell: Cell) -> Node: ...
    def write(self, cell: Cell, node: Node) -> None: ...
    def scalar(self, value: float, dtype: Any) -> Node | None: ...


class Undo(Protocol):
    """What remembers what cells held: see ``weft.transforms.landing``."""

    def note(self, cell: Cell) -> None: ...
    def take(self, later: Any) -> None: ...


class Watching(Protocol):
    """What a profile puts in the place of what runs."""

    def executable(self, graph: Any) -> Any: ...
    def twin(self, jitted: Any) -> Any: ...


class Handles(list[Any]):
    """Weak references to the Arrays of one thread whose contents are pending, see ``weft.held``; some are dead by now.

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
    # which ``weft/__init__.py`` looks up): see ``transforms/device.py``
    chosen: Any = _ENVIRONMENT.get(_GIVEN, _GIVEN)
    place: Any  # the same of this thread
    device: str | None = None  # its name; None also where programs are placed, for what is small runs on the CPU then
    trace: Any = None  # the innermost trace of this thread
    keep: int = 0  # above 0: looks leave the graph as it is, a gradient is going to walk it
    variables: frozenset[Any] = frozenset()  # nodes that a gradient differentiates by while it calls the user's function
    inside: int = 0  # above 0: in a trace or a gradient, where jitted functions are inlined
    flush: bool = False  # programs made now flush denormals to zero
    watch: Watching | None = None  # a profile of what this thread runs
    patience: float = 1.0  # how much of the time to compile it a graph may lose before it is compiled, see ``unseen.py``; 0: none
    refused: Any = None  # who was refused bytes that he could have written to, and where: see ``Looks._exported``
    at_once: int  # bytes: results up to so many are computed in the operator, see ``at_once.py``; 0: none
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
WRITING = threading.RLock()  # a part of an array is written by one thread at a time: others may be writing other parts
BEING_WRITTEN: set[Any] = set()  # leaves that get their content when ``WRITING`` is free again: see ``at_once.in_own_memory``
UNDO: dict[int, Undo] = {}  # thread -> what it is to remember what arrays held before it writes them
FOLLOWED = [0]  # changes whenever a view remembers by a weak reference what it was followed from
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=WRITING.acquire, after_in_parent=WRITING.release, after_in_child=WRITING.release)


class Cell:
    """A content that can be replaced. ``_trace`` is the trace it was made in, None outside."""

    __slots__ = ("__weakref__", "_node", "_trace")

    _node: Node
    _trace: Any


def read(cell: Cell) -> Node:
    """What the cell holds, as this thread sees it."""
    trace = LOCAL.trace
    if trace is None or cell._trace is trace:
        return cell._node
    return trace.read(cell)


def write(cell: Cell, node: Node) -> None:
    """Replace the content, as this thread sees it."""
    trace = LOCAL.trace
    if trace is None or cell._trace is trace:
        cell._node = node
    else:
        trace.write(cell, node)


@contextmanager
def seen_from(trace: Any) -> Iterator[None]:
    """What is made meanwhile belongs to ``trace``, which this thread is in as well (None: to no trace at all), and is not taken
    back."""
    me = threading.get_ident()
    inner, undo = LOCAL.trace, UNDO.pop(me, None)
    LOCAL.trace = trace
    try:
        yield
    finally:
        LOCAL.trace = inner
        if undo is not None:
            UNDO[me] = undo


def traces() -> Iterator[Any]:
    """The traces that this thread is in, the innermost first."""
    trace = LOCAL.trace
    while trace is not None:
        yield trace
        trace = trace.parent


def place_of(home: Any) -> Any:
    """Where the arrays of an object belong that was made in the trace ``home``: there, while this thread is in it, else in the
    next one around it; None outside of all. So they live as long as the object does, and a trace that fails leaves them whole."""
    while home is not None and not any(trace is home for trace in traces()):
        home = home.parent
    return home
