"""Reductions, running sums and pooling as ONNX nodes."""

from __future__ import annotations

import math

import numpy as np

from weft.io.onnx.primitives.table import NotWritten, add_in_32_bits, export, kind_of
from weft.io.onnx.writer import Traced, Writer


@export("reduce_sum", "reduce_prod", "reduce_max", "reduce_min")
def _reduce(w: Writer, n: Traced, x: str) -> str:
    name, axes = n.node.op.name, n.params["axes"]
    if not axes:
        return x
    is_bool = kind_of(n) == "bool"
    x = w.cast(x, np.int32) if is_bool else x
    op = {"reduce_sum": "ReduceSum", "reduce_prod": "ReduceProd", "reduce_max": "ReduceMax", "reduce_min": "ReduceMin"}[name]
    y = add_in_32_bits(w, n, op, x, w.tensor(np.array(axes, np.int64)), keepdims=int(n.params["keepdims"]))
    return w.cast(y, np.bool_) if is_bool else y


@export("argmax", "argmin")
def _argmax(w: Writer, n: Traced, x: str) -> str:
    op = {"argmax": "ArgMax", "argmin": "ArgMin"}[n.node.op.name]
    axes, operand = n.params["axes"], n.inputs[0]
    if kind_of(operand) == "bool":
        x = w.cast(x, np.int32)
    if len(axes) == 1:
        return w.add(op, x, axis=axes[0], keepdims=int(n.params["keepdims"]))
    free = [d for d in range(len(operand.shape)) if d not in axes]
    x = w.add("Transpose", x, perm=[*free, *axes])
    x = w.add("Reshape", x, w.ints(operand, lambda m: (*(m.shape[d] for d in free), math.prod(m.shape[d] for d in axes))))
    y = w.add(op, x, axis=len(free), keepdims=0)
    return w.add("Reshape", y, w.ints(n, lambda m: m.shape))


@export("cumulative_sum")
def _cumulative_sum(w: Writer, n: Traced, x: str) -> str:
    return add_in_32_bits(w, n, "CumSum", x, w.tensor(np.array(n.params["axis"], np.int64)))


@export("reduce_window")
def _reduce_window(w: Writer, n: Traced, x: str) -> str:
    kind, window = n.params["kind"], n.params["window"]
    if kind == "argmax":
        raise NotWritten("positions of maxima in windows")
    lead = len(n.shape) - len(window)
    operand = n.inputs[0]
    if lead != 2:  # ONNX pools images (N, C, *spatial)
        x = w.add("Reshape", x, w.ints(operand, lambda m: (math.prod(m.shape[:lead]), 1, *m.shape[lead:])))
    is_float = kind_of(n) == "float"
    if not is_float:
        if n.dtype.bits > 32:
            raise NotWritten("pooling of 64-bit integers")
        x = w.cast(x, np.float64)  # which holds them exactly
    pads = [p for p, _ in n.params["padding"]] + [p for _, p in n.params["padding"]]
    settings = {"kernel_shape": list(window), "strides": list(n.params["stride"]), "pads": pads}
    if kind == "max":
        y = w.add("MaxPool", x, **settings)
    else:
        volume = w.tensor(np.array(math.prod(window), n.dtype.numpy if is_float else np.float64))
        y = w.add("Mul", w.add("AveragePool", x, count_include_pad=1, **settings), volume)
    y = y if is_float else w.cast(w.cast(w.add("Round", y), np.int64), n.dtype.numpy)
    return y if lead == 2 else w.add("Reshape", y, w.ints(n, lambda m: m.shape))
