"""One operation on memory that is there, whatever its sizes: with the bits of compiled kernels, and nothing compiled for a shape.

NumPy computes what is exactly rounded and what only moves data. What is not exactly rounded, and what has been asked for often,
functions of the device compute that take their sizes as arguments (``weft.devices.base.Sized``): one for each primitive and
format.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from weft import execute
from weft.formats import FLOATS, Format
from weft.graph.node import Node, Primitive
from weft.graph.origin import user_line
from weft.graph.primitives.dot_general import free_axes
from weft.graph.primitives.index import IN_BOUNDS

OFTEN = 64  # operations on formats that NumPy computes before a function is made for them, which takes some milliseconds
_ASKED: dict[tuple[Primitive, Format], int] = {}
_MADE: dict[tuple[Primitive, Format], Callable[..., None]] = {}


def can(node: Node) -> bool:
    """Whether an operation can be computed so at all. A sum into rows stays what it is: who reads the rows off it is faster."""
    return node.op.kind in _WAYS and not (node.op.kind == "scatter" and node.params["mode"] == "add")


def one(node: Node, operands: list[np.ndarray]) -> np.ndarray | None:
    """The content of a node whose operands' contents are given; None where it has to be compiled after all."""
    return _WAYS[node.op.kind](node, operands)


def function(op: Primitive, dtype: Format, arity: int) -> Callable[..., None] | None:
    """The device's function for an element-wise primitive of operands of one format, once it has been asked for often."""
    key = op, dtype
    made = _MADE.get(key)
    if made is None:
        asked = _ASKED[key] = _ASKED.get(key, 0) + 1
        if asked > OFTEN:
            made = _MADE[key] = execute.sized().each(op, (dtype,) * arity)
    return made


def _in_numpy(node: Node, operands: list[np.ndarray]) -> np.ndarray | None:
    reference: Any = node.op.reference
    if not node.dtype.narrow and not any(i.dtype.narrow for i in node.inputs):
        reference = getattr(reference, "__wrapped__", reference)
    return np.asarray(reference(*operands, **node.params))


def _elementwise(node: Node, operands: list[np.ndarray]) -> np.ndarray | None:
    op, inputs = node.op, node.inputs
    if op is IN_BOUNDS:
        try:
            return _in_numpy(node, operands)
        except IndexError as error:
            raise IndexError(f"{error} ({user_line(node.where)})") from None
    if op.exact and op.name not in _NOT_NUMPYS and (node.params or function(op, inputs[0].dtype, len(inputs)) is None):
        return _in_numpy(node, operands)
    run = execute.sized().each(op, tuple([i.dtype for i in inputs]), **node.params)
    out = np.empty(node.shape, node.dtype.numpy)
    if out.size:
        words, kept = [], []
        for x in operands:
            if x.size != 1 and x.shape != node.shape:
                x = np.broadcast_to(x, node.shape)
            x = np.ascontiguousarray(x)
            kept.append(x)
            words += [_address(x), int(x.size != 1 or out.size == 1)]
        run(out.size, _address(out), *words)
    return out


def _reduced(node: Node, operands: list[np.ndarray]) -> np.ndarray | None:
    from weft.kernel.ir import Order
    from weft.kernel.ordered import reduced
    from weft.kernel.summation import order_over, spans

    (x,), axes = operands, node.params["axes"]
    dtype, monoid = node.inputs[0].dtype, node.op.monoid
    place = monoid in ("argmax", "argmin")
    wide = node.dtype.computed if monoid in ("sum", "prod") else dtype.computed
    kept = [d for d in range(x.ndim) if d not in axes]
    if all(x.shape[d] == 1 for d in axes):  # where nothing is added, a negative zero stays one
        found = np.zeros(x.shape, node.dtype.numpy) if place else x.astype(node.dtype.numpy)
        return found.reshape(node.shape)
    shape, order = tuple([x.shape[d] for d in kept]), order_over(x.shape, axes)
    if monoid == "prod":  # of lanes apart one may reach 0 and another infinity
        order = Order(1, max(1, prod([x.shape[d] for d in axes])))
    if monoid == "sum" and wide in FLOATS:
        x = np.ascontiguousarray(x, wide.numpy)
        span = spans(x.shape, axes)
        if span is None:
            x = np.ascontiguousarray(x.transpose(*kept, *axes))
            k = prod(x.shape[len(kept):])
            span = x.size // max(k, 1), k, 1
        outer, k, inner = span
        found = np.empty((outer, inner), wide.numpy)
        if found.size:
            execute.sized().sum(wide, _address(x), _address(found), outer, inner, k, k * inner, 1, inner, order)
    else:
        flat = x.transpose(*kept, *axes).reshape(*shape, -1) if x.size else np.empty((*shape, 0), x.dtype)
        if not flat.shape[-1]:
            return _in_numpy(node, operands)
        found = np.asarray(reduced(flat.astype(wide.numpy), monoid, wide.numpy, order))
    return found.reshape(node.shape).astype(node.dtype.numpy)


def _running(node: Node, operands: list[np.ndarray]) -> np.ndarray | None:
    from weft.kernel.ordered import running_sum

    axis, wide = node.params["axis"], node.dtype.computed.numpy
    found = running_sum(np.moveaxis(operands[0].astype(wide), axis, -1), wide)
    return np.moveaxis(found, -1, axis).astype(node.dtype.numpy)


def _product(node: Node, operands: list[np.ndarray]) -> np.ndarray | None:
    from weft.kernel.summation import product_order

    wide = node.dtype.computed
    if wide not in FLOATS:
        return _in_numpy(node, operands)
    (ka, kb), (ba, bb) = node.params["contract"], node.params["batch"]
    a, b = operands
    batch, extents = [a.shape[d] for d in ba], tuple([a.shape[d] for d in ka])
    fa, fb = free_axes(a.ndim, ka, ba), free_axes(b.ndim, kb, bb)
    m, n, k = prod([a.shape[d] for d in fa]), prod([b.shape[d] for d in fb]), prod(extents)
    left = a.transpose(ba + fa + ka).reshape(prod(batch), m, k).astype(wide.numpy, copy=False)
    right = b.transpose(bb + kb + fb).reshape(prod(batch), k, n).astype(wide.numpy, copy=False)
    out = np.empty((prod(batch), m, n), wide.numpy)
    if out.size:
        size = out.itemsize
        (a_batch, a_m, a_k), (b_batch, b_k, b_n) = ([s // size for s in x.strides] for x in (left, right))
        execute.sized().product(
            wide, _address(left), _address(right), _address(out), m, n, k, a_m, a_k, b_k, b_n, out.shape[0], a_batch, b_batch,
            product_order(m, n, extents) if len(extents) != 1 else None,
        )
    return out.reshape(node.shape).astype(node.dtype.numpy, copy=False)


def _address(x: np.ndarray) -> int:
    return x.__array_interface__["data"][0]


_NOT_NUMPYS = frozenset(("maximum", "minimum", "cast"))  # of zeros with signs, and of what integers cannot hold
_WAYS: dict[str, Callable[[Node, list[np.ndarray]], np.ndarray | None]] = {
    "elementwise": _elementwise, "reduce": _reduced, "running": _running, "product": _product,
    **dict.fromkeys(("shape", "gather", "write", "scatter", "board", "random", "host"), _in_numpy),
}
