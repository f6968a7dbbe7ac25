"""Code of reductions: initial states, merging, results.

The state of a reduction is a list of registers: the value, and for argmax and argmin the position too.
"""

from __future__ import annotations

from typing import Any

from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.storage_formats import add, cast, round_to_storage
from weft.devices.cpu.emit.types import literal, llvm_type, splat_text, wide
from weft.dtypes.formats import FLOATS, INT64, Format
from weft.dtypes.rounding import Accumulator
from weft.kernel.ir import Reduction

_POSITION = ("argmax", "argmin")


def is_position(r: Reduction) -> bool:
    return r.monoid in _POSITION


def state_types(r: Reduction) -> list[str]:
    t = llvm_type(r.accum if not is_position(r) else r.value.dtype)
    return [t, "i64"] if is_position(r) else [t]


def accum_dtype(r: Reduction) -> Format:
    return r.value.dtype if is_position(r) else r.accum


def identity(r: Reduction, lanes: int | None) -> list[str]:
    """Return the initial state. The initial position of argmax and argmin is beyond all others."""
    dtype = accum_dtype(r)
    number: Any = {"sum": 0, "dot": 0, "prod": 1}.get(r.monoid)
    if r.running and r.monoid == "sum" and dtype in FLOATS:
        number = -0.0  # -0.0 + x is x, also for x = -0.0: a running sum begins with its first element
    if number is None:
        number = dtype.greatest if r.monoid in ("min", "argmin") else dtype.least
    out = [splat_text(llvm_type(dtype), literal(dtype, number), lanes)]
    if is_position(r):
        out.append(splat_text("i64", str(2**62), lanes))
    return out


def lift(o: Ops, r: Reduction, value: str) -> str:
    """Convert a value to the accumulator's dtype."""
    return cast(o, value, r.value.dtype, accum_dtype(r))


def merge(o: Ops, r: Reduction, a: list[str], b: list[str]) -> list[str]:
    """Merge state ``a``, of earlier elements, with state ``b``. In argmax and argmin the first of equal values wins."""
    dtype = accum_dtype(r)
    t = llvm_type(dtype)
    if r.accumulator is not None:
        return [round_sum(o, o.op("fadd", t, a[0], b[0]), r.accumulator)]
    if r.monoid in ("sum", "dot"):
        return [add(o, a[0], b[0], dtype)]
    if r.monoid == "prod":
        if dtype.kind == "bool":
            return [o.op("and", "i1", a[0], b[0])]
        if dtype not in FLOATS:
            return [o.op("mul", t, a[0], b[0])]
        out = o.op("fmul", t, a[0], b[0])
        return [round_to_storage(o, out, dtype) if dtype.narrow else out]
    if not is_position(r):
        return [_extremum(o, r.monoid, dtype, a[0], b[0])]
    # b wins if it is better, the only NaN, or equal (or both NaN) and earlier
    word = ("gt", "lt")[r.monoid == "argmin"]
    if dtype in FLOATS:
        better, same = o.cmp("o" + word, t, b[0], a[0]), o.cmp("oeq", t, b[0], a[0])
        nan_a, nan_b = o.cmp("uno", t, a[0], a[0]), o.cmp("uno", t, b[0], b[0])
        only = o.op("and", "i1", nan_b, o.op("xor", "i1", nan_a, o.c("i1", 1)))
        better = o.op("or", "i1", better, only)
        same = o.op("or", "i1", same, o.op("and", "i1", nan_a, nan_b))
    else:
        sign = "s" if dtype.kind == "signed" else "u"
        better, same = o.cmp(sign + word, t, b[0], a[0]), o.cmp("eq", t, b[0], a[0])
    earlier = o.cmp("slt", "i64", b[1], a[1])
    take = o.op("or", "i1", better, o.op("and", "i1", same, earlier))
    return [o.select(take, t, b[0], a[0]), o.select(take, "i64", b[1], a[1])]


def round_sum(o: Ops, x: str, accumulator: Accumulator, low_nans: bool = True) -> str:
    """Round a float to the format of an accumulator. low_nans: see ``round_to_storage``"""
    return round_to_storage(o, x, accumulator.form, low_nans)


def merge_all(o: Ops, reductions: tuple[Reduction, ...], a: list[str], b: list[str]) -> list[str]:
    """Merge the states of several reductions, concatenated in order."""
    out: list[str] = []
    for r in reductions:
        k = len(out)
        end = k + len(state_types(r))
        out += merge(o, r, a[k:end], b[k:end])
    return out


def _extremum(o: Ops, monoid: str, dtype: Format, a: str, b: str) -> str:
    if dtype.kind == "bool":
        return o.op("or" if monoid == "max" else "and", "i1", a, b)
    t = llvm_type(dtype)
    if dtype in FLOATS:
        return o.intrinsic("maximum" if monoid == "max" else "minimum", t, a, b)
    return o.intrinsic(("s" if dtype.kind == "signed" else "u") + monoid, t, a, b)


def finish(o: Ops, r: Reduction, state: list[str]) -> str:
    """Convert a state to the result, in the reduction's dtype."""
    if is_position(r):
        return cast(o, state[1], INT64, r.dtype)
    return cast(o, state[0], r.accum, r.dtype)


def fold_lanes(o: Ops, r: Reduction, vectors: list[list[str]], lanes: int) -> list[str]:
    """Merge vector accumulators pairwise by halves: whole vectors, then the halves of the last one. Return a scalar state."""
    types = state_types(r)
    wide_ops = Ops(o.f, o.m, o.isa, lanes)
    while len(vectors) > 1:
        half = len(vectors) // 2
        vectors = [merge(wide_ops, r, vectors[i], vectors[i + half]) for i in range(half)]
    state, width = vectors[0], lanes
    while width > 1:
        half = width // 2
        low, high = (
            [o.f.shuffle(wide(t, width), s, "poison", range(k, k + half)) for t, s in zip(types, state, strict=True)]
            for k in (0, half)
        )
        state, width = merge(Ops(o.f, o.m, o.isa, half), r, low, high), half
    return [o.f.let(f"extractelement {wide(t, 1)} {s}, i32 0") for t, s in zip(types, state, strict=True)]


def fold_list(o: Ops, r: Reduction, leaves: list[list[str] | None]) -> list[str]:
    """Merge scalar states in the order of :func:`fold_lanes`; None is a lane without elements."""
    while len(leaves) > 1:
        half = len(leaves) // 2
        pairs = zip(leaves[:half], leaves[half:], strict=True)
        leaves = [merge(o, r, a, b) if a is not None and b is not None else a or b for a, b in pairs]
    assert leaves[0] is not None
    return leaves[0]
