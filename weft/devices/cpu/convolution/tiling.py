"""The tiling of a forward convolution: blocks and tiles. It depends on extents, dtype and ISA only."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from weft.devices.cpu.convolution.layout import ImageLayout, even, layout_in_place, make_layout, readable_in_place
from weft.devices.cpu.emit.isa import ISA
from weft.kernel.convolution import Conv

SPREAD = 12  # phases up to which the image is copied once for each tap of the last window


@dataclass(frozen=True, slots=True)
class Tiling:
    """A tile of mr filters x nv vectors.

    levels: innermost loops joined into one run of positions (1: a row of pixels); 0: a tile's vectors are in neighbouring rows
    """

    mr: int
    nv: int
    levels: int
    cost: float


def choose_tile(isa: ISA, layout: ImageLayout, pixels: tuple[int, ...], filters: int, lanes: int, joined: bool) -> Tiling:
    """Return the tile with the fewest estimated cycles per block: FMAs, loads (half of the pixels' cross a cache line), latency.
    """
    best = None
    for nv in range(1, 9):
        for mr in range(1, 13):
            if mr * nv + nv + 1 > isa.registers or mr > filters:
                continue
            for levels in range(2, 3) if joined else range(0, len(pixels) + 2):
                if levels == 0 and nv == 1:
                    continue
                if levels == 0:
                    count = layout.images * prod(pixels[:-2]) * -(-pixels[-2] // nv) * -(-pixels[-1] // lanes)
                else:
                    loops = prod((layout.images, *pixels)[: len(pixels) + 1 - levels])
                    count = loops * -(-layout.span(levels, pixels) // (nv * lanes))
                cost = 0.0
                for rows, times in ((mr, filters // mr), (filters % mr, 1)):
                    if rows:
                        each = max(rows * nv / 2, (rows + 1.6 * nv) / 2, 4.2) + 0.1 * nv + (0.1 if levels == 0 else 0)
                        cost += times * count * each
                if filters % mr:
                    cost *= 1.02  # a second tile to compile
                if best is None or cost < best.cost * 0.999:
                    best = Tiling(mr, nv, levels, cost)
    assert best is not None
    return best


@dataclass(frozen=True, slots=True)
class ConvolutionPlan:
    """The blocks, tile and chunks of a forward convolution.

    direct: the stores read the tile's registers, over pixels joined into one axis
    """

    layout: ImageLayout
    tile: Tiling
    pixels: tuple[int, ...]  # of a full block
    image_blocks: int
    row_blocks: int
    filter_groups: int  # chunks along the filters
    panels_a_group: int
    direct: bool
    in_place: bool = False

    def panels(self, filters: int) -> int:
        return -(-filters // self.tile.mr)


def make_plan(conv: Conv, isa: ISA, size: int, joinable: bool) -> ConvolutionPlan:
    """Choose blocks and tile. joinable: the stores are few and can treat all pixels of an image as one axis."""
    lanes = isa.lanes(size)
    windows, free, filters = conv.windows, conv.free.extent, conv.filters.extent
    extents = tuple(w.pixel.extent for w in windows)
    if joinable and len(windows) == 2 and readable_in_place(conv, size):
        return _plan_in_place(conv, isa, lanes)
    budget = max(isa.l2 * 2 // 5, 64 * 1024) // size
    spread = joinable and len(windows) == 2 and conv.chan.extent * windows[-1].tap.extent <= SPREAD

    def block(images: int, rows: int) -> ImageLayout:
        return make_layout(conv, images, rows, size, spread)

    def fits(layout: ImageLayout) -> bool:
        return conv.chan.extent * layout.chan_pitch <= budget and 8 * layout.plane <= budget // 2

    most = extents[0]
    while most > 1 and not fits(block(1, even(extents[0], most))):
        most = even(extents[0], most) - 1
    # choose the block size that fits with the fewest total cycles
    best = None
    for blocks in range(-(-extents[0] // most), min(extents[0], -(-extents[0] // most) + 6) + 1):
        rows = -(-extents[0] // blocks)
        rows_blocks = -(-extents[0] // rows)
        if spread and rows * rows_blocks != extents[0]:
            continue
        layout, pixels = block(1, rows), (rows, *extents[1:])
        tile = choose_tile(isa, layout, pixels, filters, lanes, spread)
        cost = rows_blocks * tile.cost * (1 + 0.2 * windows[0].reach / (rows + windows[0].reach) * min(1, 16 / filters))
        if best is None or cost < best[0] * 0.99:
            best = (cost, rows, layout, pixels, tile)
    if best is None:
        return make_plan(conv, isa, size, joinable=False)
    _, rows, layout, pixels, tile = best
    images = 1
    if rows == extents[0] and not spread:
        plane = block(1, rows).plane
        while images < free and plane * images < 512 and fits(block(images + 1, rows)) and free >= 16 * (images + 1):
            images += 1
        images = even(free, images)
        if images > 1:
            layout = block(images, rows)
            tile = choose_tile(isa, layout, pixels, filters, lanes, joined=False)
    image_blocks, row_blocks = -(-free // images), -(-extents[0] // rows)
    panels = -(-filters // tile.mr)
    chunks = conv.group.extent * image_blocks * row_blocks
    groups = 1 if chunks >= 8 else min(-(-8 // chunks), -(-panels // 2))
    panels_a_group = -(-panels // groups)
    return ConvolutionPlan(layout, tile, pixels, image_blocks, row_blocks, -(-panels // panels_a_group), panels_a_group, spread)


def _plan_in_place(conv: Conv, isa: ISA, lanes: int) -> ConvolutionPlan:
    """Return the plan of a convolution that reads the image in place: a chunk is a block of rows."""
    total_rows, filters = conv.windows[0].pixel.extent, conv.filters.extent
    wanted = -(-8 // (conv.group.extent * conv.free.extent))
    rows = even(total_rows, max(1, total_rows // wanted))
    layout, pixels = layout_in_place(conv, rows), (rows, conv.windows[1].pixel.extent)
    tile = choose_tile(isa, layout, pixels, filters, lanes, joined=True)
    panels = -(-filters // tile.mr)
    return ConvolutionPlan(layout, tile, pixels, conv.free.extent, -(-total_rows // rows), 1, panels, direct=True, in_place=True)
