"""Attention as one operation, and its gradient: products of queries with keys, a softmax along the keys, products with values.

    attention(query, key, value, *masks, [seed, base])             -> result "out", or "lse": log of each row's sum of exp(scores)
    attention_gradient(query, key, value, cotangent, lse, delta,   -> result "query", "key" or "value"
                       *masks, [seed, base])

query (*B, L, E), key (*C, S, E), value (*C, S, F), where each extent of C is that of B or 1, so that several heads of queries
can share keys. A mask has a dimension for each of (*B, L, S), or 1; bool: True takes part; float: added to the scores. ``delta``
is the sum of cotangent * out along the last axis. If ``keep`` is not None, a weight is kept with this probability, decided by the
word of random_bits(seed, base) at its position in (*B, L, S), and divided by it.

Operations that differ only in ``result`` share one kernel. Derivatives of the gradient are those of its composition
(``attention_composition.py``), which stores all scores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.dtypes.formats import BOOL, FLOATS, FROM_NUMPY, UINT64, Format
from weft.dtypes.rounding import convert_array
from weft.errors import DTypeError, ShapeError
from weft.graph.node import Cost, Node, Primitive, Shape
from weft.graph.primitives import attention_composition as composition
from weft.graph.primitives.attention_composition import split
from weft.graph.primitives.call import call, cast, reshape
from weft.graph.primitives.common import NodeAndAxis, extent, front, spread, traffic
from weft.graph.primitives.philox import word
from weft.graph.primitives.rules import dtype_error
from weft.graph.primitives.table import TABLE, register

_NAMES = ("query", "key", "value", "cotangent", "lse", "delta")


def _rule(*nodes: Node, result: str, scale: float, causal: bool, keep: float | None) -> tuple[Shape, Format]:
    name = "attention"
    q, _, v = nodes[:3]
    _check(name, nodes, 3, keep)
    if result not in ("out", "lse"):
        raise ValueError(f"{name}: result is {result!r}, but must be 'out' or 'lse'")
    lead = q.shape[:-1]
    return (lead, q.dtype.computed) if result == "lse" else ((*lead, v.shape[-1]), q.dtype)


def _gradient_rule(*nodes: Node, result: str, scale: float, causal: bool, keep: float | None) -> tuple[Shape, Format]:
    name = "attention_gradient"
    _check(name, nodes, 6, keep)
    q, k, v, g, lse, delta = nodes[:6]
    wide = q.dtype.computed
    for role, node, shape, dtype in (
        ("cotangent", g, (*q.shape[:-1], v.shape[-1]), q.dtype), ("lse", lse, q.shape[:-1], wide),
        ("delta", delta, q.shape[:-1], wide),
    ):
        if node.shape != shape or node.dtype not in (dtype, q.dtype):
            raise ShapeError(f"{name}: {role} is {node.dtype.name}{node.shape}, but must be {dtype.name}{shape}")
    operand = {"query": q, "key": k, "value": v}.get(result)
    if operand is None:
        raise ValueError(f"{name}: result is {result!r}, but must be 'query', 'key' or 'value'")
    return operand.shape, q.dtype


def _check(name: str, nodes: Sequence[Node], count: int, keep: float | None) -> None:
    q, k, v = nodes[:3]
    if any(x.dtype not in FLOATS or x.dtype is not q.dtype for x in (q, k, v)):
        raise dtype_error(name, (q, k, v), _NAMES[:3], FLOATS)
    rank = len(q.shape)
    lead = zip(q.shape[:-2], k.shape[:-2], strict=False)
    fits = rank >= 2 and rank == len(k.shape) == len(v.shape) and k.shape[:-2] == v.shape[:-2]
    if not fits or any(c not in (1, b) for b, c in lead) or k.shape[-2] != v.shape[-2] or q.shape[-1] != k.shape[-1]:
        raise ShapeError(
            f"{name}: query {q.shape}, key {k.shape}, value {v.shape} must be (*B, L, E), (*C, S, E) and (*C, S, F), each "
            f"extent of C being that of B or 1"
        )
    if not q.shape[-1]:
        raise ShapeError(f"{name}: query {q.shape} and key {k.shape} have no elements to multiply")
    masks, seeds = split(nodes[count:], keep)
    whole = (*q.shape[:-1], k.shape[-2])
    for mask in masks:
        if mask.dtype not in FLOATS and mask.dtype is not BOOL:
            raise DTypeError(f"{name}: a mask is {mask.dtype.name}, but must be bool or float")
        if len(mask.shape) != rank or any(m not in (1, n) for m, n in zip(mask.shape, whole, strict=True)):
            raise ShapeError(f"{name}: a mask of shape {mask.shape} does not broadcast to the scores, {whole}")
    for role, node in zip(("seed", "base"), seeds, strict=False):
        if node.dtype is not UINT64 or node.shape:
            raise DTypeError(f"{name}: {role} is {node.dtype.name}{node.shape}, but must be uint64()")


# NumPy references


def _scores_and_dropout(
    q: np.ndarray, k: np.ndarray, rest: tuple[np.ndarray, ...], scale: float, causal: bool, keep: float | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return (scores, factors by which dropout multiplies the weights, or None)."""
    scores = q @ np.swapaxes(k, -1, -2) * q.dtype.type(scale)
    masks, seeds = (rest, ()) if keep is None else (rest[:-2], rest[-2:])
    for mask in masks:
        if mask.dtype.kind != "b":
            scores = scores + mask.astype(q.dtype)
    for mask in masks:
        if mask.dtype.kind == "b":
            scores = np.where(mask, scores, -np.inf).astype(q.dtype)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf).astype(q.dtype)
    if keep is None:
        return scores, None
    words = word(seeds[0], seeds[1], np.arange(scores.size, dtype=np.uint64)).reshape(scores.shape)
    stays = (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24) < np.float32(keep)
    return scores, np.where(stays, q.dtype.type(1 / keep if keep else 0), q.dtype.type(0))


def _wide(arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Return storage-only floats in their register format. Wider ones, which tests use, are not converted."""
    formats = [FROM_NUMPY.get(a.dtype) for a in arrays]
    return tuple([a if f is None else convert_array(a, f.computed.numpy) for a, f in zip(arrays, formats, strict=True)])


def _reference(*arrays: np.ndarray, result: str, scale: float, causal: bool, keep: float | None) -> np.ndarray:
    dtype = arrays[0].dtype
    q, k, v, *rest = _wide(arrays)
    with np.errstate(all="ignore"):
        scores, dropped = _scores_and_dropout(q, k, tuple(rest), scale, causal, keep)
        top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
        top = np.where(np.isneginf(top), 0, top).astype(q.dtype)
        e = np.exp(scores - top)
        total = e.sum(axis=-1, keepdims=True)
        if result == "lse":
            return np.where(total == 0, 0, top + np.log(np.where(total == 0, 1, total)))[..., 0].astype(q.dtype)
        weights = e / np.where(total == 0, 1, total).astype(q.dtype)
        return convert_array((weights if dropped is None else weights * dropped) @ v, dtype)


def _gradient_reference(*arrays: np.ndarray, result: str, scale: float, causal: bool, keep: float | None) -> np.ndarray:
    dtype = arrays[0].dtype
    q, k, v, g, lse, delta, *rest = _wide(arrays)
    with np.errstate(all="ignore"):
        scores, dropped = _scores_and_dropout(q, k, tuple(rest), scale, causal, keep)
        weights = np.exp(scores - lse[..., None])
        if result == "value":
            kept = weights if dropped is None else weights * dropped
            return convert_array(_sum_to(np.swapaxes(kept, -1, -2) @ g, v.shape), dtype)
        through = g @ np.swapaxes(v, -1, -2)
        ds = weights * ((through if dropped is None else through * dropped) - delta[..., None])
        if causal:
            ds = np.where(np.tri(*ds.shape[-2:]) > 0, ds, 0)
        ds = (ds * q.dtype.type(scale)).astype(q.dtype)
        return convert_array(ds @ k if result == "query" else _sum_to(np.swapaxes(ds, -1, -2) @ q, k.shape), dtype)


def _sum_to(x: np.ndarray, shape: Shape) -> np.ndarray:
    """Return x summed over the dimensions where ``shape`` has 1: heads that share an operand."""
    axes = tuple(d for d, n in enumerate(shape) if n == 1 and x.shape[d] != 1)
    return x.sum(axis=axes, keepdims=True) if axes else x


# derivatives and batching


def _vjp(g: Node, out: Node, *inputs: Node, **params: Any) -> tuple[Node | None, ...]:
    """Return gradients that need only each row's sum and delta. Those of float masks, and of the sums, store all scores."""
    if params["result"] == "lse":
        return composition.sums_vjp(g, inputs, params)
    q = inputs[0]
    rest = {**params, "result": "lse"}
    lse = call.attention(*inputs, **rest)
    wide = q.dtype.computed
    last = len(q.shape) - 1
    delta = call.reduce_sum(call.multiply(cast(g, wide), cast(out, wide)), axes=(last,), keepdims=False)
    operands = (*inputs[:3], g, lse, delta, *inputs[3:])
    gradients: list[Node | None] = [
        call.attention_gradient(*operands, **{**params, "result": name}) for name in ("query", "key", "value")
    ]
    masks, _ = split(inputs[3:], params["keep"])
    for mask in masks:
        gradients.append(composition.mask_gradient(mask, operands, params) if mask.dtype in FLOATS else None)
    return (*gradients, *(None,) * (len(inputs) - len(gradients)))


def _batch(name: str, count: int) -> Callable[..., NodeAndAxis]:
    def rule(inputs: Sequence[Node], dims: Sequence[int | None], **params: Any) -> NodeAndAxis:
        """Add the batch as a dimension in front. Keys, values and masks without it are shared."""
        n, keep = extent(inputs, dims), params["keep"]
        rows = [spread(x, d, n) for x, d in zip(inputs[:count], dims[:count], strict=True)]
        if dims[1] is None and dims[2] is None and params["result"] not in ("key", "value"):
            rows[1:3] = [reshape(x, (1, *x.shape)) for x in inputs[1:3]]
        seeds = 0 if keep is None else 2
        stop = len(inputs) - seeds
        masks = [
            front(x, d) if d is not None else reshape(x, (1, *x.shape))
            for x, d in zip(inputs[count:stop], dims[count:stop], strict=True)
        ]
        if seeds:  # each example has the words of its own positions
            q, k = rows[:2]
            shape = (*q.shape[1:-1], k.shape[-2])
            words = _words(inputs[stop:], dims[stop:], shape)
            return composition.COMPOSITIONS[name](*rows, *masks, spread(*words, n), **params), 0
        bind: Callable[..., Node] = getattr(call, name)
        return bind(*rows, *masks, **params), 0

    return rule


def _words(seeds: Sequence[Node], dims: Sequence[int | None], shape: Shape) -> NodeAndAxis:
    """Return random words, the same for all examples if these share their seed."""
    several = TABLE["random_bits"].batch
    assert several is not None
    if any(d is not None for d in dims):
        return several(seeds, dims, shape=shape)
    return call.random_bits(*seeds, shape=shape), None


def _cost(node: Node) -> Cost:
    """Two products, or five for the gradient, divided among results that are computed together."""
    q, v = node.inputs[0].shape, node.inputs[2].shape
    each = {"out": (1, 1), "lse": (0, 0), "query": (1, 1), "key": (1, 0), "value": (1, 1)}[node.params["result"]]
    flops = 2 * prod(q[:-1]) * v[-2] * (each[0] * q[-1] + each[1] * v[-1] + 8)
    return Cost(flops, traffic(node))


register(Primitive(
    "attention", "attention", _rule, _reference, None, _vjp, _batch("attention", 3), _cost,
    ends_kernel=True, factor_count=3, compose=composition.attention,
))
register(Primitive(
    "attention_gradient", "attention_gradient", _gradient_rule, _gradient_reference, None, None,
    _batch("attention_gradient", 6), _cost, ends_kernel=True, factor_count=4,
    compose=composition.gradient,
))
