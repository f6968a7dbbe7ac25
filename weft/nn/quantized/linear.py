"""Products by quantized matrices.

A product reads codes from memory wherever that is less work than decoding them first:

- One scale a row, a byte an element: the product reads codes, and its epilogue multiplies by the scales.
- int8 by int8: the sums are int32, and exact.
- 4-bit integers, at most ``MAX_ROWS`` rows of inputs: the product unpacks the bytes that it reads, and sums int32 for each
  block. Inputs that are not rounded to int8 are three int8 digits (``split_digits``), so that the result is as exact as a float32
  product.
- One row of inputs by other blocks, of bytes, or of 4-bit floats in a large MXFP4 weight: the kernel decodes as it multiplies.
- All others: the weight is decoded to float32 by a kernel of its own.

The derivative by the inputs is that of a product with the decoded weight; roundings of inputs count as the identity.
"""

from __future__ import annotations

import math
from typing import Any

from weft.array import Array, wrap
from weft.dtypes.formats import FLOATS, INT8, Format
from weft.eager.apply import bind
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.linalg.products import matmul
from weft.functions.shape.axes import broadcast_to, concat
from weft.graph.primitives import TABLE
from weft.nn.block_rounding import nibbles, split_blocks, unpack_codes
from weft.nn.module import Module
from weft.nn.quantized.array import QuantizedArray, check_matrix
from weft.nn.quantized.inputs import input_format, input_scale, round_inputs, split_digits
from weft.process.docstrings import complete_module
from weft.transforms.custom import custom_vjp

IN_CACHE = 1 << 20  # numbers of a decoded weight that caches hold: storing 4-bit floats decoded takes no longer then
MAX_ROWS = 4  # inputs of a product that unpacks its weights. More of them share the work of decoding


def multiply_quantized(x: Array, weight: QuantizedArray, form: Format | None, scale: Array | None) -> Array:
    """Return ``x @ weight.T`` in float32. form, scale : the format and scale of inputs, see :func:`round_inputs`"""
    @custom_vjp
    def quantized_linear(x: Array) -> Array:
        return _multiply(x, weight, form, scale)

    quantized_linear.defvjp(
        lambda x: (_multiply(x, weight, form, scale), None), lambda _, g: (matmul(g, weight.dequantize()),)
    )
    return quantized_linear(x.astype("float32"))


def _multiply(x: Array, weight: QuantizedArray, form: Format | None, scale: Array | None) -> Array:
    kind = weight.format
    one_scale = weight.scales.shape[-1] == 1
    by_rows = 0 < math.prod(x.shape[:-1]) <= MAX_ROWS and kind.is_packed and kind.element is INT8 and kind.run == 32
    if form is None:
        if by_rows:
            digits, factor = split_digits(split_blocks(x, kind), tuple(range(-kind.block_axes, 0)))
            return _sum_blocks(digits, factor, weight)
        if one_scale and not kind.is_packed:
            return matmul(x, weight.codes[:, : x.shape[-1]].T, dtype="float32") * _row_scales(weight)
        return _multiply_decoded(x, weight)
    codes, factor = round_inputs(x, form, scale, (-1,))
    if form is INT8 and by_rows:
        blocks = split_blocks(codes, kind).astype("int8")
        return _sum_blocks([blocks], factor.reshape((*factor.shape, *(1,) * kind.block_axes)), weight)
    if one_scale and (form in FLOATS) == (kind.element in FLOATS):
        elements = unpack_codes(weight.codes, kind, x.shape[-1])
        elements = elements.reshape((weight.shape[0], -1))[:, : x.shape[-1]]
        y = matmul(codes, elements.T, dtype="int32" if form is INT8 else "float32").astype("float32")
        return y * factor * _row_scales(weight)
    return _multiply_decoded(codes.astype("float32"), weight) * factor


def _multiply_decoded(x: Array, weight: QuantizedArray) -> Array:
    """Return the product of float32 inputs by the numbers of a weight. For one row no decoded weight is stored."""
    kind = weight.format
    is_slow = kind.is_packed and (kind.run < 32 or math.prod(weight.shape) <= IN_CACHE)
    if math.prod(x.shape[:-1]) != 1 or is_slow:
        return matmul(x, weight.dequantize().T)
    elements = unpack_codes(weight.codes, kind, x.shape[-1]).astype("float32")
    scales = weight.scales.astype("float32").reshape((*weight.scales.shape, *(1,) * kind.block_axes))
    y = (split_blocks(x.reshape((1, -1)), kind) * (elements * scales)).sum(axis=tuple(range(1, 2 + kind.block_axes)))
    return (y if weight.tensor_scale is None else y * weight.tensor_scale).reshape((*x.shape[:-1], weight.shape[0]))


def _row_scales(weight: QuantizedArray) -> Array:
    scales = weight.scales[:, 0].astype("float32")
    return scales if weight.tensor_scale is None else scales * weight.tensor_scale


def _sum_blocks(digits: list[Array], factor: Array, weight: QuantizedArray) -> Array:
    """Return the product of inputs by packed 4-bit integers.

    digits : the inputs in blocks, as int8 arrays. The inputs are ``factor`` times their sum with weights 1, 256 and 65536
    """
    kind = weight.format
    outside, inside = digits[0].shape[: -kind.block_axes - 1], digits[0].shape[-kind.block_axes - 1 :]
    rows, blocks = math.prod(outside), inside[0]
    a = concat([d.reshape((rows, *inside)) for d in digits]).astype("int32")
    b = nibbles(weight.codes, kind, weight.shape[1]).astype("int32")
    product = wrap(bind(TABLE["dot_general"], a.node, b.node, contract=((2, 3, 4), (2, 3, 4)), batch=((1,), (1,))))
    offsets = a.sum(axis=(2, 3, 4), dtype="int32") * 8  # codes are integers plus 8
    factors = concat([broadcast_to(factor.reshape((rows, -1)) * float(256**n), (rows, blocks)) for n in range(len(digits))])
    sums = (product - offsets.T[:, :, None]).astype("float32") * factors.T[:, :, None]
    terms = sums * weight.scales.astype("float32").T[:, None, :]
    return terms.reshape((blocks, len(digits), rows, weight.shape[0])).sum(axis=(0, 1)).reshape((*outside, weight.shape[0]))


class QuantizedLinear(Module):
    """Apply ``x @ weight.T + bias`` with a quantized weight. :func:`weft.nn.quantize_model` makes it from a Linear.

    Parameters
    ----------
    weight : QuantizedArray of shape (out_features, in_features), its last axis quantized
    bias : Array or None
    activations : dtype, optional
        int8, or a float dtype of 8 bits or fewer, to which inputs are rounded. int8 inputs are multiplied by int8 weights with
        int32 sums.
    scale : number, optional
        Inputs are divided by it before they are rounded. By default each row has its own scale: its largest magnitude becomes the
        largest number.

    Raises
    ------
    ShapeError
        The weight is not two-dimensional or its first axis is quantized, or ``bias`` or ``x`` does not fit.
    DTypeError, TypeError
        ``activations`` is not one of these dtypes; ``weight`` is not a QuantizedArray.
    ValueError
        ``scale`` is not positive and finite, or without ``activations``.

    Examples
    --------
    >>> w = wf.nn.quantize(wf.ones((2, 256)), wf.block_format("int4", 128))
    >>> wf.nn.QuantizedLinear(w, activations="int8")(wf.ones((5, 256))).shape
    (5, 2)
    """

    buffers = ("scale",)

    def __init__(self, weight: QuantizedArray, bias: Any = None, activations: Any = None, scale: Any = None) -> None:
        super().__init__()
        check_matrix("QuantizedLinear", weight, "(out_features, in_features)")
        self.out_features, self.in_features = weight.shape
        self.weight, self.bias = weight, None if bias is None else asarray(bias)
        self.activations = input_format("QuantizedLinear", activations)
        self.scale = input_scale("QuantizedLinear", self.activations, scale)
        if self.bias is not None and self.bias.shape != (self.out_features,):
            raise ShapeError(
                f"QuantizedLinear: bias has shape {self.bias.shape}, it must be (out_features,) = ({self.out_features},)"
            )

    def forward(self, x: Any) -> Array:
        x = asarray(x)
        if x.ndim < 1 or x.shape[-1] != self.in_features:
            raise ShapeError(
                f"QuantizedLinear: x has shape {x.shape}, its last dimension must be in_features = {self.in_features}"
            )
        y = multiply_quantized(x, self.weight, self.activations, self.scale)
        y = y if self.bias is None else y + self.bias
        return y.astype(x.dtype) if x.node.dtype in FLOATS else y

    def extra_repr(self) -> str:
        """Return the text between the parentheses of ``repr``."""
        return f"{self.in_features}, {self.out_features}" + describe(self.weight, self.activations, self.scale)


def describe(weight: QuantizedArray, activations: Format | None, scale: Array | None) -> str:
    """Return the formats of a quantized layer for ``repr``."""
    if activations is None:
        return f", weights={weight.format}"
    return f", weights={weight.format}, activations={activations}{'' if scale is None else ', calibrated'}"


complete_module(globals())
