"""Convolutions as products of copied windows, for sums that only products compute fast: rounded ones, and int32 sums of bytes.

The windows of the input are copied, so that each is one row (or column) of a matrix, which is multiplied by the weights: im2col.
The products of a sum keep their order, channels before taps, so the result has the same bits. A dilated input becomes one
convolution for each phase, and no zero of the dilation is multiplied.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

from weft.dtypes.formats import INT8, INT32, INT64, INTEGERS, UINT8, holds
from weft.graph.node import Node, Shape
from weft.graph.primitives.call import call, full, number, permute, reshape
from weft.graph.primitives.common import inverse
from weft.graph.primitives.conv_general import dilated_extent, dilation_phases, tap_phase
from weft.graph.primitives.settings import with_operands

MOST_BYTES = 256 << 20  # of windows that are copied at a time
Steps = tuple[tuple[int, ...], tuple[int, ...]]


def as_product(node: Node, inputs: tuple[Node, ...]) -> Node | None:
    """Return the convolution ``node`` of ``inputs`` as products, or None if it stays a convolution."""
    p = node.params
    x, w = (_bytes_of(i) if node.dtype is INT32 else i for i in inputs)
    if x is None or w is None or not (node.dtype is INT32 or "accumulator" in p) or 0 in (node.size, x.size, w.size):
        return None
    x_perm, w_perm, out_perm = p["dims"]
    x, w = permute(x, x_perm), permute(w, w_perm)
    if max((*w.shape[2:], *p["lhs_dilation"])) == 1 and not any(map(any, p["padding"])):
        return None  # it is a product already
    settings = {name: value for name, value in p.items() if name in ("accumulator", "operands")}
    y = _join_phases(x, w, tuple([node.shape[d] for d in out_perm[2:]]), p, settings)
    return permute(y, inverse(out_perm))


def _bytes_of(node: Node) -> Node | None:
    """Return the 8-bit integers of which ``node`` is a cast, or None."""
    while node.op.name == "cast" and node.inputs[0].dtype in INTEGERS and holds(node.dtype, node.inputs[0].dtype):
        (node,) = node.inputs
    if node.dtype.bits > 8:
        return None
    form = UINT8 if node.dtype.name.startswith("u") else INT8
    return node if node.dtype is form else call.cast(node, dtype=form)


def _join_phases(x: Node, w: Node, extents: Shape, p: dict[str, Any], settings: dict[str, Any]) -> Node:
    """Return the convolution of (N, C, *spatial), with the parameters ``p``, from those of the phases of its dilated input."""
    stride, window, dilation, low = p["stride"], p["rhs_dilation"], p["lhs_dilation"], [pad[0] for pad in p["padding"]]
    periods = [min(dilation_phases(ld, s), n) for ld, s, n in zip(dilation, stride, extents, strict=True)]
    most = tuple([-(-n // period) for n, period in zip(extents, periods, strict=True)])
    parts = []
    for phase in product(*map(range, periods)):
        taps, steps, gaps, pads = [], [], [], []
        for d, r in enumerate(phase):
            size, ld, rd = w.shape[2 + d], dilation[d], window[d]
            offset = r * stride[d] - low[d]
            start, step = tap_phase(offset, rd, ld, size)
            taps.append((start, step, max(0, -(-(size - start) // step))))
            steps.append(periods[d] * stride[d] // ld)
            gaps.append(step * rd // ld)
            before = -((offset + start * rd) // ld)
            read = dilated_extent(taps[d][2], gaps[d]) + (most[d] - 1) * steps[d]
            pads.append((before, read - x.shape[2 + d] - before))
        if any(t[2] == 0 for t in taps):
            parts.append(_wide(full(0, (x.shape[0], w.shape[0], *most), x.dtype)))
            continue
        first, every, count = ([t[k] for t in taps] for k in range(3))
        weights = call.slice(w, start=(0, 0, *first), step=(1, 1, *every), shape=(*w.shape[:2], *count))
        parts.append(_products(_pad(x, pads), weights, most, (tuple(steps), tuple(gaps)), p["groups"], settings))
    if len(parts) == 1:
        return parts[0]
    rank, lead = len(extents), parts[0].shape[:2]
    joined = reshape(call.concat(*parts, axis=0), (*periods, *lead, *most))
    order = (rank, rank + 1, *[axis for d in range(rank) for axis in (rank + 2 + d, d)])
    joined = reshape(permute(joined, order), (*lead, *[n * period for n, period in zip(most, periods, strict=True)]))
    return call.slice(joined, start=(0,) * (2 + rank), step=(1,) * (2 + rank), shape=(*lead, *extents))


def _pad(x: Node, pads: list[tuple[int, int]]) -> Node:
    """Pad the spatial dimensions with zeros; negative extents crop."""
    low, high = ((0, 0, *[max(pad[side], 0) for pad in pads]) for side in (0, 1))
    start = (0, 0, *[max(-before, 0) for before, _ in pads])
    shape = (*x.shape[:2], *[n + sum(pad) for n, pad in zip(x.shape[2:], pads, strict=True)])
    return call.slice(call.pad(x, low=low, high=high, value=0), start=start, step=(1,) * len(start), shape=shape)


def _products(x: Node, w: Node, extents: Shape, steps: Steps, groups: int, settings: dict[str, Any]) -> Node:
    """Return the convolution without padding (N, O, *extents) as products of as many images as ``MOST_BYTES`` allow."""
    images, *rest = x.shape
    count = max(1, MOST_BYTES // (groups * prod(w.shape[1:]) * prod(extents) * x.dtype.bytes))
    parts = []
    for first in range(0, images, count):
        some = call.slice(
            x, start=(first, *[0] * len(rest)), step=(1,) * len(x.shape), shape=(min(count, images - first), *rest))
        parts.append(_product(some, w, extents, steps, groups, settings))
    return parts[0] if len(parts) == 1 else call.concat(*parts, axis=0)


def _product(x: Node, w: Node, extents: Shape, steps: Steps, groups: int, settings: dict[str, Any]) -> Node:
    """Return the convolution without padding (N, O, *extents) as a product."""
    rank, images = len(extents), x.shape[0]
    filters, channels, *taps = w.shape
    length = channels * prod(taps)  # one axis of both operands, copied if need be, whatever order they have in memory
    w = reshape(w, (groups, filters // groups, length))
    if prod(extents) >= prod(taps):  # a product for each image; positions are the last axes of its windows
        shape = (images, groups, channels, *taps, *extents)
        windows = reshape(_windows(x, shape, 1, 3 + rank, 3, steps), (images, groups, length, *extents))
        w = call.broadcast_to(w, shape=(images, *w.shape))
        forms = settings.get("operands", (None, None))[::-1]
        y = call.dot_general(
            _wide(w), _wide(windows), contract=((3,), (2,)), batch=((0, 1), (0, 1)), **with_operands(settings, *forms),
        )
    else:  # one product for all images; taps are the last axes, of which a derivative by weights has many
        shape = (images, *extents, groups, channels, *taps)
        windows = reshape(_windows(x, shape, 1 + rank, 1, 3 + rank, steps), (images, *extents, groups, length))
        y = call.dot_general(_wide(windows), _wide(w), contract=((2 + rank,), (2,)), batch=((1 + rank,), (0,)), **settings)
        y = permute(y, (1, 0, 2 + rank, *range(2, 2 + rank)))
    return reshape(y, (images, filters, *extents))


def _wide(x: Node) -> Node:
    return call.cast(x, dtype=INT32) if x.dtype in INTEGERS else x


def _windows(x: Node, shape: Shape, group: int, spots: int, taps: int, steps: Steps) -> Node:
    """Return the windows of x (N, C, *spatial) as an array of ``shape``.

    group, spots, taps: its axis of groups, which channels follow, and the first axes of positions and of taps
    steps: between positions, and between taps
    """
    def line(axis: int, step: int) -> Node:
        out = call.iota(shape=tuple([n if d == axis else 1 for d, n in enumerate(shape)]), dtype=INT64, axis=axis)
        return out if step == 1 else call.multiply(out, number(step, out))

    def joined(first: int, step: int, second: int, other: int) -> Node:
        return call.add(line(first, step), line(second, other))

    places = [line(0, 1), joined(group, shape[group + 1], group + 1, 1)]
    places += [joined(spots + d, s, taps + d, e) for d, (s, e) in enumerate(zip(*steps, strict=True))]
    return call.gather(x, *places, axes=tuple(range(len(places))))
