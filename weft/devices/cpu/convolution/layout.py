"""The layout of the copy of an image block: positions of pixels and taps."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from weft.kernel.convolution import Conv, coefficient


@dataclass(frozen=True, slots=True)
class ImageLayout:
    """The packed copy of a block of the image: [chan][phase][image][row]...[column].

    A pixel is at image * image_pitch + sum(pixel * pitch); a tap displaces it by a constant. With a stride, positions of equal
    remainder are stored together (a phase), so that neighbours in memory are neighbouring pixels. Rows may overlap: a row's
    zeros on the right are the next row's zeros on the left. A spread layout has a phase for each tap of the last window, so that
    rows of pixels are adjacent.
    """

    images: int  # images of a block (along the free axis, or the chan axis when pixels are summed)
    rows: int  # pixels of the first window in a block
    extents: tuple[int, ...]  # positions stored along each window
    pitches: tuple[int, ...]
    image_pitch: int
    phases: tuple[tuple[int, ...], ...]  # first position of each phase in the image: of each window at pixel 0
    plane: int
    chan_pitch: int
    taps: tuple[int, ...]  # displacement of each tap, last window fastest

    @property
    def overlap(self) -> int:
        """The number of positions by which the last row exceeds its plane."""
        return self.extents[-1] - self.pitches[-2]

    def span(self, levels: int, pixels: tuple[int, ...], images: int | None = None) -> int:
        """Return the number of positions from the first to the last pixel of the innermost ``levels`` loops of a block."""
        sizes, steps = (images or self.images, *pixels), (self.image_pitch, *self.pitches)
        return 1 + sum((n - 1) * s for n, s in list(zip(sizes, steps, strict=True))[len(sizes) - levels :])


def make_layout(conv: Conv, images: int, rows: int, size: int, spread: bool = False) -> ImageLayout:
    windows = conv.windows
    last = windows[-1]
    choices = [[w.shift(t) for t in range(w.tap.extent)] for w in windows]
    if spread:
        choices[-1] = [(last.dilation * t - last.low, 0) for t in range(last.tap.extent)]
    shifts = list(itertools.product(*choices))
    phases = tuple(sorted({tuple(p for p, _ in tap) for tap in shifts}))
    extents = [w.pixel.extent + w.reach for w in windows]
    extents[0] = rows + windows[0].reach
    if spread:
        extents[-1] = last.pixel.extent
    overlap = extents[-1] - last.pixel.extent
    for phase in phases:
        lo, hi = bounds(last.valid, phase[-1], last.stride)
        overlap = max(0, min(overlap, lo, extents[-1] - hi))
    pitches = [1, extents[-1] - overlap]
    for extent in reversed(extents[1:-1]):
        pitches.insert(1, 0)
        pitches[1] = pitches[2] * extent
    pitches = [*pitches[1:], 1]
    image_pitch = pitches[0] * extents[0]
    plane = images * image_pitch
    line = 64 // size
    chan_pitch = -(-len(phases) * plane // line) * line
    if chan_pitch // line % 2 == 0 and chan_pitch > 8 * line:
        chan_pitch += line  # an odd number of cache lines distributes channels over all cache sets
    taps = tuple(
        phases.index(tuple(p for p, _ in tap)) * plane + sum(s * pitch for (_, s), pitch in zip(tap, pitches, strict=True))
        for tap in shifts
    )
    return ImageLayout(images, rows, tuple(extents), tuple(pitches), image_pitch, phases, plane, chan_pitch, taps)


def readable_in_place(conv: Conv, size: int) -> bool:
    """Return whether the image can be read in place: a 1x1 window, no border, contiguous pixels."""
    step = 1
    for w in reversed(conv.windows):
        inside = w.valid[0] <= 0 and w.valid[1] >= w.pixel.extent
        if w.tap.extent > 1 or w.stride > 1 or not inside or (w.pixel.extent > 1 and w.unit != step):
            return False
        step *= w.pixel.extent
    pitch = coefficient(conv.image.flat(), conv.chan if not conv.dot else conv.free) * size
    # else all channels map to the same cache set
    spread_out = pitch % 2048 != 0 or (conv.free if conv.dot else conv.chan).extent <= 8
    return conv.image.buffer.dtype == conv.contraction.accum and spread_out and conv.windows[-1].unit == 1


def layout_in_place(conv: Conv, rows: int) -> ImageLayout:
    pitches = [1]
    for w in reversed(conv.windows[1:]):
        pitches.insert(0, pitches[0] * w.pixel.extent)
    extents = (rows, *(w.pixel.extent for w in conv.windows[1:]))
    chan_pitch = coefficient(conv.image.flat(), conv.free if conv.dot else conv.chan)
    block = rows * pitches[0]
    return ImageLayout(1, rows, extents, tuple(pitches), block, ((0,) * len(extents),), block, chan_pitch, (0,))


def bounds(valid: tuple[int, int], phase: int, stride: int) -> tuple[int, int]:
    """Return the range of positions c of a phase with valid[0] <= stride * c + phase < valid[1]."""
    lo, hi = (-(-(end - phase) // stride) for end in valid)
    return lo, hi


def even(total: int, most: int) -> int:
    """Return the block size, at most ``most``, that divides ``total`` into the fewest and most equal blocks."""
    blocks = -(-total // max(1, min(most, total)))
    return -(-total // blocks)
