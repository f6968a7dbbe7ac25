"""Which part of its loops one program of a launch computes: rows along dimension 0 of its tile, columns along dimension 1.

Tiles depend on extents and strides alone, never on a card: they decide the order of sums, and so the bits of results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.devices.cuda.text import Expression
from weft.devices.cuda.tile_expressions import Printer, wide
from weft.kernel.expressions import loads, roots
from weft.kernel.ir import Access, Axis, Stage, Value, size_of

ELEMENTS = 1024  # of a tile
FEW = 132  # programs: with fewer, processors of large cards would have none


def power_of_two(n: int) -> int:
    """The least that holds n."""
    return 1 << max(0, n - 1).bit_length()


def pieces(n: int, each: int) -> int:
    """How many of a size cover n."""
    return -(-n // each)


def unit_strides(stages: Iterable[Stage]) -> dict[int, int]:
    """Axis -> how many accesses have stride one along it; stores count twice."""
    stages = list(stages)
    return _units([(a, 1) for a in loads(roots(stages))] + [(s.access, 2) for stage in stages for s in stage.stores])


def read_along(*values: Value) -> dict[int, int]:
    """Axis -> how many loads of some values have stride one along it."""
    return _units([(a, 1) for a in loads(values)])


def _units(accesses: Iterable[tuple[Access, int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for access, weight in accesses:
        for axis, c in access.flat().terms:
            if c == 1:
                found[axis] = found.get(axis, 0) + weight
    return found


def fastest_last(axes: tuple[Axis, ...], units: dict[int, int]) -> tuple[Axis, ...]:
    """Axes in an order that ends with one along which memory runs, so that neighbours in a tile are neighbours there."""
    here = [a for a in axes if a.id in units]
    if not here or axes[-1].id in units:
        return axes
    fast = max(here, key=lambda a: units[a.id])
    return (*[a for a in axes if a is not fast], fast)


def spread(p: Printer, axes: Sequence[Axis], index: Expression) -> None:
    """Axes out of one number that counts through all of them; the last runs fastest."""
    rest = index
    for k in range(len(axes) - 1, 0, -1):
        n = p.arguments.integer(axes[k].extent)
        p.axes[axes[k].id] = p.put(f"{rest.text} % {n}", rest.dims, rest.level)
        rest = p.put(f"{rest.text} // {n}", rest.dims, rest.level)
    if axes:
        p.axes[axes[0].id] = rest


def line_up(p: Printer, axes: Sequence[Axis], first: str, width: int, dim: int, level: int = 0, end: str | None = None) -> None:
    """Axes along one dimension of a tile: ``width`` numbers from ``first`` on, up to their end."""
    n = size_of(tuple(axes))
    ramp = f"tl.arange(0, {width})" + ("[:, None]", "[None, :]")[dim]
    place = p.put(ramp if first == "0" else f"{first} + {ramp}", (dim,), level)
    p.places[dim] = place
    p.masks.pop(dim, None)
    if end is not None or n % width:
        p.masks[dim] = p.put(f"{place.text} < {end or p.arguments.integer(n)}", (dim,), level)
    spread(p, axes, place)
    p.forget()


def program(dimension: int, n: int) -> str:
    """The number of a program, in as many bits as n needs."""
    return f"tl.program_id({dimension})" + (".to(tl.int64)" if wide(n) else "")


def one_tile(p: Printer, rows: Sequence[Axis], columns: Sequence[Axis], r: int, c: int) -> int:
    """A tile of r rows and c columns a program; how many programs there are."""
    nr, nc = size_of(tuple(rows)), size_of(tuple(columns))
    across, down = pieces(nc, c), pieces(nr, r)
    pid = p.put(program(0, nr * nc)).text if across * down > 1 else "0"
    if across > 1 and down > 1:
        n = p.put(f"({p.arguments.integer(nc)} + {c - 1}) // {c}").text
        line_up(p, rows, p.put(f"({pid} // {n}) * {r}").text, r, 0)
        line_up(p, columns, p.put(f"({pid} % {n}) * {c}").text, c, 1)
    else:
        line_up(p, rows, p.put(f"{pid} * {r}").text if down > 1 else "0", r, 0)
        line_up(p, columns, p.put(f"{pid} * {c}").text if across > 1 else "0", c, 1)
    return across * down
