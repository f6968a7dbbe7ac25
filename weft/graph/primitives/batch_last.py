"""Batching with the batch as the last dimension, along which vectors lie: for arrays whose own rows are too short for that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from weft.dtypes.formats import FLOAT32, FLOAT64
from weft.graph.node import Node, Primitive
from weft.graph.primitives.call import broadcast_to, call, permute, reshape
from weft.graph.primitives.common import NodeAndAxis, extent
from weft.graph.primitives.dot_general import Pair, free_axes
from weft.graph.primitives.settings import has_formats
from weft.graph.primitives.table import bind

SHORT_ROW = 8  # elements: fewer do not fill a vector
_MOVES = frozenset(("reshape", "permute", "broadcast_to", "slice", "pad", "concat", "slice_set"))

# how parameters that number or measure dimensions change if the batch, of n elements, becomes the last dimension
_PARAMETER_LIFTS: dict[str, Callable[[Any, int], Any]] = {
    "axes": lambda axes, n: (*axes, len(axes)), "shape": lambda shape, n: (*shape, n), "step": lambda steps, n: (*steps, 1),
    **dict.fromkeys(("start", "low", "high"), lambda positions, n: (*positions, 0)),
}


def move_batch_last(x: Node, dim: int | None) -> Node:
    """Move the batch dimension behind all others. Without one, append a dimension of 1 unless x is a number."""
    if dim is None:
        return reshape(x, (*x.shape, 1)) if x.shape else x
    return permute(x, (*(d for d in range(len(x.shape)) if d != dim), dim))


def spread_batch_last(x: Node, dim: int | None, count: int) -> Node:
    """Return x with a batch dimension of ``count`` behind all others, repeating x if it is not batched."""
    return move_batch_last(x, dim) if dim is not None else broadcast_to(move_batch_last(x, None), (*x.shape, count))


def apply_batch_last(op: Primitive, inputs: Sequence[Node], dims: Sequence[int | None], params: Mapping[str, Any]) -> NodeAndAxis:
    """Return a primitive on batched operands.

    The batch is the last dimension of element-wise primitives, moves and small products. Others follow their own rule.
    """
    if op.kind == "elementwise" and not _has_long_rows(inputs, dims):
        out = bind(op, *map(move_batch_last, inputs, dims), **params)
    elif op.name in _MOVES:
        n = extent(inputs, dims)
        lifted = {key: _PARAMETER_LIFTS[key](value, n) if key in _PARAMETER_LIFTS else value for key, value in params.items()}
        out = bind(op, *[spread_batch_last(x, d, n) for x, d in zip(inputs, dims, strict=True)], **lifted)
    elif op.name == "dot_general" and not has_formats(params) and _is_small(inputs[0], dims[0], params["contract"]):
        out = _small_product([*map(move_batch_last, inputs, dims)], params["contract"], params["batch"])
    else:
        assert op.batch is not None
        return op.batch(inputs, dims, **params)
    return out, len(out.shape) - 1


def _has_long_rows(inputs: Sequence[Node], dims: Sequence[int | None]) -> bool:
    """Return whether the batch is in front of rows that fill vectors, as large products leave it."""
    wide = [(x.shape[-1], d) for x, d in zip(inputs, dims, strict=True) if d is not None and len(x.shape) > 1]
    return bool(wide) and all(d == 0 for _, d in wide) and max(wide)[0] >= SHORT_ROW


def _is_small(a: Node, dim: int | None, contract: Pair) -> bool:
    shape = [n for d, n in enumerate(a.shape) if d != dim]
    return a.dtype in (FLOAT32, FLOAT64) and bool(contract[0]) and 0 < prod([shape[d] for d in contract[0]]) < SHORT_ROW


def _small_product(operands: Sequence[Node], contract: Pair, batch: Pair) -> Node:
    """Return a product as a sum of products of numbers, whose last dimension of operands and result is the batch."""
    free = [free_axes(len(x.shape) - 1, c, d) for x, c, d in zip(operands, contract, batch, strict=True)]
    parts = []
    for k, x in enumerate(operands):
        x = permute(x, (*batch[k], *free[k], *contract[k], len(x.shape) - 1))
        nb, nf = len(batch[k]), len(free[k])
        own, ones = x.shape[nb : nb + nf], (1,) * len(free[1 - k])
        parts.append(reshape(x, (*x.shape[:nb], *(own + ones if k == 0 else ones + own), *x.shape[nb + nf :])))
    first = len(batch[0]) + len(free[0]) + len(free[1])
    axes = tuple(range(first, first + len(contract[0])))
    return call.reduce_sum(call.multiply(*parts), axes=axes, keepdims=False)
