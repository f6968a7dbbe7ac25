"""Reverse-mode derivatives: one walk over a graph, from the outputs back to the nodes of ``wrt``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from weft.dtypes.formats import INEXACT
from weft.errors import DTypeError, ShapeError
from weft.graph.node import Node, Shape, topological_order
from weft.graph.primitives.call import broadcast_to, call, cast, full, reshape
from weft.graph.primitives.common import zero_vjp
from weft.graph.source_lines import ORIGIN, derived_line, keep_origin


def backward(
    outputs: Sequence[Node], cotangents: Sequence[Node], wrt: Sequence[Node], constants: Iterable[Node] = ()
) -> list[Node]:
    """Return the gradient of sum(outputs * cotangents) with respect to each node of ``wrt``.

    Parameters
    ----------
    outputs : nodes
    cotangents : one node an output, of its dtype, of its shape or one that broadcasts to it
    wrt : nodes, float; their own operands are ignored, so each counts as independent
    constants : nodes that do not depend on ``wrt``; their operands are not visited

    Returns
    -------
    list of Node : of the shapes and dtypes of ``wrt``; zeros where no path leads

    Raises
    ------
    DTypeError
        for an output or a node of ``wrt`` that is not float.

    Examples
    --------
    >>> import numpy as np
    >>> from weft.graph.interpret import interpret
    >>> from weft.dtypes.formats import FLOAT32
    >>> from weft.graph.node import Graph
    >>> from weft.graph.primitives import TABLE, bind, constant, input_leaf
    >>> x = input_leaf((3,), FLOAT32)
    >>> y = bind(TABLE["square"], x)
    >>> (dx,) = backward([y], [constant(1, y.dtype)], [x])
    >>> interpret(Graph([x], [dx]), [np.array([1, 2, 3], np.float32)])
    [array([2., 4., 6.], dtype=float32)]
    """
    for role, nodes in (("output", outputs), ("argument", wrt)):
        for k, node in enumerate(nodes):
            if node.dtype not in INEXACT:
                raise DTypeError(
                    f"grad: {role} {k} is {node.dtype.name}{list(node.shape)}, but must be float: cast it with astype."
                )
    stop = frozenset(wrt)
    order = topological_order(outputs, stop=stop.union(constants))
    reached = dependents(order, stop)
    sums: dict[Node, Node] = {}
    loops: dict[Node, Cotangents] = {}
    for node, g in zip(outputs, cotangents, strict=True):
        if g.dtype != node.dtype:
            raise DTypeError(f"grad: a cotangent is {g.dtype.name} and its output {node.dtype.name}: they must be equal.")
        if node in reached:
            _accumulate(sums, node, broadcast_to(g, node.shape))
    with keep_origin() as before:
        for node in reversed(order):
            if node in reached and node not in stop and (node in sums or node in loops):
                ORIGIN.source_line = derived_line(node.source_line, "backward") or before
                _step(node, sums, loops, reached)
    return [sums[node] if node in sums else full(0, node.shape, node.dtype) for node in wrt]


class Cotangents(dict[int, Node]):
    """The cotangents of a loop's results, by number. needed_operands : numbers of the operands whose derivatives are needed"""

    needed_operands: frozenset[int] = frozenset()


def dependents(order: Iterable[Node], start: Collection[Node]) -> set[Node]:
    """Return the nodes of ``order`` to which a derivative by ``start`` leads, and ``start``."""
    reached = set(start)
    for node in order:
        differentiable = node.value is None and node.op.vjp is not zero_vjp and (node.dtype in INEXACT or node.op.kind == "loop")
        if differentiable and (node.op.receives or any(i in reached for i in node.inputs)):
            reached.add(node)
    return reached


def _step(node: Node, sums: dict[Node, Node], loops: dict[Node, Cotangents], reached: set[Node]) -> None:
    """Pass the cotangent of one node on to its operands."""
    if node.op.kind == "result":
        of, k, g = loops.setdefault(node.inputs[0], Cotangents()), node.params["index"], sums.pop(node)
        of[k] = call.add(of[k], g) if k in of else g
        return
    if node in loops:
        loops[node].needed_operands = frozenset([k for k, i in enumerate(node.inputs) if i in reached])
    parts = pull_back(node, loops.pop(node) if node in loops else sums.pop(node))
    for operand, part in zip(node.inputs, parts, strict=True):
        if part is not None and operand in reached:
            _accumulate(sums, operand, unbroadcast(part, operand.shape))


def pull_back(node: Node, cotangent: Node | Cotangents) -> tuple[Node | None, ...]:
    """Return the derivative of ``node * cotangent`` by each operand, not yet summed over broadcast dimensions; None is zero."""
    op = node.op
    if op.vjp is not None:
        if op.kind == "elementwise" and any([i.dtype.alone for i in (node, *node.inputs)]):
            return _pull_back_wide(node, cotangent)
        return op.vjp(cotangent, node, *node.inputs, **node.params)
    if op.compose is None:
        raise TypeError(f"grad: {op.name} of {node.dtype.name}{list(node.shape)} has no derivative.")
    assert isinstance(cotangent, Node)
    return _composed_vjp(op.compose(*node.inputs, **node.params), cotangent, node.inputs)


def _pull_back_wide(node: Node, cotangent: Node | Cotangents) -> tuple[Node | None, ...]:
    """Return the derivatives of an operation on small floats, computed in their register format and rounded once: the formats
    need not have the numbers of the rule, such as 2."""
    assert isinstance(cotangent, Node) and node.op.vjp is not None
    g, out, *wide = [cast(x, x.dtype.computed) if x.dtype.alone else x for x in (cotangent, node, *node.inputs)]
    parts = node.op.vjp(g, out, *wide, **node.params)
    return tuple([None if p is None else cast(p, i.dtype) for p, i in zip(parts, node.inputs, strict=True)])


def _composed_vjp(result: Node, cotangent: Node, operands: tuple[Node, ...]) -> tuple[Node | None, ...]:
    """Return the derivatives of a composed operation.

    An operand that occurs twice gets its whole derivative at its first position.
    """
    floats = list(dict.fromkeys([i for i in operands if i.dtype in INEXACT]))
    derivatives = dict(zip(floats, backward([result], [cotangent], floats), strict=True))
    return tuple([derivatives.pop(i, None) for i in operands])


def _accumulate(sums: dict[Node, Node], node: Node, part: Node) -> None:
    if part.shape != node.shape or part.dtype != node.dtype:
        raise ShapeError(f"grad: the derivative of {node!r} came out as {part!r}: the rule of one of its readers is wrong.")
    total = sums.get(node)
    sums[node] = part if total is None else call.add(total, part)


def unbroadcast(x: Node, shape: Shape) -> Node:
    """Sum over the dimensions that broadcasting from ``shape`` added or repeated."""
    if x.shape == shape:
        return x
    lead = len(x.shape) - len(shape)
    axes = tuple(d for d, n in enumerate(x.shape) if d < lead or (shape[d - lead] == 1 and n != 1))
    return reshape(call.reduce_sum(x, axes=axes, keepdims=False), shape)
