"""Sizes of a convolution: the packed image, blocks of rows, tiles. Functions of extents, dtype and ISA only."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import prod

from weft.codegen.cpu.conv_match import Conv
from weft.codegen.cpu.isa import ISA


@dataclass(frozen=True, slots=True)
class Layout:
    """The packed copy of a block of the image: [chan][phase][image][row]...[column].

    A pixel is at image * image_pitch + sum(pixel * pitch); a tap displaces it by a constant. With a stride,
    positions of equal remainder lie together (a phase), so that neighbours in memory are neighbouring pixels.
    """

    images: int  # images (the free axis; the chan axis when pixels are summed) of a block
    rows: int  # pixels of the first window in a block
    extents: tuple[int, ...]  # positions stored along each window
    pitches: tuple[int, ...]
    image_pitch: int
    phases: tuple[tuple[int, ...], ...]  # those that some tap reads
    plane: int
    chan_pitch: int
    taps: tuple[int, ...]  # displacement of each tap, last window fastest

    def span(self, levels: int, pixels: tuple[int, ...]) -> int:
        """Positions from the first to the last pixel of the innermost ``levels`` loops of a block."""
        sizes, steps = (self.images, *pixels), (self.image_pitch, *self.pitches)
        return 1 + sum((n - 1) * s for n, s in list(zip(sizes, steps, strict=True))[len(sizes) - levels :])


def make_layout(conv: Conv, images: int, rows: int, lanes: int, size: int) -> Layout:
    windows = conv.windows
    shifts = list(itertools.product(*([w.shift(t) for t in range(w.tap.extent)] for w in windows)))
    phases = tuple(sorted({tuple(p for p, _ in tap) for tap in shifts}))
    extents = [w.pixel.extent + w.reach for w in windows]
    extents[0] = rows + windows[0].reach
    pitches = [1]
    for extent in reversed(extents[1:]):
        pitches.insert(0, pitches[0] * extent)
    image_pitch = pitches[0] * extents[0]
    plane = images * image_pitch
    line = 64 // size
    chan_pitch = -(-len(phases) * plane // line) * line
    if chan_pitch // line % 2 == 0 and chan_pitch > 8 * line:
        chan_pitch += line  # an odd number of cache lines: channels spread over all sets
    taps = tuple(
        phases.index(tuple(p for p, _ in tap)) * plane + sum(s * pitch for (_, s), pitch in zip(tap, pitches, strict=True))
        for tap in shifts
    )
    return Layout(images, rows, tuple(extents), tuple(pitches), image_pitch, phases, plane, chan_pitch, taps)


def even(total: int, most: int) -> int:
    """The block size, at most ``most``, that cuts ``total`` into the fewest and most equal blocks."""
    blocks = -(-total // max(1, min(most, total)))
    return -(-total // blocks)


@dataclass(frozen=True, slots=True)
class Tiling:
    """mr filters x nv vectors. levels: loops joined into one run of positions (1: a row of pixels at a time);
    0: the vectors of a tile lie in neighbouring rows."""

    mr: int
    nv: int
    levels: int
    cost: float


def choose_tile(isa: ISA, layout: Layout, pixels: tuple[int, ...], filters: int, lanes: int) -> Tiling:
    """The tile with the fewest cycles for a block, counting FMAs, loads and latency."""
    best = None
    most = isa.registers - 1
    for nv in range(1, 9):
        for mr in range(1, 13):
            if mr * nv + min(mr, nv) > most or (mr > filters):
                continue
            for levels in range(0, len(pixels) + 2):
                if levels == 0 and nv == 1:
                    continue
                if levels == 0:
                    count = layout.images * prod(pixels[:-2]) * -(-pixels[-2] // nv) * -(-pixels[-1] // lanes)
                else:
                    count = prod((layout.images, *pixels)[: len(pixels) + 1 - levels]) * -(-layout.span(levels, pixels) // (nv * lanes))
                cost = 0.0
                for rows, times in ((mr, filters // mr), (filters % mr, 1)):
                    if rows:
                        cost += times * count * max(rows * nv / 2, (rows + 1.5 * nv) / 2, 4.2)
                if best is None or cost < best.cost * 0.999:
                    best = Tiling(mr, nv, levels, cost)
    assert best is not None
    return best


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything the forward driver needs: blocks, tile, and how chunks are numbered."""

    layout: Layout
    tile: Tiling
    pixels: tuple[int, ...]  # of a full block
    image_blocks: int
    row_blocks: int
    filter_groups: int  # chunks along the filters
    panels_a_group: int

    def panels(self, filters: int) -> int:
        return -(-filters // self.tile.mr)


def make_plan(conv: Conv, isa: ISA, size: int) -> Plan:
    lanes = isa.lanes(size)
    windows, free, filters = conv.windows, conv.free.extent, conv.filters.extent
    whole = tuple(w.pixel.extent for w in windows)
    budget = max(isa.l2 * 2 // 5, 64 * 1024) // size

    def block(images: int, rows: int) -> Layout:
        return make_layout(conv, images, rows, lanes, size)

    def fits(layout: Layout) -> bool:
        return conv.chan.extent * layout.chan_pitch <= budget and 8 * layout.plane <= budget // 2

    rows = whole[0]
    while rows > 1 and not fits(block(1, even(whole[0], rows))):
        rows = even(whole[0], rows) - 1
    rows = even(whole[0], rows)
    images = 1
    if rows == whole[0]:
        while images < free and block(1, rows).plane * images < 512 and fits(block(images + 1, rows)) and free >= 16 * (images + 1):
            images += 1
        images = even(free, images)
    layout, pixels = block(images, rows), (rows, *whole[1:])
    tile = choose_tile(isa, layout, pixels, filters, lanes)
    image_blocks, row_blocks = -(-free // images), -(-whole[0] // rows)
    panels = -(-filters // tile.mr)
    chunks = conv.group.extent * image_blocks * row_blocks
    groups = 1 if chunks >= 8 else min(-(-8 // chunks), -(-panels // 2))
    panels_a_group = -(-panels // groups)
    return Plan(layout, tile, pixels, image_blocks, row_blocks, -(-panels // panels_a_group), panels_a_group)
