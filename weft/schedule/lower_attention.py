"""Attention as a Chain: its scores, the sums over them, and the stores of the group's results."""

from __future__ import annotations

import math
from typing import Any

from weft.dtypes.formats import BOOL, FLOAT32, UINT32, UINT64
from weft.graph.node import Node
from weft.kernel.index import ZERO, Index
from weft.kernel.ir import Affine, Axis, Chain, Inner, Outer, Phase, Softmax, Value, axis_index
from weft.schedule.expand import Expander, Pending
from weft.schedule.group_structure import Structure

NEGATIVE_INFINITY = -math.inf


def phases(x: Expander, st: Structure) -> list[Phase]:
    """Return the phase of an attention group: one chain for all its results."""
    node = st.nodes[0]
    attention = _Attention(x, node)
    results = {n.params["result"]: n for n in st.nodes}
    return [Phase((), (attention.forward(results) if node.op.kind == "attention" else attention.gradient(results),))]


class _Attention:
    """The axes and the scores that all results share.

    Query heads that share keys and values are rows of one chain.
    """

    def __init__(self, x: Expander, node: Node) -> None:
        self.x, self.m = x, x.m
        self.params = node.params
        self.masks = node.inputs[3:] if node.op.kind == "attention" else node.inputs[6:]
        self.q, self.k, self.v = node.inputs[:3]
        self.extra = node.inputs[3:6]
        self.wide = self.q.dtype.computed
        self.lead = [x.axis(n) for n in self.q.shape[:-2]]
        shared = [c == 1 != b for b, c in zip(self.q.shape[:-2], self.k.shape[:-2], strict=True)]
        self.batch = tuple([a for a, s in zip(self.lead, shared, strict=True) if not s])
        self.i, self.j = x.axis(self.q.shape[-2]), x.axis(self.k.shape[-2])
        self.rows = (*[a for a, s in zip(self.lead, shared, strict=True) if s], self.i)
        self.causal_guards = (
            (axis_index(self.i).plus(axis_index(self.j), -1), 0, self.i.extent),
        ) if self.params["causal"] else ()

    def at(self, node: Node, *last: Axis | None) -> Index:
        """Return the index of an operand: the leading dimensions, then the axes ``last``."""
        axes = (*self.lead, *last)
        return tuple([ZERO if n == 1 or a is None else axis_index(a) for a, n in zip(axes, node.shape, strict=True)])

    def read(self, node: Node, *last: Axis | None) -> Value:
        return self.x.at(node, self.at(node, *last))

    def number(self) -> int:
        self.x.reductions += 1
        return self.x.reductions - 1

    def inner(self, rows: Node, columns: Node) -> Inner:
        k = self.x.axis(rows.shape[-1])
        return Inner(self.number(), (k,), self.read(rows, self.i, k), self.read(columns, self.j, k))

    def outer(self, node: Node, value: Value, other: Node, across: bool, scaled: Value | None = None) -> Outer:
        """Return the sum of ``value`` times ``other``, stored as ``node``."""
        n = self.x.axis(other.shape[-1])
        number = self.number()
        total = self.m.acc(number, self.wide)
        total = total if scaled is None else self.m.mul(total, scaled)
        stored = Pending(node, self.at(node, self.j if across else self.i, n), (), self.m.cast(total, node.dtype))
        read = self.read(other, self.i if across else self.j, n)
        return Outer(number, across, (n,), value, read, (stored,))  # type: ignore[arg-type]

    def const(self, value: Any) -> Value:
        return self.m.const(value, self.wide)

    def score(self, product: Inner) -> Value:
        """Return the scaled score with masks applied."""
        m = self.m
        score = m.mul(m.acc(product.id, self.wide), self.const(self.params["scale"]))
        biases = self.masks if self.params["keep"] is None else self.masks[:-2]
        for mask in biases:
            if mask.dtype is not BOOL:
                score = m.add(score, m.cast(self.read(mask, self.i, self.j), self.wide))
        for mask in biases:
            if mask.dtype is BOOL:
                score = m.select(self.read(mask, self.i, self.j), score, self.const(NEGATIVE_INFINITY))
        return score

    def apply_dropout(self, value: Value) -> Value:
        """Return a weight after dropout, which is decided by the random word at the weight's position."""
        m, keep = self.m, self.params["keep"]
        if keep is None:
            return value
        flat = Affine()
        for axis in (*self.lead, self.i, self.j):
            flat = flat.times(axis.extent).plus(axis_index(axis))
        seed, base = (self.x.at(n, ()) for n in self.masks[-2:])
        word = m.philox(seed, base, m.cast(m.index(flat), UINT64))
        unit = m.mul(m.cast(m.shr(word, m.const(8, UINT32)), FLOAT32), m.const(2.0**-24, FLOAT32))
        stays = m.lt(unit, m.const(keep, FLOAT32))
        return m.select(stays, m.mul(value, self.const(1 / keep if keep else 0.0)), self.const(0.0))

    def forward(self, results: dict[str, Node]) -> Chain:
        """Return the chain of attention's results."""
        m = self.m
        product = self.inner(self.q, self.k)
        softmax = Softmax(self.score(product), self.number(), self.number(), self.number())
        top, total = (m.acc(n, self.wide) for n in (softmax.top, softmax.total))
        none = m.eq(total, self.const(0.0))
        outer: list[Outer] = []
        stores: list[Pending] = []
        if "out" in results:
            whole = m.div(self.const(1.0), m.select(none, self.const(1.0), total))
            weight = self.apply_dropout(m.acc(softmax.weight, self.wide))
            outer.append(self.outer(results["out"], weight, self.v, False, whole))
        if "lse" in results:
            lse = m.select(none, self.const(0.0), m.add(top, m.log(m.select(none, self.const(1.0), total))))
            stores.append(Pending(results["lse"], self.at(results["lse"], self.i), (), lse))
        return Chain(
            self.batch, self.rows, (self.j,), (product,), self.causal_guards, softmax, tuple(outer), self.wide,
            tuple(stores),  # type: ignore[arg-type]
        )

    def gradient(self, results: dict[str, Node]) -> Chain:
        """Return the chain of the gradients."""
        m = self.m
        cotangent, lse, delta = self.extra
        product = self.inner(self.q, self.k)
        inner = [product]
        weight = m.exp(m.sub(self.score(product), m.cast(self.read(lse, self.i), self.wide)))
        outer: list[Outer] = []
        if "value" in results:
            outer.append(self.outer(results["value"], self.apply_dropout(weight), cotangent, True))
        if results.keys() - {"value"}:
            through = self.inner(cotangent, self.v)
            inner.append(through)
            back = m.sub(self.apply_dropout(m.acc(through.id, self.wide)), m.cast(self.read(delta, self.i), self.wide))
            change = m.mul(m.mul(weight, back), self.const(self.params["scale"]))
            if "query" in results:
                outer.append(self.outer(results["query"], change, self.k, False))
            if "key" in results:
                outer.append(self.outer(results["key"], change, self.q, True))
        return Chain(self.batch, self.rows, (self.j,), tuple(inner), self.causal_guards, None, tuple(outer), self.wide)
