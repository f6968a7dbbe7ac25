"""Sums in an ``Order`` of any length: the inner functions of products and reductions whose extents are arguments.

A sum is made in chains, element k in chain k % chains, in blocks; at the end of a block its chains are added pairwise by halves,
and blocks are joined pairwise (``emit/pairwise.py``). Two traversals of memory give equal bits:

- ``panel``: a lane is an element of the result, a chain a register. Rows of the result share the loads of b.
- ``rows``: a chain is a lane, so memory is read along the sum.

The terms are a * b, added with one rounding, or b alone. Strides are in bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.devices.cpu.dynamic_kernels.vectors import Vectors
from weft.devices.cpu.emit import pairwise
from weft.devices.cpu.emit.text import Function

LEVELS = 40  # of blocks: enough for any size of memory
UNROLLED_TURNS = 4  # of a loop over several rows
ADDITIONS_PER_TURN = 8  # vector additions to which the loop over k is unrolled, if a step has fewer

# addresses of a, b and the results; steps of the sum; strides; elements of the result along b; steps of a block
PANEL = "ptr %a, ptr %b, ptr %c, i64 %k, i64 %a_row, i64 %a_k, i64 %b_k, i64 %c_row, i64 %c_col, i64 %live, i64 %block"
ROWS = "ptr %a, ptr %b, ptr %c, i64 %k, i64 %b_row, i64 %b_k, i64 %c_row, i64 %block"


def panel(v: Vectors, name: str, *, rows: int, vectors: int, chains: int = 1, masked: bool = False, product: bool = True) -> None:
    """Emit ``@name(PANEL)``: ``rows`` rows of results, each of ``vectors`` registers, of which ``live`` elements are stored.

    masked : b is not read beyond them (for one vector)
    """
    f = v.m.function(f"define internal void @{name}({PANEL})")
    n, width = v.lanes, v.lanes * v.size
    vec = v.type(n)
    mask = v.lane_mask(f, "%live", n) if masked else None
    cells = [[[f.local(vec, width) for _ in range(vectors)] for _ in range(chains)] for _ in range(rows)]
    results = [[f.local(vec, width) for _ in range(vectors)] for _ in range(rows)]
    offsets = [f.mul("%a_row", r) for r in range(rows)]
    places = [f.local("ptr"), f.local("ptr")]

    def step(chain: int) -> None:
        a, b = (f.load("ptr", place) for place in places)
        wide = [v.load(f, f.offset(b, x * width), n, mask) for x in range(vectors)]
        for row, at in zip(cells, offsets, strict=True):
            x = v.splat(f, f.offset(a, 0 if at == "0" else at), n) if product else ""
            for cell, y in zip(row[chain], wide, strict=True):
                before = f.load(vec, cell, width)
                f.store(vec, v.fma(f, x, y, before, n) if product else v.add(f, before, y, n), cell, width)
        f.store("ptr", f.offset(a, "%a_k"), places[0])
        f.store("ptr", f.offset(b, "%b_k"), places[1])

    def block(first: str, count: str) -> None:
        f.clear(vec, [cell for row in cells for chain in row for cell in chain], width)
        f.store("ptr", f.offset("%a", f.mul(first, "%a_k")), places[0])
        f.store("ptr", f.offset("%b", f.mul(first, "%b_k")), places[1])
        turn = chains if chains > 1 else max(1, ADDITIONS_PER_TURN // (rows * vectors))
        full_count = f.let(f"and i64 {count}, {-turn}")
        with f.loop(0, full_count, turn):
            for u in range(turn):
                step(u % chains)
        rest = f.let(f"sub i64 {count}, {full_count}")
        if chains == 1 and turn > 1:
            with f.loop(0, rest):
                step(0)
        else:
            for u in range(turn - 1):
                with f.when(f.let(f"icmp sgt i64 {rest}, {u}", "c")):
                    step(u)
        for row, result_row in zip(cells, results, strict=True):
            for x, cell in enumerate(result_row):
                f.store(vec, v.add_halves(f, [f.load(vec, chain[x], width) for chain in row], n)[0], cell, width)

    _sum_blocks(v, f, vec, [cell for row in results for cell in row], width, block)
    _store_panel(v, f, results)


def _store_panel(v: Vectors, f: Function, results: list[list[str]]) -> None:
    """Store whole vectors if all lanes are live and the results are contiguous, else elements."""
    n, width, vectors = v.lanes, v.lanes * v.size, len(results[0])
    plain = f.let(f"icmp eq i64 %c_col, {v.size}", "c")
    plain = f.let(f"and i1 {plain}, {f.let(f'icmp eq i64 %live, {vectors * n}', 'c')}")
    with f.when(plain):
        for r, row in enumerate(results):
            at = f.offset("%c", f.mul("%c_row", r))
            for x, cell in enumerate(row):
                f.store(v.type(n), f.load(v.type(n), cell, width), f.offset(at, x * width), v.size)
    with f.otherwise():
        room = f.local(f"[{len(results) * vectors * n} x {v.scalar}]", width)
        for k, cell in enumerate(cell for row in results for cell in row):
            f.store(v.type(n), f.load(v.type(n), cell, width), f.offset(room, k * width), width)
        with f.loop(0, len(results)) as number:
            source = f.offset(room, f.mul(number, vectors * width))
            target = f.offset("%c", f.mul(number, "%c_row"))
            with f.loop(0, "%live") as j:
                one = f.load(v.scalar, f.element(source, v.scalar, j), v.size)
                f.store(v.scalar, one, f.offset(target, f.mul(j, "%c_col")), v.size)


def rows(v: Vectors, name: str, *, rows: int, chains: int, apart: bool, product: bool = True) -> None:
    """Emit ``@name(ROWS)``: ``rows`` results, each the sum over its row of b, times a, whose elements are contiguous.

    apart : the elements of b are not contiguous
    """
    f = v.m.function(f"define internal void @{name}({ROWS})")
    n = min(chains, v.lanes)
    vec, width = v.type(n), n * v.size
    cells = [[f.local(vec, width) for _ in range(chains // n)] for _ in range(rows)]
    results = [f.local(v.scalar) for _ in range(rows)]
    starts = [f.offset("%b", f.mul("%b_row", r)) for r in range(rows)]

    def step(k: str, live: str | None, turn: int = 0) -> None:
        """Add ``chains`` elements, from ``turn * chains`` elements after k on."""
        along = f.mul(k, "%b_k")
        for part in range(chains // n):
            mask = v.lane_mask(f, live, n, part * n) if live else None
            a_place = f.offset(f.element("%a", v.scalar, k), part * width + turn * chains * v.size)
            x = v.load(f, a_place, n, mask) if product else ""
            for start, row in zip(starts, cells, strict=True):
                at = f.offset(f.offset(start, along), 0 if apart else turn * chains * v.size)
                if apart:
                    y = v.gather(f, f.offset(at, f.mul("%b_k", part * n)), "%b_k", n, mask)
                else:
                    y = v.load(f, f.offset(at, part * width), n, mask)
                before = f.load(vec, row[part], width)
                after = v.fma(f, x, y, before, n) if product else v.add(f, before, y, n)
                # chains without an element keep -0.0
                f.store(vec, v.choose(f, mask, after, before, n) if mask else after, row[part], width)

    def block(first: str, count: str) -> None:
        f.clear(vec, [cell for row in cells for cell in row], width)
        full_count = f.let(f"and i64 {count}, {-chains}")
        end = middle = f.add(first, full_count)
        if rows > 1 and not apart:
            middle = f.add(first, f.let(f"and i64 {count}, {-UNROLLED_TURNS * chains}"))
            with f.loop(first, middle, UNROLLED_TURNS * chains) as k:
                for turn in range(UNROLLED_TURNS):
                    step(k, None, turn)
            first = middle
        with f.loop(first, end, chains) as k:
            step(k, None)
        if chains > 1:
            rest = f.let(f"sub i64 {count}, {full_count}")
            with f.when(f.let(f"icmp ne i64 {rest}, 0", "c")):
                step(end, rest)
        for row, cell in zip(cells, results, strict=True):
            f.store(v.scalar, v.fold_lanes(f, v.add_halves(f, [f.load(vec, c, width) for c in row], n)[0], n), cell)

    _sum_blocks(v, f, v.scalar, results, v.size, block)
    for r, cell in enumerate(results):
        f.store(v.scalar, f.load(v.scalar, cell), f.offset("%c", f.mul("%c_row", r)), v.size)


def _sum_blocks(v: Vectors, f: Function, type_: str, cells: list[str], width: int, block: Callable[[str, str], None]) -> None:
    """Emit the sums of all blocks, joined, in ``cells``. ``block(first, count)`` leaves the sums of one block there."""
    zero = "zeroinitializer" if type_[0] == "<" else "0.0"
    for cell in cells:
        f.store(type_, zero, cell)
    size = len(cells) * width
    levels = f.local(f"[{LEVELS * size} x i8]", max(width, 8))
    at = pairwise.rows(f, levels, size, [k * width for k in range(len(cells))])
    types = [type_] * len(cells)
    blocks = f.let(f"udiv i64 {f.add('%k', f.add('%block', -1))}, %block")
    with f.loop(0, blocks) as number:
        first = f.mul(number, "%block")
        block(first, f.minimum("%block", f.let(f"sub i64 %k, {first}")))
        last = f.let(f"icmp eq i64 {f.add(number, 1)}, {blocks}", "c")
        pairwise.add_block(v.m, f, at, number, last, types, cells, pairwise.adder(f, type_), width)
