"""Element-wise ONNX operators, casts and clips."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

import weft as wf
from weft.dtypes.api import is_float
from weft.io.onnx.operators.table import Attributes, add_elementwise, operator, read_static
from weft.io.onnx.tensors import dtype_of_code

add_elementwise({
    "Abs": wf.abs, "Acos": wf.acos, "Acosh": wf.acosh, "Asin": wf.asin, "Asinh": wf.asinh, "Atan": wf.atan, "Atanh": wf.atanh,
    "BitwiseAnd": wf.bitwise_and, "BitwiseNot": wf.bitwise_invert, "BitwiseOr": wf.bitwise_or, "BitwiseXor": wf.bitwise_xor,
    "Ceil": wf.ceil, "Cos": wf.cos, "Cosh": wf.cosh, "Equal": wf.equal, "Erf": wf.erf, "Exp": wf.exp, "Floor": wf.floor,
    "Greater": wf.greater, "GreaterOrEqual": wf.greater_equal, "Identity": lambda x: x, "IsNaN": wf.isnan, "Less": wf.less,
    "LessOrEqual": wf.less_equal, "Log": wf.log, "Mish": lambda x: wf.nn.mish(x), "Neg": wf.negative, "Not": wf.logical_not,
    "Reciprocal": wf.reciprocal, "Relu": lambda x: wf.maximum(x, 0), "Round": wf.rint, "Sigmoid": lambda x: wf.nn.sigmoid(x),
    "Sign": wf.sign, "Sin": wf.sin, "Sinh": wf.sinh, "Softplus": lambda x: wf.nn.softplus(x),
    "Softsign": lambda x: wf.nn.softsign(x), "Sqrt": wf.sqrt, "Tan": wf.tan, "Tanh": wf.tanh, "Where": wf.where,
})


def _align_operand(at: Attributes, a: Any, b: Any) -> Any:
    """Return ``b`` for an operation with ``a``: before opset 7 an attribute says at which axis of ``a`` its axes begin."""
    if at.axis is None or at.opset >= 7:
        return b
    axis = at.axis % wf.ndim(a)
    return wf.reshape(b, (*wf.shape(b), *(1,) * (wf.ndim(a) - axis - wf.ndim(b))))


def _divide(a: Any, b: Any) -> Any:
    """Return the quotient; of integers, truncated."""
    if is_float(a.dtype):
        return wf.divide(a, b)
    quotient = wf.floor_divide(a, b)
    return quotient + ((wf.remainder(a, b) != 0) & ((a < 0) != (b < 0))).astype(a.dtype) if a.dtype.kind == "i" else quotient


for _name, _function in {
    "Add": wf.add, "Sub": wf.subtract, "Mul": wf.multiply, "Div": _divide, "And": wf.logical_and, "Or": wf.logical_or,
    "Xor": wf.logical_xor,
}.items():
    operator(_name)(lambda at, a, b, function=_function: function(wf.asarray(a), wf.asarray(_align_operand(at, a, b))))


@operator("Pow")
def _pow(at: Attributes, x: Any, y: Any) -> Any:
    x, y = wf.asarray(x), wf.asarray(_align_operand(at, x, y))
    if x.dtype == y.dtype:
        return wf.power(x, y)
    wide = x.dtype if is_float(x.dtype) else y.dtype if is_float(y.dtype) else wf.promote_types(x.dtype, y.dtype)
    return wf.power(x.astype(wide), y.astype(wide)).astype(x.dtype)


@operator("Mod")
def _mod(at: Attributes, a: Any, b: Any) -> Any:
    return wf.fmod(a, b) if at.fmod else wf.remainder(a, b)


for _name, _function in {"Max": wf.maximum, "Min": wf.minimum, "Sum": wf.add}.items():
    operator(_name)(lambda at, *xs, function=_function: reduce(function, xs))


@operator("Mean")
def _mean(at: Attributes, *xs: Any) -> Any:
    return reduce(wf.add, xs) / len(xs)


@operator("BitShift")
def _bit_shift(at: Attributes, x: Any, by: Any) -> Any:
    return wf.left_shift(x, by) if at.direction == "LEFT" else wf.right_shift(x, by)


@operator("IsInf")
def _is_inf(at: Attributes, x: Any) -> Any:
    x = wf.asarray(x)
    found = wf.isinf(x)
    if not at.detect_negative:
        found = found & (x > 0)
    return found if at.detect_positive else found & (x < 0)


@operator("Clip")
def _clip(at: Attributes, x: Any, low: Any = None, high: Any = None) -> Any:
    low, high = at.min if low is None else low, at.max if high is None else high
    x = wf.asarray(x)
    x = x if low is None else wf.maximum(x, wf.asarray(low, dtype=x.dtype))
    return x if high is None else wf.minimum(x, wf.asarray(high, dtype=x.dtype))


def _number_to(x: Any, dtype: np.dtype, at: Attributes) -> Any:
    x = wf.asarray(x)
    if dtype.name == "float8_e8m0fnu":  # has no 0
        x = wf.where(x == 0, 2.0**-127, x.astype(np.float32)) if is_float(x.dtype) else x
        return x.astype(dtype, rounding=at.round_mode or "up", saturate=bool(at.saturate))
    if dtype.name.startswith("float8"):
        return x.astype(dtype, saturate=at.saturate != 0)
    return x.astype(dtype)


@operator("Cast")
def _cast(at: Attributes, x: Any) -> Any:
    return _number_to(x, dtype_of_code(at.to), at)


@operator("CastLike")
def _cast_like(at: Attributes, x: Any, like: Any) -> Any:
    return _number_to(x, like.dtype, at)


@operator("BitCast")
def _bit_cast(at: Attributes, x: Any) -> Any:
    return wf.asarray(x).view(dtype_of_code(at.to))


@operator("Elu")
def _elu(at: Attributes, x: Any) -> Any:
    return wf.nn.elu(x, at.alpha)


@operator("Celu")
def _celu(at: Attributes, x: Any) -> Any:
    return wf.nn.celu(x, at.alpha)


@operator("Selu")
def _selu(at: Attributes, x: Any) -> Any:
    return at.gamma * wf.where(x > 0, x, at.alpha * wf.expm1(wf.minimum(x, 0)))


@operator("LeakyRelu")
def _leaky_relu(at: Attributes, x: Any) -> Any:
    return wf.nn.leaky_relu(x, at.alpha)


@operator("PRelu")
def _prelu(at: Attributes, x: Any, slope: Any) -> Any:
    if at.opset < 7 and wf.ndim(slope) == 1 and wf.size(slope) > 1:  # one for each channel
        slope = wf.reshape(slope, (-1, *(1,) * (wf.ndim(x) - 2)))
    return wf.where(wf.asarray(x) < 0, slope * x, x)


@operator("ThresholdedRelu")
def _thresholded_relu(at: Attributes, x: Any) -> Any:
    return wf.where(x > at.alpha, x, 0)


@operator("HardSigmoid")
def _hard_sigmoid(at: Attributes, x: Any) -> Any:
    return wf.clip(at.alpha * x + at.beta, 0, 1)


@operator("HardSwish")
def _hard_swish(at: Attributes, x: Any) -> Any:
    return x * wf.clip(x / 6 + 0.5, 0, 1)


@operator("Swish")
def _swish(at: Attributes, x: Any) -> Any:
    return x * wf.nn.sigmoid(x if at.alpha == 1 else at.alpha * x)


@operator("Gelu")
def _gelu(at: Attributes, x: Any) -> Any:
    return wf.nn.gelu(x, at.approximate)


@operator("Shrink")
def _shrink(at: Attributes, x: Any) -> Any:
    x = wf.asarray(x)
    return wf.where(x < -at.lambd, x + at.bias, wf.where(x > at.lambd, x - at.bias, 0)).astype(x.dtype)


@operator("Dropout", pure=False)
def _dropout(at: Attributes, x: Any, ratio: Any = None, training: Any = None) -> Any:
    x = wf.asarray(x)
    rate = at.ratio if ratio is None else ratio
    rate = 0.5 if rate is None else float(read_static(rate, "ratio"))
    if training is None or not bool(read_static(training, "training_mode")) or not rate:
        return x, wf.ones(x.shape, dtype=bool)
    kept = wf.random.uniform(0, 1, x.shape) >= rate
    return wf.where(kept, x / (1 - rate), 0).astype(x.dtype), kept
