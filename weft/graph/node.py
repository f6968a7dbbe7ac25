"""Node: one operation asked for, and Graph: a set of them with inputs and outputs.

A node knows what was asked (operation, inputs, parameters) and what comes out (shape, dtype). It knows
no device and no Array. Nodes are compared by identity; structural keys are computed per graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.formats import Format

if TYPE_CHECKING:
    from weft.graph.primitives.table import Primitive

Shape = tuple[int, ...]


class Node:
    """One operation of a graph.

    Immutable but for ``value``: when a run has computed the node, the runtime stores the buffer there and
    drops ``inputs``, so that the memory of the operands can be reused. A node with a ``value`` is a leaf.

    Attributes
    ----------
    op : Primitive
    inputs : tuple of Node
    params : dict, never changed after construction; keys in the order the primitive declares them
    shape, dtype : of the result; ``dtype`` is a Format
    where : (code, instruction) of the user's line, in a profile (code, instruction, layer, phase): see ``origin.py``
    value : None, or the buffer (runtime) or Python number (scalar leaf) that holds the result
    holder : None, or a weak reference to the Cell through which the user can reach this node; of a scan, weak references
        to its results
    """

    __slots__ = ("__weakref__", "dtype", "holder", "inputs", "op", "params", "shape", "value", "where")

    def __init__(
        self, op: Primitive, inputs: tuple[Node, ...], params: dict[str, Any], shape: Shape, dtype: Format,
        where: Any = None, value: Any = None,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.params = params
        self.shape = shape
        self.dtype = dtype
        self.where = where
        self.value = value
        self.holder: Any = None

    @property
    def size(self) -> int:
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.bytes

    def __repr__(self) -> str:
        shape = ",".join(map(str, self.shape))
        return f"<{self.op.name} {self.dtype}[{shape}]>"


class Graph:
    """Outputs asked for, as a function of leaves.

    ``inputs`` are the leaves whose contents a run is given, in order: placeholders and nodes with a value.
    Constants are not among them: they are part of the graph's key.
    """

    __slots__ = ("inputs", "order", "outputs")

    def __init__(self, inputs: Sequence[Node], outputs: Sequence[Node], order: Sequence[Node] | None = None) -> None:
        """``order``: what ``topological`` gives for the outputs, where it is known."""
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.order = topological(self.outputs, stop=frozenset(self.inputs)) if order is None else tuple(order)

    def key(self) -> tuple:
        """A hashable description: equal keys mean the same computation on the same shapes and dtypes."""
        number: dict[Node, int] = {}
        rows: list[tuple] = []
        for node in self.inputs:
            number[node] = len(number)
            rows.append((node.op.name if node.op.name == "scalar" else "input", node.shape, node.dtype))
        for node in self.order:
            if node in number:
                continue
            number[node] = len(number)
            params = node.params
            operands = tuple([number[i] for i in node.inputs])
            rows.append((node.op.name, operands, frozen(params), node.shape, node.dtype))
        return (len(self.inputs), tuple(rows), tuple([number[o] for o in self.outputs]))

    def __repr__(self) -> str:
        number: dict[Node, int] = {}
        lines = []
        for node in self.order:
            number[node] = len(number)
            args = ", ".join(f"%{number[i]}" for i in node.inputs if i in number)
            params = ", ".join(f"{k}={v}" for k, v in node.params.items())
            call = f"{node.op.name}({args}{'; ' if params else ''}{params})"
            lines.append(f"%{number[node]} = {call} {node.dtype}{list(node.shape)}")
        lines.append("return " + ", ".join(f"%{number[o]}" for o in self.outputs))
        return "\n".join(lines)


def frozen(params: dict[str, Any]) -> tuple:
    """Parameters as a key; numbers by their bits, since 0.0 == -0.0 and NaN != NaN."""
    if not params:
        return ()
    return tuple([
        (k, v.dtype, v.tobytes()) if isinstance(v, np.generic) else (k, type(v), repr(v) if isinstance(v, float) else v)
        for k, v in params.items()
    ])


def topological(outputs: Iterable[Node], stop: Set[Node] = frozenset()) -> tuple[Node, ...]:
    """Every node the outputs need, operands first; nodes in ``stop`` or with a value are not entered."""
    done: set[Node] = set()
    order: list[Node] = []
    stack: list[Node] = list(outputs)[::-1]
    while stack:
        node = stack[-1]
        if node not in done:
            if node.value is None and node.inputs and node not in stop:
                missing = [i for i in node.inputs[::-1] if i not in done]
                if missing:
                    stack += missing
                    continue
            done.add(node)
            order.append(node)
        stack.pop()
    return tuple(order)
