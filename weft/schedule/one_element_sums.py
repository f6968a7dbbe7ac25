"""Sums in which one element counts: ``where(arange(n) == label, x, 0).sum()`` reads x at the label, and no loop runs.

So the loss of a label is one load a row, and not one comparison a class.
"""

from __future__ import annotations

from weft.dtypes.formats import FLOATS, INTEGERS
from weft.kernel.expressions import INT64, Machine, each, operands
from weft.kernel.ir import Access, Affine, Axis, Value, along

LEAST = 64  # positions: a shorter loop is no more work than finding the place


def chosen(m: Machine, value: Value, axis: Axis) -> Value | None:
    """The sum of ``value`` over ``axis``, where all of it but at most one element is zero; None if that is not known."""
    if value.op != "select" or axis.extent < LEAST or value.dtype.bytes < 4:
        return None
    condition, inner, other = value.args
    if _checks(inner, axis):
        return None
    if condition.op != "eq" or other.op != "const" or other.attr != 0:
        return None
    place = next((b for a, b in (condition.args, condition.args[::-1]) if _counts(a, axis) and not _moves(b, axis)), None)
    if place is None or place.dtype not in INTEGERS:
        return None
    place = m.cast(place, INT64)
    zero, last = m.const(0, INT64), m.const(axis.extent - 1, INT64)
    found = _at(m, inner, axis, m.min(m.max(place, zero), last))
    if found.dtype in FLOATS:
        found = m.add(found, m.const(0, found.dtype))  # a sum of zeros is no negative zero
    inside = getattr(m, "and")(m.ge(place, zero), m.le(place, last))
    return m.select(inside, found, m.const(0, found.dtype))


def _counts(value: Value, axis: Axis) -> bool:
    """Whether a value is the position on the axis."""
    while value.op == "cast" and value.dtype in INTEGERS and axis.extent - 1 <= value.dtype.greatest:
        value = value.args[0]
    return value.op == "index" and value.attr == along(axis)


def _parts(value: Value) -> list[Affine]:
    if value.op == "load":
        return [*value.attr.index, *(g[0] for g in value.attr.guard)]
    return [value.attr] if value.op == "index" else []


def _checks(value: Value, axis: Axis) -> bool:
    """Whether an index is checked that moves along the axis: each element is to be checked, not only the chosen one."""
    return any(v.op == "check" and _moves(v, axis) for v in each([value]))


def _moves(value: Value, axis: Axis) -> bool:
    """Whether a value depends on the axis."""
    return any(a == axis.id for v in each([value]) for affine in _parts(v) for a, _ in affine.terms)


def _at(m: Machine, value: Value, axis: Axis, place: Value) -> Value:
    """``value`` where the axis is at ``place``."""
    done: dict[int, Value] = {}

    def moved(affine: Affine) -> Affine:
        terms = tuple([t for t in affine.terms if t[0] != axis.id])
        gather = tuple([(done[id(v)], c) for v, c in affine.gather])
        here = dict(affine.terms).get(axis.id, 0)
        return Affine(affine.const, terms, (*gather, (place, here)) if here else gather)

    stack = [value]
    while stack:
        v = stack[-1]
        waiting = [x for x in operands(v) if id(x) not in done]
        if id(v) in done or not waiting:
            stack.pop()
            if id(v) not in done:
                done[id(v)] = v if not _moves(v, axis) else _rebuilt(m, v, [done[id(x)] for x in v.args], moved)
        else:
            stack.extend(waiting)
    return done[id(value)]


def _rebuilt(m: Machine, value: Value, args: list[Value], moved) -> Value:
    if value.op == "load":
        a = value.attr
        guard = tuple([(moved(g), lo, hi) for g, lo, hi in a.guard])
        return m.load(Access(a.buffer, tuple(map(moved, a.index)), guard, a.fill))
    if value.op == "index":
        return m.cast(m.index(moved(value.attr)), value.dtype)
    return m.made(value.op, args, value.dtype)
