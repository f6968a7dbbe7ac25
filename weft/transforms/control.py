"""scan, fori_loop and while_loop: loops that are one step of a Program and run natively, except for steps in NumPy.

The function is called with placeholders, and its graph is the body. Arrays from outside that it reads are constants of the
loop; those that it writes become part of the carry.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from weft.array import Array, Scalar, wrap, wrap_array
from weft.array.convert import as_node
from weft.array.indexing import resolve_scalar_indices
from weft.dtypes.formats import BOOL, INT64, promote, weak
from weft.eager.materialise import compute_fallible
from weft.errors import DTypeError, ShapeError, TraceError, need_function, short
from weft.graph.loops import UNBOUNDED, Body, item, loop
from weft.graph.node import Graph, Node, topological_order
from weft.graph.primitives.call import call
from weft.graph.primitives.shape import IOTA
from weft.graph.primitives.table import CONSTANT, TABLE, bind, check_addressable, constant, input_leaf, is_placeholder
from weft.graph.source_lines import user_frame, user_line
from weft.runtime.traced_int import TRACED_TYPES
from weft.transforms.rebinding import Rebinding
from weft.transforms.trace import Trace, leave_traces_on_interrupt
from weft.transforms.tracing import is_made_in
from weft.transforms.tree import flatten_results, flatten_value, unflatten


class _LoopTrace(Trace):
    read_error = "the body of a loop (wf.scan, wf.fori_loop, wf.while_loop) or a branch (wf.cond, wf.switch)"
    fixes_numbers = True

    def __init__(self, f: Callable) -> None:
        super().__init__(f)
        self.outside_nodes: set[Node] = set()  # contents of arrays from outside that were read

    def outer(self, cell: Any) -> Node:
        node = super().outer(cell)
        self.outside_nodes.add(node)
        return node


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False,
    unroll: int = 1, remat: bool | int = False,
) -> tuple[Any, Any]:
    """Run ``carry, y = f(carry, x)`` for each ``x`` along the first axis of ``xs``, as one native loop.

    If ``f`` needs operations that run in NumPy (``wf.linalg``, ``wf.fft``, sorts, complex numbers), the loop is still one Program
    with derivatives but is driven from Python, which costs some microseconds a step beside NumPy's calls. :func:`explain` shows
    whether that is the case.

    Parameters
    ----------
    f : function (carry, x) -> (carry, y), called once to trace it, and again if it writes. Arrays that it reads from outside
        are constants of the loop; derivatives with respect to them work too. Arrays from outside that it writes (parameters,
        the state of an optimizer, the random state) are carried: each step sees the writes of the step before, and after the
        loop they hold the last values. The same holds for arrays, ints and floats that it rebinds in attributes, items and
        variables from outside. It may append numbers to a list from outside that it does not read. Its arguments are copies:
        writes into them do not leave the step.
    init : tree of Arrays or numbers: the first carry. Each step must keep its structure, shapes and dtypes.
    xs : tree of Arrays with equal first extents, or None: then ``f`` receives None in each of ``length`` steps
    length : int, the number of steps; required without ``xs``, else it must equal their first extent
    reverse : run from the last step to the first; ``ys`` stay in the order of ``xs``
    unroll : number of steps in one iteration of the native loop; not beside ``remat``. More steps make longer kernels and fewer
        of them
    remat : a derivative keeps the carry before each step, and computes all else of a step again. With a number k, or True for
        the square root of the number of steps, it keeps the carry before every k-th step only, and runs each k steps again

    Returns
    -------
    carry : tree like ``init``, after the last step
    ys : tree like the second result of ``f``, each Array with the steps as its first axis; None stays None

    Raises
    ------
    ShapeError, DTypeError
        A step changes the shape or dtype of a carry, or extents differ.
    TraceError
        ``f`` reads a value, or rebinds something outside that a loop cannot carry: new names, other shapes, objects.
    LinAlgError
        LAPACK rejects the operands of a step when it is computed; the message names the line in ``f``.

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
    need_function("scan: f", f, "the order is scan(f, init, xs)")
    names = Rebinding(f, "wf.scan")
    each = _steps_of_iteration(unroll, remat, xs, length)
    if each > 1:
        return _scan_in_groups(f, init, xs, length, reverse, names, each, unrolled=not remat)
    return run_loop(f, init, xs, length, reverse, names)


def _steps_of_iteration(unroll: Any, remat: Any, xs: Any, length: int | None) -> int:
    """Return the number of steps of one iteration of the outer loop."""
    for name, value in (("unroll", unroll), ("remat", remat)):
        if not isinstance(value, int) or value < (name == "unroll") or (name == "unroll" and isinstance(value, bool)):
            raise ValueError(f"scan: {name} is {value!r}, but must be a number of steps, at least 1")
    if unroll > 1 and remat:
        raise ValueError("scan: give unroll or remat, not both")
    if not remat:
        return int(unroll)
    steps = _count_steps([as_node(x) for x in _flatten(xs)[0]], length)
    return max(1, math.isqrt(steps)) if remat is True else min(int(remat), steps)


def _scan_in_groups(
    f: Callable, init: Any, xs: Any, length: int | None, reverse: bool, names: Rebinding, each: int, unrolled: bool,
) -> tuple[Any, Any]:
    """Run ``each`` steps in one iteration, as code without a loop or as a loop inside, then the remaining steps."""
    leaves, structure = _flatten(xs)
    rows = [wrap(as_node(x)) for x in leaves]
    steps = _count_steps([x.node for x in rows], length)
    groups = steps // each
    at = steps - groups * each if reverse else 0  # the remaining steps are the last to be run

    def group(carry: Any, slices: Any) -> tuple[Any, Any]:
        if not unrolled:
            return run_loop(f, carry, slices, each, reverse, Rebinding(f, "wf.scan"))
        parts, ys = _flatten(slices), [None] * each
        for k in reversed(range(each)) if reverse else range(each):
            carry, ys[k] = f(carry, _unflatten(structure, [as_node(x[k]) for x in parts[0]]))
        return carry, _join(ys, new_axis=True)

    def part(start: int, stop: int, shape: tuple[int, ...]) -> Any:
        return _unflatten(structure, [as_node(x[start:stop].reshape(*shape, *x.shape[1:])) for x in rows])

    carry, ys = init, []
    if groups:
        carry, grouped = run_loop(group, init, part(at, at + groups * each, (groups, each)), groups, reverse, names)
        ys.append(_map_trees(lambda y: wrap(call.reshape(y, shape=(groups * each, *y.shape[2:]))), grouped))
    rest = steps - groups * each
    if rest or not groups:  # of no steps at all this loop gives the empty results
        start = 0 if reverse else groups * each
        carry, last = run_loop(f, carry, part(start, start + rest, (rest,)), rest, reverse, Rebinding(f, "wf.scan"))
        ys.append(last)
    ys = ys[::-1] if reverse else ys
    return carry, _join(ys)


@leave_traces_on_interrupt
def run_loop(
    f: Callable, init: Any, xs: Any, length: int | None, reverse: bool, names: Rebinding, count: Node | None = None,
    until: bool = False,
) -> tuple[Any, Any]:
    """Run the loop of :func:`scan`.

    names : the places that the user's function rebinds
    count : the number of steps, at most ``length``, if it depends on values
    until : end before a step in which the first of the carries, a bool, is False; the second carry counts the steps
    """
    dynamic = count is not None or until
    x_leaves, x_tree = _flatten(xs)
    rows = [as_node(x) for x in x_leaves]
    steps = _count_steps(rows, length)
    starts, c_tree = _flatten(init)
    own_starts = len(starts)  # the starts of rebound places outside follow
    carries = [as_node(c) for c in starts]
    state: list[Array] = []  # arrays from outside that a step writes
    while True:
        holders = [input_leaf(n.shape, n.dtype) for n in carries]
        slices = [input_leaf(n.shape[1:], n.dtype) for n in rows]
        state_nodes = [input_leaf(a.shape, a.node.dtype) for a in state]
        call_arguments = (holders[:own_starts], c_tree, starts[:own_starts]), (slices, x_tree)
        step = _call(f, *call_arguments, list(zip(state, state_nodes, strict=True)), names, holders[own_starts:])
        if dynamic and names.binds:
            names.refuse_all()
        after = step.carry
        if names.starts:
            names.refuse_written([*state, *step.written_arrays])
        first_carries = [_adapt_first_carry(s, b, a) for s, b, a in zip(starts, carries, after, strict=True)]
        if not step.written_arrays and not step.rebinds and all(
            w.dtype == b.dtype for w, b in zip(first_carries, carries, strict=True)
        ):
            break
        fresh = [*names.starts.values()][len(after) - own_starts:]
        carries = first_carries + [as_node(x) for x in fresh]  # a Python number takes the dtype of its result
        starts = [*starts, *fresh]
        state += step.written_arrays
    outs, state_results = step.outputs, step.state
    for node in outs:
        check_addressable(names.loop, (steps, *node.shape), node.dtype)
    _check_carry(carries, after, [names.name(key) for key in names.starts], names.loop, 2 * until)
    if steps == 0:
        zero = [bind(TABLE["broadcast_to"], constant(0, n.dtype), shape=(0, *n.shape)) for n in outs]
        return _unflatten(c_tree, carries[:own_starts], starts[:own_starts]), _unflatten(step.structure, zero)
    places, numbers, ends = names.play(steps, bool(reverse))
    slices, rows = [*slices, *places], [*rows, *numbers]
    outside = step.outside_nodes if count is not None else None
    body, constants = extract_body([*holders, *state_nodes], slices, [*after, *state_results], outs, outside)
    first = len(carries)
    carries += [a.node for a in state]
    token = loop(carries, rows, constants, body=body, length=steps, reverse=bool(reverse), count=count, until=until)
    results = [item(token, k) for k in range(len(carries) + len(outs))]
    if state or names.binds:  # a loop that fails must not have written anything
        compute_fallible(results)
    for array, node in zip(state, results[first : len(carries)], strict=True):
        array._set(node)
    if names.binds:
        names.finish(dict(zip(names.starts, results[own_starts:first], strict=True)), ends, steps)
    return _unflatten(c_tree, results[:own_starts], starts[:own_starts]), _unflatten(step.structure, results[len(carries) :])


def fori_loop(lower: int, upper: int, body: Callable[[Any, Any], Any], init: Any) -> Any:
    """Run ``value = body(i, value)`` for ``i`` from ``lower`` to ``upper - 1`` as one loop, see :func:`scan`.

    Parameters
    ----------
    lower, upper : int; Python ints, since the number of steps is part of the Program
    body : function (i, value) -> value; ``i`` is an int64 Scalar
    init : tree of Arrays or numbers; each step keeps its structure, shapes and dtypes

    Returns
    -------
    tree like ``init`` : the value after the last step; ``init`` when ``upper <= lower``

    Raises
    ------
    TypeError
        A bound is not a Python int.
    ShapeError, DTypeError, TraceError, LinAlgError
        As :func:`scan`.

    Examples
    --------
    >>> import weft as wf
    >>> float(wf.fori_loop(0, 5, lambda i, x: x * 2.0, 1.0))
    32.0
    """
    lower, upper = resolve_scalar_indices(lower), resolve_scalar_indices(upper)
    for name, bound in (("lower", lower), ("upper", upper)):
        if not isinstance(bound, int) or isinstance(bound, bool):
            order = "; the order is fori_loop(lower, upper, body, init)" if callable(bound) else ""
            raise TypeError(f"fori_loop: {name} is {short(bound)} ({type(bound).__name__}), but must be a Python int{order}")

    def step(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
        value, i = carry
        return (_call_named(body, "fori_loop calls body(i, value)", i, value), i + 1), None

    first = wrap(constant(int(lower), INT64))
    names = Rebinding(body, "wf.fori_loop")
    return run_loop(step, (init, first), None, max(0, int(upper) - int(lower)), False, names)[0][0]


def while_loop(
    condition: Callable[[Any], Any], body: Callable[[Any], Any], init: Any, max_steps: int | None = None,
) -> Any:
    """Run ``value = body(value)`` while ``condition(value)`` is true, as one native loop.

    Parameters
    ----------
    condition : function (value) -> bool, an Array of shape () or a Python bool. It is called twice: before the loop, and in the
        body, which computes it for the next step
    body : function (value) -> value; see the function of :func:`scan` for what it may read and write outside. It cannot rebind
        attributes and variables from outside
    init : tree of Arrays or numbers; each step keeps its structure, shapes and dtypes
    max_steps : int, the largest number of steps: the loop then ends although the condition holds. Derivatives in reverse need
        it, since they keep the value before each step. The memory for them is reserved for ``max_steps`` steps, but only steps
        that run use it

    Returns
    -------
    tree like ``init`` : the first value for which the condition is false

    Raises
    ------
    TypeError, ValueError
        ``max_steps`` is not an int, or negative; a derivative of a loop without ``max_steps``.
    ShapeError, DTypeError
        The condition is not one bool, or a step changes the shape or dtype of a value.
    TraceError, LinAlgError
        As :func:`scan`.

    Examples
    --------
    Newton's method for the square root, and its derivative:

    >>> import weft as wf
    >>> def root(x):
    ...     far = lambda r: abs(r * r - x) > 1e-4
    ...     return wf.while_loop(far, lambda r: 0.5 * (r + x / r), x, max_steps=50)
    >>> root(wf.array(2.0)).round(3), wf.grad(root)(wf.array(2.0)).round(3)
    (float32(1.414), float32(0.354))
    """
    if max_steps is None:
        length = UNBOUNDED
    else:
        length = resolve_scalar_indices(max_steps)
        if not isinstance(length, int) or isinstance(max_steps, bool):
            raise TypeError(f"while_loop: max_steps is {max_steps!r} ({type(max_steps).__name__}), but must be an int or None")
        if length < 0:
            raise ValueError(f"while_loop: max_steps is {length}, but cannot be negative")

    for name, function in (("condition", condition), ("body", body)):
        need_function(f"while_loop: {name}", function, "the order is while_loop(condition, body, init)")

    def step(carry: Any, _: None) -> tuple[Any, None]:
        _, done, value = carry
        after = _call_named(body, "while_loop calls body(value)", value)
        if (before := _flatten(value)[1]) != (structure := _flatten(after)[1]):
            raise TypeError(
                f"while_loop: the body changes the structure of the value from {_structure_name(before)} to "
                f"{_structure_name(structure)}"
            )
        return (_truth(condition(after)), done + 1, after), None

    start = (_truth(_call_named(condition, "while_loop calls condition(value)", init)), wrap(constant(0, INT64)), init)
    return run_loop(step, start, None, min(length, UNBOUNDED), False, Rebinding(body, "wf.while_loop"), until=True)[0][2]


def _truth(x: Any) -> Array:
    """Return the result of a loop's condition as one bool."""
    if x is None:
        raise TypeError("while_loop: the condition returns None, but must return one bool")
    node = as_node(x)
    if node.shape:
        raise ShapeError(f"while_loop: the condition has shape {node.shape}, but must be one bool: use .any() or .all()")
    if node.dtype is not BOOL:
        raise DTypeError(f"while_loop: the condition is {node.dtype.name}, but must be a bool: compare it, for example x != 0")
    return wrap(node)


def _map_trees(f: Callable[..., Array], *trees: Any) -> Any:
    """Return a tree of ``f(*nodes)`` for corresponding leaves of trees of one structure; None stays None."""
    if trees[0] is None:
        return None
    lists = [flatten_value(tree) for tree in trees]
    out = [None if row[0] is None else f(*map(as_node, row)) for row in zip(*[leaves for leaves, _ in lists], strict=True)]
    structure = lists[0][1]
    return unflatten(structure, out)


def _join(trees: Sequence[Any], new_axis: bool = False) -> Any:
    """Return a tree whose leaves are those of all trees, joined along their first axis or stacked along a new one."""
    def join(*nodes: Node) -> Array:
        parts = [call.reshape(n, shape=(1, *n.shape)) for n in nodes] if new_axis else nodes
        return wrap(parts[0] if len(parts) == 1 else call.concat(*parts, axis=0))

    return _map_trees(join, *trees)


def _flatten(tree: Any) -> tuple[list[Any], Any]:
    if tree is None:
        return [], "none"
    return flatten_value(tree)


def _unflatten(structure: Any, nodes: Sequence[Node], starts: Sequence[Any] = ()) -> Any:
    """Rebuild the tree from nodes. A carry without dimensions becomes a Scalar, unless it started as a writable Array."""
    if structure == "none":
        return None
    arrays = [wrap(n) for n in nodes]
    for k, start in enumerate(starts):
        if isinstance(start, Array) and not isinstance(start, Scalar):
            arrays[k] = wrap_array(nodes[k])
    return unflatten(structure, arrays)


def _count_steps(rows: Sequence[Node], length: Any) -> int:
    for k, node in enumerate(rows):
        if not node.shape:
            problem = f"xs, leaf {k}, is one number ({node.dtype.name}): it has no axis to loop over"
            raise ShapeError(f"scan: {problem}; the order is scan(f, init, xs)")
    try:
        if isinstance(length, bool):
            raise TypeError
        length = None if length is None else operator.index(length)
    except TypeError:
        raise TypeError(f"scan: length must be an int, not {short(length)}") from None
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
    """The result of tracing a step.

    carry : nodes of the carry, then of the arrays in rebound places
    outputs, structure : nodes and structure of the step's second result
    state : nodes of the carried arrays from outside
    written_arrays : further arrays from outside that the step writes
    rebinds : whether the step rebinds further places
    outside_nodes : nodes from outside that the step reads
    """

    carry: list[Node]
    outputs: list[Node]
    structure: Any
    state: list[Node]
    written_arrays: list[Array]
    rebinds: bool
    outside_nodes: set[Node]


def _call_named(f: Callable, text: str, *args: Any) -> Any:
    """Call a function. If it takes other arguments, its error says which it gets."""
    try:
        return f(*args)
    except TypeError as error:
        if (trace := error.__traceback__) is not None and trace.tb_next is None and "positional argument" in str(error):
            error.args = (f"{error}; {text}",)
        raise


def _call(
    f: Callable, carried: tuple[list[Node], Any, list[Any]], rows: tuple[list[Node], Any], state: list[tuple[Array, Node]],
    names: Rebinding, places: list[Node],
) -> _Step:
    """Call the body with placeholders. state, places : placeholders of the arrays that it writes, and of those that it rebinds"""
    with _LoopTrace(names.body) as trace:
        for array, node in state:
            trace.nodes[id(array)] = node
        holders, c_tree, starts = carried
        slices, x_tree = rows
        keys = [*names.starts]
        try:
            names.enter(trace, places)
            arguments = _unflatten(c_tree, holders, starts), _unflatten(x_tree, slices)
            out = _call_named(f, f"{names.loop} calls the function with (carry, x)", *arguments)
            rebinds = names.take(trace)
        finally:
            names.restore()
        if not (isinstance(out, tuple) and len(out) == 2):
            raise TypeError(f"{names.loop}: the function must return (carry, y), not {type(out).__name__}; y may be None")
        carry, y = out
        leaves, structure = _flatten(carry)
        if structure != c_tree:
            before, now = _structure_name(c_tree), _structure_name(structure)
            raise TypeError(f"{names.loop}: a step changes the structure of the carry from {before} to {now}")
        after = [as_node(x) for x in (*leaves, *[names.after[key] for key in keys])]
        outs, y_tree = ([], "none") if y is None else flatten_results(y, is_made_in(trace), modules=True)
        nodes = [as_node(x) for x in outs]
        state_nodes = [trace.nodes[id(array)] for array, _ in state]
        state_ids = {id(array) for array, _ in state}
        # a gradient writes parameters and restores their nodes, which is not a change
        written = [(key, a) for key, a in trace.written_cells.items() if isinstance(a, Array) and key not in state_ids]
        changed = [a for key, a in written if trace.nodes[key] is not trace.outer(a)]
    if trace.tape is not None:
        trace.tape.is_closed = True
    return _Step(after, nodes, y_tree, state_nodes, changed, rebinds, trace.outside_nodes)


def _structure_name(structure: Any) -> str:
    return "one array" if structure is None else "None" if structure == "none" else str(structure)


def _adapt_first_carry(start: Any, before: Node, after: Node) -> Node:
    """Return the first carry in the dtype that the step gives it, if it is a Python number that fits; else ``before``."""
    kind = type(start.value if type(start) in TRACED_TYPES else start)
    if kind not in (float, int, bool, complex) or after.shape != before.shape or after.dtype == before.dtype:
        return before
    fits = weak(kind, after.dtype) == after.dtype
    return as_node(start, after.dtype) if fits else before


def _check_carry(before: Sequence[Node], after: Sequence[Node], rebound: Sequence[str], name: str, first: int) -> None:
    """Raise if a step changes a shape or dtype.

    rebound : names of the rebound places, which are the last carries
    first : the number of the user's first carry
    """
    for k, (b, a) in enumerate(zip(before, after, strict=True)):
        n = k - len(before) + len(rebound)
        if n >= 0 and (a.shape, a.dtype) != (b.shape, b.dtype):
            raise TraceError(
                f"{user_line(user_frame())}: the body of a loop rebinds {rebound[n]} from {b.dtype.name}{list(b.shape)} to "
                f"{a.dtype.name}{list(a.shape)}; each step must keep shape and dtype: start from such an array"
            )
        if a.shape != b.shape:
            raise ShapeError(
                f"{name}: carry {k - first} has shape {b.shape} before a step and {a.shape} after it: each step must keep the "
                "shape"
            )
        if a.dtype != b.dtype:
            other = a.dtype if a.dtype.alone or b.dtype.alone else promote(a.dtype, b.dtype)
            advice = f"start from one of {other.name} or cast it with astype('{b.dtype.name}')"
            raise DTypeError(f"{name}: carry {k - first} is {b.dtype.name} before a step and {a.dtype.name} after it: {advice}")


def extract_body(
    holders: list[Node], slices: list[Node], after: list[Node], outs: list[Node], outside: set[Node] | None = None
) -> tuple[Body, list[Node]]:
    """Return the body as a graph of its own, and the nodes that it reads.

    The nodes of ``holders`` and ``slices`` that are no placeholders are replaced by placeholders.

    outside : where the body begins, if it has to compute all that it may not need. Otherwise what is equal in all steps is
        computed before the loop
    """
    own = frozenset((*holders, *slices))
    order = topological_order((*after, *outs), stop=own if outside is None else own | outside)
    inside: set[Node] = set(own)
    text: set[Node] = set()  # computed from constants alone: recomputed in the body instead of passed in
    for node in order:
        if outside is not None and node not in outside and node.value is None and node.op.kind != "leaf":
            inside.add(node)
        elif node.value is None and any(i in inside for i in node.inputs):
            inside.add(node)
        elif _is_computed_from_constants(node, text):
            text.add(node)
    inside |= text
    copies: dict[Node, Node] = {n: n if is_placeholder(n) else input_leaf(n.shape, n.dtype) for n in own}
    outer: dict[Node, Node] = {}

    def copy(node: Node) -> Node:
        if node in copies:
            return copies[node]
        if node.value is None and node.op is CONSTANT:
            return node
        if node not in outer:
            outer[node] = input_leaf(node.shape, node.dtype)
        return outer[node]

    for node in order:
        if node in inside and node not in copies:
            inputs = tuple([copy(i) for i in node.inputs])
            same = all(a is b for a, b in zip(inputs, node.inputs, strict=True))
            copies[node] = node if same else Node(node.op, inputs, node.params, node.shape, node.dtype, node.source_line)
    outputs = [copy(n) for n in (*after, *outs)]
    return Body(Graph([*(copies[n] for n in (*holders, *slices)), *outer.values()], outputs)), list(outer)


def _is_computed_from_constants(node: Node, text: set[Node]) -> bool:
    op = node.op
    if node.value is not None:
        return False
    light = (op.view and not op.moves) or (op.kind == "elementwise" and not op.heavy)
    return op in (CONSTANT, IOTA) or (light and all(i in text for i in node.inputs))
