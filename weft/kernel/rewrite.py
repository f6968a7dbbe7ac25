"""Values with some accumulators replaced; what is shared stays shared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from weft.kernel.ir import Access, Affine, Store, Value
from weft.kernel.walk import walk


class Rewriter:
    """instead: accumulator -> the Value that stands for it from here on."""

    def __init__(self, instead: Mapping[int, Value]) -> None:
        self._instead = instead
        self._done: dict[int, tuple[Value, Value]] = {}  # by identity, which holding the old one keeps

    def value(self, root: Value) -> Value:
        for v in walk([root]):
            if id(v) not in self._done:
                self._done[id(v)] = v, self._one(v)
        return self._done[id(root)][1]

    def _one(self, v: Value) -> Value:
        if v.op == "acc" and v.attr in self._instead:
            return self._instead[v.attr]
        args, attr = tuple([self.value(a) for a in v.args]), self._attribute(v)
        same = attr is v.attr and all(new is old for new, old in zip(args, v.args, strict=True))
        return v if same else Value(v.op, args, v.dtype, attr)

    def _attribute(self, v: Value) -> Any:
        if v.op == "load":
            return self.access(v.attr)
        return self.affine(v.attr) if v.op == "index" else v.attr

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
