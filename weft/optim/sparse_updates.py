"""Updates of only the touched rows of a table and its state.

The functions return writes instead of performing them, so that all parameters of a step are written together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array import Array, wrap
from weft.array.indexing import check_pending_indices
from weft.dtypes.parse import parse_dtype
from weft.functions.elementwise.ufuncs import not_equal
from weft.functions.indexing.where import where
from weft.graph.node import Node
from weft.graph.primitives.call import call, cast
from weft.graph.table_gradients import find_scatters, summed
from weft.nn.module import Module
from weft.optim.atomic_update import Writes

Rule = Callable[[Array, Array, dict[str, Array]], tuple[Array, dict[str, Array]]]


def sparse_parameter_names(tree: Any) -> frozenset[str]:
    """Return the names, as in ``named_arrays``, of the tables of layers made with ``sparse=True``."""
    if isinstance(tree, Module):
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
    rows = summed(parts, gradient.shape[0])
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
