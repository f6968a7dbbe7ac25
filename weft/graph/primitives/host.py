"""Primitives that NumPy runs on the host, between kernels, because they have no kernel form."""

from __future__ import annotations

import numpy as np

from weft.dtypes.formats import INT64, Format
from weft.graph.node import Cost, Node, Primitive, Shape
from weft.graph.primitives.call import call, full, reshape
from weft.graph.primitives.common import batch_in_front, compute_in_float32, traffic, zero_vjp
from weft.graph.primitives.rules import Rule, check_axis
from weft.graph.primitives.table import register


def _rule(name: str, out: Format | None = None) -> Rule:
    def rule(x: Node, axis: int) -> tuple[Shape, Format]:
        check_axis(name, axis, len(x.shape))
        return x.shape, out or x.dtype

    return rule


def _argsort(x: np.ndarray, axis: int) -> np.ndarray:
    return np.argsort(x, axis=axis, kind="stable").astype(np.int64)


def _sort_vjp(g: Node, out: Node, x: Node, axis: int) -> tuple[Node | None, ...]:
    """Scatter each element's derivative to the element's origin, which a stable argsort determines also for equal elements."""
    places = [
        call.argsort(x, axis=axis) if a == axis
        else reshape(call.iota(shape=(n,), dtype=INT64, axis=0), tuple(n if d == a else 1 for d in range(len(x.shape))))
        for a, n in enumerate(x.shape)
    ]
    if not x.size:
        return (g,)
    return (call.scatter(full(0, x.shape, x.dtype), g, *places, axes=tuple(range(len(x.shape))), mode="own"),)


def _argsort_cost(node: Node) -> Cost:
    """n log n comparisons, each as long as 75 operations of LAPACK: NumPy's stable sort of indices is not vectorised."""
    return Cost(75 * node.size * max(1, node.shape[node.params["axis"]].bit_length()), traffic(node))


def _sort_cost(node: Node) -> Cost:
    """n log n comparisons in vector registers, where 4 bytes take as long as 3 operations of LAPACK."""
    words = max(1, node.dtype.bytes // 4)
    return Cost(3 * words * node.size * max(1, node.shape[node.params["axis"]].bit_length()), traffic(node))


register(Primitive(
    "argsort", "host", _rule("argsort", INT64), compute_in_float32(_argsort), None, zero_vjp, batch_in_front("argsort"),
    _argsort_cost, True,
))
register(Primitive(
    "sort", "host", _rule("sort"), compute_in_float32(np.sort), None, _sort_vjp, batch_in_front("sort"), _sort_cost, True,
))
