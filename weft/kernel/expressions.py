"""Build, rewrite and walk Values, the expressions of a kernel.

Equal expressions are one object, so Values form directed graphs. No function here walks them as trees or recurses.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weft.dtypes.formats import BOOL, INT64, UINT32, Format
from weft.dtypes.rounding import array_in, convert_array, decode_array, rounded_number
from weft.kernel.index import Guard
from weft.kernel.ir import MACHINE_OPERATIONS, Access, Affine, Axis, Chain, Check, Contraction, Stage, Store, Value

_COMPARE = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


class Machine:
    """Builds Values: ``m.add(a, b)`` and one such method for each machine operation. Formulas of primitives receive it."""

    def __init__(self) -> None:
        self._values: dict[tuple, Value] = {}

    def _make(self, op: str, args: tuple[Value, ...], dtype: Format, attr: Any = None, tag: Any = None) -> Value:
        key = (op, *map(id, args), dtype, tag)
        value = self._values.get(key)
        if value is None:
            value = self._values[key] = Value(op, args, dtype, attr)
        return value

    def make(self, op: str, args: Sequence[Value], dtype: Format) -> Value:
        """Return an operation whose dtype is given by the caller."""
        return self._make(op, tuple(args), dtype)

    def __getattr__(self, op: str) -> Callable[..., Value]:
        if op not in MACHINE_OPERATIONS:
            raise AttributeError(f"{op!r} is not a machine operation")
        arity = MACHINE_OPERATIONS[op].arity

        def build(*args: Value) -> Value:
            if len(args) != arity:
                raise TypeError(f"{op} takes {arity} values, got {len(args)}")
            return self._make(op, args, BOOL if op in _COMPARE else args[0].dtype)

        self.__dict__[op] = build
        return build

    def select(self, condition: Value, then: Value, other: Value) -> Value:
        return then if then is other else self._make("select", (condition, then, other), then.dtype)

    def const(self, number: Any, like: Value | Format) -> Value:
        """Return a constant in the dtype of ``like``."""
        dtype = like.dtype if isinstance(like, Value) else like
        if isinstance(number, np.void):
            number = decode_array(np.asarray(number)).item()
        exact = isinstance(number, np.generic) and number.dtype == dtype.numpy and not dtype.custom
        number = number.item() if exact else rounded_number(number, dtype)
        return self._make("const", (), dtype, number, repr(number))

    def cast(self, x: Value, dtype: Format) -> Value:
        if x.dtype == dtype:
            return x
        if x.op == "const" and np.isfinite(x.attr):
            with np.errstate(all="ignore"):
                return self.const(convert_array(array_in(x.attr, x.dtype), dtype.numpy)[()], dtype)
        return self._make("cast", (x,), dtype)

    def check(self, index: Value, extent: int, site: int | None = 0, matters: Value | None = None) -> Value:
        """Return ``index`` checked to lie in [0, extent) wherever ``matters`` holds. site None: the check cannot fail."""
        matters = self.const(True, BOOL) if matters is None else matters
        return self._make("check", (index, matters), INT64, Check(extent, site), (extent, site))

    def bitcast(self, x: Value, dtype: Format) -> Value:
        return x if x.dtype == dtype else self._make("bitcast", (x,), dtype)

    def nibble(self, byte: Value, shift: Value) -> Value:
        """Return the four bits of a byte from bit ``shift`` on. ``nibble_load`` recognises it."""
        bits = self.shr(byte, shift)
        return getattr(self, "and")(bits, self.const(15, bits.dtype))

    def philox(self, key: Value, base: Value, element: Value, bits: int = 32) -> Value:
        return self._make("philox" if bits == 32 else "philox_half", (key, base, element), UINT32)

    def index(self, affine: Affine) -> Value:
        if not affine.terms and not affine.gather:
            return self.const(affine.const, INT64)
        if len(affine.gather) == 1 and not affine.terms and not affine.const and affine.gather[0][1] == 1:
            return affine.gather[0][0]
        return self._make("index", (), INT64, affine, tag(affine))

    def load(self, access: Access) -> Value:
        return self._make("load", (), access.buffer.dtype, access, access_key(access))

    def scalar(self, position: int, dtype: Format) -> Value:
        return self._make("scalar", (), dtype, position, position)

    def acc(self, number: int, dtype: Format) -> Value:
        return self._make("acc", (), dtype, number, number)

    def guards_hold(self, guards: tuple[Guard, ...]) -> Value | None:
        """Return a condition that all guards hold; None if there are no guards."""
        out = None
        for affine, low, high in guards:
            i = self.index(affine)
            for term in (self.ge(i, self.const(low, INT64)), self.lt(i, self.const(high, INT64))):
                out = term if out is None else getattr(self, "and")(out, term)
        return out


def tag(affine: Affine) -> tuple:
    """Return a hashable key of an index, with gathered Values by identity."""
    return affine.const, affine.terms, tuple((id(v), c) for v, c in affine.gather)


def access_key(access: Access) -> tuple:
    """Return a hashable key of an access, with gathered Values by identity."""
    guards = tuple((tag(a), lo, hi) for a, lo, hi in access.guard)
    return access.buffer.id, access.buffer.scope, tuple(map(tag, access.index)), guards, repr(access.fill)


class Rewriter:
    """Rewrites expressions. instead: accumulator -> the Value that replaces it."""

    def __init__(self, instead: Mapping[int, Value]) -> None:
        self._instead = instead
        self._rewrites: dict[int, tuple[Value, Value]] = {}  # id -> (old, new): keeping the old value keeps its id valid

    def value(self, root: Value) -> Value:
        if id(root) not in self._rewrites:
            for v in walk([root]):
                if id(v) not in self._rewrites:
                    self._rewrites[id(v)] = v, self._rewrite_one(v)
        return self._rewrites[id(root)][1]

    def _rewrite_one(self, v: Value) -> Value:
        if v.op == "acc" and v.attr in self._instead:
            return self._instead[v.attr]
        args = tuple([self.value(a) for a in v.args])
        attr: Any = self.access(v.attr) if v.op == "load" else self.affine(v.attr) if v.op == "index" else v.attr
        same = attr is v.attr and all(new is old for new, old in zip(args, v.args, strict=True))
        return v if same else Value(v.op, args, v.dtype, attr)

    def affine(self, a: Affine) -> Affine:
        gather = tuple([(self.value(v), c) for v, c in a.gather])
        return a if all(new is old for (new, _), (old, _) in zip(gather, a.gather, strict=True)) else replace(a, gather=gather)

    def access(self, a: Access) -> Access:
        index = tuple(map(self.affine, a.index))
        guard = tuple([(self.affine(i), low, high) for i, low, high in a.guard])
        same = all(new is old for new, old in zip(index, a.index, strict=True))
        same = same and all(new[0] is old[0] for new, old in zip(guard, a.guard, strict=True))
        return a if same else Access(a.buffer, index, guard, a.fill)

    def store(self, s: Store) -> Store:
        return Store(self.access(s.access), self.value(s.value), s.mode)


def operands(value: Value) -> tuple[Value, ...]:
    """Return the values that must be computed before a value: its arguments, or the index values of a load."""
    if value.op == "load":
        return tuple(access_values(value.attr))
    if value.op == "index":
        return tuple(v for v, _ in value.attr.gather)
    return value.args


def may_collide(store: Store, axes: tuple[Axis, ...]) -> bool:
    """Return whether several iterations may write one element."""
    used = {a for a, _ in store.access.flat().terms}
    gathers = any(index.gather for index in store.access.index)
    return store.mode != "own" and (gathers or any(a.extent > 1 and a.id not in used for a in axes))


def access_values(access: Access) -> list[Value]:
    """Return the gathered values of an access: in its indices, then in its guards."""
    values = [v for affine in access.index for v, _ in affine.gather]
    if access.guard:
        values += [v for affine, _, _ in access.guard for v, _ in affine.gather]
    return values


def access_axes(access: Access) -> set[int]:
    """Return the ids of the axes in the indices and guards of an access."""
    axes = {a for affine in access.index for a, _ in affine.terms}
    axes.update(a for affine, _, _ in access.guard for a, _ in affine.terms)
    return axes


def dependencies(value: Value, known: dict[int, frozenset]) -> frozenset:
    """Return the axis ids and ("acc", id) that a value depends on. ``known`` caches results by identity."""
    if id(value) not in known:
        for v in walk([value], known):
            result: set = set().union(*[known[id(a)] for a in operands(v)])
            if v.op == "load":
                result |= access_axes(v.attr)
            elif v.op == "index":
                result |= {a for a, _ in v.attr.terms}
            elif v.op == "acc":
                result.add(("acc", v.attr))
            known[id(v)] = frozenset(result)
    return known[id(value)]


def values_outside_stores(stage: Stage | Contraction | Chain) -> list[Value]:
    """Return every expression of a stage outside of its stores."""
    if isinstance(stage, Contraction):
        return [stage.a, stage.b]
    if isinstance(stage, Chain):
        guards = [v for affine, _, _ in stage.guards for v, _ in affine.gather]
        return [*(v for i in stage.inner for v in (i.a, i.b)), *guards, *stage.middle, *(o.b for o in stage.outer)]
    return [r.value for r in stage.reductions]


def stores_of(stage: Stage | Contraction | Chain) -> tuple[Store, ...]:
    """Return all stores of a stage, in order."""
    if isinstance(stage, Chain):
        return (*(s for o in stage.outer for s in o.stores), *stage.stores)
    return stage.stores


def roots(stages: Iterable[Stage | Contraction | Chain]) -> list[Value]:
    """Return every expression of the stages, including index values of stores."""
    out: list[Value] = []
    for stage in stages:
        out += values_outside_stores(stage)
        for s in stores_of(stage):
            out.append(s.value)
            out += access_values(s.access)
    return out


def axes_of(stage: Stage | Contraction | Chain) -> tuple[Axis, ...]:
    """Return the axes of a stage, without the shared axes of its phase."""
    if isinstance(stage, Contraction):
        return (*stage.batch, *stage.m, *stage.n, *stage.k)
    if isinstance(stage, Chain):
        own = (*(i.k for i in stage.inner), *(o.n for o in stage.outer))
        return (*stage.batch, *stage.rows, *stage.columns, *(a for axes in own for a in axes))
    return (*stage.axes, *(a for r in stage.reductions for a in r.axes))


def iterate_values(values: Iterable[Value], seen: set[int] | None = None) -> Iterator[Value]:
    """Yield each value below ``values`` once, users before operands. Ids in ``seen`` are skipped; visited ids are added to it."""
    seen = set() if seen is None else seen
    stack = list(values)
    while stack:
        v = stack.pop()
        if id(v) not in seen:
            seen.add(id(v))
            yield v
            stack.extend(operands(v))


def loads(values: Iterable[Value], seen: set[int] | None = None) -> Iterator[Access]:
    """Yield every access that the values read, including gathered indices, in the order of :func:`iterate_values`."""
    return (v.attr for v in iterate_values(values, seen) if v.op == "load")


def iterate_topmost(values: Iterable[Value], wanted: Callable[[Value], bool]) -> Iterator[Value]:
    """Yield the topmost values for which ``wanted`` holds, and nothing below them."""
    seen: set[int] = set()
    stack = list(values)
    while stack:
        v = stack.pop()
        if id(v) not in seen:
            seen.add(id(v))
            if wanted(v):
                yield v
            else:
                stack.extend(operands(v))


def walk(values: list[Value], known: Container[int] = ()) -> list[Value]:
    """Return ``values`` and all their operands, each once and after its own operands. Values whose ids are ``known`` are left
    out, with their operands."""
    seen: set[int] = set()
    order: list[Value] = []
    stack: list[Value | None] = list(reversed(values))  # a None on top of a value marks that its operands have been pushed
    while stack:
        v = stack.pop()
        if v is None:
            done = stack.pop()
            assert done is not None
            order.append(done)
        elif id(v) not in seen and id(v) not in known:
            seen.add(id(v))
            below = operands(v)
            if below:
                stack += (v, None)
                stack.extend([a for a in below if id(a) not in seen])
            else:
                order.append(v)
    return order
