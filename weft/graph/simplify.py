"""Make a graph smaller without changing one bit of its results.

One walk, operands first: each node is rebuilt on its simplified operands, tried against the rules of its operation (``RULES``),
folded if it is exact and all operands are constants, and merged with an equal node. Rules may not change floating-point
algebra: ``x + 0`` stays (it turns -0 into 0), ``x - 0`` goes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from weft.dtypes.formats import BOOL, FLOATS, INTEGERS, holds
from weft.dtypes.rounding import array_in, in_dtype
from weft.graph.node import Graph, Node, Primitive, frozen, rebuild
from weft.graph.primitives import CONSTANT, TABLE, constant
from weft.graph.primitives.shape import BROADCAST

Rule = Callable[[Node], Node | None]
LONG, PIECE = 64, 16  # a concatenation of more than LONG operands is split into pieces of PIECE operands
_TRIES = 64  # rules are tried again on the result of a rule, at most this often


def simplify(graph: Graph) -> Graph:
    """The same outputs of the same inputs, with fewer nodes.

    Examples
    --------
    >>> from weft.dtypes.formats import FLOAT32
    >>> from weft.graph.node import Graph
    >>> from weft.graph.primitives import TABLE, bind, input_leaf
    >>> x = input_leaf((3,), FLOAT32)
    >>> twice = bind(TABLE["negative"], bind(TABLE["negative"], x))
    >>> simplify(Graph([x], [twice])).outputs[0] is x
    True
    """
    merged: dict[tuple, Node] = {}
    return rebuild(graph, lambda node, inputs: _merge(_apply_rules(node.on(inputs)), merged))


def _apply_rules(node: Node) -> Node:
    """Return the node after rules were applied to it until none applies."""
    for _ in range(_TRIES):
        if node.value is not None or not node.inputs:
            return node
        if node.size == 0 and not node.op.outside_kernels and not (node.op.kind == "gather" and node.inputs[1].size):
            return _replacement(node, "broadcast_to", constant(0, node.dtype), shape=node.shape)  # its operands are not needed
        replacement = next((r for r in (rule(node) for rule in _rules(node.op)) if r is not None), None)
        if replacement is None:
            return node
        node = replacement
    return node


@cache
def _rules(op: Primitive) -> tuple[Rule, ...]:
    return (*RULES.get(op.name, ()), *(_ELEMENTWISE if op.kind == "elementwise" else ()))


def _merge(node: Node, merged: dict[tuple, Node]) -> Node:
    """Return the equal node in ``merged`` if there is one. Otherwise add this node and return it."""
    if node.value is not None or (node.op.kind == "leaf" and node.op is not CONSTANT):
        return node
    for i in node.inputs:
        if i.op is CONSTANT and _merge(i, merged) is not i:  # a rule created a constant
            node = node.on(tuple([_merge(i, merged) if i.op is CONSTANT else i for i in node.inputs]))
            break
    key = (node.op.name, tuple(map(id, node.inputs)), frozen(node.params), node.dtype)  # ``merged`` keeps ids alive
    return merged.setdefault(key, node)


def _replacement(node: Node, name: str, *inputs: Node, **params: Any) -> Node:
    """Return a replacement for ``node`` with its shape, dtype and source line."""
    return Node(TABLE[name], inputs, params, node.shape, node.dtype, node.source_line)


def _broadcast_like(node: Node, x: Node) -> Node:
    return x if x.shape == node.shape else _replacement(node, "broadcast_to", x, shape=node.shape)


# constants


def splat(node: Node) -> Any:
    """Return the value of a constant or of a repeated constant, or None for other nodes."""
    if node.op is CONSTANT:
        return node.params["value"]
    if node.op is BROADCAST and node.value is None and node.inputs[0].op is CONSTANT:
        return node.inputs[0].params["value"]
    return None


def _equals(node: Node, number: float, negative_zero: bool = False) -> bool:
    """Return whether a node is constant and equal to ``number``, including the sign of zero."""
    value = splat(node)
    if value is None or node.dtype == BOOL:
        return False
    return bool(value == number) and (number != 0 or node.dtype in INTEGERS or bool(np.signbit(value)) == negative_zero)


def _fold(node: Node) -> Node | None:
    """Compute exactly rounded operations on constants. Others are not folded, so that each has one implementation."""
    if node.op.kind != "elementwise" or not node.op.exact or node.op.reference is None:
        return None
    numbers = [splat(i) for i in node.inputs]
    if any(v is None for v in numbers):
        return None
    result = node.op.reference(*(array_in(v, i.dtype) for v, i in zip(numbers, node.inputs, strict=True)), **node.params)
    result = in_dtype(np.asarray(result), node.dtype.computed.numpy) if node.dtype.narrow else np.asarray(result)
    return _broadcast_like(node, constant(result[()], node.dtype))


def _neutral(number: float, sides: tuple[int, ...], negative_zero: bool = False, integers_only: bool = False) -> Rule:
    """Return a rule that replaces ``x op number`` by x."""
    def rule(node: Node) -> Node | None:
        if integers_only and node.dtype not in INTEGERS:
            return None
        for side in sides:
            other = node.inputs[1 - side]
            if other.shape == node.shape and _equals(node.inputs[side], number, negative_zero):
                return other
        return None

    return rule


def _spread_operand(node: Node) -> Node | None:
    """Remove the broadcast of an operand if another operand has the result's shape."""
    for k, operand in enumerate(node.inputs):
        if operand.op is not BROADCAST or operand.value is not None:
            continue
        if any(other.shape == node.shape for j, other in enumerate(node.inputs) if j != k):
            return node.on(tuple(operand.inputs[0] if j == k else i for j, i in enumerate(node.inputs)))
    return None


# removals


def _cancel_involution(node: Node) -> Node | None:
    """Remove an operation applied twice that is its own inverse."""
    inner = _inner(node)
    return inner.inputs[0] if inner and inner.dtype == inner.inputs[0].dtype else None


def _inner(node: Node) -> Node | None:
    """Return the operand if it is the same operation and pending."""
    inner = node.inputs[0]
    return inner if inner.op is node.op and inner.value is None and inner.inputs else None


def _same_shape(node: Node) -> Node | None:
    return node.inputs[0] if node.inputs[0].shape == node.shape else None


def _merge_shapes(node: Node) -> Node | None:
    """Merge two reshapes, or two broadcasts."""
    inner = _inner(node)
    return _replacement(node, node.op.name, inner.inputs[0], shape=node.shape) if inner else None


def _permute(node: Node) -> Node | None:
    """Remove or merge permutations."""
    axes = node.params["axes"]
    if axes == tuple(range(len(axes))):
        return node.inputs[0]
    inner = _inner(node)
    return _replacement(node, "permute", inner.inputs[0], axes=tuple(inner.params["axes"][a] for a in axes)) if inner else None


def _permute_ones(node: Node) -> Node | None:
    """Replace a permutation that only moves dimensions of one element by a reshape."""
    x, axes = node.inputs[0], node.params["axes"]
    moved = [a for a in axes if x.shape[a] != 1]
    return _replacement(node, "reshape", x, shape=node.shape) if moved == sorted(moved) else None


def _whole_slice(node: Node) -> Node | None:
    """Remove a slice of the whole array."""
    x = node.inputs[0]
    ahead = all(s == 1 or n < 2 for s, n in zip(node.params["step"], node.shape, strict=True))
    return x if ahead and node.shape == x.shape else None


def _slice_of_slice(node: Node) -> Node | None:
    inner = _inner(node)
    if inner is None or 0 in node.shape:
        return None
    p, q = inner.params, node.params
    start = tuple(a + b * s for a, s, b in zip(p["start"], p["step"], q["start"], strict=True))
    step = tuple(s * t for s, t in zip(p["step"], q["step"], strict=True))
    return _replacement(node, "slice", inner.inputs[0], start=start, step=step, shape=node.shape)


def _move_splat(node: Node) -> Node | None:
    """Replace a move of a repeated constant by a repeated constant."""
    x = node.inputs[0]
    return None if splat(x) is None else _broadcast_like(node, x if x.op is CONSTANT else x.inputs[0])


def _drop_empty_operands(node: Node) -> Node | None:
    """Remove empty operands of a concatenation, or the concatenation of one operand."""
    if len(node.inputs) == 1:
        return node.inputs[0]
    kept = [i for i in node.inputs if i.size]
    return _replacement(node, "concat", *kept, **node.params) if 0 < len(kept) < len(node.inputs) else None


def _split_concat(node: Node) -> Node | None:
    """Split a long concatenation into pieces. Each element is tested against every operand of its concatenation."""
    if len(node.inputs) <= LONG:
        return None
    parts = [node.inputs[k : k + PIECE] for k in range(0, len(node.inputs), PIECE)]
    axis, pieces = node.params["axis"], []
    for part in parts:
        shape = (*node.shape[:axis], sum([x.shape[axis] for x in part]), *node.shape[axis + 1 :])
        pieces.append(Node(node.op, part, node.params, shape, node.dtype, node.source_line))
    return _replacement(node, "concat", *pieces, **node.params)


def _no_axes(node: Node) -> Node | None:
    return node.inputs[0] if not node.params["axes"] else None


# casts


def _cast(node: Node) -> Node | None:
    """Remove casts to the same dtype, and casts through a format that represents all values of the source."""
    x = node.inputs[0]
    if x.dtype == node.dtype:
        return x
    inner = _inner(node)
    if inner is None:
        return None
    source = inner.inputs[0]
    if not holds(inner.dtype, source.dtype):
        return None
    if source.dtype in FLOATS and node.dtype in INTEGERS:
        return None  # the result for values out of range depends on the width of the source
    return source if source.dtype == node.dtype else _replacement(node, "cast", source, dtype=node.dtype)


# where


def _simplify_where(node: Node) -> Node | None:
    """Replace a selection by a constant condition by the operand selected."""
    condition, x, y = node.inputs
    if x is y and x.shape == node.shape:
        return x
    value = splat(condition)
    return None if value is None else _broadcast_like(node, x if value else y)


_ELEMENTWISE: tuple[Rule, ...] = (_fold, _spread_operand)
RULES: dict[str, tuple[Rule, ...]] = {
    **dict.fromkeys(("identity", "stop_gradient", "after_step", "adjoint", "dist_spread"), (lambda node: node.inputs[0],)),
    **dict.fromkeys(("guard", "complex_guard"), (lambda node: _broadcast_like(node, node.inputs[1]),)),
    "add": (_neutral(0, (0, 1), negative_zero=True), _neutral(0, (0, 1), integers_only=True)),
    "subtract": (_neutral(0, (1,)),),
    "multiply": (_neutral(1, (0, 1)),),
    "divide": (_neutral(1, (1,)),),
    "floor_divide": (_neutral(1, (1,), integers_only=True),),
    "where": (_simplify_where,),
    **dict.fromkeys(("negative", "logical_not", "bitwise_invert"), (_cancel_involution,)),
    "cast": (_cast,),
    "reshape": (_same_shape, _move_splat, _merge_shapes),
    "broadcast_to": (_same_shape, _merge_shapes),
    "permute": (_permute, _permute_ones, _move_splat),
    "slice": (_whole_slice, _slice_of_slice, _move_splat),
    "pad": (_same_shape,),
    "concat": (_drop_empty_operands, _split_concat),
    **dict.fromkeys(("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"), (_no_axes,)),
}
