"""The writes of an update: all together or none, and of a sparse table only the touched rows.

The functions for rows return writes instead of performing them, so that all parameters of a step are written together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from weft.array import Array, Scalar, ndarray, wrap
from weft.array.convert import convert_assigned
from weft.array.indexing import broadcast_value, check_pending_indices
from weft.dtypes.parse import parse_dtype
from weft.eager.materialise import compute_fallible
from weft.functions.elementwise.ufuncs import not_equal
from weft.functions.indexing.where import where
from weft.graph.node import Node
from weft.graph.primitives.call import call, cast
from weft.graph.table_gradients import find_scatters, sum_rows
from weft.transforms.tree import is_module

Writes = list[tuple[Array, Any]]  # (target, content)
Rule = Callable[[Array, Array, dict[str, Array]], tuple[Array, dict[str, Array]]]


def write_together(writes: Sequence[tuple[Array, Any]], others: Iterable[Array] = ()) -> None:
    """Write all contents, or none if any of them, or of ``others``, fails.

    Contents and ``others`` that may raise are computed before the first write.
    """
    for target, node in prepare_writes(writes, others):
        target._set(node)


def prepare_writes(writes: Sequence[tuple[Array, Any]], others: Iterable[Array] = ()) -> list[tuple[Array, Node]]:
    """Return each target with the node to write, after computing all nodes that may raise, ``others`` included."""
    nodes = [_convert_content(target, content) for target, content in writes]
    compute_fallible([*nodes, *[x.node for x in others]])
    return list(zip([target for target, _ in writes], nodes, strict=True))


def _convert_content(target: Array, content: Any) -> Node:
    """Return the content as a node with the target's dtype and shape."""
    current = target.node
    if target.read_only:
        target[...] = content  # raises
    if type(content) in (ndarray, Scalar):
        node = content.node
        if node.dtype is current.dtype and node.shape == current.shape:
            return node
    return broadcast_value(convert_assigned(content, current.dtype), current.shape)


def sparse_parameter_names(tree: Any) -> frozenset[str]:
    """Return the names, as in ``named_arrays``, of the tables of layers made with ``sparse=True``."""
    if is_module(tree):
        layers = ((f"{name}." if name else "", module) for name, module in tree.modules())
        return frozenset(f"{prefix}weight" for prefix, module in layers if getattr(module, "sparse", False))
    if isinstance(tree, Array):
        return frozenset()
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    return frozenset(f"{key}.{inner}" for key, value in items for inner in sparse_parameter_names(value))


def touched_rows(gradient: Array, dtype: np.dtype) -> tuple[Node, Array] | None:
    """Return the numbers of the touched rows and their gradient if the graph of ``gradient`` contains them, else None."""
    parts = find_scatters(gradient.node, parse_dtype(dtype)) if gradient.size else None
    if parts is None or not sum(p.indices.size for p in parts):
        return None
    rows = sum_rows(parts, gradient.shape[0])
    return rows.numbers, wrap(rows.values)


def update_rows(p: Array, g: Array, numbers: Node, state: dict[str, Array], dtype: np.dtype, rule: Rule) -> Writes:
    """Return the writes of ``rule`` at the rows ``numbers`` of a parameter and its state; ``g`` has only these rows."""
    check_pending_indices((numbers,))

    def at(a: Array) -> Array:
        return wrap(cast(call.gather(a.node, numbers, axes=(0,)), parse_dtype(dtype)))

    new_value, new_state = rule(at(p), g, {slot: at(content) for slot, content in state.items()})

    def into(target: Array, content: Array) -> Array:
        rows = cast(content.node, target.node.dtype)
        return wrap(call.scatter(target.node, rows, numbers, axes=(0,), mode="own"))

    contents = [*[(state[slot], content) for slot, content in new_state.items()], (p, new_value)]
    return [(target, into(target, content)) for target, content in contents]


def update_where_touched(p: Array, g: Array, state: dict[str, Array], dtype: np.dtype, rule: Rule) -> Writes:
    """Return the writes of ``rule`` where a row of the gradient has a nonzero element; other rows are unchanged."""
    touched: Array = not_equal(g, 0).any(axis=tuple(range(1, g.ndim)), keepdims=True) if g.ndim > 1 else not_equal(g, 0)
    before = p.astype(dtype)
    new_value, new_state = rule(before, g, state)
    state_writes = [(state[slot], where(touched, content, state[slot])) for slot, content in new_state.items()]
    return [*state_writes, (p, where(touched, new_value, before))]
