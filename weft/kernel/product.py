"""Recognise a plain matrix product in a Kernel and bring it to a normal form.

Axes of a group that step evenly through memory are merged into one axis. The axes that cannot be merged, and the batch, become
outer loops. Accesses are flattened, so the emitter of the epilogue treats a merged axis as an ordinary Axis.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from math import prod

from weft.dtypes.formats import FLOAT32, FLOAT64, FLOATS, INT8, INT16, INT32, UINT8, UINT16, Format, holds
from weft.dtypes.rounding import Accumulator
from weft.kernel.convolution import operand_load
from weft.kernel.expressions import Rewriter, access_values, iterate_values
from weft.kernel.ir import Access, Affine, Axis, Buffer, Kernel, Reduction, Store, Value, size_of
from weft.kernel.summation import contraction_order
from weft.kernel.tallies import contraction_of, split_last_phase
from weft.kernel.target import Order


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of a product. Strides in elements: along its free axis, k, each outer axis, each outer axis of k.

    rounded: the format to which numbers are rounded as they are read, or None. canonical: NaNs are replaced by the usual one.
    nibbles: the elements are halves of bytes: the low ones where the last outer axis of k is 0, the high ones where it is 1.
    """

    buffer: Buffer
    const: int
    free: int
    k: int
    outer: tuple[int, ...]
    k_outer: tuple[int, ...]
    rounded: Format | None = None
    canonical: bool = False
    nibbles: bool = False

    def needs_conversion(self, accum: Format) -> bool:
        """Return whether numbers in memory are not yet those that are multiplied."""
        return self.buffer.dtype is not accum or self.rounded is not None or self.canonical


@dataclass(frozen=True, slots=True)
class Product:
    """acc[outer, m, n] = sum over k of a * b. ``m`` or ``n`` is None if its extent is 1.

    k_outer: extents of the axes of k that do not merge with its last one; they run outside of it.
    order: the order of the sum over k_outer and k as one index. accumulator, precision: see ``Contraction``.
    tallies: reductions of the element (``tallies.py``), which ``tally_stores`` read when they are complete.
    """

    id: int
    outer: tuple[Axis, ...]
    m: Axis | None
    n: Axis | None
    k: int
    k_outer: tuple[int, ...]
    a: Operand
    b: Operand
    accum: Format
    stores: tuple[Store, ...]
    order: Order
    tallies: tuple[Reduction, ...] = ()
    tally_stores: tuple[Store, ...] = ()
    accumulator: Accumulator | None = None
    precision: str = "float32"

    @property
    def rows(self) -> int:
        return self.m.extent if self.m else 1

    @property
    def columns(self) -> int:
        return self.n.extent if self.n else 1

    @property
    def batch(self) -> int:
        return size_of(self.outer)

    @property
    def k_iterations(self) -> int:
        """Return how often the loop over k runs for one element of the result."""
        return prod(self.k_outer)

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.columns * self.k * self.k_iterations * self.batch

    def transpose(self) -> Product:
        """Return the same product with m and n exchanged: the transposed result."""
        return replace(self, m=self.n, n=self.m, a=self.b, b=self.a)


def match_product(kernel: Kernel) -> Product | None:
    """Return the kernel's product in normal form, or None if the kernel is anything else."""
    phases, tally_stores = split_last_phase(kernel)
    found = contraction_of(phases[0]) if len(phases) == 1 and not kernel.scratch else None
    if found is None or found[0].accum.name not in ("float32", "float64", "int32"):
        return None
    c, tallies = found
    (value_a, rounded_a), (value_b, rounded_b) = _split_rounding(c.a), _split_rounding(c.b)
    halves = _nibble_access(c.a, c.accum), _nibble_access(c.b, c.accum)
    a, b = (load_access(x, c.accum) if n is None else n[0] for x, n in zip((value_a, value_b), halves, strict=True))
    if a is None or b is None or not (c.stores or tallies) or any(s.mode != "set" for s in c.stores):
        return None
    outer_axes = (*phases[0].axes, *c.batch)
    all_axes = (*outer_axes, *c.m, *c.n, *c.k)
    if any(axis.extent == 0 for axis in all_axes):
        return None
    fa, fb = a.flat(), b.flat()
    store_affines = _affines_of(c.stores, tallies)
    m_outer, m, m_gone = _merge(c.m, [fa, *store_affines])
    n_outer, n, n_gone = _merge(c.n, [fb, *store_affines])
    k_outer, k, k_gone = _merge(c.k, [fa, fb])
    outer, _, outer_gone = _merge((*outer_axes, *m_outer, *n_outer), [], keep=True)
    flattener = _Flattener(m_gone | n_gone | k_gone | outer_gone)
    stores = tuple(flattener.store(s) for s in c.stores)
    tallies = tuple(replace(r, value=flattener.value(r.value)) for r in tallies)
    for flat, free in ((fa, c.m), (fb, c.n)):
        if not {axis for axis, _ in flat.terms} <= {axis.id for axis in (*outer_axes, *free, *c.k)}:
            return None

    if any(n is not None and not (k_outer and k_outer[-1] == Axis(n[1], 2)) for n in halves):
        return None

    def operand(access: Access, free: Axis | None, rounded: Format | None, nibbles: bool) -> Operand:
        terms = dict(access.flat().terms)
        one, along_k = (terms.get(axis.id, 0) if axis else 0 for axis in (free, k))
        outside, k_outside = (tuple([terms.get(axis.id, 0) for axis in axes]) for axes in (outer, k_outer))
        return Operand(access.buffer, access.flat().const, one, along_k, outside, k_outside, rounded, nibbles=nibbles)

    in_halves = [half is not None for half in halves]
    return Product(
        c.id, outer, m, n, k.extent if k else 1, tuple([axis.extent for axis in k_outer]), operand(a, m, rounded_a, in_halves[0]),
        operand(b, n, rounded_b, in_halves[1]), c.accum, stores, contraction_order(c), tallies, tally_stores, c.accumulator,
        c.precision,
    )


# the formats from which products widen operands to an accumulator as they read them
_BYTES = frozenset((INT8, UINT8))
WIDENED_FORMATS: dict[Format, Set[Format]] = {
    INT32: _BYTES, **dict.fromkeys((FLOAT32, FLOAT64), FLOATS | _BYTES | {INT16, UINT16}),
}


def _split_rounding(value: Value) -> tuple[Value, Format | None]:
    """Return the operand and the format of a rounding to a narrower format; the value itself and None if it is no rounding."""
    inner = value
    while inner.op == "cast" and holds(inner.dtype, inner.args[0].dtype):
        inner = inner.args[0]
    is_rounding = inner.op == "cast" and inner.dtype in FLOATS and inner.args[0].dtype in FLOATS
    return (inner.args[0], inner.dtype) if is_rounding else (value, None)


def load_access(value: Value, accum: Format) -> Access | None:
    """Return the access of a load, possibly widened to ``accum``; None if it has guards or gathered indices."""
    access = operand_load(value, accum.name, WIDENED_FORMATS.get(accum, FLOATS))
    return None if access is None or access.guard or access.buffer.dtype.bytes > accum.bytes else access


def _nibble_access(value: Value, accum: Format) -> tuple[Access, int] | None:
    """Return the access to the bytes of ``Machine.nibble``, widened to int32, and the axis that chooses the half; else None."""
    if accum is not INT32 or value.op != "cast" or value.args[0].op != "and":
        return None
    bits, mask = value.args[0].args
    if mask.op != "const" or mask.attr != 15 or bits.op != "shr" or bits.dtype is not UINT8:
        return None
    byte, shift = bits.args
    access = load_access(Value("cast", (byte,), accum, None), accum)
    if access is None or shift.op != "cast" or shift.args[0].op != "index":
        return None
    place = shift.args[0].attr
    if place.gather or place.const or len(place.terms) != 1 or place.terms[0][1] != 4:
        return None
    axis = place.terms[0][0]
    return None if axis in dict(access.flat().terms) else (access, axis)


def _affines_of(stores: tuple[Store, ...], tallies: tuple[Reduction, ...]) -> list[Affine]:
    """Return every affine index, flattened, that the stores and tallies evaluate."""
    stored = [v for s in stores for v in (s.value, *access_values(s.access))]
    values = list(iterate_values([*stored, *[r.value for r in tallies]]))
    accesses = [*(s.access for s in stores), *(v.attr for v in values if v.op == "load")]
    indices = [index for a in accesses for index in (a.flat(), *(g for g, _, _ in a.guard))]
    return indices + [v.attr for v in values if v.op == "index"]


def _merge(
    group: tuple[Axis, ...], affines: list[Affine], keep: bool = False
) -> tuple[tuple[Axis, ...], Axis | None, set[int]]:
    """Return (axes left over, the merged innermost axis, ids of axes that are gone). ``keep``: only drop extents of 1."""
    gone = {axis.id for axis in group if axis.extent == 1}
    live = [axis for axis in group if axis.extent > 1]
    if keep:
        return tuple(live), None, gone
    if not live:
        return (), None, gone
    terms = [dict(f.terms) for f in affines]
    inner = live.pop()
    while live and all(t.get(live[-1].id, 0) == t.get(inner.id, 0) * inner.extent for t in terms):
        outer = live.pop()
        gone.add(outer.id)
        inner = Axis(inner.id, inner.extent * outer.extent)
    return tuple(live), inner, gone


class _Flattener(Rewriter):
    """Rewrites stores without the axes that are gone."""

    def __init__(self, gone: set[int]) -> None:
        super().__init__({})
        self._removed_axes = gone

    def access(self, a: Access) -> Access:
        guard = tuple([(self.affine(index), lo, hi) for index, lo, hi in a.guard])
        return Access(replace(a.buffer, shape=(prod(a.buffer.shape),)), (self.affine(a.flat()),), guard, a.fill)

    def affine(self, a: Affine) -> Affine:
        return replace(super().affine(a), terms=tuple([t for t in a.terms if t[0] not in self._removed_axes]))
