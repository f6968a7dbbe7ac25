"""Running folds: each element combined with all elements before it along an axis, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.dtypes.formats import Format, Kinds
from weft.graph.node import Node, Shape
from weft.graph.primitives.call import call, flip, full, slice_axis
from weft.graph.primitives.common import batch_in_front, compute_in_float32, reduction_cost
from weft.graph.primitives.kinds import ALL, NUMBERS
from weft.graph.primitives.rules import check_axis, check_dtype
from weft.graph.primitives.table import TABLE, Primitive, register


def _rule(name: str, allowed: Kinds) -> Callable[..., Any]:
    def rule(x: Node, axis: int) -> tuple[Shape, Format]:
        check_dtype(name, x, allowed)
        check_axis(name, axis, len(x.shape))
        return x.shape, x.dtype

    return rule


def _reference(join: np.ufunc) -> Callable[..., np.ndarray]:
    return compute_in_float32(lambda x, axis: join.accumulate(x, axis=axis, dtype=x.dtype))


def _sum_vjp(g: Node, out: Node, x: Node, axis: int) -> tuple[Node]:
    return (flip(call.cumulative_sum(flip(g, (axis,)), axis=axis), (axis,)),)


def _vjp(join: str) -> Callable[..., tuple[Node]]:
    def rule(g: Node, out: Node, x: Node, axis: int) -> tuple[Node]:
        """Each result is the previous one combined with an element.

        The derivative follows these steps backwards, without a division.
        """
        n = x.shape[axis]
        if n < 2:
            return (g,)
        new = slice_axis(x, axis, 1, n)
        derivative = TABLE[join].vjp
        assert derivative is not None
        one, before = full(1, new.shape, g.dtype), slice_axis(out, axis, 0, n - 1)
        passed, from_new = derivative(one, slice_axis(out, axis, 1, n), before, new)
        assert passed is not None and from_new is not None
        reached = _reverse_recurrence(g, passed, axis)
        rest = call.multiply(slice_axis(reached, axis, 1, n), from_new)
        return (call.concat(slice_axis(reached, axis, 0, 1), rest, axis=axis),)

    return rule


def _reverse_recurrence(g: Node, passed: Node, axis: int) -> Node:
    """Return h with h[i] = g[i] + passed[i] * h[i + 1], by doubling. ``passed`` has one element less."""
    n, by = g.shape[axis], 1
    while by < n:
        more = call.multiply(passed, slice_axis(g, axis, by, n))
        g = call.concat(call.add(slice_axis(g, axis, 0, n - by), more), slice_axis(g, axis, n - by, n), axis=axis)
        if 2 * by < n:
            passed = call.multiply(slice_axis(passed, axis, 0, n - 2 * by), slice_axis(passed, axis, by, n - by))
        by *= 2
    return g


def _entry(name: str, monoid: str, allowed: Kinds, join: np.ufunc, vjp: Any) -> None:
    register(Primitive(
        name, "running", _rule(name, allowed), _reference(join), None, vjp, batch_in_front(name), reduction_cost,
        monoid=monoid, ends_kernel=True,
    ))


_entry("cumulative_sum", "sum", NUMBERS, np.add, _sum_vjp)
_entry("cumulative_prod", "prod", NUMBERS, np.multiply, _vjp("multiply"))
_entry("cumulative_max", "max", ALL, np.maximum, _vjp("maximum"))
_entry("cumulative_min", "min", ALL, np.minimum, _vjp("minimum"))
