"""Parts without reductions: every element for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.tiles import ELEMENTS, one_tile, power_of_two, unit_strides
from weft.devices.cuda.values import Printer
from weft.kernel.ir import Axis, Stage, Store, size_of

SQUARE = 32  # of tiles that read along one axis and write along another
WORTH = 16  # the shorter side from which such a tile is worth it
NARROW = 32  # axes shorter than this are joined with the others into one line


def map_launch(axes: Sequence[Axis], stores: Sequence[Store], write: Callable[[Printer, Store], None] = Printer.store) -> Launch:
    """Stores for every iteration of some axes; ``write`` prints one."""
    p = Printer(tuple(axes))
    rows, columns, r, c = shape_of(axes, stores)
    programs = one_tile(p, rows, columns, r, c)
    for s in stores:
        write(p, s)
    return p.launch((programs, 1))


def shape_of(axes: Sequence[Axis], stores: Sequence[Store]) -> tuple[list[Axis], list[Axis], int, int]:
    """(axes of rows, axes of columns, rows and columns of a tile)."""
    if not axes:
        return [], [], 1, 1
    units = unit_strides([Stage((), (), tuple(stores))])
    fast = max(axes, key=lambda a: (units.get(a.id, 0), a is axes[-1]))
    others = [a for a in axes if a is not fast]
    turned = [a for a in others if a.id in units and a.extent >= WORTH]  # memory runs along this one elsewhere
    if turned and fast.extent >= WORTH:
        rows = [a for a in others if a is not turned[0]] + turned[:1]
        return rows, [fast], min(SQUARE, power_of_two(size_of(tuple(rows)))), min(SQUARE, power_of_two(fast.extent))
    if fast.extent < NARROW:
        rows, columns = [], list(axes)
    else:
        rows, columns = others, [fast]
    c = min(power_of_two(size_of(tuple(columns))), ELEMENTS)
    return rows, columns, max(1, min(ELEMENTS // c, power_of_two(size_of(tuple(rows))))), c
