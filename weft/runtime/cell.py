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
from typing import Any

from weft.graph.node import Node
from weft.runtime.context import LOCAL, Undo

WRITING = threading.RLock()  # a part of an array is written by one thread at a time: others may be writing other parts
BEING_WRITTEN: set[Any] = set()  # leaves that get their content when ``WRITING`` is free again: see ``compute_now.in_own_memory``
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
