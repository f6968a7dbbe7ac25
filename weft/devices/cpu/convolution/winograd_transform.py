"""Winograd's transforms: the matrices of F(m x m, r x r), the choice of m, and code that multiplies tiles by the matrices.

F(m, r) computes m results y of a filter g of r taps from n = m + r - 1 inputs d with n products: ``y = A' ((G g) * (B' d))``.
Along two dimensions each matrix is applied to rows and columns. The gradient of g is ``G' ((B' d) * (A dy))``.

The points of interpolation are 0, 1, -1, 1/2, -2 and infinity. All numbers of A and B are then exact in binary, and errors are
smaller than with 2 in place of 1/2 (Lavin, Gray: Fast algorithms for convolutional neural networks. 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import inf

from weft.devices.cpu.convolution.pairs import in_pairs
from weft.devices.cpu.convolution.tile import Number
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.text import Function, Module
from weft.kernel.convolution import Conv

POINTS = (Fraction(0), Fraction(1), Fraction(-1), Fraction(1, 2), Fraction(-2))
OUTPUTS = {3: (2, 4), 5: (2,)}  # taps r -> the numbers of results m of a tile from which one is chosen

Matrix = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Matrices:
    """B', G and A' of F(m, r)."""

    inputs: Matrix  # n x n
    weights: Matrix  # n x r
    outputs: Matrix  # m x n


@cache
def winograd_matrices(m: int, r: int) -> Matrices:
    """Return the matrices of F(m, r), made from polynomials that are 0 at all points but one."""
    n = m + r - 1
    points = POINTS[: n - 1]

    def polynomial(roots: Sequence[Fraction]) -> list[Fraction]:
        coefficients = [Fraction(1)]
        for root in roots:
            shifted, scaled = [Fraction(0), *coefficients], [*(root * c for c in coefficients), Fraction(0)]
            coefficients = [a - b for a, b in zip(shifted, scaled, strict=True)]
        return coefficients

    inputs, weights = [], []
    for p in points:
        others = [q for q in points if q != p]
        scale = Fraction(1)
        for q in others:
            scale *= p - q
        inputs.append([*polynomial(others), Fraction(0)])
        weights.append([p**j / scale for j in range(r)])
    inputs.append(polynomial(points))
    weights.append([Fraction(int(j == r - 1)) for j in range(r)])
    outputs = [[*(p**j for p in points), Fraction(int(j == m - 1))] for j in range(m)]
    return Matrices(*(tuple(tuple(float(x) for x in row) for row in rows) for rows in (inputs, weights, outputs)))


def transpose(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))


def emit_transform(
    f: Function, module: Module, isa: ISA, number: Number, matrix: Matrix, load: Callable[[int, int], str],
    store: Callable[[int, int, str], None],
) -> None:
    """Emit ``matrix @ tile @ matrix.T`` of tiles in the lanes of vectors. load, store: of the vectors at (row, column)."""
    size = len(matrix[0])
    columns = [[_combine(f, module, isa, number, row, [load(i, j) for i in range(size)]) for row in matrix] for j in range(size)]
    for i in range(len(matrix)):
        for j, row in enumerate(matrix):
            store(i, j, _combine(f, module, isa, number, row, [columns[k][i] for k in range(size)]))


def _combine(f: Function, module: Module, isa: ISA, number: Number, row: tuple[float, ...], vectors: list[str]) -> str:
    """Emit the sum of ``row[i] * vectors[i]``, beginning with a factor of 1 if there is one."""
    terms = sorted([(c, v) for c, v in zip(row, vectors, strict=True) if c], key=lambda term: (abs(term[0]) != 1, term[0] != 1))
    ops, type_, out = Ops(f, module, isa, number.lanes), number.vector, ""
    for c, v in terms:
        if not out:
            out = v if c == 1 else f.let(f"fneg {type_} {v}") if c == -1 else f.let(f"fmul {type_} {v}, {ops.c(number.type, c)}")
        elif abs(c) == 1:
            out = f.let(f"{'fadd' if c == 1 else 'fsub'} {type_} {out}, {v}")
        else:
            out = module.fma(f, number.type, number.lanes, v, ops.c(number.type, c), out)
    return out


# ---- the choice. All figures are estimated cycles of one core; those of transforms are of a vector of channels or filters.

DIRECT_CYCLES = 0.55  # of a vector multiplication of the direct generators, ...
PAIR_CYCLES = 0.29  # ... of which pairs of bfloat16 are two
PRODUCT_CYCLES = 0.58  # of a vector multiplication of the products
TILE_CYCLES = 5.0  # of one position of a tile that is transformed, stored and read again
PIXEL_CYCLES = 9.0  # of one pixel that is turned to or from vectors
WEIGHT_CYCLES = 18.0  # of one position of transformed weights, written and read


def choose_outputs(conv: Conv, isa: ISA) -> int:
    """Return m of the fastest F(m x m, r x r) of a convolution; 0 if computing it directly is faster.

    The choice depends on extents only, not on how operands lie in memory, so that bits do not depend on fusion.
    """
    if conv.contraction.algorithm != "winograd" or conv.paired is not None or len(conv.windows) != 2 or conv.group.extent > 1:
        return 0
    taps = {w.tap.extent for w in conv.windows}
    if len(taps) > 1 or any((w.stride, w.dilation) != (1, 1) for w in conv.windows):
        return 0
    lanes = isa.lanes(conv.contraction.accum.bytes)
    (r,) = taps
    direct = DIRECT_CYCLES if in_pairs(conv, isa) is None else PAIR_CYCLES
    best, outputs = conv.flops() / (2 * lanes) * direct, 0
    for m in OUTPUTS.get(r, ()):
        cost = estimate_cycles(conv, lanes, m, r)
        if cost < best:
            best, outputs = cost, m
    return outputs


def executed_share(conv: Conv, isa: ISA) -> float:
    """Return the multiplications of a convolution over those of the direct algorithm: 1 unless transforms are used."""
    m, r = choose_outputs(conv, isa), conv.windows[0].tap.extent
    return ((m + r - 1) / (m * r)) ** 2 if m else 1.0


def estimate_cycles(conv: Conv, lanes: int, m: int, r: int) -> float:
    """Return the estimated cycles of F(m x m, r x r)."""
    height, width = (w.pixel.extent for w in conv.windows)
    if conv.dot:
        images, rows, columns = conv.chan.extent, conv.free.extent, conv.filters.extent
    else:
        images, rows, columns = conv.free.extent, conv.chan.extent, conv.filters.extent
    if rows < lanes or columns < lanes:
        return inf
    tiles, positions = images * -(-height // m) * -(-width // m), (m + r - 1) ** 2
    row_vectors, column_vectors = -(-rows // lanes), -(-columns // lanes)
    products = positions * tiles * rows * column_vectors * PRODUCT_CYCLES
    transforms = (row_vectors + column_vectors) * tiles * (positions * TILE_CYCLES + m * m * PIXEL_CYCLES)
    return products + transforms + positions * rows * column_vectors * WEIGHT_CYCLES
