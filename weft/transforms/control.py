"""scan and fori_loop: loops that are one step of a Program, however long they are, and run natively but for steps in NumPy.

The function is called with placeholders; what it made is the body. Arrays from outside that it reads are constants of
the loop; those that it writes are carried from step to step, beside the caller's own carry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from weft.array import Array, Scalar, own, wrap
from weft.array.convert import as_node
from weft.array.indexing import as_ints
from weft.dtypes.formats import INT64, promote, weak
from weft.eager.materialise import proven
from weft.errors import DTypeError, ShapeError, TraceError
from weft.graph.loops import SCAN, Body, item
from weft.graph.node import Graph, Node, topological
from weft.graph.primitives.shape import IOTA
from weft.graph.primitives.table import CONSTANT, TABLE, bind, constant, input_leaf
from weft.graph.source_lines import user_frame, user_line
from weft.runtime.traced_int import GIVEN
from weft.transforms.rebinding import Rebinding
from weft.transforms.results import is_made_in
from weft.transforms.trace import Trace
from weft.transforms.tree import flatten, flatten_results, is_container, unflatten


class _LoopTrace(Trace):
    looks = "the body of a loop (wf.scan, wf.fori_loop)"
    fixes_numbers = True

    def __init__(self, f: Callable) -> None:
        super().__init__()
        self.where = getattr(f, "__code__", None), -1


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """Run ``carry, y = f(carry, x)`` for each ``x`` along the first axis of ``xs``, as one native loop.

    Where ``f`` asks for what NumPy computes (``wf.linalg``, ``wf.fft``, sorts, complex numbers), the loop is walked from Python,
    at some microseconds a step beside NumPy's own calls: one Program all the same, with derivatives; :func:`explain` says so.

    Parameters
    ----------
    f : function (carry, x) -> (carry, y); called to see what it computes: once, or once more where it writes. Arrays it
        reads from outside are constants of the loop, and derivatives by them are known too. Arrays from outside that it
        writes (parameters, the state of an optimizer, the random state) are carried: each step sees what the one before
        it wrote, and after the loop they hold what the last one wrote. So are arrays, ints and floats in attributes, items and
        variables from outside that it binds anew. Its arguments are copies: what it writes into them
        in place stays in the step.
    init : tree of Arrays or numbers: the first carry. Each step keeps its structure, shapes and dtypes.
    xs : tree of Arrays with one first extent, or None: then ``f`` is given None, and ``length`` says how often
    length : int, the number of steps; needed without ``xs``, else it must agree with them
    reverse : from the last step to the first; ``ys`` stay in the order of ``xs``

    Returns
    -------
    carry : tree like ``init``, after the last step
    ys : tree like what ``f`` gives beside the carry, each Array with the steps as its first axis; None stays None

    Raises
    ------
    ShapeError, DTypeError
        when a step changes the shape or dtype of a carry, or extents differ.
    TraceError
        when ``f`` looks at a value, or binds outside what a loop cannot carry: new names, other shapes, objects.
    LinAlgError
        when a step is computed and LAPACK refuses what it is given; it names the line in ``f``.

    Examples
    --------
    >>> import weft as wf
    >>> total, sums = wf.scan(lambda c, x: (c + x, c + x), 0.0, wf.array([1.0, 2.0, 3.0]))
    >>> float(total), sums
    (6.0, array([1., 3., 6.], dtype=float32))

    Ten steps of an optimizer, as one native loop:

    >>> p = {"w": wf.array([4.0, -2.0])}
    >>> optimizer = wf.optim.SGD(0.25).init(p)
    >>> def step(_, x):
    ...     loss, slope = wf.value_and_grad(lambda p: ((p["w"] - x) ** 2).sum())(p)
    ...     optimizer.update(p, slope)
    ...     return None, loss
    >>> _, losses = wf.scan(step, None, wf.ones((10, 2)))
    >>> losses.shape, p["w"].round(2)
    ((10,), array([1., 1.], dtype=float32))

    Backward Euler steps of u' = m u, each of which solves a system:

    >>> m = wf.array([[0.0, 1.0], [-1.0, 0.0]])
    >>> wf.scan(lambda u, _: (wf.linalg.solve(wf.eye(2) - 0.1 * m, u), None), wf.array([1.0, 0.0]), length=10)[0].round(3)
    array([ 0.517, -0.799], dtype=float32)
    """
    return _scan(f, init, xs, length, reverse, Rebinding(f, "wf.scan"))


def _scan(f: Callable, init: Any, xs: Any, length: int | None, reverse: bool, names: Rebinding) -> tuple[Any, Any]:
    """:func:`scan`. names : what the user's function rebinds"""
    x_leaves, x_tree = _taken(xs)
    rows = [as_node(x) for x in x_leaves]
    steps = _steps(rows, length)
    starts, c_tree = _taken(init)
    own_starts = len(starts)  # behind them come those of places outside that the body rebinds
    carries = [as_node(c) for c in starts]
    state: list[Array] = []  # arrays from outside that a step writes
    while True:
        holders = [input_leaf(n.shape, n.dtype) for n in carries]
        slices = [input_leaf(n.shape[1:], n.dtype) for n in rows]
        held = [input_leaf(a.shape, a.node.dtype) for a in state]
        given = (holders[:own_starts], c_tree, starts[:own_starts]), (slices, x_tree)
        step = _call(f, *given, list(zip(state, held, strict=True)), names, holders[own_starts:])
        after = step.carry
        if names.starts:
            names.refuse_written([*state, *step.written])
        widened = [_widened(s, b, a) for s, b, a in zip(starts, carries, after, strict=True)]
        if not step.written and not step.rebinds and all(w.dtype == b.dtype for w, b in zip(widened, carries, strict=True)):
            break
        fresh = [*names.starts.values()][len(after) - own_starts:]
        carries = widened + [as_node(x) for x in fresh]  # a Python number takes the dtype of what it becomes
        starts = [*starts, *fresh]
        state += step.written
    outs, left = step.outputs, step.state
    _same(carries, after, [names.name(key) for key in names.starts])
    if steps == 0:
        zero = [bind(TABLE["broadcast_to"], constant(0, n.dtype), shape=(0, *n.shape)) for n in outs]
        return _back(c_tree, carries[:own_starts], starts[:own_starts]), _back(step.structure, zero)
    places, numbers, ends = names.play(steps, bool(reverse))
    slices, rows = [*slices, *places], [*rows, *numbers]
    body, constants = _closed([*holders, *held], slices, [*after, *left], outs)
    first = len(carries)
    carries += [a.node for a in state]
    loop = bind(
        SCAN, *carries, *rows, *constants, body=body, carries=len(carries), xs=len(rows), length=steps, reverse=bool(reverse)
    )
    results = [item(loop, k) for k in range(len(carries) + len(outs))]
    if state or names.binds:  # a loop that fails has written nothing
        proven(results)
    for array, node in zip(state, results[first : len(carries)], strict=True):
        array._set(node)
    if names.binds:
        names.finish(dict(zip(names.starts, results[own_starts:first], strict=True)), ends, steps)
    return _back(c_tree, results[:own_starts], starts[:own_starts]), _back(step.structure, results[len(carries) :])


def fori_loop(lower: int, upper: int, body: Callable[[Any, Any], Any], init: Any) -> Any:
    """Run ``value = body(i, value)`` for ``i`` from ``lower`` to ``upper - 1``, as one native loop, or walked as by :func:`scan`.

    Parameters
    ----------
    lower, upper : int; known when the loop is written, since the number of steps is part of the Program
    body : function (i, value) -> value; ``i`` is an int64 Scalar
    init : tree of Arrays or numbers; each step keeps its structure, shapes and dtypes

    Returns
    -------
    tree like ``init`` : the value after the last step; ``init`` when ``upper <= lower``

    Raises
    ------
    TypeError
        when a bound is no Python int.
    ShapeError, DTypeError, TraceError, LinAlgError
        as :func:`scan`.

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.fori_loop(0, 5, lambda i, x: x * 2.0, 1.0))
    32.0
    """
    lower, upper = as_ints(lower), as_ints(upper)
    for name, bound in (("lower", lower), ("upper", upper)):
        if not isinstance(bound, int):
            raise TypeError(f"fori_loop: {name} is {bound!r} ({type(bound).__name__}), but must be a Python int")

    def step(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
        value, i = carry
        return (body(i, value), i + 1), None

    first = wrap(constant(int(lower), INT64))
    names = Rebinding(body, "wf.fori_loop")
    return _scan(step, (init, first), None, max(0, int(upper) - int(lower)), False, names)[0][0]


def _taken(tree: Any) -> tuple[list[Any], Any]:
    if tree is None:
        return [], "none"
    return flatten(tree) if is_container(tree) else ([tree], None)


def _back(structure: Any, nodes: Sequence[Node], starts: Sequence[Any] = ()) -> Any:
    """The tree again; a carry without dimensions is a value, unless it began as an Array that can be written to."""
    if structure == "none":
        return None
    arrays = [wrap(n) for n in nodes]
    for k, start in enumerate(starts):
        if isinstance(start, Array) and not isinstance(start, Scalar):
            arrays[k] = own(nodes[k])
    return arrays[0] if structure is None else unflatten(structure, arrays)


def _steps(rows: Sequence[Node], length: int | None) -> int:
    for k, node in enumerate(rows):
        if not node.shape:
            raise ShapeError(f"scan: xs, leaf {k}, is one number ({node.dtype.name}): it has no axis to loop over")
    extents = sorted({n.shape[0] for n in rows})
    if len(extents) > 1:
        raise ShapeError(f"scan: the first extents of xs differ: {extents}")
    if not extents:
        if length is None:
            raise ShapeError("scan: without xs the number of steps is not known: give length=")
        if length < 0:
            raise ShapeError(f"scan: length is {length}, but cannot be negative")
        return int(length)
    if length is not None and length != extents[0]:
        raise ShapeError(f"scan: length is {length}, but xs have {extents[0]} steps")
    return extents[0]


class _Step(NamedTuple):
    """What a step computes: nodes of the carry with the arrays in rebound places, of the output and of the arrays it is known to
    write. written : other arrays that it writes. rebinds : whether it rebinds other places than those it is known to"""

    carry: list[Node]
    outputs: list[Node]
    structure: Any
    state: list[Node]
    written: list[Array]
    rebinds: bool


def _call(
    f: Callable, carried: tuple[list[Node], Any, list[Any]], rows: tuple[list[Node], Any], state: list[tuple[Array, Node]],
    names: Rebinding, places: list[Node],
) -> _Step:
    """Call the body with placeholders. state, places : those of arrays that it writes, and of arrays that it rebinds"""
    with _LoopTrace(names.body) as trace:
        for array, node in state:
            trace.nodes[id(array)] = node
        holders, c_tree, starts = carried
        slices, x_tree = rows
        known = [*names.starts]
        try:
            names.enter(trace, places)
            out = f(_back(c_tree, holders, starts), _back(x_tree, slices))
            rebinds = names.take(trace)
        finally:
            names.restore()
        if not (isinstance(out, tuple) and len(out) == 2):
            raise TypeError(f"scan: the function must return (carry, y), not {type(out).__name__}; y may be None")
        carry, y = out
        leaves, structure = _taken(carry)
        if structure != c_tree:
            raise TypeError(f"scan: a step changes the structure of the carry from {_named(c_tree)} to {_named(structure)}")
        after = [as_node(x) for x in (*leaves, *[names.after[key] for key in known])]
        outs, y_tree = ([], "none") if y is None else flatten_results(y, is_made_in(trace), modules=True)
        nodes = [as_node(x) for x in outs]
        left = [trace.nodes[id(array)] for array, _ in state]
        mine = {id(array) for array, _ in state}
        # a gradient writes parameters and gives them back their nodes: that is no change
        written = [(key, a) for key, a in trace.written.items() if isinstance(a, Array) and key not in mine]
        changed = [a for key, a in written if trace.nodes[key] is not trace.outer(a)]
    if trace.tape is not None:
        trace.tape.over = True
    return _Step(after, nodes, y_tree, left, changed, rebinds)


def _named(structure: Any) -> str:
    return "one array" if structure is None else "None" if structure == "none" else str(structure)


def _widened(start: Any, before: Node, after: Node) -> Node:
    """A first carry that is a Python number takes the dtype that a step gives it, if that can hold it."""
    kind = type(start.value if type(start) in GIVEN else start)
    if kind not in (float, int, bool, complex) or after.shape != before.shape or after.dtype == before.dtype:
        return before
    fits = weak(kind, after.dtype) == after.dtype
    return as_node(start, after.dtype) if fits else before


def _same(before: Sequence[Node], after: Sequence[Node], rebound: Sequence[str]) -> None:
    """Raise where a step changes a shape or dtype. rebound : what the user calls the last of the carries"""
    for k, (b, a) in enumerate(zip(before, after, strict=True)):
        n = k - len(before) + len(rebound)
        if n >= 0 and (a.shape, a.dtype) != (b.shape, b.dtype):
            raise TraceError(
                f"{user_line(user_frame())}: the body of a loop rebinds {rebound[n]} from {b.dtype.name}{list(b.shape)} to "
                f"{a.dtype.name}{list(a.shape)}; each step must keep shape and dtype: start from such an array"
            )
        if a.shape != b.shape:
            raise ShapeError(
                f"scan: carry {k} has shape {b.shape} before a step and {a.shape} after it: each step must keep the shape"
            )
        if a.dtype != b.dtype:
            other = a.dtype if a.dtype.alone or b.dtype.alone else promote(a.dtype, b.dtype)
            fix = f"start from one of {other.name} or cast it with astype('{b.dtype.name}')"
            raise DTypeError(f"scan: carry {k} is {b.dtype.name} before a step and {a.dtype.name} after it: {fix}")


def _closed(
    holders: list[Node], slices: list[Node], after: list[Node], outs: list[Node]
) -> tuple[Body, list[Node]]:
    """The body as a graph of its own, and the nodes from outside that it reads."""
    own = frozenset((*holders, *slices))
    order = topological((*after, *outs), stop=own)
    inside: set[Node] = set(own)
    text: set[Node] = set()  # numbers of the program's text, spread out or counted: made anew where they are read
    for node in order:
        if node.value is None and any(i in inside for i in node.inputs):
            inside.add(node)
        elif _of_text(node, text):
            text.add(node)
    inside |= text
    known: dict[Node, Node] = {n: n for n in own}
    outer: dict[Node, Node] = {}

    def taken(node: Node) -> Node:
        if node in known:
            return known[node]
        if node.value is None and node.op is CONSTANT:
            return node
        if node not in outer:
            outer[node] = input_leaf(node.shape, node.dtype)
        return outer[node]

    for node in order:
        if node in inside and node not in known:
            inputs = tuple([taken(i) for i in node.inputs])
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            known[node] = node if same else Node(node.op, inputs, node.params, node.shape, node.dtype, node.where)
    outputs = [taken(n) for n in (*after, *outs)]
    return Body(Graph([*holders, *slices, *outer.values()], outputs)), list(outer)



def _of_text(node: Node, text: set[Node]) -> bool:
    op = node.op
    if node.value is not None:
        return False
    light = (op.view and not op.moves) or (op.kind == "elementwise" and not op.heavy)
    return op in (CONSTANT, IOTA) or (light and all(i in text for i in node.inputs))
