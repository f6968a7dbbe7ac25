"""Expansion of a node at an index: an expression over loads, numbers and complete reductions.

Every value that a kernel stores is expanded at the index at which it is stored. Each primitive's rule turns an index of its
result into indices of its operands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.dtypes.formats import FLOATS, INT32, Format
from weft.dtypes.rounding import rounded_number
from weft.graph.node import Node, Shape
from weft.graph.primitives.formulas import count_index
from weft.graph.primitives.table import CONSTANT, SCALAR
from weft.kernel import index as ix
from weft.kernel.expressions import INT64, Machine, tag
from weft.kernel.index import ZERO, Guard, Index
from weft.kernel.ir import Access, Affine, Axis, Buffer, Reduction, Store, Value, axis_index
from weft.kernel.summation import reduction_order, shape_reduction_order
from weft.kernel.target import Order
from weft.schedule import reasons
from weft.schedule.fusion_graph import FusionGraph
from weft.schedule.group_structure import Structure, is_reduction, reduces
from weft.schedule.one_element_sums import load_single_element
from weft.schedule.reasons import NotFusible

INDEX = INT32  # format of a position in a window


@dataclass(slots=True)
class EarlierReduction:
    """A reduction that an earlier phase computed at ``index`` as ``value``.

    ``stores`` write it to ``buffer`` if a later phase reads it.
    """

    index: Index
    value: Value
    stores: list[Store]
    buffer: Buffer | None = None


@dataclass(eq=False, slots=True)
class Pending:
    """A store whose buffer has no number yet."""

    node: Node
    index: Index
    guard: tuple[Guard, ...]
    value: Value
    mode: str = "set"


class Scope:
    """The state of one phase under construction.

    at: token -> index of the shared axes. accs: reduction -> its value. stages: (level, extents) -> (axes, reductions, stores).
    """

    def __init__(self) -> None:
        self.axes: list[Axis] = []
        self.at: dict[int, Affine] = {}
        self.memo: dict[tuple, Value] = {}
        self.accs: dict[Node, Value] = {}
        self.stages: dict[tuple, tuple[tuple[Axis, ...], list[Reduction], list]] = {}


class Expander:
    """Expands the nodes of one group and collects the kernel's inputs, scalars, checks and axes."""

    def __init__(self, view: FusionGraph, structure: Structure) -> None:
        self.view = view
        self.structure = structure
        self.m = Machine()
        self.extents: dict[int, int] = {}
        self.inputs: dict[tuple[Node, Shape], Buffer] = {}
        self.scalars: dict[Node, int] = {}
        self.scratch: list[Buffer] = []
        self.reductions = 0
        self.gathers = False
        self.sites: dict[Node, int] = {}  # checked indices -> their numbers
        self.fully_checked: set[Node] = set()  # checked indices of which every element is checked
        self.checked_before: set[Node] = set()  # checked indices that an earlier phase has checked
        self.complete: dict[Node, Value] = {}  # full reductions, readable after their phase
        self.earlier_reductions: dict[Node, EarlierReduction] = {}  # the other reductions of earlier phases
        self.product: tuple[Node, Index, Value] | None = None
        self.scope = Scope()

    def axis(self, extent: int) -> Axis:
        axis = Axis(len(self.extents), extent)
        self.extents[axis.id] = extent
        return axis

    def at(self, node: Node, index: Index, guards: tuple[Guard, ...] = ()) -> Value:
        """Return the value of ``node`` at ``index``. Memory is read only where the guards hold."""
        key: tuple = (node, index, guards)
        if self.gathers:  # Values are compared by identity: hashing one would walk its whole tree
            key = (node, tuple(map(tag, index)), tuple([(tag(a), lo, hi) for a, lo, hi in guards]))
        value = self.scope.memo.get(key)
        if value is None:
            value = self.scope.memo[key] = self._expand(node, index, guards)
        return value

    def _expand(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        """Expand a node that is not in ``memo``: memory, numbers and reductions here, other nodes by their rule or formula."""
        op = node.op
        if op is SCALAR:
            return self.m.scalar(self.scalars.setdefault(node, len(self.scalars)), node.dtype)
        if self.product is not None and node is self.product[0]:
            if self._without_unit_axes(index) != self._without_unit_axes(self.product[1]) or guards:
                raise NotFusible(reasons.OTHER_INDEX)
            return self.product[2]
        if node not in self.structure.members and (self.view.is_real(node) or self.view.is_stored(node)):
            return self.load(node, node.shape, index, guards)
        if node.size == 0:
            return self.m.const(0, node.dtype)
        if op is CONSTANT:
            return self.m.const(node.params["value"], node.dtype)
        if is_reduction(node):
            return self._expand_reduction(node, index) if reduces(node) else self._inline_reduction(node, index, guards)
        value = self._in_memory(node, index, guards) if op.same_memory else None
        if value is None:
            value = op.at(self, node, index, guards) if op.at is not None else self._elementwise(node, index, guards)
        if value is None:
            raise NotFusible(reasons.RESHAPE if op.same_memory else reasons.OTHER_INDEX)
        return value

    def load(self, base: Node, shape: Shape, index: Index, guards: tuple[Guard, ...] = (), fill: Any = 0) -> Value:
        """Return an element of the memory of ``base``, read under ``shape``."""
        key = (base, shape)
        buffer = self.inputs.get(key)
        if buffer is None:
            buffer = self.inputs[key] = Buffer(len(self.inputs), base.dtype, shape)
        index = tuple([ZERO if n == 1 else i for i, n in zip(index, shape, strict=True)])
        return self.m.load(Access(buffer, index, guards, fill))

    def _without_unit_axes(self, index: Index) -> Index:
        """Return the index without axes of extent 1, which are always 0."""
        return tuple([Affine(i.const, tuple([(a, c) for a, c in i.terms if self.extents[a] != 1]), i.gather) for i in index])

    def guard(self, node: Node, index: Index, guards: tuple[Guard, ...], own: tuple[Guard, ...], fill: Any) -> Value:
        """Return ``node`` where the guards ``own`` hold and ``fill`` elsewhere."""
        if not own:
            return self.at(node, index, guards)
        if ix.never_holds(own, self.extents):
            return self.m.const(fill, node.dtype)
        value = self.at(node, index, guards + own)
        rounded = rounded_number(fill, value.dtype)
        if rounded != fill == fill and value.dtype in FLOATS:  # float8_e8m0fnu has no 0
            value = self.m.cast(value, value.dtype.computed)
        elif value.op == "load" and value.attr.guard == guards + own and not guards:
            a = value.attr
            return self.m.load(Access(a.buffer, a.index, a.guard, rounded))
        if value.op == "const" and value.attr == fill and math.copysign(1, value.attr) == math.copysign(1, fill):
            return value
        inside = self.m.guards_hold(own)
        assert inside is not None
        return self.m.select(inside, value, self.m.const(fill, value.dtype))

    def _elementwise(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value | None:
        if node.op.formula is None:
            return None
        args = [self.at(i, index if i.shape == node.shape else ix.broadcast(index, i.shape), guards) for i in node.inputs]
        return node.op.formula(self.m, *args, **node.params)

    def _in_memory(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value | None:
        """Return the value of a reshape of memory or of a uniform number, read under the new shape.

        None for any other operand.
        """
        below = node.inputs[0]
        if below in self.view.uniform:
            return self.at(below, (ZERO,) * len(below.shape), guards)
        base = self.view.memory(below)
        if base is not None and base not in self.structure.members:
            return self.load(base, node.shape, index, guards)
        return None

    def position(self, operand: Node, index: Index, guards: tuple[Guard, ...], extent: int) -> Affine:
        """Return a gathered index as an Affine.

        Unless it is certainly in range, negative values count from the end and the rest is clamped.
        """
        m = self.m
        value = self.count_index(operand, index, guards, extent)
        if not self._is_in_range(value, extent):
            value = m.min(m.max(value, m.const(0, INT64)), m.const(extent - 1, INT64))
        elif value.op == "index":  # a position of a loop is not gathered
            return value.attr  # type: ignore[no-any-return]
        return Affine(value.attr) if value.op == "const" else Affine(0, (), ((value, 1),))

    def count_index(self, operand: Node, index: Index, guards: tuple[Guard, ...], extent: int) -> Value:
        """Return a gathered index, counted from the end where it is negative."""
        value = self.at(operand, index, guards)
        places = ix.affine_of(value)
        if places is None:
            self.gathers = True
        else:
            value = self.m.index(places)
        return value if self._is_in_range(value, extent) else count_index(self.m, value, extent)

    def _is_in_range(self, value: Value, extent: int) -> bool:
        low, high = ix.value_bounds(value, self.extents)
        return value.dtype == INT64 and 0 <= low and high < extent

    def check(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        """Return a checked index. Where the guards do not hold it is not read and may have any value."""
        extent = node.params["extent"]
        value = self.at(node.inputs[0], index, guards)
        self.gathers = True
        if self._is_in_range(value, extent):
            return value
        value = count_index(self.m, value, extent, node.params["from_end"])
        if node in self.checked_before:
            return self.m.check(value, extent, None)
        places = [i.axis() for i, n in zip(index, node.shape, strict=True) if n != 1]
        if not guards and len(set(places)) == len(places) and all(
            a is not None and self.extents[a] == n for a, n in zip(places, [n for n in node.shape if n != 1], strict=True)
        ):
            self.fully_checked.add(node)
        return self.m.check(value, extent, self.sites.setdefault(node, len(self.sites)), self.m.guards_hold(guards))

    def _expand_reduction(self, node: Node, index: Index) -> Value:
        """Return the value of a reduction: complete, loaded from memory, or computed in a stage of this phase."""
        facts = self.structure.facts[node]
        if not facts.needs:
            return self.complete[node]
        scope = self.scope
        for token, i in zip(self.structure.tokens(node), index, strict=True):
            if token and scope.at.get(token) != i:
                raise NotFusible(reasons.OTHER_INDEX)
        value = scope.accs.get(node)
        if value is None:
            held = self.earlier_reductions.get(node)
            if held is not None and node.inputs[0].size >= self.view.target.fusion.factor * node.size:
                value = self._load_held(node, index, held)
            else:
                value = self._shared_reduction(node, index, facts.depth)
            scope.accs[node] = value
        return value

    def _load_held(self, node: Node, index: Index, held: EarlierReduction) -> Value:
        """Load a reduction of an earlier phase from memory, which is cheaper than reading its whole operand again."""
        if held.buffer is None:
            held.buffer = Buffer(len(self.scratch), node.dtype, node.shape, "kernel")
            self.scratch.append(held.buffer)
            held.stores.append(Store(Access(held.buffer, held.index), held.value))
        return self.m.load(Access(held.buffer, tuple([ZERO if n == 1 else i for i, n in zip(index, node.shape, strict=True)])))

    def _inline_reduction(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        """Return a reduction of one element, or of a small window, as an expression."""
        if node.op.kind == "window":
            return self._unroll_window(node, index, guards)
        if node.op.monoid in ("argmax", "argmin"):
            return self.m.const(0, node.dtype)
        if not node.params["keepdims"]:
            rest = iter(index)
            index = tuple([ZERO if d in node.params["axes"] else next(rest) for d in range(len(node.inputs[0].shape))])
        return self.m.cast(self.at(node.inputs[0], index, guards), node.dtype)

    def _shared_reduction(self, node: Node, index: Index, level: int) -> Value:
        """Add a reduction to the stage of its level and return its value."""
        index = tuple([ZERO if n == 1 else i for i, n in zip(index, node.shape, strict=True)])  # it may stand beside other parts
        if node.op.kind == "window":
            extents = node.params["window"]
            axes, reductions, _ = self.stage(level, extents)
            value, monoid = self.window_value(node, index, tuple([axis_index(a) for a in axes]))
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
                inner.append(axis_index(own[d]) if d in own else outer)
            value, monoid = self.at(operand, tuple(inner)), node.op.monoid
            if monoid == "sum" and len(axes) == 1 and value.dtype == node.dtype:
                element = load_single_element(self.m, value, axes[0])
                if element is not None:
                    self.gathers = True
                    return element
        result = self.reduce(node, axes, monoid, value, carried=False, into=reductions)
        if node.op.kind == "window" and monoid == "argmax":  # padding is not above -inf
            return self.m.max(result, self.m.cast(self._first_inside(node, index), node.dtype))
        return result

    def window_value(self, node: Node, index: Index, window: Index, guards: tuple[Guard, ...] = ()) -> tuple[Value, str]:
        """Return the operand of a reduce_window at output ``index`` and window position ``window``, and the monoid."""
        p = node.params
        operand = node.inputs[0]
        lead = index[: len(index) - len(p["window"])]
        inner, own = list(lead), []
        spatial = zip(index[len(lead):], window, p["stride"], p["padding"], operand.shape[len(lead):], strict=True)
        for i, w, s, (low, _), n in spatial:
            j = i.times(s).plus(w).plus(Affine(-low))
            if not ix.always_holds((j, 0, n), self.extents):
                own.append((j, 0, n))
            inner.append(j)
        monoid = {"sum": "sum", "max": "max", "argmax": "argmax"}[p["kind"]]
        fill = 0 if monoid == "sum" else operand.dtype.least
        return self.guard(operand, tuple(inner), guards, tuple(own), fill), monoid

    def _unroll_window(self, node: Node, index: Index, guards: tuple[Guard, ...]) -> Value:
        """Reduce a window of a few elements without a loop, in the order of the loop."""
        m, kind = self.m, node.params["kind"]
        wide = node.inputs[0].dtype.computed
        best: Value | None = None
        at: Value | None = None
        for k, place in enumerate(np.ndindex(*node.params["window"])):
            value, _ = self.window_value(node, index, tuple([Affine(int(q)) for q in place]), guards)
            value = m.cast(value, wide)
            if best is None:
                best, at = value, self._first_inside(node, index)  # where all are -inf, nothing is larger than padding
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

    def _first_inside(self, node: Node, index: Index) -> Value:
        """Return the position in a window of its first element that is not padding."""
        m, p = self.m, node.params
        first = m.const(0, INDEX)
        for d, (i, s, (low, _)) in enumerate(zip(index[len(index) - len(p["window"]):], p["stride"], p["padding"], strict=True)):
            if low > s * ix.bounds(i, self.extents)[0]:
                begin = m.mul(m.cast(m.index(i), INDEX), m.const(s, INDEX))
                outside = m.max(m.sub(m.const(low, INDEX), begin), m.const(0, INDEX))
                first = m.add(first, m.mul(outside, m.const(math.prod(p["window"][d + 1 :]), INDEX)))
        return first

    def reduce(
        self, node: Node, axes: tuple[Axis, ...], monoid: str, value: Value, carried: bool, into: list[Reduction],
        dtype: Format | None = None,
    ) -> Value:
        """Add a Reduction to the stage's ``into`` and return the value of its result, of the node's dtype or ``dtype``."""
        dtype = dtype or node.dtype
        accum = value.dtype.computed
        if monoid in ("sum", "prod"):
            accum = dtype.computed
        value = self.m.cast(value, value.dtype.computed if value.dtype.narrow else accum)
        orders = self.view.target.orders
        if "axes" not in node.params:
            order = reduction_order(axes[-1].extent if axes else 1, True, orders)
        else:
            order = shape_reduction_order(node.inputs[0].shape, node.params["axes"], orders)
        if monoid == "prod" and value.dtype in FLOATS:  # separate lanes may reach 0 and infinity, whose product is NaN
            order = Order(1, max(1, math.prod([a.extent for a in axes])))
        for r in into:
            if r.value is value and (r.monoid, r.axes, r.dtype, r.order) == (monoid, axes, dtype, order):
                return self.m.acc(r.id, dtype)
        number = self.reductions
        self.reductions += 1
        into.append(Reduction(number, axes, monoid, value, value.dtype, dtype, order, carried))
        return self.m.acc(number, dtype)

    def stage(self, level: int, extents: Shape) -> tuple[tuple[Axis, ...], list[Reduction], list]:
        """Return the stage of a level whose own loops have these extents, creating it if it does not exist."""
        key = (level, extents)
        stage = self.scope.stages.get(key)
        if stage is None:
            stage = self.scope.stages[key] = (tuple([self.axis(n) for n in extents]), [], [])
        return stage


