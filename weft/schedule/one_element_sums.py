"""Sums with one relevant element: ``where(arange(n) == label, x, 0).sum()`` loads x at the label, without a loop.

The loss of a label thus costs one load a row instead of one comparison a class.
"""

from __future__ import annotations

from weft.dtypes.formats import FLOATS, INTEGERS
from weft.kernel.expressions import INT64, Machine, iterate_values, walk
from weft.kernel.ir import Access, Affine, Axis, Value, axis_index

MIN_POSITIONS = 64  # positions: a shorter loop costs no more than computing the position


def load_single_element(m: Machine, value: Value, axis: Axis) -> Value | None:
    """Replace the sum of ``select(position == place, x, 0)`` over ``axis`` by one load of ``x`` at ``place``.

    Return None for any other value.
    """
    if value.op != "select" or axis.extent < MIN_POSITIONS or value.dtype.bytes < 4:
        return None
    condition, inner, other = value.args
    if any(v.op == "check" and _varies(v, axis) for v in iterate_values([inner])):
        return None  # each element must be checked, not only the one that is read
    if condition.op != "eq" or other.op != "const" or other.attr != 0:
        return None
    place = next((b for a, b in (condition.args, condition.args[::-1]) if _is_position(a, axis) and not _varies(b, axis)), None)
    if place is None or place.dtype not in INTEGERS:
        return None
    place = m.cast(place, INT64)
    zero, last = m.const(0, INT64), m.const(axis.extent - 1, INT64)
    element = _substitute(m, inner, axis, m.min(m.max(place, zero), last))
    if element.dtype in FLOATS:
        element = m.add(element, m.const(0, element.dtype))  # a sum of zeros is not -0.0
    inside = getattr(m, "and")(m.ge(place, zero), m.le(place, last))
    return m.select(inside, element, m.const(0, element.dtype))


def _is_position(value: Value, axis: Axis) -> bool:
    """Return whether a value is the position on the axis."""
    while value.op == "cast" and value.dtype in INTEGERS and axis.extent - 1 <= value.dtype.greatest:
        value = value.args[0]
    return value.op == "index" and value.attr == axis_index(axis)


def _affines(value: Value) -> list[Affine]:
    """Return the index expressions of a load or an index."""
    if value.op == "load":
        return [*value.attr.index, *(g[0] for g in value.attr.guard)]
    return [value.attr] if value.op == "index" else []


def _varies(value: Value, axis: Axis) -> bool:
    """Return whether a value depends on the axis."""
    return any(a == axis.id for v in iterate_values([value]) for affine in _affines(v) for a, _ in affine.terms)


def _substitute(m: Machine, value: Value, axis: Axis, place: Value) -> Value:
    """Return ``value`` with the axis replaced by the position ``place``."""
    done: dict[int, Value] = {}

    def replace_axis(affine: Affine) -> Affine:
        terms = tuple([t for t in affine.terms if t[0] != axis.id])
        gather = tuple([(done[id(v)], c) for v, c in affine.gather])
        coefficient = dict(affine.terms).get(axis.id, 0)
        return Affine(affine.const, terms, (*gather, (place, coefficient)) if coefficient else gather)

    for v in walk([value]):
        done[id(v)] = v if not _varies(v, axis) else _rebuild(m, v, [done[id(x)] for x in v.args], replace_axis)
    return done[id(value)]


def _rebuild(m: Machine, value: Value, args: list[Value], replace_axis) -> Value:
    """Return a load, index or operation with new operands and the axis replaced in its index expressions."""
    if value.op == "load":
        a = value.attr
        guard = tuple([(replace_axis(g), lo, hi) for g, lo, hi in a.guard])
        return m.load(Access(a.buffer, tuple(map(replace_axis, a.index)), guard, a.fill))
    if value.op == "index":
        return m.cast(m.index(replace_axis(value.attr)), value.dtype)
    return m.make(value.op, args, value.dtype)
