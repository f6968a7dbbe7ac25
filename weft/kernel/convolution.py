"""Recognise a convolution: a Contraction with one operand that is read through moving windows.

All convolution files use these names. The *image* is the operand whose index is ``stride * pixel + dilation * tap``; the other
operand is the *weights*. Every window (one for each spatial dimension) has a pixel axis (long) and a tap axis (short). One of the
two belongs to the output and the other is summed over:

                 pixels       taps        free        chan        filters
    forward      out m        summed k    image       in channel  out channel
    input grad   out m        summed k    image       out channel in channel
    weight grad  summed k     out m       in channel  image       out channel
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod

from weft.dtypes.formats import FLOATS, Format
from weft.kernel.ir import Access, Affine, Axis, Contraction, Value

NO_AXIS = Axis(-1, 1)  # stands for an axis that the contraction lacks


@dataclass(frozen=True, slots=True)
class Window:
    """One spatial dimension. u = stride * pixel + dilation * tap - low counts image positions from 0.

    unit: step of u in elements of the image's buffer. valid: range of u inside the image; elsewhere a load returns fill.
    """

    pixel: Axis
    tap: Axis
    stride: int
    dilation: int
    unit: int
    valid: tuple[int, int]

    @property
    def low(self) -> int:
        return min(0, self.dilation * (self.tap.extent - 1))

    def shift(self, tap: int) -> tuple[int, int]:
        """Return (phase, whole steps) of a tap, which reads u = stride * (pixel + steps) + phase."""
        steps, phase = divmod(self.dilation * tap - self.low, self.stride)
        return phase, steps

    @property
    def trailing_pixels(self) -> int:
        """Return how many pixels beyond the last pixel the furthest tap reads."""
        return max(self.shift(t)[1] for t in (0, self.tap.extent - 1))


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution. ``dot``: pixels are summed over (weight gradient). image and weights are plain loads.

    paired: the summed axis of single numbers, if ``chan`` counts pairs of them, which a device may multiply at once.
    """

    contraction: Contraction
    group: Axis
    free: Axis
    chan: Axis
    filters: Axis
    windows: tuple[Window, ...]
    dot: bool
    image: Access
    weights: Access
    image_base: int  # flat offset of the image at u = 0
    paired: Axis | None = None

    def flops(self) -> int:
        c = self.contraction
        return 2 * prod(a.extent for a in (*c.batch, *c.m, *c.n, *c.k))


def match_conv(c: Contraction) -> Conv | None:
    """Return ``c`` as a convolution, or None if it is not one."""
    if c.accum.name not in ("float32", "float64") or (c.order and c.order.lanes > 1) or c.accumulator is not None:
        return None
    if any(axis.extent == 0 for axis in (*c.batch, *c.m, *c.n, *c.k)) or any(s.mode != "set" for s in c.stores):
        return None
    return _match(c, c.a, c.b, c.m, c.n) or _match(c, c.b, c.a, c.n, c.m)


def operand_load(value: Value, accum: str, formats: Collection[Format] = FLOATS) -> Access | None:
    """Return the access of a load of one of the formats, possibly widened to the accumulator's; None for any other value."""
    while value.op == "cast" and value.dtype.name == accum:
        value = value.args[0]
    if value.op != "load" or any(i.gather for i in value.attr.index):
        return None
    return value.attr if value.dtype in formats else None


def coefficient(index: Affine, axis: Axis) -> int:
    return dict(index.terms).get(axis.id, 0)


def _match(c: Contraction, a: Value, b: Value, m: tuple[Axis, ...], n: tuple[Axis, ...]) -> Conv | None:
    image, weights = operand_load(a, c.accum.name), operand_load(b, c.accum.name)
    if image is None or weights is None or weights.guard or len(n) > 1 or len(c.batch) > 1 or image.fill != 0:
        return None
    if image.buffer.dtype.bytes > c.accum.bytes or weights.buffer.dtype.bytes > c.accum.bytes:
        return None
    pairs = _pairs(image, m, c.k)
    if pairs is None:
        return None
    dot = c.order is None
    if not dot:  # taps are summed in the contraction's order, whatever the memory order of the image
        pairs.sort(key=lambda pair: c.k.index(pair[1]))
    windows = []
    for out, summed, co, cs, unit in pairs:
        pixel, tap, stride, dilation = (summed, out, cs, co) if dot else (out, summed, co, cs)
        if stride < 1:
            return None
        last = stride * (pixel.extent - 1) + abs(dilation) * (tap.extent - 1)
        windows.append(Window(pixel, tap, stride, dilation, unit, (0, last + 1)))
    paired = {axis.id for out, summed, *_ in pairs for axis in (out, summed)}
    free, chan = ([axis for axis in axes if axis.id not in paired] for axes in (m, c.k))
    if len(free) > 1 or len(chan) > 1:
        return None
    narrowed = _guards(image, tuple(windows))
    if narrowed is None:
        return None
    flat, base = image.flat(), image.flat().const + sum(w.unit * w.low for w in narrowed)
    allowed = ({axis.id for axis in (*c.batch, *free, *chan)} | paired, {axis.id for axis in (*c.batch, *n, *c.k)})
    if any(axis not in ids for ids, index in zip(allowed, (flat, weights.flat()), strict=True) for axis, _ in index.terms):
        return None
    group, only_free, only_chan, filters = (axes[0] if axes else NO_AXIS for axes in (c.batch, free, chan, n))
    spatial = narrowed if len(narrowed) > 1 else (Window(NO_AXIS, NO_AXIS, 1, 1, 0, (0, 1)), *narrowed)
    return Conv(c, group, only_free, only_chan, filters, spatial, dot, image, weights, base)


def _pairs(image: Access, m: tuple[Axis, ...], k: tuple[Axis, ...]) -> list[tuple[Axis, Axis, int, int, int]] | None:
    """Return (output axis, summed axis, their coefficients, step in elements) of each dimension that is a window.

    Only the guard of a dimension of extent 1 remains; its step is 0 elements.
    """
    outs, sums = {a.id: a for a in m}, {a.id: a for a in k}
    pairs: list[tuple[Axis, Axis, int, int, int]] = []
    seen: set[int] = set()
    hidden = [g for g, _, _ in image.guard if g not in image.index]
    for index, unit in [*zip(image.index, image.buffer.strides, strict=True), *((g, 0) for g in hidden)]:
        terms = [(i, coef) for i, coef in index.terms if i in outs or i in sums]
        if any(i in seen for i, _ in terms):
            return None
        seen.update(i for i, _ in terms)
        o, s = [t for t in terms if t[0] in outs], [t for t in terms if t[0] in sums]
        if len(o) == 1 and len(s) == 1:
            pairs.append((outs[o[0][0]], sums[s[0][0]], o[0][1], s[0][1], unit))
        elif len(o) + len(s) > 1:
            return None
    return pairs or None


def _guards(image: Access, windows: tuple[Window, ...]) -> tuple[Window, ...] | None:
    """Return the windows with their valid range, or None if a guard is not about one window."""
    out = list(windows)
    for index, lo, hi in image.guard:
        terms = dict(index.terms)
        for i, w in enumerate(out):
            coefficients = terms.get(w.pixel.id), terms.get(w.tap.id, 0)
            if set(terms) <= {w.pixel.id, w.tap.id} and coefficients == (w.stride, w.dilation):
                offset = index.const + w.low
                out[i] = replace(w, valid=(max(w.valid[0], lo - offset), min(w.valid[1], hi - offset)))
                break
        else:
            return None
    return tuple(out)
