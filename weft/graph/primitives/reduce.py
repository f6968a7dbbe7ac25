"""Reductions: sum, max and min (any and all on bool), positions of extremes.

``prod`` of floats multiplies the elements in order, as NumPy does: of partial products one may reach 0 and another infinity,
whose product is NaN. Sums of float16 and bfloat16 accumulate in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.dtypes.formats import INT64, Format, Kinds
from weft.errors import ShapeError
from weft.graph.node import Node, Primitive, Shape
from weft.graph.primitives.call import broadcast_to, call, cast, flip, full, permute, reshape
from weft.graph.primitives.common import NodeAndAxis, compute_in_float32, inverse, reduction_cost, zero_vjp
from weft.graph.primitives.kinds import ALL, NUMBERS
from weft.graph.primitives.rules import check_axes, check_dtype, memoise
from weft.graph.primitives.table import register


def kept_shape(shape: Shape, axes: Sequence[int]) -> Shape:
    """Return the shape with the reduced axes as 1."""
    return tuple(1 if d in axes else n for d, n in enumerate(shape))


def _rule(name: str, allowed: Kinds, identity: bool, out: Format | None = None) -> Callable[..., Any]:
    def rule(x: Node, axes: tuple[int, ...], keepdims: bool) -> tuple[Shape, Format]:
        check_dtype(name, x, allowed)
        return shape(x.shape, axes, keepdims), out or x.dtype

    @memoise
    def shape(x: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
        check_axes(name, axes, len(x))
        if not identity and 0 in x and any(x[a] == 0 for a in axes):
            raise ShapeError(f"{name}: x {x} has no elements along axes {axes}, and {name} of nothing is not defined.")
        return kept_shape(x, axes) if keepdims else tuple([n for d, n in enumerate(x) if d not in axes])

    return rule


def _batch(name: str) -> Callable[..., NodeAndAxis]:
    def rule(inputs: Sequence[Node], dims: Sequence[int | None], axes: tuple[int, ...], keepdims: bool) -> NodeAndAxis:
        x, dim = inputs[0], dims[0]
        assert dim is not None
        order = [d for d in range(len(x.shape)) if d != dim]  # dimensions of x without the batch
        moved = tuple(order[a] for a in axes)
        return getattr(call, name)(x, axes=moved, keepdims=keepdims), dim if keepdims else dim - sum(a < dim for a in moved)

    return rule


def _with_kept_dims(node: Node, x: Node, axes: tuple[int, ...], keepdims: bool) -> Node:
    """Return a reduced node with the reduced dimensions as 1."""
    return node if keepdims else reshape(node, kept_shape(x.shape, axes))


def _sum_vjp(g: Node, out: Node, x: Node, axes: tuple[int, ...], keepdims: bool) -> tuple[Node]:
    return (broadcast_to(_with_kept_dims(g, x, axes, keepdims), x.shape),)


def _extreme_vjp(g: Node, out: Node, x: Node, axes: tuple[int, ...], keepdims: bool) -> tuple[Node]:
    """Split the cotangent evenly among the elements equal to the extreme."""
    winners = cast(call.equal(x, _with_kept_dims(out, x, axes, keepdims)), x.dtype)
    count = call.reduce_sum(winners, axes=axes, keepdims=True)
    return (call.multiply(winners, call.divide(_with_kept_dims(g, x, axes, keepdims), count)),)


def _prod_vjp(g: Node, out: Node, x: Node, axes: tuple[int, ...], keepdims: bool) -> tuple[Node]:
    """Return the derivative through products of pairs, pairs of pairs, ... It divides by nothing, so zeros in x are allowed.

    Derivatives of higher order are correct for the same reason.
    """
    free = tuple(d for d in range(len(x.shape)) if d not in axes)
    order = free + axes
    lead = tuple(x.shape[d] for d in free)
    n = prod([x.shape[d] for d in axes])
    level = reshape(permute(x, order), (*lead, n))
    swapped: list[tuple[int, Node]] = []  # (extent, each element's partner)
    axis = len(lead)
    while n > 1:
        if n % 2:
            level = call.concat(level, full(1, (*lead, 1), x.dtype), axis=axis)
        pairs = reshape(level, (*lead, (n + 1) // 2, 2))
        swapped.append((n, flip(pairs, (axis + 1,))))
        n = (n + 1) // 2
        level = call.reduce_prod(pairs, axes=(axis + 1,), keepdims=False)  # stored: an expression of all levels is as long as x
    down = reshape(g, (*lead, 1))
    for n, partner in reversed(swapped):
        half = (n + 1) // 2
        down = reshape(call.multiply(reshape(down, (*lead, half, 1)), partner), (*lead, half * 2))
        if n % 2:
            down = call.slice(down, start=(0,) * (axis + 1), step=(1,) * (axis + 1), shape=(*lead, n))
    down = broadcast_to(down, (*lead, prod([x.shape[d] for d in axes])))  # n == 0
    return (permute(reshape(down, tuple(x.shape[d] for d in order)), inverse(order)),)


def _reduction_reference(fn: Any) -> Callable[..., np.ndarray]:
    def reference(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
        # a reduction over no axes adds nothing, not even the 0 that would turn -0 into 0
        return fn.reduce(x, axis=axes, keepdims=keepdims, dtype=x.dtype) if axes else x

    return compute_in_float32(reference)


def _position_reference(fn: Callable[..., Any]) -> Callable[..., np.ndarray]:
    def reference(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
        free = tuple(d for d in range(x.ndim) if d not in axes)
        flat = x.transpose(free + axes).reshape([x.shape[d] for d in free] + [prod([x.shape[d] for d in axes])])
        out = np.asarray(fn(flat, axis=-1)).astype(np.int64)
        return out.reshape(kept_shape(x.shape, axes)) if keepdims else out

    return compute_in_float32(reference)


def _entry(
    name: str, monoid: str, allowed: Kinds, reference: Any, vjp: Any, identity: bool, out: Format | None = None
) -> None:
    register(Primitive(
        name, "reduce", _rule(name, allowed, identity, out), reference, None, vjp, _batch(name), reduction_cost,
        monoid=monoid,
    ))


_entry("reduce_sum", "sum", NUMBERS, _reduction_reference(np.add), _sum_vjp, True)
_entry("reduce_prod", "prod", NUMBERS, _reduction_reference(np.multiply), _prod_vjp, True)
_entry("reduce_max", "max", ALL, _reduction_reference(np.maximum), _extreme_vjp, False)
_entry("reduce_min", "min", ALL, _reduction_reference(np.minimum), _extreme_vjp, False)
_entry("argmax", "argmax", ALL, _position_reference(np.argmax), zero_vjp, False, INT64)
_entry("argmin", "argmin", ALL, _position_reference(np.argmin), zero_vjp, False, INT64)
