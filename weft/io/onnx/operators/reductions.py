"""ONNX operators that reduce, accumulate or search along axes, and products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import weft as wf
from weft.dtypes.formats import FROM_NUMPY
from weft.io.onnx.operators.table import Attributes, operator, read_axes, read_static


def _add_reduction(name: str, function: Callable[..., Any], before: Any = None, after: Any = None) -> None:
    """Add a reduction. before, after : element-wise functions applied around it"""

    @operator(name, static=(1,))
    def reduce(at: Attributes, x: Any, axes: Any = None) -> Any:
        x, chosen = wf.asarray(x), read_axes(at, axes)
        y = x if before is None else before(x)
        if not (at.noop_with_empty_axes and not chosen):
            y = function(y, axis=chosen or None, keepdims=bool(at.keepdims))
        y = y if after is None else after(y)
        return y if y.dtype == x.dtype else y.astype(x.dtype)


def _sum(x: Any, axis: Any, keepdims: bool) -> Any:
    return wf.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


def _prod(x: Any, axis: Any, keepdims: bool) -> Any:
    return wf.prod(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


def _make_extreme(function: Callable[..., Any], end: str) -> Callable[..., Any]:
    def reduce(x: Any, axis: Any, keepdims: bool) -> Any:
        if x.size:
            return function(x, axis=axis, keepdims=keepdims)
        form = FROM_NUMPY[x.dtype]
        return function(x, axis=axis, keepdims=keepdims, initial=getattr(form, end))

    return reduce


def _log_sum_exp(x: Any, axis: Any, keepdims: bool) -> Any:
    if not x.size:
        return wf.log(_sum(x, axis, keepdims))
    top = wf.stop_gradient(wf.max(x, axis=axis, keepdims=True))
    top = wf.where(wf.isfinite(top), top, 0).astype(x.dtype)
    total = wf.log(wf.sum(wf.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else wf.squeeze(total, tuple(range(x.ndim)) if axis is None else axis)


_add_reduction("ReduceSum", _sum)
_add_reduction("ReduceProd", _prod)
_add_reduction("ReduceMean", lambda x, axis, keepdims: wf.mean(x, axis=axis, keepdims=keepdims))
_add_reduction("ReduceMax", _make_extreme(wf.max, "least"))
_add_reduction("ReduceMin", _make_extreme(wf.min, "greatest"))
_add_reduction("ReduceL1", _sum, wf.abs)
_add_reduction("ReduceL2", _sum, wf.square, wf.sqrt)
_add_reduction("ReduceSumSquare", _sum, wf.square)
_add_reduction("ReduceLogSum", _sum, None, wf.log)
_add_reduction("ReduceLogSumExp", _log_sum_exp)


def _make_search(function: Callable[..., Any]) -> Callable[..., Any]:
    def find(at: Attributes, x: Any) -> Any:
        if not at.select_last_index:
            return function(x, axis=at.axis, keepdims=bool(at.keepdims))
        found = function(wf.flip(x, axis=at.axis), axis=at.axis, keepdims=bool(at.keepdims))
        return wf.shape(x)[at.axis] - 1 - found

    return find


operator("ArgMax")(_make_search(wf.argmax))
operator("ArgMin")(_make_search(wf.argmin))


def _add_running(name: str, function: Callable[..., Any], neutral: int) -> None:
    @operator(name, static=(1,))
    def run(at: Attributes, x: Any, axis: Any) -> Any:
        x, d = wf.asarray(x), int(read_static(axis, "axis").reshape(()))
        x = wf.flip(x, axis=d) if at.reverse else x
        y = function(x, axis=d, dtype=x.dtype)
        if at.exclusive:
            first = wf.full([1 if k == d % x.ndim else n for k, n in enumerate(x.shape)], neutral, dtype=x.dtype)
            rest = tuple(slice(0, -1) if k == d % x.ndim else slice(None) for k in range(x.ndim))
            y = wf.concatenate([first, y[rest]], axis=d)
        return wf.flip(y, axis=d) if at.reverse else y


_add_running("CumSum", wf.cumsum, 0)
_add_running("CumProd", wf.cumprod, 1)


@operator("MatMul")
def _matmul(at: Attributes, a: Any, b: Any) -> Any:
    return wf.matmul(a, b)


@operator("Gemm")
def _gemm(at: Attributes, a: Any, b: Any, c: Any = None) -> Any:
    y = wf.matmul(wf.matrix_transpose(a) if at.transA else a, wf.matrix_transpose(b) if at.transB else b)
    y = y if at.alpha == 1 else (y * at.alpha).astype(y.dtype)
    if c is None or not at.beta:
        return y
    return y + (c if at.beta == 1 else (c * at.beta).astype(y.dtype))


@operator("Einsum")
def _einsum(at: Attributes, *xs: Any) -> Any:
    return wf.einsum(at.equation.replace(" ", ""), *xs)


@operator("Det")
def _det(at: Attributes, x: Any) -> Any:
    return wf.linalg.det(x)


@operator("TopK", static=(1,))
def _top_k(at: Attributes, x: Any, k: Any = None) -> Any:
    count = at.k if k is None else int(read_static(k, "K").reshape(()))
    axis = -1 if at.axis is None else at.axis
    order = wf.argsort(x, axis=axis, descending=at.largest != 0, stable=True)
    best = tuple(slice(0, count) if d == axis % wf.ndim(x) else slice(None) for d in range(wf.ndim(x)))
    order = order[best].astype(np.int64)
    return wf.take_along_axis(x, order, axis=axis), order


def apply_along(at: Attributes, x: Any, function: Callable[..., Any]) -> Any:
    """Apply a function along an axis; before opset 13 along all axes from it on."""
    axis = (1 if at.opset < 13 else -1) if at.axis is None else at.axis
    if at.opset >= 13:
        return function(x, axis)
    shape = wf.shape(x)
    rows = shape[: axis % len(shape)]
    return wf.reshape(function(wf.reshape(x, (*rows, -1)), -1), shape)


operator("Softmax")(lambda at, x: apply_along(at, x, wf.nn.softmax))
operator("LogSoftmax")(lambda at, x: apply_along(at, x, wf.nn.log_softmax))


@operator("Hardmax")
def _hardmax(at: Attributes, x: Any) -> Any:
    def first_greatest(x: Any, axis: int) -> Any:
        place = wf.argmax(x, axis=axis, keepdims=True)
        steps = wf.arange(x.shape[axis]).reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])
        return wf.equal(steps, place).astype(x.dtype)

    return apply_along(at, x, first_greatest)
