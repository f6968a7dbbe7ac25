"""Calls: a graph as one operation that has a derivative rule of its own, or whose gradient computes it again.

As for a scan, the ``call`` node is a token and ``call_result`` nodes read it. Neither is in ``TABLE``. The body's outputs are the
results, then the *residuals*: the nodes that the derivative rule reads. The rule is a graph as well, traced once when the user's
function was called, so batching, loops and further derivatives need no user code.

No device meets a call: :func:`inline` puts the body in its place before a graph is compiled or computed. The walk of a derivative
removes the calls that it has used (:func:`use_up`), so an outer derivative meets what the user's rule computed the result with.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from weft.dtypes.formats import BOOL, COMPLEX, INEXACT, Format
from weft.errors import TraceError
from weft.graph.batching import batch
from weft.graph.effects import order_effects
from weft.graph.forward import Dual, forward
from weft.graph.gradient import Cotangents, backward, dependents
from weft.graph.interpret import interpret
from weft.graph.loops import ITEM, Body, item, moving_inputs, prune_loops
from weft.graph.node import Graph, Node, Primitive, Shape, topological_order
from weft.graph.primitives.call import broadcast_to, call, full
from weft.graph.primitives.common import front
from weft.graph.primitives.elementwise import IDENTITY
from weft.graph.primitives.shape import RECOMPUTE
from weft.graph.primitives.table import NODES_THAT_MAY_RAISE, bind, input_leaf
from weft.graph.source_lines import user_line

Maybe = Node | None


def result(token: Node, index: int) -> Node:
    """Return result ``index`` of a call."""
    return bind(CALL_RESULT, token, index=index)


def substitute(graph: Graph, operands: Sequence[Node]) -> list[Node]:
    """Return the outputs of a graph for other inputs."""
    return [node for node, _ in batch(graph.outputs, {n: (x, None) for n, x in zip(graph.inputs, operands, strict=True)})]


def _floats(nodes: Sequence[Node]) -> list[int]:
    return [k for k, n in enumerate(nodes) if n.dtype in INEXACT]


def _zero_filled(given: Maybe, like: Node) -> Node:
    return full(0, like.shape, like.dtype) if given is None else given


def _outside_error(token: Node, operand: Node) -> TraceError:
    """Return the error for a derivative by an array that the function reads without taking it as an argument."""
    return TraceError(
        f"{user_line(token.source_line)}: {token.params['name']} reads an array from outside, "
        f"{operand.dtype.name}{list(operand.shape)}, that is differentiated by, but its rule has derivatives by its arguments "
        "only: pass the array as an argument"
    )


def _vjp(
    cotangents: Cotangents, token: Node, *operands: Node, body: Body, rule: Body | None, pushes: bool, count: int, args: int,
    name: str,
) -> tuple[Maybe, ...]:
    """Return the derivative of a call: by its rule, or of its body, computed again once the cotangents are known."""
    graph = body.graph
    parts: list[Maybe] = [None] * len(operands)
    wrt = [k for k in _floats(operands) if k in cotangents.needed_operands]
    shown = {k: g for k, g in cotangents.items() if k < count or rule is None}
    hidden = {k: g for k, g in cotangents.items() if k not in shown}  # of residuals, which are differentiated as they are
    for numbers, again in ((shown if rule is None else {}, True), (hidden, False)):
        if numbers:
            fresh = [_recompute_operand(x, numbers.values()) if again else bind(IDENTITY, x) for x in operands]
            outputs = substitute(graph, fresh)
            grads = backward([outputs[k] for k in numbers], [*numbers.values()], [fresh[k] for k in wrt], fresh)
            for k, g in zip(wrt, grads, strict=True):
                _add(parts, k, g)
    if rule is None or not shown:
        return tuple(parts)
    outside = next((x for k, x in enumerate(operands) if k >= args and k in cotangents.needed_operands), None)
    if outside is not None:
        raise _outside_error(token, outside)
    residuals = [result(token, k) for k in range(count, len(graph.outputs))]
    wrt, ends = _floats(operands[:args]), _floats(graph.outputs[:count])
    if pushes:
        slots = [input_leaf(operands[k].shape, operands[k].dtype) for k in wrt]
        tangents = dict(zip(ends, substitute(rule.graph, [*slots, *residuals]), strict=True))
        grads = backward([tangents[k] for k in shown], [*shown.values()], slots, residuals)
        grads = [*_without_slots(grads, slots, [*residuals, *shown.values()], name)]
    else:
        given = [*[_zero_filled(shown.get(k), graph.outputs[k]) for k in ends], *residuals]
        grads = order_effects(substitute(rule.graph, given), given)
    for k, g in zip(wrt, grads, strict=True):
        _add(parts, k, g)
    return tuple(parts)


def _add(parts: list[Maybe], k: int, part: Node) -> None:
    sum_before = parts[k]
    parts[k] = part if sum_before is None else call.add(sum_before, part)


def _recompute_operand(x: Node, cotangents: Iterable[Node]) -> Node:
    """Return a copy of an operand for the second computation, which begins when the cotangents are known."""
    return bind(RECOMPUTE, x, *([] if x.dtype in COMPLEX else [g for g in cotangents if g.dtype not in COMPLEX]))


def _without_slots(nodes: Sequence[Node], slots: Sequence[Node], constants: Iterable[Node], name: str) -> Sequence[Node]:
    """Return the nodes of a transposed rule, which must not depend on what the rule is linear in.

    The transpose of a loop reads all carries of the loop, so loops lose unread results first.

    Raises
    ------
    TypeError
        The nodes depend on a slot: the rule is not linear.
    """
    inputs = list(dict.fromkeys([*slots, *constants]))
    if set(slots).isdisjoint(topological_order(nodes, stop=frozenset(inputs))):
        return nodes
    smaller = prune_loops(Graph(inputs, nodes))
    if not set(slots).isdisjoint(smaller.order):
        raise TypeError(f"{name}: the result of its rule is not linear in the tangents or cotangents, so it has no transpose")
    NODES_THAT_MAY_RAISE.update([n for n in smaller.order if n.op.raises])
    return smaller.outputs


def _jvp(
    tangents: Sequence[Maybe], token: Node, *operands: Node, body: Body, rule: Body | None, pushes: bool, count: int, args: int,
    name: str,
) -> Callable[[int], Dual]:
    """Return the results, without the call, and their tangents."""
    graph = body.graph
    values = substitute(graph, operands)

    @cache
    def through_body() -> list[Maybe]:
        slots = {n: input_leaf(n.shape, n.dtype) for n, t in zip(graph.inputs, tangents, strict=True) if t is not None}
        outputs, changes = forward(graph.outputs, slots)
        moved = [k for k, t in enumerate(changes) if t is not None]
        given = [x for n, x in zip(graph.inputs, tangents, strict=True) if n in slots if x is not None]
        whole = Graph([*graph.inputs, *slots.values()], [*outputs, *(changes[k] for k in moved)])  # type: ignore[list-item]
        found = substitute(whole, [*operands, *given])
        values[:] = found[: len(values)]
        ends: list[Maybe] = [None] * len(values)
        for k, t in zip(moved, found[len(values) :], strict=True):
            ends[k] = t
        return ends

    @cache
    def through_rule() -> dict[int, Maybe]:
        assert rule is not None
        outside = next((x for x, t in zip(operands[args:], tangents[args:], strict=True) if t is not None), None)
        if outside is not None:
            raise _outside_error(token, outside)
        residuals = values[count:]
        wrt, ends = _floats(operands[:args]), _floats(graph.outputs[:count])
        if pushes:
            given = [_zero_filled(tangents[k], operands[k]) for k in wrt]
            return dict(zip(ends, substitute(rule.graph, [*given, *residuals]), strict=True))
        slots = [input_leaf(graph.outputs[k].shape, graph.outputs[k].dtype) for k in ends]
        pulled = substitute(rule.graph, [*slots, *residuals])
        pairs = [(p, t) for k, p in zip(wrt, pulled, strict=True) if (t := tangents[k]) is not None]
        if not pairs:
            return {}
        found = backward([p for p, _ in pairs], [t for _, t in pairs], slots, residuals)
        return dict(zip(ends, _without_slots(found, slots, [*residuals, *(t for _, t in pairs)], name), strict=True))

    def dual(index: int) -> Dual:
        tangent = through_body()[index] if rule is None or index >= count else through_rule().get(index)
        return values[index], tangent

    return dual


def _batch(
    operands: Sequence[Node], dims: Sequence[int | None], body: Body, rule: Body | None, pushes: bool, count: int, args: int,
    name: str,
) -> tuple[Node, Any]:
    """Return a call of the batched body. The token's "dimension" is a tuple with one entry a result."""
    graph = body.graph
    size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
    inputs = [n if d is None else input_leaf(x.shape, x.dtype) for n, x, d in zip(graph.inputs, operands, dims, strict=True)]
    done = batch(graph.outputs, {n: (x, d) for n, x, d in zip(graph.inputs, inputs, dims, strict=True)})
    if pushes:  # a result is batched where its tangent is
        done = [(_place(n, d, 0, size), 0) if k < count else (n, d) for k, (n, d) in enumerate(done)]
    new_rule = None
    if rule is not None:
        wrt, ends = _floats(operands[:args]), _floats(graph.outputs[:count])
        of_args, of_results = [dims[k] for k in wrt], [done[k][1] for k in ends]
        given, wanted = (of_args, of_results) if pushes else (of_results, of_args)
        rule_dims = [*given, *(d for _, d in done[count:])]
        leaves = [n if d is None else input_leaf(_insert_dim(n.shape, d, size), n.dtype)
                  for n, d in zip(rule.graph.inputs, rule_dims, strict=True)]
        found = batch(rule.graph.outputs, {n: (x, d) for n, x, d in zip(rule.graph.inputs, leaves, rule_dims, strict=True)})
        new_rule = Body(Graph(leaves, [_place(n, d, w, size) for (n, d), w in zip(found, wanted, strict=True)]))
    token = bind(
        CALL, *operands, body=Body(Graph(inputs, [n for n, _ in done])), rule=new_rule, pushes=pushes, count=count, args=args,
        name=name,
    )
    return token, tuple([d for _, d in done])


def _insert_dim(shape: Shape, dim: int, size: int) -> Shape:
    return (*shape[:dim], size, *shape[dim:])


def _place(node: Node, dim: int | None, wanted: int | None, size: int) -> Node:
    """Return a node with its batch dimension at ``wanted``. Repeat it if it has none; sum over it if none is wanted."""
    if wanted is None:
        return node if dim is None else call.reduce_sum(node, axes=(dim,), keepdims=False)
    x = broadcast_to(node, (size, *node.shape)) if dim is None else front(node, dim)
    order = (*range(1, wanted + 1), 0, *range(wanted + 1, len(x.shape)))
    return call.permute(x, axes=order) if wanted else x


def _rule_of_result(token: Node, index: int) -> tuple[Shape, Format]:
    node = token.params["body"].graph.outputs[index]
    return node.shape, node.dtype


CALL = Primitive(
    "call", "loop", lambda *operands, **params: ((), BOOL),
    lambda *operands, body, **params: interpret(body.graph, operands), None, _vjp, _batch, jvp=_jvp,  # type: ignore[arg-type]
)
CALL_RESULT = Primitive(
    "call_result", "result", _rule_of_result, lambda values, index: np.asarray(values[index]),
    batch=lambda inputs, dims, index: (result(inputs[0], index), dims[0][index]),
)


def inline(graph: Graph) -> Graph:
    """Return the graph with every call replaced by its body, in the bodies of loops too."""
    while any(n.op.kind == "loop" and (n.op is CALL or _has_calls(n)) for n in graph.order):
        outputs = _inline_calls(
            graph.order, frozenset(graph.inputs), graph.outputs, lambda node: True, lambda node: inline(_body(node)).outputs
        )
        graph = Graph(graph.inputs, outputs)
    return graph


def use_up(nodes: Sequence[Node], wrt: Iterable[Node]) -> list[Node]:
    """Return the nodes with those calls replaced by their bodies that depend on ``wrt`` and have a rule: it was applied."""
    stop = frozenset(wrt)
    order = topological_order(nodes, stop=stop)
    if not any(n.op is CALL or _has_calls(n) for n in order):
        return list(nodes)
    reached = dependents(order, stop)

    def without(loop: Node) -> Sequence[Node]:
        """Return the outputs of a loop's body without the calls in it that depend on ``wrt``."""
        body, start = _body(loop), {k for k, i in enumerate(loop.inputs) if i in reached}
        return use_up(body.outputs, [body.inputs[k] for k in moving_inputs(body, loop.params["carries"], start)])

    return _inline_calls(order, stop, nodes, lambda node: node in reached and node.params["rule"] is not None, without)


def _body(node: Node) -> Graph:
    return node.params["body"].graph


def _has_calls(node: Node) -> bool:
    """Return whether a node is a loop in whose body a call occurs."""
    if node.op.kind != "loop" or node.op is CALL or node.value is not None:
        return False
    return any(n.op is CALL or _has_calls(n) for n in _body(node).order)


def _inline_calls(
    order: Iterable[Node], stop: Collection[Node], outputs: Sequence[Node], chosen: Callable[[Node], bool],
    without: Callable[[Node], Sequence[Node]],
) -> list[Node]:
    """Return the outputs with the chosen calls replaced by their bodies.

    without : returns the outputs of the body of a loop, in which calls occur, with the chosen ones replaced
    """
    done: dict[Node, Node] = {}
    bodies: dict[Node, list[Node]] = {}
    for node in order:
        if node in stop or node.value is not None or not node.inputs:
            done[node] = node
            continue
        inputs, params = tuple([done[i] for i in node.inputs]), node.params
        if node.op is CALL and chosen(node):
            bodies[node] = substitute(_body(node), inputs)
            done[node] = node
        elif node.op is CALL_RESULT and node.inputs[0] in bodies:
            done[node] = bodies[node.inputs[0]][params["index"]]
        elif _has_calls(node):
            done[node] = bind(node.op, *inputs, **{**params, "body": Body(Graph(_body(node).inputs, without(node)))})
        elif inputs == node.inputs:
            done[node] = node
        else:
            done[node] = item(inputs[0], params["index"]) if node.op is ITEM else bind(node.op, *inputs, **params)
    return [done[o] for o in outputs]
