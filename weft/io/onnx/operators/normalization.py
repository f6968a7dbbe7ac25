"""ONNX operators that normalise."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft as wf
from weft.io.onnx.operators.table import Attributes, operator
from weft.io.onnx.tensors import dtype_of_code


def _reshape_to_channels(v: Any, rank: int) -> Any:
    return wf.reshape(v, (-1, *(1,) * (rank - 2)))


@operator("BatchNormalization")
def _batch_norm(at: Attributes, x: Any, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
    x = wf.asarray(x)
    old = wf.asarray(mean), wf.asarray(var)
    if at.training_mode:
        axes = tuple(d for d in range(x.ndim) if d != 1)
        mean, var = wf.mean(x, axis=axes), wf.var(x, axis=axes)
    factor = wf.asarray(scale) / wf.sqrt(wf.asarray(var) + at.epsilon)
    y = x * _reshape_to_channels(factor, x.ndim) + _reshape_to_channels(wf.asarray(bias) - mean * factor, x.ndim)
    if not at.training_mode:
        return y.astype(x.dtype)
    return y.astype(x.dtype), *(
        (a * at.momentum + b * (1 - at.momentum)).astype(a.dtype) for a, b in zip(old, (mean, var), strict=True)
    )


@operator("InstanceNormalization")
def _instance_norm(at: Attributes, x: Any, scale: Any, bias: Any) -> Any:
    axes = tuple(range(2, wf.ndim(x)))
    centred = x - wf.mean(x, axis=axes, keepdims=True)
    y = centred / wf.sqrt(wf.mean(wf.square(centred), axis=axes, keepdims=True) + at.epsilon)
    return y * _reshape_to_channels(scale, wf.ndim(x)) + _reshape_to_channels(bias, wf.ndim(x))


@operator("LayerNormalization")
def _layer_norm(at: Attributes, x: Any, scale: Any, bias: Any = None) -> Any:
    x = wf.asarray(x)
    axes = tuple(range(at.axis % x.ndim, x.ndim))
    wide = x.astype(dtype_of_code(at.stash_type))
    mean = wf.mean(wide, axis=axes, keepdims=True)
    centred = wide - mean
    factor = 1 / wf.sqrt(wf.mean(wf.square(centred), axis=axes, keepdims=True) + at.epsilon)
    y = (centred * factor).astype(x.dtype) * scale
    return y if bias is None else y + bias, mean, factor


@operator("RMSNormalization")
def _rms_norm(at: Attributes, x: Any, scale: Any) -> Any:
    x = wf.asarray(x)
    wide = x.astype(dtype_of_code(at.stash_type))
    axes = tuple(range(at.axis % x.ndim, x.ndim))
    y = wide / wf.sqrt(wf.mean(wf.square(wide), axis=axes, keepdims=True) + at.epsilon)
    return y.astype(x.dtype) * scale


@operator("LRN")
def _lrn(at: Attributes, x: Any) -> Any:
    low = (at.size - 1) // 2
    squares = wf.pad(wf.square(x), [(0, 0), (low, at.size - 1 - low)] + [(0, 0)] * (wf.ndim(x) - 2))
    total = sum(squares[:, k : k + wf.shape(x)[1]] for k in range(at.size))
    return x / (at.bias + at.alpha / at.size * total) ** at.beta


@operator("LpNormalization")
def _lp_norm(at: Attributes, x: Any) -> Any:
    size = wf.abs(x) if at.p == 1 else wf.square(x)
    norm = wf.sum(size, axis=at.axis, keepdims=True)
    norm = norm if at.p == 1 else wf.sqrt(norm)
    return wf.where(norm == 0, 0, x / wf.where(norm == 0, 1, norm)).astype(x.dtype)


@operator("MeanVarianceNormalization")
def _mvn(at: Attributes, x: Any) -> Any:
    axes = tuple(at.axes or (0, 2, 3))
    centred = x - wf.mean(x, axis=axes, keepdims=True)
    return centred / (wf.sqrt(wf.mean(wf.square(centred), axis=axes, keepdims=True)) + np.float32(1e-9))
