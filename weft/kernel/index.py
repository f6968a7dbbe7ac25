"""Map an index through shape primitives: from a position in a result to the position in its operand.

An index is a tuple of Affine, one for each dimension. All reasoning is exact integer arithmetic over the extents of the axes.
Functions return None if no Affine describes the position.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.dtypes.formats import INT64, INTEGERS
from weft.kernel.ir import Affine, Value

Index = tuple[Affine, ...]
Guard = tuple[Affine, int, int]
Guards = tuple[Guard, ...]
Shape = tuple[int, ...]
ZERO = Affine()


def value_bounds(value: Value, extents: Mapping[int, int]) -> tuple[float, float]:
    """Return the smallest and largest value of an integer Value. Gathered indices are checked, or clamped by min and max."""
    infinite = (float("-inf"), float("inf"))
    op = value.op
    if op == "const":
        return int(value.attr), int(value.attr)
    if op == "index":
        return bounds(value.attr, extents)
    if op == "check":
        return 0, value.attr.extent - 1
    if op in ("min", "max"):
        (a, b), (c, d) = (value_bounds(v, extents) for v in value.args)
        return (min(a, c), min(b, d)) if op == "min" else (max(a, c), max(b, d))
    if op == "cast" and value.dtype in INTEGERS and value.dtype.bytes == 8:
        return value_bounds(value.args[0], extents)
    return infinite


def affine_of(value: Value) -> Affine | None:
    """Return an int64 Value that is computed from positions of loops and constants alone as an Affine; None for any other."""
    if value.dtype is not INT64:
        return None
    if value.op == "const":
        return Affine(int(value.attr))
    if value.op == "index":
        return None if value.attr.gather else value.attr
    if value.op not in ("add", "sub", "mul"):
        return None
    a, b = map(affine_of, value.args)
    if a is None or b is None:
        return None
    if value.op == "mul":
        return a.times(b.const) if not b.terms else b.times(a.const) if not a.terms else None
    return a.plus(b, 1 if value.op == "add" else -1)


def bounds(affine: Affine, extents: Mapping[int, int]) -> tuple[float, float]:
    """Return the smallest and largest value of an index over its axes, both inclusive."""
    low: float = affine.const
    high = low
    for axis, coef in affine.terms:
        reach = coef * (extents[axis] - 1)
        low, high = low + min(reach, 0), high + max(reach, 0)
    for value, coef in affine.gather:
        ends = [coef * end for end in value_bounds(value, extents)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def always_holds(guard: Guard, extents: Mapping[int, int]) -> bool:
    """Return whether a guard holds for every value of its axes."""
    low, high = bounds(guard[0], extents)
    return guard[1] <= low and high < guard[2]


def never_holds(guards: tuple[Guard, ...], extents: Mapping[int, int]) -> bool:
    """Return whether one of the guards never holds."""
    ranges = [(bounds(affine, extents), lo, hi) for affine, lo, hi in guards]
    return any(high < lo or low >= hi or lo >= hi for (low, high), lo, hi in ranges)


def broadcast(index: Index, shape: Shape) -> Index:
    """Return the position in an operand of ``shape`` that NumPy's broadcasting maps to ``index``."""
    cut = len(index) - len(shape)
    return tuple([ZERO if n == 1 else i for i, n in zip(index[cut:], shape, strict=True)])


def permute(index: Index, axes: tuple[int, ...]) -> Index:
    """Return the position in the operand of a transposition by ``axes``."""
    out = [ZERO] * len(axes)
    for i, axis in zip(index, axes, strict=True):
        out[axis] = i
    return tuple(out)


def slice_index(index: Index, start: Shape, step: Shape) -> Index:
    """Return the position in the operand of a slice."""
    return tuple(i if s == 0 and t == 1 else Affine(s).plus(i, t) for i, s, t in zip(index, start, step, strict=True))


def pad(index: Index, low: Shape, shape: Shape, extents: Mapping[int, int]) -> tuple[Index, tuple[Guard, ...]]:
    """Return the position in the operand of ``shape``, and the guards that hold inside the operand."""
    moved = tuple([i if lo == 0 else i.plus(Affine(-lo)) for i, lo in zip(index, low, strict=True)])
    guards = [(i, 0, n) for i, n in zip(moved, shape, strict=True)]
    return moved, tuple([g for g in guards if not always_holds(g, extents)])


def split(flat: Affine, size: int, extents: Mapping[int, int]) -> tuple[Affine, Affine] | None:
    """Return ``flat`` as (quotient, remainder) by ``size``, with 0 <= remainder < size, or None if one is not Affine."""
    quotient = tuple([(axis, c // size) for axis, c in flat.terms if c % size == 0])
    gathered = tuple([(value, c // size) for value, c in flat.gather if c % size == 0])
    rest = tuple([(axis, c) for axis, c in flat.terms if c % size and extents[axis] != 1])
    remainder = Affine(0, rest, tuple([(value, c) for value, c in flat.gather if c % size]))
    low, high = bounds(remainder, extents)
    if high - low >= size:
        return None
    whole = int((flat.const + low) // size)
    const = flat.const - whole * size
    if const + low < 0 or const + high >= size:
        return None
    return Affine(whole, quotient, gathered), Affine(const, remainder.terms, remainder.gather)


def reshape(index: Index, shape: Shape, source: Shape, extents: Mapping[int, int]) -> Index | None:
    """Return the position in ``source`` of the element at ``index`` of ``shape``, or None if it is not Affine."""
    out = [ZERO] * len(source)
    left, right = ([d for d, n in enumerate(extent) if n != 1] for extent in (shape, source))
    while left and right:
        first, group = left.pop(0), [right.pop(0)]
        flat, size, room = index[first], shape[first], source[group[0]]
        while size != room:
            if size < room and left:
                d = left.pop(0)
                flat, size = flat.times(shape[d]).plus(index[d]), size * shape[d]
            elif size > room and right:
                group.append(right.pop(0))
                room *= source[group[-1]]
            else:
                return None
        for d in reversed(group[1:]):
            pair = split(flat, source[d], extents)
            if pair is None:
                return None
            flat, out[d] = pair
        out[group[0]] = flat
    return None if left or right else tuple(out)


def follows(shape: Shape, source: Shape) -> bool:
    """Return whether every index into ``shape`` maps to an index into ``source``: dimensions are merged, never split.

    ``shape`` is the reshape's result and ``source`` its operand. For a dimension that the reshape splits, result[i, j] is
    operand[i * n + j]; for merged dimensions, result[k] would need a division.
    """
    a = [n for n in shape if n != 1]
    b = [n for n in source if n != 1]
    i = 0
    for extent in b:
        size = 1
        while size < extent and i < len(a):
            size *= a[i]
            i += 1
        if size != extent:
            return False
    return i == len(a)
