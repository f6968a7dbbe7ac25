"""Walks over the expressions of a kernel: they share parts, so each object is met once, and no walk recurses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from weft.kernel.ir import Access, Axis, Chain, Contraction, Stage, Store, Value


def operands(value: Value) -> tuple[Value, ...]:
    """What must be computed before a value: arguments, and index values of a load."""
    if value.op == "load":
        return tuple(access_values(value.attr))
    if value.op == "index":
        return tuple(v for v, _ in value.attr.gather)
    return value.args


def access_values(access: Access) -> list[Value]:
    found = [v for affine in access.index for v, _ in affine.gather]
    if access.guard:
        found += [v for affine, _, _ in access.guard for v, _ in affine.gather]
    return found


def access_axes(access: Access) -> set[int]:
    axes = {a for affine in access.index for a, _ in affine.terms}
    axes.update(a for affine, _, _ in access.guard for a, _ in affine.terms)
    return axes


def dependencies(value: Value, known: dict[int, frozenset]) -> frozenset:
    """Axis ids and ("acc", id) a value depends on; ``known`` caches by identity."""
    there = known.get(id(value))
    if there is not None:
        return there
    stack = [value]
    while stack:
        v = stack[-1]
        if id(v) in known:
            stack.pop()
            continue
        below = operands(v)
        waiting = [a for a in below if id(a) not in known]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        found: set = set()
        if v.op == "load":
            found |= access_axes(v.attr)
        elif v.op == "index":
            found |= {a for a, _ in v.attr.terms}
        elif v.op == "acc":
            found.add(("acc", v.attr))
        for a in below:
            found |= known[id(a)]
        known[id(v)] = frozenset(found)
    return known[id(value)]


def read_first(stage: Stage | Contraction | Chain) -> list[Value]:
    """Every expression of a stage outside of its stores."""
    if isinstance(stage, Contraction):
        return [stage.a, stage.b]
    if isinstance(stage, Chain):
        guards = [v for affine, _, _ in stage.where for v, _ in affine.gather]
        return [*(v for i in stage.inner for v in (i.a, i.b)), *guards, *stage.middle, *(o.b for o in stage.outer)]
    return [r.value for r in stage.reductions]


def stores_of(stage: Stage | Contraction | Chain) -> tuple[Store, ...]:
    """All stores of a stage, in order."""
    if isinstance(stage, Chain):
        return (*(s for o in stage.outer for s in o.stores), *stage.stores)
    return stage.stores


def roots(stages: Iterable[Stage | Contraction | Chain]) -> list[Value]:
    """Every expression of the stages, index values of stores included."""
    out: list[Value] = []
    for stage in stages:
        out += read_first(stage)
        for s in stores_of(stage):
            out.append(s.value)
            out += access_values(s.access)
    return out


def axes_of(stage: Stage | Contraction | Chain) -> tuple[Axis, ...]:
    """Every axis of a stage of its own."""
    if isinstance(stage, Contraction):
        return (*stage.batch, *stage.m, *stage.n, *stage.k)
    if isinstance(stage, Chain):
        own = (*(i.k for i in stage.inner), *(o.n for o in stage.outer))
        return (*stage.batch, *stage.rows, *stage.columns, *(a for axes in own for a in axes))
    return (*stage.axes, *(a for r in stage.reductions for a in r.axes))


def each(values: Iterable[Value], seen: set[int] | None = None) -> Iterator[Value]:
    """All values below, from above, each object once; those whose ids are in ``seen`` not, and what is met goes there."""
    seen = set() if seen is None else seen
    stack = list(values)
    while stack:
        v = stack.pop()
        if id(v) not in seen:
            seen.add(id(v))
            yield v
            stack.extend(operands(v))


def loads(values: Iterable[Value], seen: set[int] | None = None) -> Iterator[Access]:
    """Every access that the values read, gathered indices included, as :func:`each` meets them."""
    return (v.attr for v in each(values, seen) if v.op == "load")


def uppermost(values: Iterable[Value], wanted: Callable[[Value], bool], seen: set[int] | None = None) -> Iterator[Value]:
    """Values that are wanted, and nothing below them."""
    seen = set() if seen is None else seen
    stack = list(values)
    while stack:
        v = stack.pop()
        if id(v) not in seen:
            seen.add(id(v))
            if wanted(v):
                yield v
            else:
                stack.extend(operands(v))


def walk(values: list[Value]) -> list[Value]:
    """All values below, operands first, each object once."""
    seen: set[int] = set()
    order: list[Value] = []
    stack: list[Value | None] = list(reversed(values))  # under a None: a value whose operands, put on top, come first
    while stack:
        v = stack.pop()
        if v is None:
            done = stack.pop()
            assert done is not None
            order.append(done)
        elif id(v) not in seen:
            seen.add(id(v))
            below = operands(v)
            if below:
                stack += (v, None)
                stack.extend([a for a in below if id(a) not in seen])
            else:
                order.append(v)
    return order
