"""Map an index through shape primitives: from a position in a result to the position in its operand.

An index is a tuple of Affine, one for each dimension. All reasoning is exact integer arithmetic over the extents of the axes.
Functions return None if no Affine describes the position.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.dtypes.formats import INTEGERS
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


def bounds(affine: Affine, extents: Mapping[int, int]) -> tuple[float, float]:
    """Return the smallest and largest value of an index over its axes, both inclusive."""
    low: float = affine.const
    high: float = affine.const
    for axis, coef in affine.terms:
        reach = coef * (extents[axis] - 1)
        if reach > 0:
            high += reach
        else:
            low += reach
    for value, coef in affine.gather:
        a, b = value_bounds(value, extents)
        low += min(a * coef, b * coef)
        high += max(a * coef, b * coef)
    return low, high


def always(guard: Guard, extents: Mapping[int, int]) -> bool:
    """Return whether a guard holds for every value of its axes."""
    low, high = bounds(guard[0], extents)
    return guard[1] <= low and high < guard[2]


def never(guards: tuple[Guard, ...], extents: Mapping[int, int]) -> bool:
    """Return whether one of the guards never holds."""
    for affine, lo, hi in guards:
        low, high = bounds(affine, extents)
        if high < lo or low >= hi or lo >= hi:
            return True
    return False


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
    return tuple(
        i if s == 0 and t == 1 else Affine(s).plus(i, t) for i, s, t in zip(index, start, step, strict=True)
    )


def pad(index: Index, low: Shape, shape: Shape, extents: Mapping[int, int]) -> tuple[Index, tuple[Guard, ...]]:
    """Return the position in the operand of ``shape``, and the guards that hold inside the operand."""
    out, guards = [], []
    for i, lo, n in zip(index, low, shape, strict=True):
        j = i if lo == 0 else i.plus(Affine(-lo))
        out.append(j)
        guard = (j, 0, n)
        if not always(guard, extents):
            guards.append(guard)
    return tuple(out), tuple(guards)


def split(flat: Affine, size: int, extents: Mapping[int, int]) -> tuple[Affine, Affine] | None:
    """Return ``flat`` as (quotient, remainder) by ``size``, with 0 <= remainder < size, or None if one is not Affine."""
    quotient, rest = [], []
    for axis, coef in flat.terms:
        if coef % size == 0:
            quotient.append((axis, coef // size))
        elif extents[axis] != 1:
            rest.append((axis, coef))
    gathered, gather_rest = [], []
    for value, coef in flat.gather:
        if coef % size == 0:
            gathered.append((value, coef // size))
        else:
            gather_rest.append((value, coef))
    remainder = Affine(0, tuple(rest), tuple(gather_rest))
    low, high = bounds(remainder, extents)
    if high - low >= size:
        return None
    whole = int((flat.const + low) // size)
    const = flat.const - whole * size
    if const + low < 0 or const + high >= size:
        return None
    return Affine(whole, tuple(quotient), tuple(gathered)), Affine(const, remainder.terms, remainder.gather)


def reshape(index: Index, shape: Shape, source: Shape, extents: Mapping[int, int]) -> Index | None:
    """Return the position in ``source`` of the element at ``index`` of ``shape``, or None if it is not Affine."""
    out: list[Affine] = []
    i = j = 0
    n, m = len(shape), len(source)
    while i < n or j < m:
        if i < n and shape[i] == 1:
            i += 1
            continue
        if j < m and source[j] == 1:
            out.append(ZERO)
            j += 1
            continue
        if i < n and j < m and shape[i] == source[j]:
            out.append(index[i])
            i += 1
            j += 1
            continue
        if i >= n or j >= m:
            return None
        first, start = i, j
        left, right = shape[i], source[j]
        i += 1
        j += 1
        while left != right:
            if left < right:
                if i >= n:
                    return None
                left *= shape[i]
                i += 1
            else:
                if j >= m:
                    return None
                right *= source[j]
                j += 1
        flat = ZERO
        for k in range(first, i):
            flat = flat.times(shape[k]).plus(index[k]) if k > first else index[k]
        parts: list[Affine] = []
        for k in range(j - 1, start, -1):
            if source[k] == 1:
                parts.append(ZERO)
                continue
            pair = split(flat, source[k], extents)
            if pair is None:
                return None
            flat, remainder = pair
            parts.append(remainder)
        out.append(flat)
        out.extend(reversed(parts))
    return tuple(out)


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
