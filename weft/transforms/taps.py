"""Taps: variables beside the arguments of a gradient, whose gradients a watch receives.

Code inside of the differentiated function adds a variable with :func:`add_tap` and passes it to a function with a derivative
rule, whose ``bwd`` returns, as the variable's gradient, what is measured of the cotangent. The innermost ``value_and_grad`` of
the same trace delivers it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

from weft.array import Array, wrap
from weft.graph.node import Node
from weft.graph.primitives.table import TABLE, bind
from weft.runtime.context import CONTEXT

_IDENTITY = TABLE["identity"]


class _Innermost(threading.local):
    taps: Taps | None = None


_INNERMOST = _Innermost()


class Taps:
    """The taps of one gradient: a context manager for the call of its function."""

    __slots__ = ("before", "observed", "of", "trace")

    def __init__(self) -> None:
        self.of: dict[Any, tuple[list[Node], Callable[[list[Array]], None]]] = {}  # by key
        self.observed: dict[Any, tuple[Node, Callable[[Array], None]]] = {}
        self.trace: Any = CONTEXT.trace

    def __enter__(self) -> Self:
        self.before, _INNERMOST.taps = _INNERMOST.taps, self
        return self

    def __exit__(self, *exception: object) -> None:
        _INNERMOST.taps = self.before

    @property
    def nodes(self) -> list[Node]:
        return [node for nodes, _ in self.of.values() for node in nodes]

    def deliver(self, gradients: Mapping[Node, Node]) -> None:
        """Call the receivers with the gradients by their taps."""
        for nodes, receive in self.of.values():
            receive([wrap(gradients[node]) for node in nodes])
        for node, observe in self.observed.values():
            if node in gradients:
                observe(wrap(gradients[node]))


def observe_gradient(key: Any, variable: Node, receive: Callable[[Array], None]) -> None:
    """Call ``receive`` with the gradient by a variable when a ``value_and_grad`` of the same trace has computed it."""
    taps = _INNERMOST.taps
    while taps is not None and taps.trace is CONTEXT.trace:
        taps.observed[key] = variable, receive
        taps = taps.before


def add_tap(key: Any, content: Array, receive: Callable[[list[Array]], None]) -> Array | None:
    """Return a variable with this content, or None outside of gradients.

    The first ``receive`` of a key will be called with the gradients by all of its variables.
    """
    taps = _INNERMOST.taps
    if taps is None or taps.trace is not CONTEXT.trace:
        return None
    node = bind(_IDENTITY, content.node)
    taps.of.setdefault(key, ([], receive))[0].append(node)
    return wrap(node)
