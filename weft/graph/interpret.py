"""Evaluation of a graph with the NumPy references: the oracle of the tests, also used to find the origin of a NaN or infinity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft.dtypes.rounding import array_in
from weft.graph.node import Graph, Node
from weft.graph.primitives import CONSTANT
from weft.graph.primitives.index import IN_BOUNDS
from weft.graph.source_lines import user_line


def interpret(graph: Graph, values: Sequence[Any]) -> list[np.ndarray]:
    """Evaluate every output.

    Parameters
    ----------
    graph : Graph
    values : an array (or, for scalar leaves, a number) for each of ``graph.inputs``, of its shape and dtype

    Returns
    -------
    list of ndarray, one an output; they may share memory with values or with each other

    Raises
    ------
    ValueError
        if a value is missing or has another shape than its input.
    IndexError
        An index is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from weft.dtypes.formats import FLOAT32
    >>> from weft.graph.node import Graph
    >>> from weft.graph.primitives import TABLE, bind, input_leaf
    >>> x = input_leaf((3,), FLOAT32)
    >>> interpret(Graph([x], [bind(TABLE["square"], x)]), [np.array([1, 2, 3], np.float32)])
    [array([1., 4., 9.], dtype=float32)]
    """
    outputs = dict.fromkeys(graph.outputs)
    values_of = {node: value for node, value in walk(graph, values) if node in outputs}
    return [values_of[o] for o in graph.outputs]


def _evaluate(node: Node, operands: list[Any]) -> Any:
    """Evaluate one node. An index error names the user's line."""
    assert node.op.reference is not None
    try:
        return node.op.reference(*operands, **node.params)
    except IndexError as error:
        if node.op is not IN_BOUNDS:
            raise
        raise IndexError(f"{error} ({user_line(node.source_line)})") from None


def walk(graph: Graph, values: Sequence[Any]) -> Iterator[tuple[Node, Any]]:
    """Evaluate the nodes in the graph's order. A value is released after its last reader.

    Yields
    ------
    (node, its array); for a loop (node, list of its results)
    """
    if len(values) != len(graph.inputs):
        raise ValueError(f"interpret: the graph has {len(graph.inputs)} inputs and {len(values)} values were given.")
    computed: dict[Node, Any] = {}
    for k, (node, value) in enumerate(zip(graph.inputs, values, strict=True)):
        array = array_in(value, node.dtype)
        if array.shape != node.shape:
            raise ValueError(f"interpret: value {k} has shape {array.shape} and input {k} has {node.shape}.")
        computed[node] = array
        yield node, array
    uses: dict[Node, int] = dict.fromkeys(graph.inputs, 1)  # the inputs belong to the caller
    for node in graph.order:
        for i in node.inputs:
            uses[i] = uses.get(i, 0) + 1
    for node in graph.order:
        if node in computed:
            continue
        if node.op is CONSTANT:
            computed[node] = array_in(node.params["value"], node.dtype)
            yield node, computed[node]
            continue
        if node.op.reference is None or node.value is not None:
            raise ValueError(f"interpret: {node!r} is a leaf, but not among the graph's inputs.")
        result: Any = _evaluate(node, [computed[i] for i in node.inputs])
        if node.op.kind != "loop":  # a loop returns a list of results, which its items read
            result = np.asarray(result)
            if result.dtype != node.dtype.numpy or result.shape != node.shape:
                raise AssertionError(f"{node!r}: the reference gave {result.dtype}{list(result.shape)}")
        computed[node] = result
        yield node, result
        for i in node.inputs:
            uses[i] -= 1
            if not uses[i]:
                del computed[i]
