"""Cell: the base of everything mutable. It holds the node that is its content now; a write replaces the node.

Nodes are immutable, so a node is its cell's version: views and the captured inputs of a jitted function compare nodes by identity
to detect a write.

While a function is traced, its cells are not changed: the trace records reads and writes, see ``weft.transforms.trace``.
``CONTEXT.trace`` is the innermost trace of the thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.graph.node import Node
from weft.runtime.context import CONTEXT, WriteLog

WRITE_LOCK = threading.RLock()  # held while part of an array is written: threads may write different parts of one array
NODES_BEING_WRITTEN: set[Any] = (
    set()
)  # leaves without a value until their writer releases ``WRITE_LOCK``, see ``in_place.write_if_unshared``
WRITE_LOGS: dict[int, WriteLog] = {}  # thread id -> log of the contents that its writes replace
VIEW_READS = [0]  # counter: grows whenever a view caches the node that it was read from
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=WRITE_LOCK.acquire, after_in_parent=WRITE_LOCK.release, after_in_child=WRITE_LOCK.release)


class Cell:
    """A content that can be replaced. ``_trace`` is the trace that the cell was made in, None outside of traces."""

    __slots__ = ("__weakref__", "_node", "_trace")

    _node: Node
    _trace: Any


def read(cell: Cell) -> Node:
    """Return the cell's node as the current trace sees it."""
    trace = CONTEXT.trace
    if trace is None or cell._trace is trace:
        return cell._node
    return trace.read(cell)


def write(cell: Cell, node: Node) -> None:
    """Replace the cell's node, inside the current trace if there is one."""
    trace = CONTEXT.trace
    if trace is None or cell._trace is trace:
        cell._node = node
    else:
        trace.write(cell, node)


@contextmanager
def inside_trace(trace: Any) -> Iterator[None]:
    """Make ``trace`` the current trace of this thread; with None, no trace is current. Writes inside are left out of the thread's
    write log, so they are not undone."""
    thread = threading.get_ident()
    outer_trace, log = CONTEXT.trace, WRITE_LOGS.pop(thread, None)
    CONTEXT.trace = trace
    try:
        yield
    finally:
        CONTEXT.trace = outer_trace
        if log is not None:
            WRITE_LOGS[thread] = log


def traces() -> Iterator[Any]:
    """Yield the traces of this thread, innermost first."""
    trace = CONTEXT.trace
    while trace is not None:
        yield trace
        trace = trace.parent


def owning_trace(home: Any) -> Any:
    """Return the trace that arrays of an object made in the trace ``home`` belong to: ``home`` or its innermost parent that this
    thread is in, None if there is none. The arrays then live as long as the object, and a trace that fails leaves them
    unchanged."""
    while home is not None and not any(trace is home for trace in traces()):
        home = home.parent
    return home
