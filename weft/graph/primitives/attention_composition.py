"""Attention in nodes of other primitives, which stores all scores. Same meaning as ``attention.py``.

For derivatives of its derivatives, for random words of several seeds at once, and for devices without a kernel for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from weft.dtypes.formats import BOOL, FLOAT32, INT64, UINT64
from weft.graph.node import Node, Shape
from weft.graph.primitives.call import broadcast_to, call, cast, full, number, reshape, transpose
from weft.graph.primitives.table import constant


def split(rest: Sequence[Node], keep: float | None) -> tuple[tuple[Node, ...], tuple[Node, ...]]:
    """Return (masks, source of random words). The source is seed and base, or the words themselves."""
    if keep is None:
        return tuple(rest), ()
    count = 2 if rest[-1].dtype is UINT64 else 1
    return tuple(rest[:-count]), tuple(rest[-count:])


def _product(a: Node, b: Node, turned: bool) -> Node:
    """Return a @ b, or a @ b.mT if ``turned``, for equal leading shapes."""
    rank = len(a.shape)
    lead = tuple(range(rank - 2))
    return call.dot_general(a, b, contract=((rank - 1,), (rank - 1 if turned else rank - 2,)), batch=(lead, lead))


def _broadcast_lead(x: Node, lead: Shape) -> Node:
    return broadcast_to(x, (*lead, *x.shape[-2:]))


def _wide(*nodes: Node) -> list[Node]:
    return [cast(x, x.dtype.computed) for x in nodes]


def _causal(shape: Shape) -> Node:
    rows, columns = shape
    return call.greater_equal(
        call.iota(shape=(rows, 1), dtype=INT64, axis=0), call.iota(shape=(1, columns), dtype=INT64, axis=1)
    )


def _scores(q: Node, k: Node, masks: Sequence[Node], scale: float, causal: bool) -> Node:
    """Return the scores in the register format, which q and k have."""
    scores = call.multiply(_product(q, _broadcast_lead(k, q.shape[:-2]), True), number(scale, q))
    for mask in masks:
        if mask.dtype is not BOOL:
            scores = call.add(scores, cast(mask, q.dtype))
    allowed = [m for m in masks if m.dtype is BOOL] + ([_causal(scores.shape[-2:])] if causal else [])
    if allowed:
        every = allowed[0]
        for one in allowed[1:]:
            every = call.logical_and(every, one)
        scores = call.where(every, scores, number(-math.inf, q))
    return scores


def _apply_dropout(weights: Node, words: Sequence[Node], keep: float | None) -> Node:
    if keep is None:
        return weights
    bits = words[0] if len(words) == 1 else call.random_bits(*words, shape=weights.shape)
    unit = call.multiply(cast(call.bitwise_right_shift(bits, number(8, bits)), FLOAT32), _float32(2.0**-24))
    factor = number(1 / keep if keep else 0.0, weights)
    return call.where(call.less(unit, _float32(keep)), call.multiply(weights, factor), number(0, weights))


def _float32(value: float) -> Node:
    return constant(value, FLOAT32)


def _sums(scores: Node) -> tuple[Node, Node, Node]:
    """Return (greatest score or 0, exp(score - greatest), their sum). Rows keep a dimension of 1."""
    last = len(scores.shape) - 1
    if not scores.shape[-1]:
        return full(0, (*scores.shape[:-1], 1), scores.dtype), scores, call.reduce_sum(scores, axes=(last,), keepdims=True)
    top = call.stop_gradient(call.reduce_max(scores, axes=(last,), keepdims=True))
    top = call.where(call.equal(top, number(-math.inf, top)), number(0, top), top)
    e = call.exp(call.subtract(scores, top))
    return top, e, call.reduce_sum(e, axes=(last,), keepdims=True)


def _nonzero(total: Node) -> tuple[Node, Node]:
    """Return (whether all scores of a row are masked, the row's sum or 1)."""
    masked = call.equal(total, number(0, total))
    return masked, call.where(masked, number(1, total), total)


def attention(q: Node, k: Node, v: Node, *rest: Node, result: str, scale: float, causal: bool, keep: float | None) -> Node:
    """Return the primitive's result. Random words for all positions may replace seed and base."""
    masks, words = split(rest, keep)
    dtype = q.dtype
    q, k, v = _wide(q, k, v)
    top, e, total = _sums(_scores(q, k, masks, scale, causal))
    masked, safe_total = _nonzero(total)
    if result == "lse":
        return reshape(call.where(masked, number(0, total), call.add(top, call.log(safe_total))), q.shape[:-1])
    weights = _apply_dropout(call.divide(e, safe_total), words, keep)
    return cast(_product(weights, _broadcast_lead(v, q.shape[:-2]), False), dtype)


def _weights_and_cotangent(
    operands: Sequence[Node], causal: bool, scale: float, keep: float | None
) -> tuple[Node, Callable[[], Node]]:
    """Return (weights, function that returns the cotangent of the unscaled scores)."""
    q, k, v, g, lse, delta = operands[:6]
    masks, words = split(operands[6:], keep)
    q, k, v, g, lse, delta = _wide(q, k, v, g, lse, delta)
    scores = _scores(q, k, masks, scale, causal)
    ends = (*lse.shape, 1)
    weights = call.exp(call.subtract(scores, reshape(lse, ends)))

    def through() -> Node:
        back = _apply_dropout(_product(g, _broadcast_lead(v, g.shape[:-2]), True), words, keep)
        ds = call.multiply(weights, call.subtract(back, reshape(delta, ends)))
        return call.where(_causal(ds.shape[-2:]), ds, number(0, ds)) if causal else ds

    return weights, through


def gradient(*operands: Node, result: str, scale: float, causal: bool, keep: float | None) -> Node:
    """Return the result of the primitive ``attention_gradient``."""
    q, k, v, g = operands[:4]
    _, words = split(operands[6:], keep)
    weights, through = _weights_and_cotangent(operands, causal, scale, keep)
    if result == "value":
        weights = transpose(_apply_dropout(weights, words, keep))
        return cast(_sum_to(_product(weights, _wide(g)[0], False), v.shape), q.dtype)
    ds = call.multiply(through(), number(scale, weights))
    if result == "query":
        return cast(_product(ds, _broadcast_lead(_wide(k)[0], q.shape[:-2]), False), q.dtype)
    return cast(_sum_to(_product(transpose(ds), _wide(q)[0], False), k.shape), q.dtype)


def mask_gradient(mask: Node, operands: Sequence[Node], params: dict[str, Any]) -> Node:
    """Return the gradient of a float mask: the cotangent of the scores, summed where the mask was broadcast."""
    _, through = _weights_and_cotangent(operands, params["causal"], params["scale"], params["keep"])
    return cast(_sum_to(through(), mask.shape), mask.dtype)


def sums_vjp(g: Node, inputs: Sequence[Node], params: dict[str, Any]) -> tuple[Node | None, ...]:
    """Return the derivative of the logarithms of the rows' sums. Their derivatives by the scores are the weights."""
    q, k = _wide(*inputs[:2])
    masks, _ = split(inputs[3:], params["keep"])
    scores = _scores(q, k, masks, params["scale"], params["causal"])
    _, e, total = _sums(scores)
    masked, safe_total = _nonzero(total)
    ds = call.multiply(call.where(masked, number(0, e), call.divide(e, safe_total)), reshape(g, (*g.shape, 1)))
    scaled = call.multiply(ds, number(params["scale"], ds))
    derivatives: list[Node | None] = [
        cast(_product(scaled, _broadcast_lead(k, q.shape[:-2]), False), inputs[0].dtype),
        cast(_sum_to(_product(transpose(scaled), q, False), k.shape), inputs[1].dtype), None,
    ]
    derivatives += [None if m.dtype is BOOL else cast(_sum_to(ds, m.shape), m.dtype) for m in masks]
    return (*derivatives, *(None,) * (len(inputs) - len(derivatives)))


def _sum_to(x: Node, shape: Shape) -> Node:
    """Return x summed over the dimensions where ``shape`` has 1."""
    axes = tuple(d for d, (n, m) in enumerate(zip(x.shape, shape, strict=True)) if m == 1 and n != 1)
    return call.reduce_sum(x, axes=axes, keepdims=True) if axes else x


COMPOSITIONS: dict[str, Callable[..., Node]] = {"attention": attention, "attention_gradient": gradient}
