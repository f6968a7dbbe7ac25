"""The blocks, tiles and image copies of a convolution. They depend on extents, dtype and ISA only."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from math import prod

from weft.devices.cpu.emit.isa import ISA
from weft.kernel.convolution import Conv, coefficient

IMAGE_BLOCK = 0.4  # largest copy of an image block, in L2 caches, ...
LARGE_IMAGE_BLOCK = 1.4  # ... and if the weights are larger than LARGE_WEIGHTS L2 caches
LARGE_WEIGHTS = 6
CHUNKS = 8  # aimed number of chunks
TURN = 7.0  # estimated cycles to turn a vector of filters into an element of as many rows
MAX_SPREAD_PHASES = 12  # up to this many phases the image is copied once for each tap of the last window


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
    phases: tuple[tuple[int, ...], ...]  # of each phase, the position in the image of pixel 0, along each window
    plane: int
    chan_pitch: int
    taps: tuple[int, ...]  # displacement of each tap, last window fastest

    @property
    def overlap(self) -> int:
        """The number of positions by which the last row exceeds its plane."""
        return self.extents[-1] - self.pitches[-2]

    def span(self, levels: int, pixels: tuple[int, ...]) -> int:
        """Return the number of positions from the first to the last pixel of the innermost ``levels`` loops of a block."""
        sizes, steps = (self.images, *pixels), (self.image_pitch, *self.pitches)
        return 1 + sum((n - 1) * s for n, s in list(zip(sizes, steps, strict=True))[len(sizes) - levels :])


def make_layout(conv: Conv, images: int, rows: int, size: int, spread: bool = False, overlapping: bool = True) -> ImageLayout:
    """Return the layout of a copied block of ``images`` images and ``rows`` rows, with elements of ``size`` bytes.

    overlapping: whether rows may overlap. If so, the last row exceeds its plane.
    """
    windows = conv.windows
    last = windows[-1]
    choices = [[w.shift(t) for t in range(w.tap.extent)] for w in windows]
    if spread:
        choices[-1] = [(last.dilation * t - last.low, 0) for t in range(last.tap.extent)]
    shifts = list(itertools.product(*choices))
    phases = tuple(sorted({tuple(p for p, _ in tap) for tap in shifts}))
    extents = [w.pixel.extent + w.trailing_pixels for w in windows]
    extents[0] = rows + windows[0].trailing_pixels
    if spread:
        extents[-1] = last.pixel.extent
    overlap = extents[-1] - last.pixel.extent if overlapping else 0
    for phase in phases:
        lo, hi = phase_bounds(last.valid, phase[-1], last.stride)
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
    """Return whether the image can be read in place: a 1x1 window, no border, contiguous pixels, no pairs."""
    step = 1
    for w in reversed(conv.windows):
        inside = w.valid[0] <= 0 and w.valid[1] >= w.pixel.extent
        if w.tap.extent > 1 or w.stride > 1 or not inside or (w.pixel.extent > 1 and w.unit != step):
            return False
        step *= w.pixel.extent
    pitch = coefficient(conv.image.flat(), conv.chan if not conv.dot else conv.free) * size
    # with strides of multiples of 2048 bytes, all channels would map to the same cache sets
    spread_out = pitch % 2048 != 0 or (conv.free if conv.dot else conv.chan).extent <= 8
    as_stored = conv.paired is None and conv.image.buffer.dtype == conv.contraction.accum
    return as_stored and spread_out and conv.windows[-1].unit == 1


def layout_in_place(conv: Conv, rows: int) -> ImageLayout:
    """Return the layout of a block of rows of an image that is not copied."""
    pitches = [1]
    for w in reversed(conv.windows[1:]):
        pitches.insert(0, pitches[0] * w.pixel.extent)
    extents = (rows, *(w.pixel.extent for w in conv.windows[1:]))
    chan_pitch = coefficient(conv.image.flat(), conv.free if conv.dot else conv.chan)
    block = rows * pitches[0]
    return ImageLayout(1, rows, extents, tuple(pitches), block, ((0,) * len(extents),), block, chan_pitch, (0,))


def phase_bounds(valid: tuple[int, int], phase: int, stride: int) -> tuple[int, int]:
    """Return the range of positions c of a phase with valid[0] <= stride * c + phase < valid[1]."""
    lo, hi = (-(-(end - phase) // stride) for end in valid)
    return lo, hi


def even_block(total: int, most: int) -> int:
    """Return the block size, at most ``most``, that divides ``total`` into the fewest and most equal blocks."""
    blocks = -(-total // max(1, min(most, total)))
    return -(-total // blocks)


@dataclass(frozen=True, slots=True)
class TileShape:
    """A tile of mr filters x nv vectors.

    levels: innermost loops joined into one run of positions (1: a row of pixels); 0: a tile's vectors are in neighbouring rows.
    block: (rows, columns) of the pixels of a tile whose mr filters are nv vectors; (0, 0) if its vectors are of pixels.
    """

    mr: int
    nv: int
    levels: int
    cost: float
    block: tuple[int, int] = (0, 0)

    @property
    def has_filter_vectors(self) -> bool:
        return self.block != (0, 0)


def choose_tile(isa: ISA, layout: ImageLayout, pixels: tuple[int, ...], filters: int, lanes: int, joined: bool) -> TileShape:
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
                    best = TileShape(mr, nv, levels, cost)
    assert best is not None
    return best


def choose_filter_tile(
    isa: ISA, layout: ImageLayout, pixels: tuple[int, ...], filters: int, size: int, steps: int,
) -> TileShape:
    """Return the tile of vectors of filters with the fewest estimated cycles per block. steps: length of the sums."""
    best = None
    lanes, (height, width) = isa.lanes(size), pixels[-2:]
    vectors, loops = -(-filters // lanes), layout.images * prod(pixels[:-2])
    turns = TURN * vectors * loops * height * width / steps
    for nv in range(1, min(4, vectors) + 1):
        most = (isa.registers - nv - 1) // nv
        columns = even_block(width, most)
        for rows in range(1, min(most // columns if columns == width else 1, height) + 1):
            cost = turns
            for h, times_h in ((rows, height // rows), (height % rows, 1)):
                for w, times_w in ((columns, width // columns), (width % columns, 1)):
                    for v, times_v in ((nv, vectors // nv), (vectors % nv, 1)):
                        if h and w and v:
                            each = max(h * w * v / 2, (h * w + v) / 2, v * lanes * size / 24, 4.2) + 0.3
                            cost += loops * times_h * times_w * times_v * each
            if best is None or cost < best.cost * 0.999:
                best = TileShape(nv * lanes, nv, 0, cost, (rows, columns))
    assert best is not None
    return best


@dataclass(frozen=True, slots=True)
class ConvolutionPlan:
    """The blocks, tile and chunks of a forward convolution.

    direct: the stores read the tile's registers, over pixels joined into one axis
    """

    layout: ImageLayout
    tile: TileShape
    pixels: tuple[int, ...]  # of a full block
    image_blocks: int
    row_blocks: int
    filter_groups: int  # chunks along the filters
    panels_per_group: int
    direct: bool
    in_place: bool = False

    def panels(self, filters: int) -> int:
        return -(-filters // self.tile.mr)


def make_plan(conv: Conv, isa: ISA, size: int, joinable: bool) -> ConvolutionPlan:
    """Return the plan of a forward convolution. joinable: the stores are few and can treat all pixels of an image as one axis."""
    lanes = isa.lanes(size)
    windows, free, filters = conv.windows, conv.free.extent, conv.filters.extent
    extents = tuple(w.pixel.extent for w in windows)
    if joinable and len(windows) == 2 and readable_in_place(conv, size):
        return _plan_in_place(conv, isa, lanes)
    weight_bytes = filters * conv.chan.extent * prod(w.tap.extent for w in windows) * size
    # Each block reads all weights. Beyond the L2 cache this costs more than image blocks that exceed it.
    caches = LARGE_IMAGE_BLOCK if weight_bytes > LARGE_WEIGHTS * isa.l2 else IMAGE_BLOCK
    budget = max(int(isa.l2 * caches), 64 * 1024) // size
    spread = joinable and len(windows) == 2 and conv.chan.extent * windows[-1].tap.extent <= MAX_SPREAD_PHASES

    def block(images: int, rows: int) -> ImageLayout:
        return make_layout(conv, images, rows, size, spread)

    def fits(layout: ImageLayout) -> bool:
        return conv.chan.extent * layout.chan_pitch <= budget and 8 * layout.plane <= budget // 2

    def best_tile(layout: ImageLayout, pixels: tuple[int, ...]) -> TileShape:
        tile = choose_tile(isa, layout, pixels, filters, lanes, spread)
        if spread:
            return tile
        steps = conv.chan.extent * prod(w.tap.extent for w in windows)  # of a sum
        other = choose_filter_tile(isa, layout, pixels, filters, size, steps)
        return other if other.cost < tile.cost else tile

    most = extents[0]
    while most > 1 and not fits(block(1, even_block(extents[0], most))):
        most = even_block(extents[0], most) - 1
    # choose the block size that fits with the fewest total cycles
    best = None
    for blocks in range(-(-extents[0] // most), min(extents[0], -(-extents[0] // most) + 6) + 1):
        rows = -(-extents[0] // blocks)
        rows_blocks = -(-extents[0] // rows)
        if spread and rows * rows_blocks != extents[0]:
            continue
        layout, pixels = block(1, rows), (rows, *extents[1:])
        tile = best_tile(layout, pixels)
        beyond = windows[0].trailing_pixels
        cost = rows_blocks * tile.cost * (1 + 0.2 * beyond / (rows + beyond) * min(1, 16 / filters))
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
        images = even_block(free, images)
        if images > 1:
            layout = block(images, rows)
            tile = best_tile(layout, pixels)
    image_blocks, row_blocks = -(-free // images), -(-extents[0] // rows)
    panels = -(-filters // tile.mr)
    chunks = conv.group.extent * image_blocks * row_blocks
    if tile.has_filter_vectors and chunks * panels < CHUNKS:  # panels of filter vectors are few
        rows = even_block(extents[0], max(1, extents[0] * chunks * panels // CHUNKS))
        layout, pixels, row_blocks = block(images, rows), (rows, *extents[1:]), -(-extents[0] // rows)
        chunks = conv.group.extent * image_blocks * row_blocks
    groups = 1 if chunks >= CHUNKS else min(-(-CHUNKS // chunks), panels if tile.has_filter_vectors else -(-panels // 2))
    panels_per_group = -(-panels // groups)
    groups = -(-panels // panels_per_group)
    return ConvolutionPlan(layout, tile, pixels, image_blocks, row_blocks, groups, panels_per_group, spread)


def _plan_in_place(conv: Conv, isa: ISA, lanes: int) -> ConvolutionPlan:
    """Return the plan of a convolution that reads the image in place: a chunk is a block of rows."""
    total_rows, filters = conv.windows[0].pixel.extent, conv.filters.extent
    wanted = -(-CHUNKS // (conv.group.extent * conv.free.extent))
    rows = even_block(total_rows, max(1, total_rows // wanted))
    layout, pixels = layout_in_place(conv, rows), (rows, conv.windows[1].pixel.extent)
    tile = choose_tile(isa, layout, pixels, filters, lanes, joined=True)
    panels = -(-filters // tile.mr)
    return ConvolutionPlan(layout, tile, pixels, conv.free.extent, -(-total_rows // rows), 1, panels, direct=True, in_place=True)
