"""ONNX operators that quantise, and products of quantised numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft as wf
from weft.dtypes.api import is_float
from weft.io.onnx.operators.convolution import convolve
from weft.io.onnx.operators.table import Attributes, operator
from weft.io.onnx.tensors import dtype_of_code


def _reshape_beside(x: Any, v: Any, at: Attributes, default_axis: int = 1) -> Any:
    """Return scales or zero points in a shape that broadcasts with ``x``: for one axis, or for blocks along it."""
    v = wf.asarray(v)
    rank = wf.ndim(x)
    if v.ndim == 0 or v.size == 1:
        return v.reshape((1,) * rank) if rank else v.reshape(())
    axis = (default_axis if at.axis is None else at.axis) % rank
    if at.block_size:
        wide = wf.repeat(v, at.block_size, axis=axis)
        return wide[tuple(slice(0, n) for n in wf.shape(x))]
    return v.reshape([-1 if d == axis else 1 for d in range(rank)])


def _to_int32(x: Any) -> Any:
    """Return integers of few bits as int32."""
    return wf.asarray(x).astype(np.int32)


def quantize(x: Any, scale: Any, zero: Any, dtype: Any, at: Attributes) -> Any:
    """Return ``x / scale + zero`` rounded to ``dtype``; scale and zero broadcast."""
    y = wf.asarray(x).astype(np.float32) / wf.asarray(scale).astype(np.float32)
    if is_float(dtype):
        return (y if zero is None else y + zero.astype(np.float32)).astype(dtype, saturate=at.saturate != 0)
    whole = wf.rint(y)
    whole = whole if zero is None else whole + _to_int32(zero).astype(np.float32)
    info = wf.iinfo(dtype)
    return wf.clip(whole, int(info.min), int(info.max)).astype(np.int32).astype(dtype)


@operator("QuantizeLinear")
def _quantize_linear(at: Attributes, x: Any, scale: Any, zero: Any = None) -> Any:
    dtype = zero.dtype if zero is not None else dtype_of_code(at.output_dtype) if at.output_dtype else np.dtype(np.uint8)
    zero = None if zero is None else _reshape_beside(x, zero, at)
    return quantize(x, _reshape_beside(x, scale, at), zero, dtype, at)


@operator("DequantizeLinear")
def _dequantize_linear(at: Attributes, x: Any, scale: Any, zero: Any = None) -> Any:
    x, scale = wf.asarray(x), wf.asarray(scale)
    dtype = dtype_of_code(at.output_dtype) if at.output_dtype else scale.dtype
    if is_float(x.dtype):
        y = x.astype(np.float32)
        y = y if zero is None else y - _reshape_beside(x, zero, at).astype(np.float32)
    else:
        whole = _to_int32(x) if zero is None else _to_int32(x) - _to_int32(_reshape_beside(x, zero, at))
        y = whole.astype(np.float32)
    return (y * _reshape_beside(x, scale, at).astype(np.float32)).astype(dtype)


def _subtract_zero(x: Any, zero: Any, axis: int | None = None) -> Any:
    """Return the integers without their zero point, which may differ along one axis."""
    x = _to_int32(x)
    if zero is None:
        return x
    zero = _to_int32(zero)
    if zero.ndim == 1 and zero.size > 1 and axis is not None:
        zero = zero.reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])
    return x - zero


@operator("MatMulInteger")
def _matmul_integer(at: Attributes, a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return wf.matmul(_subtract_zero(a, a_zero, -2), _subtract_zero(b, b_zero, -1))


@operator("QLinearMatMul")
def _qlinear_matmul(
    at: Attributes, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any
) -> Any:
    sums = wf.matmul(_subtract_zero(a, a_zero, -2), _subtract_zero(b, b_zero, -1)).astype(np.float32)
    a_scale, b_scale, y_scale = (wf.asarray(s).astype(np.float32) for s in (a_scale, b_scale, y_scale))
    a_scale = a_scale[:, None] if a_scale.ndim == 1 and a_scale.size > 1 else a_scale
    return quantize(sums * (a_scale * b_scale), y_scale, wf.asarray(y_zero), y_zero.dtype, at)


@operator("QLinearConv")
def _qlinear_conv(
    at: Attributes, x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, y_scale: Any, y_zero: Any,
    bias: Any = None,
) -> Any:
    sums = convolve(at, _subtract_zero(x, x_zero), _subtract_zero(w, w_zero, 0), bias).astype(np.float32)
    w_scale = wf.asarray(w_scale)
    w_scale = w_scale.reshape((-1, *(1,) * (sums.ndim - 2))) if w_scale.ndim else w_scale
    return quantize(sums * (wf.asarray(x_scale) * w_scale), y_scale, wf.asarray(y_zero), y_zero.dtype, at)


@operator("DynamicQuantizeLinear")
def _dynamic_quantize_linear(at: Attributes, x: Any) -> Any:
    low, high = wf.minimum(wf.min(x), 0), wf.maximum(wf.max(x), 0)
    scale = ((high - low) / 255).astype(np.float32)
    safe = wf.where(scale == 0, 1, scale)
    zero = wf.clip(wf.rint(-low / safe), 0, 255)
    y = wf.clip(wf.rint(x / safe) + zero, 0, 255).astype(np.uint8)
    return y, scale, zero.astype(np.uint8)
