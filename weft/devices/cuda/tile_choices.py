"""List other tiles of a product with the same bits, for choosing among them by measurement.

An element of the result is a chain of additions over k, in an order that all of these tiles keep. float32 goes through k one by
one; tensor cores take 16 of k at once, group after group, whatever the tile (``tests/cuda/test_tiles.py`` checks the compiled
code). The properties that select the instruction (64 rows, four warps) are the same for all, since instructions may add in
different orders. If k is divided, all divide it at the same positions. Products that are added in trees (float64, integers) have
one tile, and so have sums: see ``tiles.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.product import ProductOperands, Tile, default_tile, inner_k_axes, on_tensor_cores, product_launch
from weft.devices.cuda.split_work import joining_launch, piece_count, product_piece, sums_of
from weft.devices.cuda.tiles import power_of_two
from weft.kernel.ir import Buffer, size_of
from weft.kernel.stages import Part

MIN_MULTIPLICATIONS = 1 << 24  # multiplications below which a launch takes about as long as its work
SHARED = 160 << 10  # shared memory of a block in bytes; a card with less rejects such a tile when it is loaded
_WIDE = (  # rows, columns, k, warps, stages
    (128, 128, 16, 8, 3), (128, 64, 16, 4, 3), (64, 128, 16, 4, 3), (64, 64, 16, 4, 4), (64, 64, 32, 8, 2), (32, 64, 32, 4, 3),
    (32, 128, 16, 4, 3), (16, 128, 32, 4, 3), (16, 64, 16, 4, 4),
)
_NARROW = (
    (128, 256, 64, 8, 3), (256, 128, 64, 8, 3), (128, 128, 64, 4, 3), (128, 128, 32, 8, 4), (128, 64, 64, 4, 4),
    (64, 128, 64, 4, 4), (64, 64, 64, 4, 4), (32, 128, 64, 4, 4), (32, 64, 128, 4, 3), (16, 128, 64, 4, 4), (16, 64, 128, 4, 3),
)


def product_launches(part: Part, s: ProductOperands, number: int) -> tuple[list[Launch], list[Buffer]]:
    """Return the launches of a product, with other tiles to try, and its scratch, numbered from ``number`` on."""
    count, scratch = piece_count(s, part.stages[0].reductions[0]), []
    printed = partial(product_launch, part, s)
    launches: list[Launch] = []
    if count:
        scratch = [sums_of(part, count, number)]
        printed = partial(product_piece, part, s, scratch[0], count)
        launches = [joining_launch(part, s, scratch[0], count)]
    launch = printed()
    work = size_of(s.m) * size_of(s.n) * size_of(s.k) * size_of(s.batch)
    if work >= MIN_MULTIPLICATIONS and alternatives(s):
        launch = replace(launch, others=partial(_others, printed, s))
    return [launch, *launches], scratch


def _others(printed: Callable[[Tile], Launch], s: ProductOperands) -> tuple[Launch, ...]:
    return tuple([printed(tile) for tile in alternatives(s)])


def alternatives(s: ProductOperands) -> tuple[Tile, ...]:
    """Return the other tiles than that of ``tile_of``."""
    m, n, first = size_of(s.m), size_of(s.n), default_tile(s)
    # shorter formats: the order of additions depends on the tile
    if not on_tensor_cores(s.form) or s.form.bits < 16 or s.precision != "float32":
        return ()
    tiles = [Tile(*fields) for fields in (_NARROW if s.form.narrow else _WIDE)]
    return tuple([
        t for t in tiles
        if t != first and t.m <= max(first.m, power_of_two(m)) and t.n <= max(first.n, power_of_two(n))
        and (t.m >= 64) == (first.m >= 64) and t.k <= max(first.k, power_of_two(size_of(s.k)))
        and inner_k_axes(s, t.k) == inner_k_axes(s, first.k) and t.stages * t.k * (t.m + t.n) * s.form.bytes <= SHARED
    ])
