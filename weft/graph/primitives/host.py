"""Primitives that NumPy runs on the host, between kernels: what has no kernel form (yet)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.graph.node import Node, Shape
from weft.graph.primitives.call import call
from weft.graph.primitives.common import Batched, Later, front, traffic, zero_vjp
from weft.graph.primitives.kinds import ALL, INT64
from weft.graph.primitives.rules import check_axis, dtype_error
from weft.graph.primitives.table import Cost, Primitive, register

draw = Later("draw_host")


def _argsort_rule(x: Node, axis: int) -> tuple[Shape, np.dtype]:
    if x.dtype not in ALL:
        raise dtype_error("argsort", (x,), ("x",), ALL)
    check_axis("argsort", axis, len(x.shape))
    return x.shape, INT64


def _argsort(x: np.ndarray, axis: int) -> np.ndarray:
    return np.argsort(x, axis=axis, kind="stable").astype(np.int64)


def _argsort_batch(inputs: Sequence[Node], dims: Sequence[int | None], axis: int) -> Batched:
    return call.argsort(front(inputs[0], dims[0]), axis=axis + 1), 0


def _argsort_cost(node: Node) -> Cost:
    return Cost(node.size * max(1, node.shape[node.params["axis"]].bit_length()), traffic(node))


register(Primitive(
    "argsort", "host", _argsort_rule, _argsort, None, zero_vjp, _argsort_batch, _argsort_cost, draw.argsort, draw.argsort_errors,
    True,
))
