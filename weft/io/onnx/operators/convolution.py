"""ONNX operators that convolve."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft as wf
from weft.array import wrap
from weft.array.convert import as_node
from weft.eager.apply import bind
from weft.graph.primitives import TABLE
from weft.graph.primitives.conv_general import dilated_extent
from weft.graph.primitives.settings import convolution_params
from weft.io.onnx.operators.table import Attributes, operator
from weft.io.onnx.operators.windows import place_windows
from weft.nn.convolution import transpose_convolution


def convolve(at: Attributes, x: Any, w: Any, bias: Any = None) -> Any:
    """Return the convolution that the attributes of a Conv describe."""
    x, w = wf.asarray(x), wf.asarray(w)
    windows = place_windows(at, x.shape[2:], w.shape[2:])
    axes = tuple(range(x.ndim))
    y = wrap(bind(
        TABLE["conv_general"], as_node(x), as_node(w), stride=windows.strides, padding=windows.padding,
        lhs_dilation=(1,) * (x.ndim - 2), rhs_dilation=windows.dilations, groups=at.group or 1, dims=(axes, axes, axes),
        **convolution_params(x.dtype),
    ))
    return y if bias is None else y + wf.reshape(bias, (-1, *(1,) * (x.ndim - 2)))


operator("Conv")(convolve)


@operator("ConvTranspose")
def _conv_transpose(at: Attributes, x: Any, w: Any, bias: Any = None) -> Any:
    x, w = wf.asarray(x), wf.asarray(w)
    spatial = x.ndim - 2
    strides, dilations = at.strides or (1,) * spatial, at.dilations or (1,) * spatial
    extra, pads = at.output_padding or (0,) * spatial, list(at.pads or (0,) * (2 * spatial))
    full = [
        (n - 1) * s + dilated_extent(k, e) for n, s, k, e in zip(x.shape[2:], strides, w.shape[2:], dilations, strict=True)
    ]
    wanted = None if at.output_shape is None else at.output_shape[-spatial:]
    if wanted is None and at.auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    if wanted is not None:
        for d, (n, m, more) in enumerate(zip(full, wanted, extra, strict=True)):
            total = n + more - m
            low = 0 if total < 0 else total // 2 if at.auto_pad == "SAME_UPPER" else total - total // 2
            pads[d], pads[d + spatial] = low, total - low
    y = transpose_convolution("ConvTranspose", spatial, x, w, None, strides, 0, 0, at.group, dilations)
    # the elements that output_padding adds lie behind the full result
    widths = [(max(-pads[d], 0), max(extra[d] - pads[d + spatial], 0)) for d in range(spatial)]
    cut = tuple(
        slice(max(pads[d], 0), full[d] - max(pads[d + spatial] - extra[d], 0)) for d in range(spatial)
    )
    y = wf.pad(y[(slice(None), slice(None), *cut)], [(0, 0), (0, 0), *widths])
    return y if bias is None else y + wf.reshape(bias, (-1, *(1,) * spatial))


@operator("ConvInteger")
def _conv_integer(at: Attributes, x: Any, w: Any, x_zero: Any = None, w_zero: Any = None) -> Any:
    x, w = wf.asarray(x).astype(np.int32), wf.asarray(w).astype(np.int32)
    if x_zero is not None:
        x = x - wf.asarray(x_zero).astype(np.int32)
    if w_zero is not None:
        w = w - wf.asarray(w_zero).astype(np.int32).reshape((-1, *(1,) * (w.ndim - 1)))
    return convolve(at, x, w)


@operator("DeformConv")
def _deform_conv(at: Attributes, x: Any, w: Any, offset: Any, bias: Any = None, mask: Any = None) -> Any:
    x, w, offset = wf.asarray(x), wf.asarray(w), wf.asarray(offset)
    windows = place_windows(at, x.shape[2:], w.shape[2:])
    n, channels, height, width = x.shape
    groups, (rows, columns), (kh, kw) = at.offset_group, windows.counts, windows.sizes
    offset = offset.reshape((n, groups, kh, kw, 2, rows, columns))
    image = x.reshape((n, groups, channels // groups, height, width))
    first = [
        np.arange(c)[None, :] * s - low + np.arange(k)[:, None] * e
        for c, s, (low, _), k, e in zip(
            windows.counts, windows.strides, windows.padding, windows.sizes, windows.dilations, strict=True
        )
    ]
    y = offset[:, :, :, :, 0] + first[0].astype(np.float32)[:, None, :, None]
    z = offset[:, :, :, :, 1] + first[1].astype(np.float32)[None, :, None, :]
    examples = wf.arange(n).reshape((n, 1, 1, 1, 1, 1))
    parts = wf.arange(groups).reshape((1, groups, 1, 1, 1, 1))
    value: Any = 0.0
    for a in (0, 1):
        for b in (0, 1):
            i, j = wf.floor(y) + a, wf.floor(z) + b
            inside = (i >= 0) & (i < height) & (j >= 0) & (j < width)
            share = (1 - wf.abs(y - i)) * (1 - wf.abs(z - j)) * inside
            pixels = wf.gather(
                image, examples, parts, wf.clip(i, 0, height - 1).astype(np.int64), wf.clip(j, 0, width - 1).astype(np.int64),
                axes=(0, 1, 3, 4),
            )
            value = value + pixels * share[..., None]
    if mask is not None:
        value = value * wf.asarray(mask).reshape((n, groups, kh, kw, rows, columns))[..., None]
    columns_of = wf.permute_dims(value, (0, 1, 6, 2, 3, 4, 5)).reshape((n, channels, kh, kw, rows, columns))
    outs, own, g = w.shape[0], w.shape[1], at.group
    y = wf.einsum(
        "ngckhrs,gockh->ngors", columns_of.reshape((n, g, own, kh, kw, rows, columns)), w.reshape((g, outs // g, own, kh, kw))
    ).reshape((n, outs, rows, columns))
    return y if bias is None else y + wf.reshape(bias, (-1, 1, 1))
