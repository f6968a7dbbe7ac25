"""Which other tiles a product may have: those with the same bits, so that a clock may choose among them.

An element of the result is a chain over k, in an order that all of these tiles keep: float32 goes through k one by one, and
tensor cores take 16 of k at once, one group after the other, whatever the tile (``tests/cuda/test_tiles.py`` reads that in the
compiled code). What decides the instruction (64 rows, four warps) is the same for all, since instructions may add up in ways of
their own. Where k is divided, it is at the same places in all of them. What is added up in trees (float64, integers) has one
tile, and so have sums: see ``tiles.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.product import Sides, Tile, first_tile, inside_of, on_tensor_cores, product_launch
from weft.devices.cuda.split_work import division, joining_launch, product_piece, sums_of
from weft.devices.cuda.tiles import power_of_two
from weft.kernel.ir import Buffer, size_of
from weft.kernel.stages import Part

LEAST = 1 << 24  # multiplications, below which starting a kernel takes about as long as its work
SHARED = 160 << 10  # bytes of a block's own memory; a card that has less refuses such a tile when it is loaded
_WIDE = (  # rows, columns, k, warps, stages
    (128, 128, 16, 8, 3), (128, 64, 16, 4, 3), (64, 128, 16, 4, 3), (64, 64, 16, 4, 4), (64, 64, 32, 8, 2), (32, 64, 32, 4, 3),
    (32, 128, 16, 4, 3), (16, 128, 32, 4, 3), (16, 64, 16, 4, 4),
)
_NARROW = (
    (128, 256, 64, 8, 3), (256, 128, 64, 8, 3), (128, 128, 64, 4, 3), (128, 128, 32, 8, 4), (128, 64, 64, 4, 4),
    (64, 128, 64, 4, 4), (64, 64, 64, 4, 4), (32, 128, 64, 4, 4), (32, 64, 128, 4, 3), (16, 128, 64, 4, 4), (16, 64, 128, 4, 3),
)


def product_launches(part: Part, s: Sides, number: int) -> tuple[list[Launch], list[Buffer]]:
    """A product, with the same in other tiles where these may be tried; and its scratch, numbered from ``number`` on."""
    count, scratch = division(s, part.stages[0].reductions[0]), []
    printed = partial(product_launch, part, s)
    launches: list[Launch] = []
    if count:
        scratch = [sums_of(part, count, number)]
        printed = partial(product_piece, part, s, scratch[0], count)
        launches = [joining_launch(part, s, scratch[0], count)]
    launch = printed()
    work = size_of(s.m) * size_of(s.n) * size_of(s.k) * size_of(s.batch)
    if work >= LEAST and alternatives(s):
        launch = replace(launch, others=partial(_others, printed, s))
    return [launch, *launches], scratch


def _others(printed: Callable[[Tile], Launch], s: Sides) -> tuple[Launch, ...]:
    return tuple([printed(tile) for tile in alternatives(s)])


def alternatives(s: Sides) -> tuple[Tile, ...]:
    """Other tiles than ``tile_of`` gives."""
    m, n, first = size_of(s.m), size_of(s.n), first_tile(s)
    if not on_tensor_cores(s.form) or s.form.bits < 16 or s.precision != "float32":  # shorter: added up in steps of the tile
        return ()
    found = [Tile(*given) for given in (_NARROW if s.form.narrow else _WIDE)]
    return tuple([
        t for t in found
        if t != first and t.m <= max(first.m, power_of_two(m)) and t.n <= max(first.n, power_of_two(n))
        and (t.m >= 64) == (first.m >= 64) and t.k <= max(first.k, power_of_two(size_of(s.k)))
        and inside_of(s, t.k) == inside_of(s, first.k) and t.stages * t.k * (t.m + t.n) * s.form.bytes <= SHARED
    ])
