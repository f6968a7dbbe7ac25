"""The value of a node at an index, as an expression over loads, numbers and complete reductions.

This is the reader's side of fusion: whatever a kernel stores is expanded at the index it is stored at, and
each primitive says how an index of its result becomes indices of its operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.graph.node import Node, Shape
from weft.graph.primitives.formulas import counted
from weft.graph.primitives.kinds import FLOAT32, FLOATS, NARROW, accumulator, lowest
from weft.graph.primitives.table import SCALAR
from weft.kernel import index as ix
from weft.kernel.index import ZERO, Guard, Index
from weft.kernel.ir import Access, Affine, Axis, Buffer, Order, Reduction, Store, Value, along
from weft.kernel.summation import reduction_order
from weft.kernel.values import INT64, Machine, tag
from weft.kernel.walk import each
from weft.schedule import reasons
from weft.schedule.chosen import chosen
from weft.schedule.facts import is_reduction, reduces
from weft.schedule.reasons import Boundary
from weft.schedule.structure import Structure
from weft.schedule.view import View

UINT64 = np.dtype(np.uint64)
INDEX = np.dtype(np.int32)  # of a place in a window


@dataclass(slots=True)
class Held:
    """A reduction that an earlier phase computed at ``index`` as ``value``; where asked for, ``stores`` keep it in ``buffer``."""

    index: Index
    value: Value
    stores: list[Store]
    buffer: Buffer | None = None


class Scope:
    """One phase under construction. at: token -> index of the shared axes. stage(level, extents) gives a stage's axes."""

    def __init__(self) -> None:
        self.axes: list[Axis] = []
        self.at: dict[int, Affine] = {}
        self.memo: dict[tuple, Value] = {}
        self.accs: dict[Node, Value] = {}
        self.stages: dict[tuple, tuple[tuple[Axis, ...], list[Reduction], list]] = {}


class Expander:
    """Expands the nodes of one group; collects the kernel's inputs, scalars and axes as it goes."""

    def __init__(self, view: View, structure: Structure) -> None:
        self.view = view
        self.structure = structure
        self.m = Machine()
        self.extents: dict[int, int] = {}
        self.inputs: dict[tuple[Node, Shape], Buffer] = {}
        self.scalars: dict[Node, int] = {}
        self.scratch: list[Buffer] = []
        self.reductions = 0
        self.gathers = False
        self.sites: dict[Node, int] = {}  # checked indices, by number
        self.covered: set[Node] = set()  # those of which every element is checked
        self.checked: set[Node] = set()  # those that an earlier phase has checked
        self.complete: dict[Node, Value] = {}  # full reductions, readable after their phase
        self.held: dict[Node, Held] = {}  # the others, of earlier phases
        self.product: tuple[Node, Index, Value] | None = None
        self.scope = Scope()
        self._rules: dict[str, Callable[[Node, Index, tuple[Guard, ...]], Value]] = {
            "permute": self._permute, "broadcast_to": self._broadcast_to, "reshape": self._reshape, "slice": self._slice,
            "pad": self._pad, "concat": self._concat, "iota": self._iota, "gather": self._gather,
            "in_bounds": self._in_bounds, "slice_set": self._slice_set, "window_gather": self._window_gather,
            "random_bits": self._random_bits,
        }

    def axis(self, extent: int) -> Axis:
        axis = Axis(len(self.extents), extent)
        self.extents[axis.id] = extent
        return axis

    def at(self, node: Node, index: Index, guards: tuple[Guard, ...] = ()) -> Value:
        """The value of ``node`` where ``index`` points; memory is touched only where the guards hold."""
        key: tuple = (node, index, guards)
        if self.gathers:  # Values are compared by identity: a hash would walk them as trees
            key = (node, tuple(map(tag, index)), tuple([(tag(a), lo, hi) for a, lo, hi in guards]))
        value = self.scope.memo.get(key)
        if value is None:
            value = self.scope.memo[key] = self._expand(node, index, guards)
        return value

    def _expand(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        if self.product is not None and node is self.product[0]:
            if self._plain(index) != self._plain(self.product[1]) or guards:
                raise Boundary(reasons.OTHER_INDEX)
            return self.product[2]
        if node not in self.structure.members:
            if self.view.is_real(node) or self.view.stored(node):
                if node.op is SCALAR:
                    return self.m.scalar(self.scalars.setdefault(node, len(self.scalars)), node.dtype)
                return self.load(node, node.shape, index, guards)
            if node.op is SCALAR:
                return self.m.scalar(self.scalars.setdefault(node, len(self.scalars)), node.dtype)
        if node.size == 0:
            return self.m.const(0, node.dtype)
        name = node.op.name
        if name == "constant":
            return self.m.const(node.params["value"], node.dtype)
        if name == "scalar":
            return self.m.scalar(self.scalars.setdefault(node, len(self.scalars)), node.dtype)
        if is_reduction(node):
            return self._reduced(node, index, guards) if reduces(node) else self._single(node, index, guards)
        rule = self._rules.get(name)
        if rule is not None:
            return rule(node, index, guards)
        if node.op.kind == "elementwise":
            return self._elementwise(node, index, guards)
        raise Boundary(reasons.HOST)

    def load(self, base: Node, shape: Shape, index: Index, guards: tuple[Guard, ...] = (), fill: Any = 0) -> Value:
        key = (base, shape)
        buffer = self.inputs.get(key)
        if buffer is None:
            buffer = self.inputs[key] = Buffer(len(self.inputs), base.dtype, shape)
        index = tuple([ZERO if n == 1 else i for i, n in zip(index, shape, strict=True)])
        return self.m.load(Access(buffer, index, guards, fill))

    def _plain(self, index: Index) -> Index:
        """Without the axes of extent 1, which are always 0."""
        return tuple([
            Affine(i.const, tuple([(a, c) for a, c in i.terms if self.extents[a] != 1]), i.gather) for i in index
        ])

    def guarded(self, node: Node, index: Index, guards: tuple[Guard, ...], own: tuple[Guard, ...], fill: Any) -> Value:
        """``node`` where the guards ``own`` hold, elsewhere ``fill``."""
        if not own:
            return self.at(node, index, guards)
        if ix.never(own, self.extents):
            return self.m.const(fill, node.dtype)
        value = self.at(node, index, guards + own)
        if value.op == "load" and value.attr.guard == guards + own and not guards:
            a = value.attr
            return self.m.load(Access(a.buffer, a.index, a.guard, value.dtype.type(fill).item()))
        if value.op == "const" and value.attr == fill and math.copysign(1, value.attr) == math.copysign(1, fill):
            return value
        inside = self.m.inside(own)
        assert inside is not None
        return self.m.select(inside, value, self.m.const(fill, value.dtype))

    def _elementwise(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        args = [
            self.at(i, index if i.shape == node.shape else ix.broadcast(index, i.shape), guards) for i in node.inputs
        ]
        assert node.op.formula is not None
        return node.op.formula(self.m, *args, **node.params)

    def _permute(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        return self.at(node.inputs[0], ix.permute(index, node.params["axes"]), guards)

    def _broadcast_to(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        return self.at(node.inputs[0], ix.broadcast(index, node.inputs[0].shape), guards)

    def _reshape(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        below = node.inputs[0]
        if below in self.view.uniform:
            return self.at(below, (ZERO,) * len(below.shape), guards)
        base = self.view.memory(below)
        if base is not None and base not in self.structure.members:
            return self.load(base, node.shape, index, guards)
        inner = ix.reshape(index, node.shape, below.shape, self.extents)
        if inner is None:
            raise Boundary(reasons.RESHAPE)
        return self.at(below, inner, guards)

    def _slice(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        return self.at(node.inputs[0], ix.slice_(index, node.params["start"], node.params["step"]), guards)

    def _pad(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        below = node.inputs[0]
        inner, own = ix.pad(index, node.params["low"], below.shape, self.extents)
        if below.size == 0:
            return self.m.const(node.params["value"], node.dtype)
        return self.guarded(below, inner, guards, own, node.dtype.type(node.params["value"]).item())

    def _concat(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        axis = node.params["axis"]
        low, high = ix.bounds(index[axis], self.extents)
        start, parts = 0, []
        for operand in node.inputs:
            n = operand.shape[axis]
            if n and start <= high and low < start + n:
                parts.append((operand, start, n))
            start += n
        out: Value | None = None
        for operand, begin, n in reversed(parts):
            moved = index[axis].plus(Affine(-begin))
            own = (moved, 0, n)
            inner = (*index[:axis], moved if n != 1 else ZERO, *index[axis + 1:])
            if ix.always(own, self.extents):
                out = self.at(operand, inner, guards)
                continue
            value = self.at(operand, inner, (*guards, own))
            if out is None:
                out = value
            else:
                inside = self.m.lt(self.m.index(index[axis]), self.m.const(begin + n, INT64))
                out = self.m.select(inside, value, out)
        return self.m.const(0, node.dtype) if out is None else out  # nothing there: the guards never hold

    def _iota(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        return self.m.cast(self.m.index(index[node.params["axis"]]), node.dtype)

    def position(self, operand: Node, index: Index, guards: tuple[Guard, ...], extent: int) -> Affine:
        """A gathered index: where it is not known to be in range, negative counts from the end, and the rest is clamped."""
        m = self.m
        value = self.counted(operand, index, guards, extent)
        if not self._inside(value, extent):
            value = m.min(m.max(value, m.const(0, INT64)), m.const(extent - 1, INT64))
        return Affine(value.attr) if value.op == "const" else Affine(0, (), ((value, 1),))

    def counted(self, operand: Node, index: Index, guards: tuple[Guard, ...], extent: int) -> Value:
        """A gathered index, counted from the end where it is negative."""
        value = self.at(operand, index, guards)
        self.gathers = True
        return value if self._inside(value, extent) else counted(self.m, value, extent)

    def _inside(self, value: Value, extent: int) -> bool:
        low, high = ix.value_bounds(value, self.extents)
        return value.dtype == INT64 and 0 <= low and high < extent

    def _in_bounds(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        """A checked index; where the guards do not hold nobody asks for it, and it may be anything."""
        extent = node.params["extent"]
        value = self.at(node.inputs[0], index, guards)
        self.gathers = True
        if self._inside(value, extent):
            return value
        value = counted(self.m, value, extent, node.params["from_end"])
        if node in self.checked:
            return self.m.check(value, extent, None)
        places = [i.axis() for i, n in zip(index, node.shape, strict=True) if n != 1]
        if not guards and len(set(places)) == len(places) and all(
            a is not None and self.extents[a] == n for a, n in zip(places, [n for n in node.shape if n != 1], strict=True)
        ):
            self.covered.add(node)
        return self.m.check(value, extent, self.sites.setdefault(node, len(self.sites)), self.m.inside(guards))

    def _gather(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        source, indices, axes = node.inputs[0], node.inputs[1:], node.params["axes"]
        rank = max((len(i.shape) for i in indices), default=0)
        inner: list[Affine | None] = [None] * len(source.shape)
        for axis, operand in zip(axes, indices, strict=True):
            inner[axis] = self.position(operand, ix.broadcast(index[:rank], operand.shape), guards, source.shape[axis])
        rest = iter(index[rank:])
        value = self.at(source, tuple([next(rest) if i is None else i for i in inner]), guards)
        checks = [v for i in inner if i is not None for v, _ in i.gather if v.op == "check"]
        return self._with(value, checks) if checks else value

    def _with(self, value: Value, checks: list[Value]) -> Value:
        """``value``, which is made only after all ``checks``: an index along which nothing changes is checked as well."""
        m, below = self.m, {id(v) for v in each([value])}
        for check in checks:
            if id(check) not in below:
                other = m.const(int(value.op == "const" and value.attr == 0), value)  # never taken
                value = m.select(m.ge(check, m.const(0, INT64)), value, other)
        return value

    def _slice_set(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        base, new = node.inputs
        inner, own = [], []
        for i, start, step, n in zip(index, node.params["start"], node.params["step"], new.shape, strict=True):
            j = i.plus(Affine(-start)).times(step)  # step is 1 or -1
            inner.append(j)
            if not ix.always((j, 0, n), self.extents):
                own.append((j, 0, n))
        if new.size == 0:
            return self.at(base, index, guards)
        if ix.never(tuple(own), self.extents):
            return self.at(base, index, guards)
        if not own:
            return self.at(new, tuple(inner), guards)
        inside = self.m.inside(tuple(own))
        assert inside is not None
        return self.m.select(inside, self.at(new, tuple(inner), guards + tuple(own)), self.at(base, index, guards))

    def _random_bits(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        key, base = (self.at(i, (), guards) for i in node.inputs)
        flat = ZERO
        for i, n in zip(index, node.shape, strict=True):
            flat = flat.times(n).plus(i)
        return self.m.philox(key, base, self.m.cast(self.m.index(flat), UINT64))

    def _window_gather(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        """The sum over the few windows that cover a position; one term for each distance between window and position."""
        p, m = node.params, self.m
        g = node.inputs[0]
        where = node.inputs[1] if len(node.inputs) > 1 else None
        window, stride = p["window"], p["stride"]
        count = len(window)
        lead = index[: len(index) - count]
        terms: list[tuple[list[Affine], list[Affine], list[Guard]]] = [([], [], [])]
        for d in range(count):
            i = index[len(lead) + d].plus(Affine(p["padding"][d][0]))
            s, w, n = stride[d], window[d], g.shape[len(lead) + d]
            pair = (i, ZERO) if s == 1 else ix.split(i, s, self.extents)
            if pair is None:
                raise Boundary(reasons.OTHER_INDEX)
            quotient, rest = pair
            grown = []
            for j in range(-(-w // s)):
                o, q = quotient.plus(Affine(-j)), rest.plus(Affine(j * s))
                own: list[Guard] = [x for x in ((o, 0, n), (q, 0, w)) if not ix.always(x, self.extents)]
                low, high = ix.bounds(o, self.extents)
                if high < 0 or low >= n or ix.bounds(q, self.extents)[0] >= w:
                    continue
                o = ZERO if n == 1 else o
                grown += [([*a, o], [*b, q], [*c, *own]) for a, b, c in terms]
            terms = grown
        total: Value | None = None
        for at, inside, own in terms:
            value = self.guarded(g, (*lead, *at), guards, tuple(own), 0)
            if where is not None:
                flat = ZERO
                for q, w in zip(inside, window, strict=True):
                    flat = flat.times(w).plus(q)
                chosen = self.at(where, (*lead, *at), guards + tuple(own))
                here = m.eq(chosen, m.cast(m.index(flat), where.dtype))
                value = m.select(here, value, m.const(0, value.dtype))
            total = value if total is None else m.add(total, value)
        return m.const(0, node.dtype) if total is None else total

    def _reduced(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        facts = self.structure.facts[node]
        if not facts.needs:
            return self.complete[node]
        scope = self.scope
        for token, i in zip(self.structure.tokens(node), index, strict=True):
            if token and scope.at.get(token) != i:
                raise Boundary(reasons.OTHER_INDEX)
        value = scope.accs.get(node)
        if value is None:
            held = self.held.get(node)
            if held is not None and node.inputs[0].size >= self.view.target.fusion.factor * node.size:
                value = self._kept(node, index, held)
            else:
                value = self._shared_reduction(node, index, facts.depth)
            scope.accs[node] = value
        return value

    def _kept(self, node: Node, index: Index, held: Held) -> Value:
        """A reduction of an earlier phase, from memory: cheaper than to read all of its operand again."""
        if held.buffer is None:
            held.buffer = Buffer(len(self.scratch), node.dtype, node.shape, "kernel")
            self.scratch.append(held.buffer)
            held.stores.append(Store(Access(held.buffer, held.index), held.value))
        return self.m.load(Access(held.buffer, tuple([ZERO if n == 1 else i for i, n in zip(index, node.shape, strict=True)])))

    def _single(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        if node.op.name == "reduce_window":
            return self._unrolled(node, index, guards)
        if node.op.monoid in ("argmax", "argmin"):
            return self.m.const(0, node.dtype)
        if not node.params["keepdims"]:
            rest = iter(index)
            index = tuple([ZERO if d in node.params["axes"] else next(rest) for d in range(len(node.inputs[0].shape))])
        return self.m.cast(self.at(node.inputs[0], index, guards), node.dtype)

    def _shared_reduction(self, node: Node, index: Index, level: int) -> Value:
        if node.op.name == "reduce_window":
            extents = node.params["window"]
            axes, reductions, _ = self.stage(level, extents)
            value, monoid = self.window_value(node, index, tuple([along(a) for a in axes]))
        else:
            operand = node.inputs[0]
            reduced = node.params["axes"]
            extents = tuple([operand.shape[d] for d in reduced if operand.shape[d] != 1])
            axes, reductions, _ = self.stage(level, extents)
            own = dict(zip([d for d in reduced if operand.shape[d] != 1], axes, strict=True))
            kept = iter([i for d, i in enumerate(index) if d not in reduced] if node.params["keepdims"] else index)
            inner = []
            for d in range(len(operand.shape)):
                outer = ZERO if d in reduced else next(kept)
                inner.append(along(own[d]) if d in own else outer)
            value, monoid = self.at(operand, tuple(inner)), node.op.monoid
            if monoid == "sum" and len(axes) == 1 and value.dtype == node.dtype:
                one = chosen(self.m, value, axes[0])
                if one is not None:
                    self.gathers = True
                    return one
        return self.reduce(node, axes, monoid, value, carried=False, into=reductions)

    def window_value(self, node: Node, index: Index, window: Index, guards: tuple[Guard, ...] = ()) -> tuple[Value, str]:
        """What a reduce_window reduces at output ``index`` and window position ``window``."""
        p = node.params
        operand = node.inputs[0]
        lead = index[: len(index) - len(p["window"])]
        inner, own = list(lead), []
        spatial = zip(index[len(lead):], window, p["stride"], p["padding"], operand.shape[len(lead):], strict=True)
        for i, w, s, (low, _), n in spatial:
            j = i.times(s).plus(w).plus(Affine(-low))
            if not ix.always((j, 0, n), self.extents):
                own.append((j, 0, n))
            inner.append(j)
        monoid = {"sum": "sum", "max": "max", "argmax": "argmax"}[p["kind"]]
        fill = 0 if monoid == "sum" else lowest(operand.dtype)
        return self.guarded(operand, tuple(inner), guards, tuple(own), fill), monoid

    def _unrolled(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        """A window of a few elements, in the order that a loop would take."""
        m, kind = self.m, node.params["kind"]
        wide = accumulator(node.inputs[0].dtype)
        best: Value | None = None
        at: Value | None = None
        for k, place in enumerate(np.ndindex(*node.params["window"])):
            value, _ = self.window_value(node, index, tuple([Affine(int(q)) for q in place]), guards)
            value = m.cast(value, wide)
            if best is None:
                best, at = value, m.const(0, INDEX)
            elif kind == "sum":
                best = m.add(best, value)
            else:
                assert at is not None
                if wide in FLOATS:  # the first NaN wins; maximum and position share the comparisons
                    ahead = getattr(m, "and")(getattr(m, "not")(m.le(value, best)), m.eq(best, best))
                    best = m.select(ahead, value, best)
                else:
                    ahead = m.gt(value, best)
                    best = m.max(best, value)
                at = m.select(ahead, m.const(k, INDEX), at)
        assert best is not None and at is not None
        return m.cast(at if kind == "argmax" else best, node.dtype)

    def reduce(
        self, node: Node, axes: tuple[Axis, ...], monoid: str, value: Value, carried: bool, into: list[Reduction],
    ) -> Value:
        """Add a Reduction to a stage; returns what reads its result."""
        accum = accumulator(value.dtype)
        if monoid in ("sum", "prod"):
            accum = accumulator(node.dtype)
        value = self.m.cast(value, FLOAT32 if value.dtype in NARROW else accum)
        if "axes" not in node.params:
            run, last = (axes[-1].extent if axes else 1), True
        else:
            run, d = 1, len(node.inputs[0].shape) - 1
            last = d in node.params["axes"]
            while d in node.params["axes"]:
                run, d = run * node.inputs[0].shape[d], d - 1
        order = reduction_order(run, last, self.view.target.orders)
        if monoid == "prod" and value.dtype in FLOATS:  # lanes apart may reach 0 and infinity, whose product is NaN
            order = Order(1, max(1, math.prod([a.extent for a in axes])))
        for r in into:
            if r.value is value and (r.monoid, r.axes, r.dtype, r.order) == (monoid, axes, node.dtype, order):
                return self.m.acc(r.id, node.dtype)
        number = self.reductions
        self.reductions += 1
        into.append(Reduction(number, axes, monoid, value, value.dtype, node.dtype, order, carried))
        return self.m.acc(number, node.dtype)

    def stage(self, level: int, extents: Shape) -> tuple[tuple[Axis, ...], list[Reduction], list]:
        """The stage of a level whose own loops have these extents, made when first asked for."""
        key = (level, extents)
        found = self.scope.stages.get(key)
        if found is None:
            found = self.scope.stages[key] = (tuple([self.axis(n) for n in extents]), [], [])
        return found


