"""Convolutions and embeddings with quantized weights."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.dtypes.formats import FLOATS, INT8
from weft.errors import ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.indexing.take_scatter import take
from weft.nn.convolution import Conv1d, Conv2d, Conv3d, Formats, convolve, pad_images
from weft.nn.embedding import check_indices
from weft.nn.module import Module
from weft.nn.quantized.array import QuantizedArray, check_matrix, check_weight
from weft.nn.quantized.inputs import input_format, input_scale, round_inputs
from weft.nn.quantized.linear import describe
from weft.process.docstrings import complete_module
from weft.transforms.custom import custom_vjp


class QuantizedConv2d(Module):
    """Apply a Conv1d, Conv2d or Conv3d with a quantized weight. :func:`weft.nn.quantize_model` makes it.

    The sums are float32; those of int8 inputs by int8 weights with one scale a channel are int32, and exact.

    Parameters
    ----------
    layer : Conv2d, Conv1d or Conv3d, which has the sizes and the bias
    weight : QuantizedArray of shape (out_channels, in_channels / groups * positions of the window), its last axis quantized
    activations, scale : see :class:`QuantizedLinear`. Without ``scale`` each image has its own.

    Raises
    ------
    ShapeError, DTypeError, TypeError, ValueError
        The weight does not fit the layer; ``activations`` is not a dtype for inputs; ``layer`` or ``weight`` is of another type;
        ``scale`` is not positive and finite, or without ``activations``.

    Examples
    --------
    >>> layer = wf.nn.Conv2d(1, 10, 3)
    >>> small = wf.nn.QuantizedConv2d(layer, wf.nn.quantize(layer.weight.reshape((10, -1)), wf.block_format("int8", None)))
    >>> small(wf.ones((2, 1, 8, 8))).shape
    (2, 10, 6, 6)
    """

    buffers = ("scale",)

    def __init__(self, layer: Conv2d, weight: QuantizedArray, activations: Any = None, scale: Any = None) -> None:
        super().__init__()
        check_weight("QuantizedConv2d", weight)
        if not isinstance(layer, Conv1d | Conv2d | Conv3d):
            raise TypeError(f"QuantizedConv2d: layer must be a Conv1d, Conv2d or Conv3d, not {type(layer).__name__}")
        original = layer.weight
        shape = None if original is None else original.reshape((original.shape[0], -1)).shape
        if original is None or weight.axis != weight.ndim - 1 or weight.shape != shape:
            raise ShapeError(
                f"QuantizedConv2d: weight {weight.shape} along axis {weight.axis} must be the layer's in two dimensions, "
                f"quantized along the last: {shape}"
            )
        self.spatial, self.window = layer.spatial, original.shape[1:]
        self.stride, self.padding, self.dilation, self.groups = layer.stride, layer.padding, layer.dilation, layer.groups
        self.padding_mode = layer.padding_mode
        self.weight, self.bias = weight, layer.bias
        self.activations = input_format("QuantizedConv2d", activations)
        self.scale = input_scale("QuantizedConv2d", self.activations, scale)

    def forward(self, x: Any) -> Array:
        x = asarray(x)
        name, rank, padding, weight = f"conv{self.spatial}d", self.spatial, self.padding, self.weight
        as_images = (weight.shape[0], *self.window)
        if self.padding_mode != "zeros":
            window = weight.dequantize().reshape(as_images)
            x = pad_images(x, rank, window, padding, self.stride, self.dilation, self.padding_mode, name)
            padding = 0

        def apply(x: Array, w: Array, sums: str = "float32") -> Array:
            formats = Formats(accumulate=sums)
            return convolve(name, rank, x, w, None, self.stride, padding, self.dilation, self.groups, formats)

        if self.activations is None:
            y = apply(x.astype("float32"), weight.dequantize().reshape(as_images))
        else:
            y = self._apply_rounded(x.astype("float32"), apply, as_images)
        if self.bias is not None:
            y = y + self.bias.reshape((1, -1) + (1,) * rank)
        return y.astype(x.dtype) if x.node.dtype in FLOATS else y

    def _apply_rounded(self, x: Array, apply: Any, as_images: tuple[int, ...]) -> Array:
        form, weight, scale = self.activations, self.weight, self.scale
        assert form is not None
        one_scale = weight.scales.shape[-1] == 1 and not weight.format.is_packed and weight.codes.shape == weight.shape

        def product(x: Array) -> Array:
            codes, factor = round_inputs(x, form, scale, tuple(range(1, x.ndim)))
            if not one_scale:
                return apply(codes.astype("float32"), weight.dequantize().reshape(as_images)) * factor
            elements = weight.codes.reshape(as_images)
            if form is INT8 and elements.dtype == "int8":
                y = apply(codes, elements, "int32").astype("float32")
            else:
                y = apply(codes.astype("float32"), elements.astype("float32"))
            return y * factor * weight.scales.astype("float32").reshape((1, -1) + (1,) * self.spatial)

        @custom_vjp
        def quantized_convolution(x: Array) -> Array:
            return product(x)

        decoded = weight.dequantize().reshape(as_images)
        quantized_convolution.defvjp(lambda x: (product(x), x), lambda x, g: _input_gradient(apply, x, decoded, g))
        return quantized_convolution(x)

    def extra_repr(self) -> str:
        """Return the text between the parentheses of ``repr``."""
        sizes = f"{self.window[0] * self.groups}, {self.weight.shape[0]}, {self.window[1:]}"
        return sizes + describe(self.weight, self.activations, self.scale)


def _input_gradient(apply: Any, x: Array, weight: Array, g: Array) -> tuple[Array]:
    from weft.transforms.grad import vjp

    return (vjp(lambda a: apply(a, weight), x)[1](g)[0],)


class QuantizedEmbedding(Module):
    """Look up rows of a quantized table, and decode them. :func:`weft.nn.quantize_model` makes it from an Embedding.

    Parameters
    ----------
    weight : QuantizedArray of shape (num_embeddings, embedding_dim), its last axis quantized

    Raises
    ------
    ShapeError
        The weight is not two-dimensional, or its first axis is quantized.
    TypeError
        ``weight`` is not a QuantizedArray.
    DTypeError, IndexError
        Called: ``input`` does not contain integers, or they are out of range.

    Examples
    --------
    >>> table = wf.nn.quantize(wf.ones((10, 32)), wf.mxfp4)
    >>> wf.nn.QuantizedEmbedding(table)(wf.array([[1, 2, 3], [3, 0, 9]])).shape
    (2, 3, 32)
    """

    def __init__(self, weight: QuantizedArray) -> None:
        super().__init__()
        check_matrix("QuantizedEmbedding", weight, "(num_embeddings, embedding_dim)")
        self.num_embeddings, self.embedding_dim = weight.shape
        self.weight = weight

    def forward(self, input: Any) -> Array:
        index, w = check_indices(input, self.weight.shape), self.weight
        codes, scales = take(w.codes, index, axis=0), take(w.scales, index, axis=0)
        shape = (*index.shape, self.embedding_dim)
        return QuantizedArray(codes, scales, w.tensor_scale, w.format, shape, len(shape) - 1).dequantize()

    def extra_repr(self) -> str:
        """Return the text between the parentheses of ``repr``."""
        return f"{self.num_embeddings}, {self.embedding_dim}" + describe(self.weight, None, None)


complete_module(globals())
