"""Several loops of the stores as one: possible where every access runs through them without a gap."""

from __future__ import annotations

from dataclasses import replace

from weft.kernel.ir import MACHINE, Access, Affine, Axis, Buffer, Store, Value
from weft.kernel.walk import each


def join_axes(stores: tuple[Store, ...], axes: tuple[Axis, ...], joined: Axis) -> tuple[Store, ...] | None:
    """The stores over ``joined`` in place of ``axes`` (last fastest), or None if some index needs them apart."""
    ids = {a.id for a in axes}
    steps, step = {}, 1
    for axis in reversed(axes):
        steps[axis.id] = step
        step *= axis.extent

    def affine(index: Affine) -> Affine | None:
        terms = dict(index.terms)
        here = {i: terms.pop(i) for i in ids & set(terms)}
        unit = next((c // steps[i] for i, c in here.items() if steps[i] and c % steps[i] == 0), 0)
        if index.gather or any(here.get(a.id, 0) != unit * steps[a.id] for a in axes if a.extent > 1):
            return None if here or index.gather else index
        if unit:
            terms[joined.id] = unit
        return Affine(index.const, tuple(sorted(terms.items())))

    def access(a: Access) -> Access | None:
        if any(set(dict(g.terms)) & ids or g.gather for g, _, _ in a.guard):
            return None
        flat = affine(a.flat())
        if flat is None:
            return None
        size = 1
        for extent in a.buffer.shape:
            size *= extent
        return Access(Buffer(a.buffer.id, a.buffer.dtype, (size,), a.buffer.scope), (flat,), a.guard, a.fill)

    memo: dict[int, Value | None] = {}

    def value(v: Value) -> Value | None:
        if id(v) not in memo:
            memo[id(v)] = rewrite(v)
        return memo[id(v)]

    def rewrite(v: Value) -> Value | None:
        attr = v.attr
        if v.op == "load":
            attr = access(attr)
        elif v.op == "index":
            attr = affine(attr)
        args = tuple([value(a) for a in v.args])
        if any(a is None for a in args) or (attr is None and v.attr is not None):
            return None
        return replace(v, args=args, attr=attr)  # type: ignore[arg-type]

    out = []
    for store in stores:
        where, what = access(store.access), value(store.value)
        if where is None or what is None:
            return None
        out.append(Store(where, what, store.mode))
    return tuple(out)


def work(stores: tuple[Store, ...]) -> int:
    """About how many instructions the stores take for one vector."""
    free = ("const", "acc", "scalar")
    values = each([s.value for s in stores])
    return len(stores) + sum(0 if v.op in free else 30 if v.op in MACHINE and MACHINE[v.op].costly else 1 for v in values)
