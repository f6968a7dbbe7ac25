"""Products of matrices and convolutions as ONNX nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.io.onnx.primitives.table import LOWEST, NotWritten, export, kind_of
from weft.io.onnx.writer import Traced, Writer


def _refuse_formats(n: Traced) -> None:
    if "accumulator" in n.params or "operands" in n.params:
        raise NotWritten("products in chosen formats (wf.precision, accumulate=)")


@export("dot_general")
def _dot_general(w: Writer, n: Traced, a: str, b: str) -> str:
    _refuse_formats(n)
    (over_a, over_b), (batch_a, batch_b) = n.params["contract"], n.params["batch"]
    left, right = n.inputs
    rank_a, rank_b = len(left.shape), len(right.shape)
    free_a = [d for d in range(rank_a) if d not in over_a and d not in batch_a]
    free_b = [d for d in range(rank_b) if d not in over_b and d not in batch_b]
    if not batch_a and len(over_a) == 1 and len(free_b) == 1 and free_a:
        if rank_a == 2 and kind_of(n) == "float":
            return w.add("Gemm", a, b, transA=int(over_a[0] == 0), transB=int(over_b[0] == 1))
        if over_a[0] == rank_a - 1:
            return w.add("MatMul", a, b if over_b[0] == 0 else w.add("Transpose", b, perm=[1, 0]))
    order_a, order_b = [*batch_a, *free_a, *over_a], [*batch_b, *over_b, *free_b]
    a = a if order_a == sorted(order_a) else w.add("Transpose", a, perm=order_a)
    b = b if order_b == sorted(order_b) else w.add("Transpose", b, perm=order_b)

    def merged(m: Any, *groups: Any) -> tuple[int, ...]:
        return (*(m.shape[d] for d in groups[0]), *(math.prod(m.shape[d] for d in g) for g in groups[1:]))

    plain = len(free_a) == len(free_b) == len(over_a) == 1
    if not plain:
        a = w.add("Reshape", a, w.ints(left, lambda m: merged(m, batch_a, free_a, over_a)))
        b = w.add("Reshape", b, w.ints(right, lambda m: merged(m, batch_b, over_b, free_b)))
    y = w.add("MatMul", a, b)
    return y if plain else w.add("Reshape", y, w.ints(n, lambda m: m.shape))


def _flip(w: Writer, x: str, axes: list[int]) -> str:
    ones = np.ones(len(axes), np.int64)
    return w.add("Slice", x, w.tensor(-ones), w.tensor(ones * LOWEST), w.tensor(np.array(axes, np.int64)), w.tensor(-ones))


@export("conv_general")
def _conv_general(w: Writer, n: Traced, x: str, weight: str) -> str:
    _refuse_formats(n)
    p, rank = n.params, len(n.shape)
    spatial, plain = rank - 2, list(range(rank))
    x_dims, w_dims, out_dims = (list(d) for d in p["dims"])
    x = x if x_dims == plain else w.add("Transpose", x, perm=x_dims)
    weight = weight if w_dims == plain else w.add("Transpose", weight, perm=w_dims)
    groups, padding, window = p["groups"], p["padding"], [n.inputs[1].shape[d] for d in w_dims[2:]]
    if set(p["lhs_dilation"]) == {1}:
        low, high = [max(a, 0) for a, _ in padding], [max(b, 0) for _, b in padding]
        if any(a < 0 or b < 0 for a, b in padding):
            def find_ends(m: Any) -> list[int]:
                return [m.shape[d] - max(-b, 0) for d, (_, b) in zip(x_dims[2:], padding, strict=True)]

            starts = np.array([max(-a, 0) for a, _ in padding], np.int64)
            ends = w.ints(n.inputs[0], find_ends)
            x = w.add("Slice", x, w.tensor(starts), ends, w.tensor(np.arange(2, rank, dtype=np.int64)))
        y = w.add(
            "Conv", x, weight, strides=list(p["stride"]), pads=low + high, dilations=list(p["rhs_dilation"]), group=groups,
            kernel_shape=window,
        )
    else:
        y = _add_conv_transpose(w, n, x, weight, groups, window, [n.inputs[1].shape[d] for d in w_dims[:2]], spatial)
    return y if out_dims == plain else w.add("Transpose", y, perm=[out_dims.index(d) for d in range(rank)])


def _add_conv_transpose(
    w: Writer, n: Traced, x: str, weight: str, groups: int, window: list[int], channels: list[int], spatial: int
) -> str:
    """Add the ConvTranspose that equals a convolution of an input with zeros between its elements."""
    p = n.params
    if set(p["stride"]) != {1}:
        raise NotWritten("convolutions with a stride of an input with zeros between its elements")
    outs, ins = channels
    weight = _flip(w, weight, list(range(2, spatial + 2)))
    if groups > 1:
        weight = w.add("Reshape", weight, w.tensor(np.array([groups, outs // groups, ins, *window], np.int64)))
        weight = w.add("Transpose", weight, perm=[0, 2, 1, *range(3, spatial + 3)])
        weight = w.add("Reshape", weight, w.tensor(np.array([groups * ins, outs // groups, *window], np.int64)))
    else:
        weight = w.add("Transpose", weight, perm=[1, 0, *range(2, spatial + 2)])
    low = [e * (k - 1) - a for e, k, (a, _) in zip(p["rhs_dilation"], window, p["padding"], strict=True)]
    high = [e * (k - 1) - b for e, k, (_, b) in zip(p["rhs_dilation"], window, p["padding"], strict=True)]
    if min(low) < 0:
        raise NotWritten("transposed convolutions with more padding than their window")
    return w.add(
        "ConvTranspose", x, weight, strides=list(p["lhs_dilation"]), dilations=list(p["rhs_dilation"]), group=groups,
        pads=low + [max(b, 0) for b in high], output_padding=[max(-b, 0) for b in high], kernel_shape=window,
    )
