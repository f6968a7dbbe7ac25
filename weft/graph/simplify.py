"""Make a graph smaller without changing one bit of its results.

One walk, operands first: each node is rebuilt on its simplified operands, tried against the rules of its
operation (``RULES``), folded if it is exact and all operands are constants, and merged with an equal node.
Rules may not change floating-point algebra: ``x + 0`` stays (it turns -0 into 0), ``x - 0`` goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from weft.dtypes.formats import holds
from weft.graph.node import Graph, Node, Primitive, frozen
from weft.graph.primitives import CONSTANT, TABLE, constant
from weft.graph.primitives.kinds import BOOL, FLOATS, INTEGERS
from weft.graph.primitives.shape import BROADCAST

Rule = Callable[[Node], Node | None]
LONG, PIECE = 64, 16  # operands of a concatenation that is still read at once, and of the pieces that a longer one is made of
_TRIES = 64  # rules are tried again on what a rule made, but not for ever


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
    done: dict[Node, Node] = {node: node for node in graph.inputs}
    known: dict[tuple, Node] = {}
    for node in graph.order:
        if node in done:
            continue
        inputs = tuple([done[i] for i in node.inputs])
        new = node if inputs == node.inputs else Node(node.op, inputs, node.params, node.shape, node.dtype, node.where)
        done[node] = _merged(_rewritten(new), known)
    return Graph(graph.inputs, [done[o] for o in graph.outputs])


def _rewritten(node: Node) -> Node:
    for _ in range(_TRIES):
        if node.value is not None or not node.inputs:
            return node
        if node.size == 0 and not node.op.outside_kernels and not (node.op.kind == "gather" and node.inputs[1].size):
            return _made(node, "broadcast_to", constant(0, node.dtype), shape=node.shape)  # what it would read is not needed
        following = None
        for rule in _rules(node.op):
            following = rule(node)
            if following is not None:
                break
        if following is None:
            return node
        node = following
    return node


@cache
def _rules(op: Primitive) -> tuple[Rule, ...]:
    return (*RULES.get(op.name, ()), *(_ELEMENTWISE if op.kind == "elementwise" else ()))


def _merged(node: Node, known: dict[tuple, Node]) -> Node:
    """An equal node that was met before, if there is one."""
    if node.value is not None or (node.op.kind == "leaf" and node.op is not CONSTANT):
        return node
    for i in node.inputs:
        if i.op is CONSTANT and _merged(i, known) is not i:  # a rule made a constant of its own
            inputs = tuple([_merged(i, known) if i.op is CONSTANT else i for i in node.inputs])
            node = Node(node.op, inputs, node.params, node.shape, node.dtype, node.where)
            break
    key = (node.op.name, tuple(map(id, node.inputs)), frozen(node.params), node.dtype)  # ``known`` keeps ids alive
    return known.setdefault(key, node)


def _made(node: Node, name: str, *inputs: Node, **params: Any) -> Node:
    """What stands in for ``node``: same shape, same dtype, same line of the user's."""
    return Node(TABLE[name], inputs, params, node.shape, node.dtype, node.where)


def _repeated(node: Node, x: Node) -> Node:
    return x if x.shape == node.shape else _made(node, "broadcast_to", x, shape=node.shape)


# constants


def splat(node: Node) -> Any:
    """The number that a node holds everywhere, if it is a constant or a repeated one."""
    if node.op is CONSTANT:
        return node.params["value"]
    if node.op is BROADCAST and node.value is None and node.inputs[0].op is CONSTANT:
        return node.inputs[0].params["value"]
    return None


def _is(node: Node, number: float, negative_zero: bool = False) -> bool:
    value = splat(node)
    if value is None or node.dtype == BOOL:
        return False
    return bool(value == number) and (number != 0 or node.dtype in INTEGERS or bool(np.signbit(value)) == negative_zero)


def _fold(node: Node) -> Node | None:
    """Exactly rounded operations on constants; others stay, so that each has one implementation."""
    if node.op.kind != "elementwise" or not node.op.exact or node.op.reference is None:
        return None
    numbers = [splat(i) for i in node.inputs]
    if any(v is None for v in numbers):
        return None
    result = node.op.reference(*(np.asarray(v, i.dtype.numpy) for v, i in zip(numbers, node.inputs, strict=True)), **node.params)
    return _repeated(node, constant(np.asarray(result)[()], node.dtype))


def _neutral(number: float, sides: tuple[int, ...], negative_zero: bool = False, integers_only: bool = False) -> Rule:
    """``x op number`` is x."""

    def rule(node: Node) -> Node | None:
        if integers_only and node.dtype not in INTEGERS:
            return None
        for side in sides:
            other = node.inputs[1 - side]
            if other.shape == node.shape and _is(node.inputs[side], number, negative_zero):
                return other
        return None

    return rule


def _spread_operand(node: Node) -> Node | None:
    """An operand that only repeats a smaller one need not be repeated, when another operand gives the shape."""
    for k, operand in enumerate(node.inputs):
        if operand.op is not BROADCAST or operand.value is not None:
            continue
        if any(other.shape == node.shape for j, other in enumerate(node.inputs) if j != k):
            inputs = tuple(operand.inputs[0] if j == k else i for j, i in enumerate(node.inputs))
            return Node(node.op, inputs, node.params, node.shape, node.dtype, node.where)
    return None


# removals


def _operand(node: Node) -> Node:
    return node.inputs[0]


def _undone(node: Node) -> Node | None:
    """The same operation twice is nothing."""
    inner = node.inputs[0]
    return inner.inputs[0] if inner.op is node.op and inner.value is None and inner.dtype == inner.inputs[0].dtype else None


def _inner(node: Node) -> Node | None:
    """The operand, if it is the same operation and still open."""
    inner = node.inputs[0]
    return inner if inner.op is node.op and inner.value is None and inner.inputs else None


def _same_shape(node: Node) -> Node | None:
    return node.inputs[0] if node.inputs[0].shape == node.shape else None


def _reshape(node: Node) -> Node | None:
    inner = _inner(node)
    return _made(node, node.op.name, inner.inputs[0], shape=node.shape) if inner else None


def _permute(node: Node) -> Node | None:
    axes = node.params["axes"]
    if axes == tuple(range(len(axes))):
        return node.inputs[0]
    inner = _inner(node)
    return _made(node, "permute", inner.inputs[0], axes=tuple(inner.params["axes"][a] for a in axes)) if inner else None


def _permute_ones(node: Node) -> Node | None:
    """Moving only dimensions of one element is a reshape."""
    x, axes = node.inputs[0], node.params["axes"]
    moved = [a for a in axes if x.shape[a] != 1]
    return _made(node, "reshape", x, shape=node.shape) if moved == sorted(moved) else None


def _whole_slice(node: Node) -> Node | None:
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
    return _made(node, "slice", inner.inputs[0], start=start, step=step, shape=node.shape)


def _moved_splat(node: Node) -> Node | None:
    """Moving equal numbers about is repeating one of them."""
    x = node.inputs[0]
    if splat(x) is None:
        return None
    return _repeated(node, x if x.op is CONSTANT else x.inputs[0])


def _broadcast_broadcast(node: Node) -> Node | None:
    inner = _inner(node)
    return _made(node, node.op.name, inner.inputs[0], shape=node.shape) if inner else None


def _no_padding(node: Node) -> Node | None:
    return node.inputs[0] if not any(node.params["low"]) and not any(node.params["high"]) else None


def _single(node: Node) -> Node | None:
    if len(node.inputs) == 1:
        return node.inputs[0]
    kept = [i for i in node.inputs if i.size]
    return _made(node, "concat", *kept, **node.params) if 0 < len(kept) < len(node.inputs) else None


def _pieces(node: Node) -> Node | None:
    """A long concatenation in pieces: an element asks each operand whether it comes from there."""
    if len(node.inputs) <= LONG:
        return None
    parts = [node.inputs[k : k + PIECE] for k in range(0, len(node.inputs), PIECE)]
    return _made(node, "concat", *(_part(node, p) for p in parts), **node.params)


def _part(node: Node, operands: Sequence[Node]) -> Node:
    """A concatenation of some neighbouring operands of ``node``."""
    axis = node.params["axis"]
    shape = (*node.shape[:axis], sum([x.shape[axis] for x in operands]), *node.shape[axis + 1 :])
    return Node(TABLE["concat"], tuple(operands), node.params, shape, node.dtype, node.where)


def _no_axes(node: Node) -> Node | None:
    return node.inputs[0] if not node.params["axes"] else None


# casts


def _cast(node: Node) -> Node | None:
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
        return None  # what is out of range depends on the width that is converted from
    return source if source.dtype == node.dtype else _made(node, "cast", source, dtype=node.dtype)


# where


def _where(node: Node) -> Node | None:
    condition, x, y = node.inputs
    if x is y and x.shape == node.shape:
        return x
    value = splat(condition)
    if value is None:
        return None
    chosen = x if value else y
    return _repeated(node, chosen)


_ELEMENTWISE: tuple[Rule, ...] = (_fold, _spread_operand)
RULES: dict[str, tuple[Rule, ...]] = {
    "identity": (_operand,),
    "stop_gradient": (_operand,),
    "add": (_neutral(0, (0, 1), negative_zero=True), _neutral(0, (0, 1), integers_only=True)),
    "subtract": (_neutral(0, (1,)),),
    "multiply": (_neutral(1, (0, 1)),),
    "divide": (_neutral(1, (1,)),),
    "floor_divide": (_neutral(1, (1,), integers_only=True),),
    "where": (_where,),
    "negative": (_undone,),
    "logical_not": (_undone,),
    "bitwise_invert": (_undone,),
    "cast": (_cast,),
    "reshape": (_same_shape, _moved_splat, _reshape),
    "broadcast_to": (_same_shape, _broadcast_broadcast),
    "permute": (_permute, _permute_ones, _moved_splat),
    "slice": (_whole_slice, _slice_of_slice, _moved_splat),
    "pad": (_no_padding,),
    "concat": (_single, _pieces),
    "reduce_sum": (_no_axes,),
    "reduce_prod": (_no_axes,),
    "reduce_max": (_no_axes,),
    "reduce_min": (_no_axes,),
}
