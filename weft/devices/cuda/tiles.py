"""Map loops to the tile of one program of a launch: rows along dimension 0, columns along dimension 1.

Tiles depend on extents and strides alone, never on the card: they decide the order of sums, and so the bits of results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.devices.cuda.tile_expressions import Expression, Printer, wide
from weft.kernel.expressions import loads, roots
from weft.kernel.ir import Access, Axis, Stage, Value, size_of

TILE_ELEMENTS = 1024  # elements of a tile
MIN_PROGRAMS = 132  # programs below which large cards have idle processors


def power_of_two(n: int) -> int:
    """Return the least power of two that is at least n."""
    return 1 << max(0, n - 1).bit_length()


def pieces(n: int, each: int) -> int:
    """Return how many pieces of size ``each`` cover n."""
    return -(-n // each)


def unit_strides(stages: Iterable[Stage]) -> dict[int, int]:
    """Return axis -> number of accesses with stride 1 along it; stores count twice."""
    stages = list(stages)
    return _units([(a, 1) for a in loads(roots(stages))] + [(s.access, 2) for stage in stages for s in stage.stores])


def contiguous_loads(*values: Value) -> dict[int, int]:
    """Return axis -> number of loads in these values with stride 1 along it."""
    return _units([(a, 1) for a in loads(values)])


def _units(accesses: Iterable[tuple[Access, int]]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for access, weight in accesses:
        for axis, c in access.flat().terms:
            if c == 1:
                counts[axis] = counts.get(axis, 0) + weight
    return counts


def fastest_last(axes: tuple[Axis, ...], units: dict[int, int]) -> tuple[Axis, ...]:
    """Return the axes with one of stride 1 last, so that neighbours in a tile are neighbours in memory."""
    contiguous = [a for a in axes if a.id in units]
    if not contiguous or axes[-1].id in units:
        return axes
    fast = max(contiguous, key=lambda a: units[a.id])
    return (*[a for a in axes if a is not fast], fast)


def spread(p: Printer, axes: Sequence[Axis], index: Expression) -> None:
    """Define axes from one number that counts through all of them; the last runs fastest."""
    rest = index
    for k in range(len(axes) - 1, 0, -1):
        n = p.arguments.integer(axes[k].extent)
        p.axes[axes[k].id] = p.put(f"{rest.text} % {n}", rest.dims, rest.level)
        rest = p.put(f"{rest.text} // {n}", rest.dims, rest.level)
    if axes:
        p.axes[axes[0].id] = rest


def lay_axes(p: Printer, axes: Sequence[Axis], first: str, width: int, dim: int, level: int = 0, end: str | None = None) -> None:
    """Lay axes along one dimension of the tile: ``width`` positions from ``first`` on, masked at their end."""
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
    """Return the expression of a program's number, with the bits that n needs."""
    return f"tl.program_id({dimension})" + (".to(tl.int64)" if wide(n) else "")


def lay_tile(p: Printer, rows: Sequence[Axis], columns: Sequence[Axis], r: int, c: int) -> int:
    """Lay rows and columns on a tile of r x c for each program; return the number of programs."""
    nr, nc = size_of(tuple(rows)), size_of(tuple(columns))
    across, down = pieces(nc, c), pieces(nr, r)
    pid = p.put(program(0, nr * nc)).text if across * down > 1 else "0"
    if across > 1 and down > 1:
        n = p.put(f"({p.arguments.integer(nc)} + {c - 1}) // {c}").text
        lay_axes(p, rows, p.put(f"({pid} // {n}) * {r}").text, r, 0)
        lay_axes(p, columns, p.put(f"({pid} % {n}) * {c}").text, c, 1)
    else:
        lay_axes(p, rows, p.put(f"{pid} * {r}").text if down > 1 else "0", r, 0)
        lay_axes(p, columns, p.put(f"{pid} * {c}").text if across > 1 else "0", c, 1)
    return across * down
