"""Short names of kernels, made of the operations in them."""

from __future__ import annotations

from collections.abc import Sequence

from weft.graph.node import Node

_SHORT = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg", "maximum": "max", "minimum": "min",
    "reduce_sum": "sum", "reduce_prod": "prod", "reduce_max": "max", "reduce_min": "min", "reduce_window": "pool",
    "dot_general": "dot", "conv_general": "conv", "window_gather": "unpool", "cumulative_sum": "cumsum",
    "cumulative_prod": "cumprod", "cumulative_max": "cummax", "cumulative_min": "cummin",
    "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "equal": "eq", "not_equal": "ne",
    "broadcast_to": "broadcast", "random_bits": "random", "floor_divide": "floordiv", "remainder": "rem",
    "slice_set": "write", "root_of_squares": "sqrt", "reciprocal": "recip",
    "logical_and": "and", "logical_or": "or", "logical_not": "not",
}
_LONGEST = 5


def kernel_name(nodes: Sequence[Node]) -> str:
    """Return a name such as ``dot_add_max``: the operations in order, each once.

    Element-wise operations and moves are dropped first if there are more than ``_LONGEST``.
    """
    words: dict[str, bool] = {}
    for node in nodes:
        heavy = node.op.kind not in ("elementwise", "shape", "leaf")
        word = _SHORT.get(node.op.name, node.op.name)
        words[word] = words.get(word, False) or heavy
    while len(words) > _LONGEST:
        light = [w for w, heavy in words.items() if not heavy]
        del words[light[-1] if light else next(reversed(words))]
    return "_".join(words)
