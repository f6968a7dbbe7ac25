"""A graph computed node by node: nothing is compiled, so what is seen once takes about the time that NumPy takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from weft import small
from weft.devices.base import ELSEWHERE
from weft.graph.node import Node
from weft.graph.primitives.table import CONSTANT, SCALAR
from weft.runtime import execute


def can(order: Iterable[Node]) -> bool:
    """Whether all that is pending in a graph can be computed so."""
    return all([n.value is not None or n.op is CONSTANT or small.can(n) for n in order])


def computed(order: Iterable[Node], outputs: Sequence[Node]) -> list[Any]:
    """The buffers of ``outputs``, each of memory of its own; memory is given back as soon as its last reader has read it.

    order : the nodes behind the outputs, operands first; leaves have values
    """
    asked = [(n, n.inputs) for n in order]  # inputs first: another thread may give a node its value now, and drop them
    pending = [(n, inputs) for n, inputs in asked if n.value is None and n.op is not CONSTANT]
    readers = Counter([i for _, inputs in pending for i in inputs])
    readers.update(outputs)
    contents: dict[Node, np.ndarray] = {}
    buffers: dict[Node, Any] = {}
    with np.errstate(all="ignore"):
        for node, inputs in pending:
            operands = [contents[i] if i in contents else content(i) for i in inputs]
            if node.op.view:
                assert node.op.reference is not None
                contents[node] = node.op.reference(*operands, **node.params)
            else:
                buffers[node] = buffer = execute.allocate(node.nbytes)
                contents[node] = out = execute.memory(buffer, node.shape, node.dtype)
                small.one(node, operands, out)
            del operands
            for i in inputs:
                readers[i] -= 1
                if not readers[i]:
                    contents.pop(i, None)
                    buffers.pop(i, None)
    return [
        buffers.pop(n) if n in buffers else execute.to_buffer(contents[n] if n in contents else content(n)) for n in outputs
    ]


def content(node: Node) -> np.ndarray:
    """What a node that has a value, or a number of the text, holds."""
    if node.op is CONSTANT:
        return np.asarray(node.params["value"], node.dtype.numpy)
    if ELSEWHERE:
        execute.here((node,))
    value = small.number(node.value, node.dtype) if node.op is SCALAR else node.value
    return execute.memory(value, node.shape, node.dtype)
