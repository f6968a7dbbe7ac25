"""conv_general: convolution (cross-correlation) over any number of spatial dimensions, closed under vjp.

``dims = (x_perm, w_perm, out_perm)``: positions in x of (N, C, *spatial), in w of (O, I, *spatial), in the result of (N, O,
*spatial). ``lhs_dilation`` puts zeros between the elements of x, ``rhs_dilation`` between those of w. ``padding`` is ((low,
high), ...) of the dilated x and may be negative (cropping), as gradients need it. With ``groups`` G, I is C / G, and part g of
the output channels reads part g of the input channels. The other parameters are settings of products: see ``settings.py``. The
products of an accumulator are those of channels, then taps; those with zeros of ``lhs_dilation`` are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any

import numpy as np

from weft.dtypes.formats import Format
from weft.dtypes.rounding import Accumulator
from weft.errors import ShapeError
from weft.graph.node import Cost, Node, Primitive, Shape
from weft.graph.primitives.call import call, flip, permute, reshape
from weft.graph.primitives.common import NodeAndAxis, compute_in_float32, front, inverse, round_operands, traffic
from weft.graph.primitives.kinds import NUMBERS
from weft.graph.primitives.rules import check_axes, dtype_error, memoise
from weft.graph.primitives.settings import Pair as Formats
from weft.graph.primitives.settings import check_formats, with_operands
from weft.graph.primitives.table import register
from weft.kernel.summation import add_products

Ints = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]
Dims = tuple[Ints, Ints, Ints]


def dilated_extent(n: int, dilation: int) -> int:
    """Return the extent of ``n`` elements after dilation."""
    return (n - 1) * dilation + 1 if n else 0


def dilation_phases(dilation: int, stride: int) -> int:
    """Return the period, in output positions, with which the same taps meet non-zero positions of a dilated input."""
    return dilation // gcd(dilation, stride)


def tap_phase(offset: int, rd: int, ld: int, window: int) -> tuple[int, int]:
    """Return (first, step) of the taps with offset + tap * rd divisible by ld; first == window if there are none."""
    every = ld // gcd(ld, rd)
    for tap in range(min(every, window)):
        if (offset + tap * rd) % ld == 0:
            return tap, every
    return window, every


def _rule(
    x: Node, w: Node, precision: str = "float32", accumulator: Accumulator | None = None, operands: Formats = (None, None),
    algorithm: str = "direct", **params: Any,
) -> tuple[Shape, Format]:
    if x.dtype not in NUMBERS or x.dtype != w.dtype:
        raise dtype_error("conv_general", (x, w), ("x", "w"), NUMBERS)
    if accumulator is not None or operands != (None, None):
        check_formats("conv_general", x.dtype, accumulator, operands)
    return _shape(x.shape, w.shape, **params), x.dtype


@memoise
def _shape(
    x: Shape, w: Shape, stride: Ints, padding: Pads, lhs_dilation: Ints, rhs_dilation: Ints, groups: int, dims: Dims
) -> Shape:
    ndim = len(x)
    if ndim < 3 or len(w) != ndim:
        raise ShapeError(f"conv_general: x {x} and w {w} must both have two dimensions more than there are spatial ones.")
    for axes, label in zip(dims, ("dims of x", "dims of w", "dims of the result"), strict=True):
        check_axes("conv_general", axes, ndim, label)
        if len(axes) != ndim:
            raise ShapeError(f"conv_general: {label} {axes} must name {ndim} dimensions.")
    spatial = ndim - 2
    if not len(stride) == len(padding) == len(lhs_dilation) == len(rhs_dilation) == spatial:
        raise ShapeError(
            f"conv_general: stride {stride}, padding {padding}, lhs_dilation {lhs_dilation} and rhs_dilation {rhs_dilation} must "
            f"have {spatial} entries, one a spatial dimension."
        )
    if min(stride + lhs_dilation + rhs_dilation) < 1 or groups < 1:
        raise ShapeError(
            f"conv_general: stride {stride}, dilations {lhs_dilation}, {rhs_dilation} and groups {groups} must be >= 1."
        )
    sx, sw = [x[d] for d in dims[0]], [w[d] for d in dims[1]]
    if sx[1] != sw[1] * groups or sw[0] % groups:
        raise ShapeError(
            f"conv_general: x {x} has {sx[1]} channels and w {w} takes {sw[1]} a group and gives {sw[0]}: with "
            f"groups {groups}, w must take {sx[1] / groups:g} channels and give a multiple of {groups}."
        )
    out = [sx[0], sw[0]]
    for n, k, s, (low, high), ld, rd in zip(sx[2:], sw[2:], stride, padding, lhs_dilation, rhs_dilation, strict=True):
        extent = dilated_extent(n, ld) + low + high - dilated_extent(k, rd)
        if extent < 0 or k < 1:
            raise ShapeError(
                f"conv_general: the window of w {w} (dilation {rhs_dilation}) is larger than x {x} with padding "
                f"{padding}."
            )
        out.append(extent // s + 1)
    shape = [0] * ndim
    for position, n in zip(dims[2], out, strict=True):
        shape[position] = n
    return tuple(shape)


def _dilate_and_pad(x: np.ndarray, padding: Pads, lhs_dilation: Ints) -> np.ndarray:
    """Return x dilated, then padded or cropped."""
    n, c, *spatial = x.shape
    wide = np.zeros([n, c] + [dilated_extent(e, d) for e, d in zip(spatial, lhs_dilation, strict=True)], x.dtype)
    wide[(slice(None), slice(None), *(slice(None, None, d) for d in lhs_dilation))] = x
    wide = np.pad(wide, [(0, 0), (0, 0)] + [(max(a, 0), max(b, 0)) for a, b in padding])
    crop = (slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(padding, wide.shape[2:], strict=True))
    return wide[(slice(None), slice(None), *crop)]


def _reference(
    x: np.ndarray, w: np.ndarray, stride: Ints, padding: Pads, lhs_dilation: Ints, rhs_dilation: Ints, groups: int, dims: Dims,
    precision: str = "float32", accumulator: Accumulator | None = None, operands: Formats = (None, None),
    algorithm: str = "direct",
) -> np.ndarray:
    x, w = round_operands((x, w), operands)
    x, w = _dilate_and_pad(x.transpose(dims[0]), padding, lhs_dilation), w.transpose(dims[1])
    n, c = x.shape[:2]
    o, i, *kernel = w.shape
    out_spatial = [
        (e - dilated_extent(k, d)) // s + 1 for e, k, d, s in zip(x.shape[2:], kernel, rhs_dilation, stride, strict=True)
    ]
    out = np.zeros([n, groups, o // groups, prod(out_spatial)], x.dtype)

    def operands_at(tap: Ints) -> tuple[np.ndarray, np.ndarray]:
        """Return (groups, outputs, channels) of w and (images, groups, channels, positions) of x."""
        window = x[(slice(None), slice(None), *(
            slice(p * d, p * d + (e - 1) * s + 1, s) for p, d, e, s in zip(tap, rhs_dilation, out_spatial, stride, strict=True)
        ))]
        at: tuple[Any, ...] = (slice(None), slice(None), *tap)
        weights = w[at].reshape(groups, o // groups, i)
        return weights, window.reshape(n, groups, i, out.shape[-1])

    def has_element(tap: Ints) -> np.ndarray:
        """Return whether a tap meets an element of x or its padding, not a zero of ``lhs_dilation``, by position."""
        found = np.ones(out_spatial, bool)
        for d, (p, step, (low, _), ld) in enumerate(zip(tap, stride, padding, lhs_dilation, strict=True)):
            at = (np.arange(out_spatial[d]) * step + p * rhs_dilation[d] - low) % ld == 0
            found &= at.reshape([-1 if k == d else 1 for k in range(len(out_spatial))])
        return found.reshape(-1)

    if accumulator is not None:
        taps = [(operands_at(tap), has_element(tap)) for tap in np.ndindex(*kernel)]
        terms = (
            (weights[:, :, c, None], window[:, :, c, None, :], hit) for c in range(i) for (weights, window), hit in taps
        )
        out = add_products(out.shape, terms, accumulator)
    else:
        for tap in np.ndindex(*kernel):
            out += np.matmul(*operands_at(tap))
    return out.reshape([n, o, *out_spatial]).transpose(inverse(dims[2]))


# vjp


def _split(x: Node, axis: int, groups: int, to: int) -> Node:
    """Move ``groups`` from the front of one axis to the front of axis ``to``: C, N -> C/G, G*N."""
    if groups == 1:
        return x
    shape = x.shape
    x = reshape(x, (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1:]))
    rest = [d for d in range(len(x.shape)) if d != axis]
    where = rest.index(to if to < axis else to + 1)
    x = permute(x, (*rest[:where], axis, *rest[where:]))
    merged = list(shape)
    merged[axis] //= groups
    merged[to] *= groups
    return reshape(x, tuple(merged))


def _vjp(
    g: Node, out: Node, x: Node, w: Node, stride: Ints, padding: Pads, lhs_dilation: Ints, rhs_dilation: Ints, groups: int,
    dims: Dims, **settings: Any,
) -> tuple[Node, Node]:
    form_x, form_w = settings.get("operands", (None, None))
    x_dims, w_dims, out_dims = dims
    sx, sw = [x.shape[d] for d in x_dims[2:]], [w.shape[d] for d in w_dims[2:]]
    so = [g.shape[d] for d in out_dims[2:]]
    wide_x = [dilated_extent(n, d) for n, d in zip(sx, lhs_dilation, strict=True)]
    wide_w = [dilated_extent(n, d) for n, d in zip(sw, rhs_dilation, strict=True)]
    wide_g = [dilated_extent(n, d) for n, d in zip(so, stride, strict=True)]

    # to x: g, dilated by the stride, with w reversed and its channels swap_channels
    turned = flip(_split(w, w_dims[0], groups, w_dims[1]), w_dims[2:])
    low = [k - 1 - pad[0] for k, pad in zip(wide_w, padding, strict=True)]
    high = [n + k - 1 - m - a for n, k, m, a in zip(wide_x, wide_w, wide_g, low, strict=True)]
    dx = call.conv_general(
        g, turned, stride=lhs_dilation, padding=tuple(zip(low, high, strict=True)), lhs_dilation=stride,
        rhs_dilation=rhs_dilation, groups=groups, dims=(out_dims, (w_dims[1], w_dims[0], *w_dims[2:]), x_dims),
        **with_operands(settings, None, form_w),
    )

    # to w: x with g as its window; images take the place of channels and are summed over
    def swap_channels(d: Ints) -> Ints:
        return (d[1], d[0], *d[2:])

    low = [pad[0] for pad in padding]
    high = [k + m - 1 - n - a for k, m, n, a in zip(wide_w, wide_g, wide_x, low, strict=True)]
    dw = call.conv_general(
        _split(x, x_dims[1], groups, x_dims[0]), g, stride=rhs_dilation, padding=tuple(zip(low, high, strict=True)),
        lhs_dilation=lhs_dilation, rhs_dilation=stride, groups=groups,
        dims=(swap_channels(x_dims), swap_channels(out_dims), swap_channels(w_dims)), **with_operands(settings, form_x, None),
    )
    return dx, dw


# batching


def _merge_batch(x: Node, dim: int, axis: int) -> Node:
    """Merge the batch dimension into the front of ``axis`` (an axis of x without the batch)."""
    x = front(x, dim)
    x = permute(x, (*range(1, axis + 1), 0, *range(axis + 1, len(x.shape))))
    return reshape(x, (*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2:]))


def _split_batch(x: Node, axis: int, count: int) -> Node:
    """Split a batch of ``count`` off the front of ``axis``. It becomes dimension ``axis``."""
    return reshape(x, (*x.shape[:axis], count, x.shape[axis] // count, *x.shape[axis + 1:]))


def _batch(inputs: Sequence[Node], batch_dims: Sequence[int | None], **params: Any) -> NodeAndAxis:
    (x, w), (bx, bw) = inputs, batch_dims
    dims, groups = params["dims"], params["groups"]

    def conv(x: Node, w: Node, groups: int) -> Node:
        return call.conv_general(x, w, **{**params, "groups": groups})

    if bw is None:  # more images
        assert bx is not None
        count = x.shape[bx]
        return _split_batch(conv(_merge_batch(x, bx, dims[0][0]), w, groups), dims[2][0], count), dims[2][0]
    count = w.shape[bw]
    channel = dims[2][1]
    if bx is None and groups == 1:  # more output channels
        return _split_batch(conv(x, _merge_batch(w, bw, dims[1][0]), 1), channel, count), channel
    if bx is None:  # each example has its own groups: the images are repeated for them
        x, bx = call.broadcast_to(x, shape=(count, *x.shape)), 0
    out = conv(_merge_batch(x, bx, dims[0][1]), _merge_batch(w, bw, dims[1][0]), groups * count)
    return _split_batch(out, channel, count), channel


def _cost(node: Node) -> Cost:
    w, dims = node.inputs[1], node.params["dims"]
    per_output = prod([w.shape[d] for d in dims[1][1:]])
    return Cost(2 * node.size * per_output, traffic(node))


register(Primitive("conv_general", "convolution", _rule, compute_in_float32(_reference), None, _vjp, _batch, _cost))
