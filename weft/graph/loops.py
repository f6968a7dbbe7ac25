"""Loops: ``scan`` runs a body graph once for every step; ``item`` is one of its results.

A node has one shape and dtype and a scan has many results, so the ``scan`` node itself is only a token, and the results are
``item`` nodes that read it. Neither is in ``TABLE``: they are not functions of arrays, and samples do not fit them.

Results are numbered: the last carries, the stacked outputs, then the *tape*: each carry before every step. Results that are not
read are not computed (see :func:`prune_loops`), so the tape costs nothing unless a derivative reads it.

The number of steps may depend on values. A loop with ``counted`` has a last operand, an int64: it runs that many steps, at most
``length``. A loop with ``until`` ends before a step in which its first carry, a bool, is False; its second carry, an int64, is
the number of steps done. Rows of stacked outputs that were not computed are 0, rows of the tape are undefined. So conditions are
loops of 0 or 1 steps, and the derivative of a loop with ``until`` is a counted one.

Steps may compute results that nobody reads: those of examples of ``vmap`` that have ended, and steps that an ODE solver rejects.
Such results may be infinite, and their derivative, 0 times infinity, would be NaN. So the body marks their inputs with
``guard(condition, x, safe)``. The loop computes with ``x``, and its derivative with ``where(condition, x, safe)``. The condition
may depend on a carry after the step, ``after_step(carry)``: the derivative runs backwards, so it has that value before the step.

A body that may raise makes the loop a check, so what a jitted call writes outside stays as it was. An error of a host step
names its line, inside loops too: ``Singular matrix (kalman.py:12)``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from weft.dtypes.formats import BOOL, INEXACT, INT64, Format
from weft.errors import DTypeError, ShapeError
from weft.graph.batching import batch
from weft.graph.effects import collect_effects, turn_after
from weft.graph.forward import forward
from weft.graph.gradient import Cotangents, backward, dependents
from weft.graph.interpret import interpret
from weft.graph.node import Graph, Node, Primitive, Shape, rebuild, topological_order
from weft.graph.primitives.batch_last import SHORT_ROW, spread_batch_last
from weft.graph.primitives.call import call, full, permute, reshape
from weft.graph.primitives.common import front, spread
from weft.graph.primitives.shape import PERMUTE, RESHAPE
from weft.graph.primitives.table import CONSTANT, bind, constant, input_leaf

Dims = tuple[int | None, ...]


class Body:
    """The computation of one step. Bodies are equal if their graphs have equal keys.

    ``graph.inputs``: the carries, one slice of each stacked operand, the constants. ``graph.outputs``: the carries after the
    step, then the step's slices of the stacked outputs.
    """

    __slots__ = ("_hash", "_key", "graph")

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._key: Any = None
        self._hash = 0

    def key(self) -> tuple:
        if self._key is None:
            self._key = self.graph.key()
            self._hash = hash(self._key)
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body) and (self is other or self.key() == other.key())

    def __hash__(self) -> int:
        self.key()
        return self._hash

    def __repr__(self) -> str:
        return f"<body of {len(self.graph.order)} nodes>"


UNBOUNDED = 1 << 62  # the length of a loop without a largest number of steps


def loop(
    carries: Sequence[Node], xs: Sequence[Node], constants: Sequence[Node], *, body: Body, length: int, reverse: bool = False,
    count: Node | None = None, until: bool = False,
) -> Node:
    """Return the token of a loop; ``count``: the operand of a counted one."""
    operands = (*carries, *xs, *constants, *(() if count is None else (count,)))
    return bind(
        SCAN, *operands, body=body, carries=len(carries), xs=len(xs), length=length, reverse=reverse,
        counted=count is not None, until=until,
    )


def count_of(scan: Node) -> tuple[Node, ...]:
    """Return the operand with the number of steps, or an empty tuple."""
    return scan.inputs[-1:] if scan.params["counted"] else ()


def is_dynamic(scan: Node) -> bool:
    """Return whether the number of steps depends on values."""
    return scan.params["counted"] or scan.params["until"]


def _rule(
    *operands: Node, body: Body, carries: int, xs: int, length: int, reverse: bool, counted: bool, until: bool,
) -> tuple[Shape, Format]:
    graph = body.graph
    if counted:
        *operands, count = operands  # type: ignore[assignment]
        if count.shape or count.dtype is not INT64:
            raise ShapeError(f"scan: the number of steps is {count!r}, but must be one int64.")
    if until and [(n.shape, n.dtype) for n in graph.inputs[: min(carries, 2)]] != [((), BOOL), ((), INT64)]:
        raise ShapeError("scan: a loop with a condition carries one bool and one int64 first.")
    if length < 1:
        raise ShapeError(f"scan: length is {length}, but a loop has at least one step.")
    if len(operands) != len(graph.inputs):
        raise ShapeError(f"scan: the body has {len(graph.inputs)} inputs and {len(operands)} operands were given.")
    for k, (operand, parameter) in enumerate(zip(operands, graph.inputs, strict=True)):
        shape = (length, *parameter.shape) if carries <= k < carries + xs else parameter.shape
        if operand.shape != shape or operand.dtype != parameter.dtype:
            raise ShapeError(f"scan: operand {k} is {operand!r}, but the body needs {parameter.dtype.name}{list(shape)}.")
    for k, (before, after) in enumerate(zip(graph.inputs[:carries], graph.outputs, strict=False)):
        if before.shape != after.shape:
            raise ShapeError(f"scan: carry {k} has shape {before.shape} before a step and {after.shape} after it.")
        if before.dtype != after.dtype:
            raise DTypeError(f"scan: carry {k} is {before.dtype.name} before a step and {after.dtype.name} after it.")
    return (), BOOL


def results(scan: Node) -> list[tuple[Shape, Format]]:
    """Return shape and dtype of every result."""
    graph, carries, length = scan.params["body"].graph, scan.params["carries"], scan.params["length"]
    last = [(n.shape, n.dtype) for n in graph.outputs[:carries]]
    stacked = [((length, *n.shape), n.dtype) for n in (*graph.outputs[carries:], *graph.inputs[:carries])]
    return last + stacked


def every(graph: Graph) -> list[Node]:
    """Return the nodes of a graph and of the bodies of its loops."""
    return [*graph.order, *(i for n in graph.order if n.op is SCAN for i in every(n.params["body"].graph))]


def item(scan: Node, index: int) -> Node:
    """Return result ``index`` of a scan. The scan keeps weak references to its results."""
    node = bind(ITEM, scan, index=index)
    alive = [ref for ref in scan.holder or () if ref() is not None]
    scan.holder = (*alive, weakref.ref(node))
    return node


def tape(scan: Node, carry: int) -> Node:
    """Return one carry before every step, stacked."""
    return item(scan, len(scan.params["body"].graph.outputs) + carry)


def _reference(
    *operands: np.ndarray, body: Body, carries: int, xs: int, length: int, reverse: bool, counted: bool, until: bool,
) -> list[np.ndarray]:
    """Run the loop step by step with the NumPy references."""
    if counted:
        *operands, count = operands  # type: ignore[assignment]
    steps = min(max(int(count), 0), length) if counted else length
    state, stacked, constants = list(operands[:carries]), operands[carries : carries + xs], operands[carries + xs :]
    first_row = [np.zeros(n.shape, n.dtype.numpy) for n in (*body.graph.outputs[carries:], *body.graph.inputs[:carries])]
    rows: list[Any] = [first_row] * (length if length < UNBOUNDED else 1)
    for t in reversed(range(steps)) if reverse else range(steps):
        if until and not state[0]:
            break
        if t == len(rows):
            rows.append(None)
        before = state
        out = interpret(body.graph, [*before, *(x[t] for x in stacked), *constants])
        state = out[:carries]
        rows[t] = [*out[carries:], *before]
    return [*state, *(np.stack(column) for column in zip(*rows, strict=True))]


def moving_inputs(body: Graph, carries: int, start: set[int]) -> set[int]:
    """Return the numbers of the inputs of a loop's body that depend on those of ``start``: a carry may after a step only."""
    moving = set(start)
    while True:
        reached = dependents(body.order, {body.inputs[k] for k in moving})
        more = {k for k in range(carries) if body.outputs[k] in reached} - moving
        if not more:
            return moving
        moving |= more


def _vjp(
    cotangents: Cotangents, scan: Node, *operands: Node, body: Body, carries: int, xs: int, length: int, reverse: bool,
    counted: bool, until: bool,
) -> tuple[Node | None, ...]:
    """Return the derivative of a scan: a loop in the other direction over the tape.

    Its carries are the cotangents of the carries and of the constants. It is counted if the number of steps depends on values.
    """
    if length == UNBOUNDED:
        raise TypeError("grad: a loop whose number of steps has no bound cannot keep the states that it passes: give max_steps")
    count = item(scan, 1) if until else operands[-1] if counted else None
    operands = operands[: len(body.graph.inputs)]
    graph, afters = _use_safe_inputs(body.graph)
    stacked = len(graph.outputs) - carries
    wanted = moving_inputs(graph, carries, set(cotangents.needed_operands))
    floats = [k for k, n in enumerate(graph.inputs) if n.dtype in INEXACT and k in wanted]
    missing = [k for k in cotangents if k - len(graph.outputs) in wanted]
    moving = [k for k in floats if k < carries]
    sliced = [k for k in floats if carries <= k < carries + xs]
    fixed = [k for k in floats if k >= carries + xs]
    read = [k for k in range(carries, carries + stacked) if k in cotangents]
    d_carry = [input_leaf(graph.inputs[k].shape, graph.inputs[k].dtype) for k in moving]
    d_out = [input_leaf(graph.outputs[k].shape, graph.outputs[k].dtype) for k in read]
    d_tape = {k - len(graph.outputs): input_leaf(cotangents[k].shape[1:], cotangents[k].dtype) for k in missing}
    with _collect_after(graph) as added:
        grads = backward(
            [*(graph.outputs[k] for k in moving), *(graph.outputs[k] for k in read)], [*d_carry, *d_out],
            [graph.inputs[k] for k in floats],
        )
    if message := next((n for n in added if "peer" in n.params), None):
        raise TypeError(f"grad: {message.params['what']} is not possible inside of a loop: write the loop in Python")
    derivatives = dict(zip(floats, grads, strict=True))
    for k, node in d_tape.items():
        derivatives[k] = call.add(derivatives[k], node)
    slices: dict[Node, Node] = {n: tape(scan, k) for k, n in enumerate(graph.inputs[:carries])}
    slices.update(zip(graph.inputs[carries : carries + xs], operands[carries : carries + xs], strict=True))
    slices.update(zip(d_out, (cotangents[k] for k in read), strict=True))
    after = {} if count is not None else {  # the rows of steps that were not run are undefined
        k: product for k in fixed if (product := _product(derivatives[k], {*slices, *d_carry})) is not None
    }
    kept = [n for n in dict.fromkeys(n for product in after.values() for n in product.inputs) if n not in slices]
    d_fixed = {k: input_leaf(graph.inputs[k].shape, graph.inputs[k].dtype) for k in fixed if k not in after}
    inputs = [
        *d_carry, *d_fixed.values(), *afters.values(), *graph.inputs[: carries + xs], *d_out, *d_tape.values(),
        *graph.inputs[carries + xs :],
    ]
    outputs = [
        *(derivatives[k] for k in moving), *(call.add(d, derivatives[k]) for k, d in d_fixed.items()),
        *(graph.inputs[k] for k in afters), *(derivatives[k] for k in sliced), *kept,
    ]
    zeros = {k: full(0, operands[k].shape, operands[k].dtype) for k in (*moving, *d_fixed)}
    rule, outside = _lift_outside(Graph(inputs, outputs))
    back = loop(
        [*(cotangents.get(k, zeros[k]) for k in moving), *(zeros[k] for k in d_fixed), *(item(scan, k) for k in afters)],
        [*slices.values(), *(cotangents[k] for k in missing)], [*operands[carries + xs :], *outside],
        body=Body(rule), length=length, reverse=not reverse, count=count,
    )
    parts: list[Node | None] = [None] * len(scan.inputs)
    ends = (*moving, *d_fixed)
    for position, k in (*enumerate(ends), *enumerate(sliced, start=len(ends) + len(afters))):
        parts[k] = item(back, position)
    for position, node in enumerate(kept, start=len(ends) + len(afters) + len(sliced)):
        slices[node] = item(back, position)
    for k, product in after.items():
        parts[k] = _sum_over_steps(derivatives[k], product, slices)
    return tuple(parts)


def _collect_after(body: Graph) -> AbstractContextManager[list[Node]]:
    """Collect the effects that derivative rules add to a loop's body. They take place after the body's own."""
    effects = [n for n in body.order if n.op.effect]
    return collect_effects(turn_after(*effects) if effects else None)


def _use_safe_inputs(graph: Graph) -> tuple[Graph, dict[int, Node]]:
    """Return a body with ``where`` in place of each ``guard``, and placeholders of the carries after the step, by number."""
    afters: dict[int, Node] = {}

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op.name in ("guard", "complex_guard"):
            return call.where(*inputs)
        if node.op.name == "after_step":
            return afters.setdefault(graph.inputs.index(inputs[0]), input_leaf(node.shape, node.dtype))
        return node.on(inputs)

    return rebuild(graph, change), afters


def _lift_outside(graph: Graph) -> tuple[Graph, list[Node]]:
    """Return a body whose last inputs are the arrays and numbers from outside that ``graph`` reads, and these.

    Derivative rules that are array code, as that of ``wf.ode.Backsolve``, read what the user's functions reach.
    """
    inputs = set(graph.inputs)
    leaves = [n for n in graph.order if n not in inputs and n.op is not CONSTANT and (n.value is not None or n.op.kind == "leaf")]
    places = {n: input_leaf(n.shape, n.dtype) for n in leaves}

    def change(node: Node, operands: tuple[Node, ...]) -> Node:
        if node in places:
            return places[node]
        same = all(a is b for a, b in zip(operands, node.inputs, strict=True))
        return node if same else Node(node.op, operands, node.params, node.shape, node.dtype, node.source_line)

    return (Graph([*graph.inputs, *places.values()], rebuild(graph, change).outputs), leaves) if leaves else (graph, [])


def _product(node: Node, varying: set[Node]) -> Node | None:
    """Return the product that a step adds to a constant's cotangent, or None.

    None also if one of its operands is the same in all steps.

    The sum of such products over the steps is one product, computed after the loop from the stacked operands.
    """
    while node.op in (PERMUTE, RESHAPE):
        node = node.inputs[0]
    if node.op.kind != "product" or node.params["contract"] != ((0,), (0,)) or node.params["batch"] != ((), ()):
        return None
    if "accumulator" in node.params:  # each step's sum is rounded by itself
        return None
    return node if all(any(n in varying for n in topological_order([i], stop=frozenset(varying))) for i in node.inputs) else None


def _sum_over_steps(node: Node, product: Node, slices: dict[Node, Node]) -> Node:
    """Return ``node``, a moved product of one step, summed over all steps."""
    if node is not product:
        return bind(node.op, _sum_over_steps(node.inputs[0], product, slices), **node.params)
    rows = [slices[i] for i in product.inputs]
    flat = [call.reshape(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:])) for x in rows]
    return call.dot_general(*flat, **product.params)


def _jvp(
    tangents: Sequence[Node | None], scan: Node, *operands: Node, body: Body, carries: int, xs: int, length: int, reverse: bool,
    counted: bool, until: bool,
) -> Callable[[int], tuple[Node, Node | None]]:
    """Return the results of a scan and their tangents: one loop that carries values and tangents."""
    graph, total = body.graph, len(body.graph.outputs)
    moving = {k for k, t in enumerate(tangents) if t is not None}
    while True:  # a carry may get its tangent in a step
        leaves = {k: input_leaf(graph.inputs[k].shape, graph.inputs[k].dtype) for k in sorted(moving)}
        with _collect_after(graph):
            primals, changes = forward(graph.outputs, {graph.inputs[k]: leaf for k, leaf in leaves.items()})
        more = {k for k in range(carries) if changes[k] is not None} - moving
        if not more:
            break
        moving |= more
    parts = (range(carries), range(carries, carries + xs), range(carries + xs, len(graph.inputs)))
    starts = [full(0, operands[k].shape, operands[k].dtype) if t is None else t for k, t in enumerate(tangents) if k in moving]
    start_of = dict(zip(leaves, starts, strict=True))
    rows = [[*(operands[k] for k in p), *(start_of[k] for k in p if k in moving)] for p in parts]
    inputs = [x for p in parts for x in (*[graph.inputs[k] for k in p], *[leaves[k] for k in p if k in moving])]
    changed = [k for k in range(total) if (k in moving if k < carries else changes[k] is not None)]
    ends = [full(0, primals[k].shape, primals[k].dtype) if (t := changes[k]) is None else t for k in changed]
    more_carries = sum(k < carries for k in changed)
    outputs = [*primals[:carries], *ends[:more_carries], *primals[carries:], *ends[more_carries:]]
    count = operands[-1] if counted else None
    both = loop(*rows, body=Body(Graph(inputs, outputs)), length=length, reverse=reverse, count=count, until=until)
    place = {k: j for j, k in enumerate(changed[:more_carries], carries)}  # of the tangents among the results
    place.update({k: j for j, k in enumerate(changed[more_carries:], total + more_carries)})

    def result(index: int) -> tuple[Node, Node | None]:
        if index >= total:  # the tape
            at = index - total
            return tape(both, at), tape(both, place[at]) if at in place else None
        value = item(both, index + (more_carries if index >= carries else 0))
        return value, item(both, place[index]) if index in place else None

    return result


def _batch(
    operands: Sequence[Node], dims: Sequence[int | None], body: Body, carries: int, xs: int, length: int, reverse: bool,
    counted: bool, until: bool,
) -> tuple[Node, Any]:
    """Return one loop for all examples, with a batched body. Its batch dimension is the first one, or the last.

    Results of steps that an example does not take are dropped. Derivatives compute them with the inputs of an example that does
    take the step, and so does the loop itself if its body is a branch, or may raise or not end. Else values that the example
    never meets would make gradients NaN, raise errors, or keep inner loops running.

    The token's "dimension" is a tuple with one entry a result: (number of the result in the new loop, batch dimension).
    """
    graph = body.graph
    size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
    many = {k for k, d in enumerate(dims[: len(graph.inputs)]) if d is not None}
    ends_differ = counted and dims[-1] is not None
    batch_last = _has_short_rows(graph, carries + xs, size)
    place = spread_batch_last if batch_last else spread

    def position(n: Node) -> int:
        """Return where the batch dimension of a carry, slice or result of the body is put."""
        return len(n.shape) if batch_last else 0

    def leaf(n: Node) -> Node:
        return input_leaf((*n.shape, size) if batch_last else (size, *n.shape), n.dtype)

    replace = call.where if length == 1 or any(n.op.raises for n in graph.order) else call.guard
    ends = _count_longest(front(operands[-1], dims[-1]), reverse) if ends_differ else None
    while True:  # a carry that starts equal for all examples may differ between them after a step
        ends_differ = ends_differ or (until and 0 in many)
        many |= set(range(carries)) if ends_differ else set()
        inputs = [leaf(n) if k in many else n for k, n in enumerate(graph.inputs)]
        going = ends.going if ends is not None else inputs[0] if ends_differ else None
        taken = {n: (inputs[k], position(n)) for k, n in enumerate(graph.inputs) if k in many}
        if going is not None and size:
            for n in [n for n in graph.order if n.op.name == "after_step"]:
                taken[n] = call.after_step(taken[n.inputs[0]][0]), 0
            first = call.argmax(going, axes=(0,), keepdims=False)
            taken = {n: (_of_a_going_example(x, dim, going, first, replace), dim) for n, (x, dim) in taken.items()}
        done = batch(graph.outputs, taken, batch_last)
        more = {k for k in range(carries) if done[k][1] is not None} - many
        if not more:
            break
        many |= more
    outputs = []
    for k, (node, dim) in enumerate(done):
        varies = dim is not None or ends_differ or (k in many and k < carries)
        outputs.append(place(node, dim, size) if varies else node)
    batched = []
    for k, (x, d) in enumerate(zip(operands[: len(graph.inputs)], dims, strict=False)):
        if k not in many:
            batched.append(x)
        elif carries <= k < carries + xs:  # the loop's own axis stays first
            assert d is not None
            own, *rest = [axis for axis in range(len(x.shape)) if axis != d]
            batched.append(permute(x, (own, *rest, d) if batch_last else (own, d, *rest)))
        else:
            batched.append(place(x, d, size))
    split = carries, carries + xs
    starts, rows, constants = batched[: split[0]], batched[split[0] : split[1]], batched[split[1] :]
    count, added = operands[-1] if counted else None, 0
    if ends_differ:
        ends = ends or _until_all_end(starts[0], inputs[0], outputs[0])
        zeros = [full(0, n.shape, n.dtype) for n in outputs[carries:]]
        kept = zip(outputs, [*inputs[:carries], *zeros], strict=True)
        outputs = list(ends.outputs)
        for n, old in kept:
            outputs.append(call.where(ends.going if batch_last else front(ends.going, 0, len(n.shape) - 1), n, old))
        added = len(ends.starts)
        starts, inputs = [*ends.starts, *starts], [*ends.inputs, *inputs, *ends.constants]
        constants, count = [*constants, *ends.values], ends.length
    new = loop(
        starts, rows, constants, body=Body(Graph(inputs, outputs)), length=length, reverse=reverse, count=count, until=until,
    )
    last = [position(n) if k in many else None for k, n in enumerate(graph.inputs[:carries])]
    stacked = [
        position(n) + 1 if ends_differ or dim is not None else None
        for n, (_, dim) in zip(graph.outputs[carries:], done[carries:], strict=True)
    ]
    tapes = [None if d is None else d + 1 for d in last]
    numbers = [k + added * (2 if k >= len(done) else 1) for k in range(len(done) + carries)]
    return new, tuple(zip(numbers, [*last, *stacked, *tapes], strict=True))


def _of_a_going_example(x: Node, dim: int, going: Node, first: Node, replace: Callable[..., Node]) -> Node:
    """Return a batched input in which examples that do not go on have the value of the ``first`` one that does.

    replace : ``where``, or ``guard`` for derivatives only
    """
    chosen = call.stop_gradient(call.gather(x, first, axes=(dim,)))
    shape = [1 if k == dim else n for k, n in enumerate(x.shape)]
    mask = reshape(going, tuple([n if k == dim else 1 for k, n in enumerate(x.shape)]))
    return replace(mask, x, reshape(chosen, tuple(shape)))


LONGEST_ROW = 32  # elements of a body's arrays if the batch lies last: products leave longer ones in an order that costs copies


def _has_short_rows(graph: Graph, varying: int, size: int) -> bool:
    """Return whether vectors along the batch suit a body: rows of carries and slices fill none, and no row is long.

    varying : the number of carries and slices among the inputs of the body
    """
    short = all(n.shape[-1] < SHORT_ROW for n in graph.inputs[:varying] if n.shape)
    return short and all(n.shape[-1] <= min(size, LONGEST_ROW) for n in graph.order if n.shape)


class _Ends(NamedTuple):
    """What a loop over examples that end after different numbers of steps carries and reads besides.

    starts, inputs, outputs : first values, placeholders and next values of leading carries
    constants, values : placeholders and operands
    length : the number of steps of all, None for a loop with ``until``
    going : whether each example takes part in a step; the others keep their carries
    """

    starts: list[Node]
    inputs: list[Node]
    outputs: list[Node]
    constants: list[Node]
    values: list[Node]
    length: Node | None
    going: Node


def _until_all_end(start: Node, before: Node, after: Node) -> _Ends:
    """Return a loop that runs while one of its examples does. start, before, after : the examples' own conditions"""
    def some(x: Node) -> Node:
        return call.reduce_max(x, axes=(0,), keepdims=False) if x.size else constant(False, BOOL)

    holders = [input_leaf((), BOOL), input_leaf((), INT64)]
    kept = call.where(before, after, before)
    following = [some(kept), call.add(holders[1], constant(1, INT64))]
    return _Ends([some(start), constant(0, INT64)], holders, following, [], [], None, before)


def _count_longest(counts: Node, reverse: bool) -> _Ends:
    """Return a loop with the number of steps of the example that has most. counts : the numbers of all"""
    limits, step = input_leaf(counts.shape, INT64), input_leaf((), INT64)
    count = call.reduce_max(counts, axes=(0,), keepdims=False) if counts.size else constant(0, INT64)
    one = constant(1, INT64)
    start = call.subtract(count, one) if reverse else constant(0, INT64)
    following = call.subtract(step, one) if reverse else call.add(step, one)
    return _Ends([start], [step], [following], [limits], [counts], count, call.less(step, limits))


SCAN = Primitive("scan", "loop", _rule, _reference, None, _vjp, _batch, raises=True, jvp=_jvp)  # type: ignore[arg-type]
ITEM = Primitive(
    "item", "result", lambda scan, index: results(scan)[index], lambda values, index: values[index],
    batch=lambda inputs, dims, index: (item(inputs[0], dims[0][index][0]), dims[0][index][1]),
)


def prune_loops(graph: Graph) -> Graph:
    """Return the graph with scans that carry and stack only results that are read.

    Operands that only unused results need are then not computed.
    """
    read: dict[Node, set[int]] = {}
    for node in graph.order:
        if node.op is ITEM and node.inputs:
            read.setdefault(node.inputs[0], set()).add(node.params["index"])
    if not read:
        return graph
    moved: dict[Node, dict[int, int]] = {}  # of a scan: old result number -> new result number

    def change(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op is SCAN:
            pruned, moved[node] = _prune_scan(node, inputs, read.get(node, set()))
            return pruned
        if node.op is ITEM:
            index = moved[node.inputs[0]][node.params["index"]]
            return Node(ITEM, inputs, {"index": index}, node.shape, node.dtype, node.source_line)
        return node.on(inputs)

    smaller = rebuild(graph, change)
    return smaller if len(smaller.order) == len(graph.order) else prune_loops(smaller)


def _prune_scan(scan: Node, operands: tuple[Node, ...], read: set[int]) -> tuple[Node, dict[int, int]]:
    """Return a scan without unused results, and a map from old to new result numbers."""
    body, carries, xs = scan.params["body"].graph, scan.params["carries"], scan.params["xs"]
    total = len(body.outputs)
    stacked = [k for k in range(carries, total) if k in read]
    number = {n: k for k, n in enumerate(body.inputs)}
    kept = {k for k in range(carries) if k in read or total + k in read or (k < 2 and scan.params["until"])}
    while True:
        order = Graph(body.inputs, [body.outputs[k] for k in (*sorted(kept), *stacked)]).order
        needed = {number[n] for n in order if n in number}
        more = {k for k in needed if k < carries} - kept
        if not more:
            break
        kept |= more
    places = [k for k in range(len(body.inputs)) if (k in kept if k < carries else k in needed)]
    staying = sorted(kept)
    graph = Graph([body.inputs[k] for k in places], [body.outputs[k] for k in (*staying, *stacked)])
    params = {
        **scan.params, "body": Body(graph), "carries": len(kept), "xs": sum(carries <= k < carries + xs for k in places),
    }
    count = operands[len(body.inputs) :]
    node = Node(SCAN, (*[operands[k] for k in places], *count), params, scan.shape, scan.dtype, scan.source_line)
    where = {k: j for j, k in enumerate((*staying, *stacked))}
    where.update({total + k: len(where) + j for j, k in enumerate(staying)})
    return node, where
