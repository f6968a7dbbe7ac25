"""Building Values: one object for each different expression, so that sharing is by identity.

Values are directed graphs; nothing here or in the printer walks them as trees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.dtypes.formats import BOOL, INT64, UINT32, Format, converted, scalar
from weft.kernel.index import Guard
from weft.kernel.ir import MACHINE, Access, Affine, Check, Value

_COMPARE = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))


class Machine:
    """``m.add(a, b)`` and the like: what a primitive's formula is given."""

    def __init__(self) -> None:
        self._known: dict[tuple, Value] = {}

    def _make(self, op: str, args: tuple[Value, ...], dtype: Format, attr: Any = None, tag: Any = None) -> Value:
        key = (op, *map(id, args), dtype, tag)
        value = self._known.get(key)
        if value is None:
            value = self._known[key] = Value(op, args, dtype, attr)
        return value

    def made(self, op: str, args: Sequence[Value], dtype: Format) -> Value:
        """An operation of a known dtype on other operands."""
        return self._make(op, tuple(args), dtype)

    def __getattr__(self, op: str) -> Callable[..., Value]:
        if op not in MACHINE:
            raise AttributeError(f"{op!r} is not a machine operation")
        arity = MACHINE[op].arity

        def build(*args: Value) -> Value:
            if len(args) != arity:
                raise TypeError(f"{op} takes {arity} values, got {len(args)}")
            return self._make(op, args, BOOL if op in _COMPARE else args[0].dtype)

        self.__dict__[op] = build
        return build

    def select(self, condition: Value, then: Value, other: Value) -> Value:
        return then if then is other else self._make("select", (condition, then, other), then.dtype)

    def const(self, number: Any, like: Value | Format) -> Value:
        """``like``: a Value or a Format."""
        dtype = like.dtype if isinstance(like, Value) else like
        known = isinstance(number, np.generic) and number.dtype == dtype.numpy
        number = number.item() if known else scalar(number, dtype).item()
        return self._make("const", (), dtype, number, repr(number))

    def cast(self, x: Value, dtype: Format) -> Value:
        if x.dtype == dtype:
            return x
        if x.op == "const" and np.isfinite(x.attr):
            with np.errstate(all="ignore"):
                return self.const(converted(np.asarray(x.attr, x.dtype.numpy), dtype.numpy)[()], dtype)
        return self._make("cast", (x,), dtype)

    def check(self, index: Value, extent: int, site: int | None = 0, matters: Value | None = None) -> Value:
        """``index``, which must lie in [0, extent) where it matters; site None: it is known to."""
        matters = self.const(True, BOOL) if matters is None else matters
        return self._make("check", (index, matters), INT64, Check(extent, site), (extent, site))

    def bitcast(self, x: Value, dtype: Format) -> Value:
        return x if x.dtype == dtype else self._make("bitcast", (x,), dtype)

    def philox(self, key: Value, base: Value, element: Value) -> Value:
        return self._make("philox", (key, base, element), UINT32)

    def index(self, affine: Affine) -> Value:
        if not affine.terms and not affine.gather:
            return self.const(affine.const, INT64)
        if len(affine.gather) == 1 and not affine.terms and not affine.const and affine.gather[0][1] == 1:
            return affine.gather[0][0]
        return self._make("index", (), INT64, affine, tag(affine))

    def load(self, access: Access) -> Value:
        key = (
            access.buffer.id, access.buffer.scope, tuple(map(tag, access.index)),
            tuple((tag(a), lo, hi) for a, lo, hi in access.guard), repr(access.fill),
        )
        return self._make("load", (), access.buffer.dtype, access, key)

    def scalar(self, position: int, dtype: Format) -> Value:
        return self._make("scalar", (), dtype, position, position)

    def acc(self, number: int, dtype: Format) -> Value:
        return self._make("acc", (), dtype, number, number)

    def inside(self, guards: tuple[Guard, ...]) -> Value | None:
        """All of the guards hold; None if there are none."""
        out = None
        for affine, low, high in guards:
            i = self.index(affine)
            for term in (self.ge(i, self.const(low, INT64)), self.lt(i, self.const(high, INT64))):
                out = term if out is None else getattr(self, "and")(out, term)
        return out


def tag(affine: Affine) -> tuple:
    """An index as something to hash, gathered Values by identity."""
    return affine.const, affine.terms, tuple((id(v), c) for v, c in affine.gather)
