"""Materialisation: computing the nodes that are read, and with them the pending nodes of live arrays.

Reading a value runs the pending graph behind it. The same run computes pending nodes in it that a live Array refers to, and other
pending nodes of live Arrays that read the same intermediate results: nothing is computed twice. Computed nodes keep their buffer
and drop their inputs.

Work that is never read is computed once it has grown, at the line where pending work was last computed: from 128 nodes on if
several turns of a loop are pending, else from 1,000. So each turn of a loop gives the same graphs, and they are compiled once. A
read after which nothing is pending starts the count again.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Sequence
from threading import get_ident
from typing import Any

import numpy as np

from weft.dtypes.formats import INEXACT
from weft.dtypes.rounding import array_in
from weft.eager import tiers
from weft.errors import RUN_ERRORS, TraceError
from weft.graph.effects import has_effects
from weft.graph.loops import SCAN, every
from weft.graph.node import Graph, Node, topological_order
from weft.graph.primitives.common import zero_vjp
from weft.graph.primitives.shape import find_repeated
from weft.graph.primitives.table import NODES_THAT_MAY_RAISE, SCALAR, is_placeholder
from weft.graph.source_lines import user_frame, user_line
from weft.process.constructs import advise
from weft.runtime import execute, pending
from weft.runtime.cell import NODES_BEING_WRITTEN, WRITE_LOCK, WRITE_LOGS, Cell, traces
from weft.runtime.context import CONTEXT
from weft.runtime.pending import FIRST_CHECK, MAX_BYTES, MAX_NODES

ENOUGH = MAX_NODES // 2  # from here on a graph is cut at the line of the last cut, so that a loop's graphs are equal
LOOP_REPEATS = 16  # a source line that occurs this often in a pending graph belongs to a loop ...
MIN_LOOP_NODES = 128  # ... if the graph has at least so many nodes; it is then cut at an iteration
EVERY = 256  # Arrays created, at most, between two counts of pending work


def materialise(nodes: Sequence[Node], order: Sequence[Node] | None = None) -> None:
    """Give each of ``nodes`` a value. While a gradient needs their inputs, use :func:`values` instead.

    order : the result of ``topological(nodes)``, if the caller has it
    """
    requested = [n for n in nodes if n.value is None]
    if NODES_BEING_WRITTEN:
        for node in [n for n in requested if is_placeholder(n)]:
            _wait_for_content(node)
            requested.remove(node)
    if not requested:
        return
    order = topological_order(requested) if order is None else order
    effects = bool(NODES_THAT_MAY_RAISE) and has_effects(order)
    if effects and CONTEXT.transform_depth:
        raise _effect_error(order)
    if any([n.op is SCAN for n in order]):  # one run computes all results of a loop that live Arrays refer to
        results = [ref() for n in order if n.op is SCAN for ref in n.holder or ()]
        order = topological_order(
            [*requested, *(r for r in results if r is not None and r.value is None and pending.has_live_array(r))]
        )
    # a run with effects cannot be repeated, so it must not fail for work that was not requested
    dependents = pending.find_dependents(order, requested) if CONTEXT.pending and not effects else None
    if not dependents:
        _compute(order, requested)
    else:
        try:
            _compute(topological_order([*requested, *dependents]), [*requested, *dependents])
        except RUN_ERRORS:  # work that was not requested must not fail this read
            _compute(order, requested)
    pending.reset_thresholds()


def compute_fallible(nodes: Iterable[Node]) -> None:
    """Compute the pending nodes that may raise behind ``nodes``, before arrays are written with them.

    Inside traces and gradients nothing is computed: their writes take effect when they end.
    """
    pending = [n for n in nodes if n.value is None] if NODES_THAT_MAY_RAISE and not CONTEXT.transform_depth else None
    if not pending:
        return
    order = topological_order(pending)
    fallible = [n for n in order if n in NODES_THAT_MAY_RAISE and n.value is None]
    scans = [n for n in fallible if n.op is SCAN]
    loops = {n for n in scans if any([b.op.raises and b.op is not SCAN for b in every(n.params["body"].graph)])}
    requested = [n for n in fallible if n.op is not SCAN]
    if loops:  # a loop must run to show whether it fails, so the nodes that read it are computed in the same run
        dependent = loops
        for n in order:
            if any([i in dependent for i in n.inputs]):
                dependent.add(n)
        requested += [n for n in pending if n in dependent]
    materialise(requested)


def log_write(cell: Cell) -> None:
    """Record a cell's content in this thread's write log, if it has one, before the cell is written."""
    undo = WRITE_LOGS.get(get_ident())
    if undo is not None:
        undo.record(cell)


def _compute(order: Sequence[Node], wanted: Sequence[Node]) -> None:
    """Run a graph; give values to its ``wanted`` nodes and to those that live Arrays refer to."""
    requested = set(wanted)
    leaves, outputs = [], []
    sources: dict[Node, None] = {}
    for node in order:
        if node.value is not None:
            leaves.append(node)
        elif is_placeholder(node):
            _wait_for_content(node, order)
            leaves.append(node)
        elif node in requested:
            outputs.append(node)
        elif pending.has_live_array(node):
            source = find_repeated(node)  # a broadcast is free to read again and may exceed memory
            if source is None:
                outputs.append(node)
            else:
                sources[source] = None
    outputs += [n for n in sources if n.value is None and n.op.kind != "leaf" and n not in outputs]
    buffers = tiers.run(Graph(leaves, outputs, order), [n.value for n in leaves])
    for node, value in zip(outputs, buffers, strict=True):
        node.value = value
        node.inputs = ()
        if node.op.raises:
            NODES_THAT_MAY_RAISE.discard(node)


def values(nodes: Sequence[Node], free: bool = True) -> list[Any]:
    """Return the buffers of ``nodes``. Inside a gradient no values are stored: the graph must stay whole to be walked.

    free : whether values that depend on the gradient's variables may be read, for text or a bool
    """
    if not CONTEXT.retain_graph:
        materialise(nodes)
        return [n.value for n in nodes]
    order = topological_order(nodes)
    for node in order:
        if is_placeholder(node):
            _wait_for_content(node, order)
    if not free and any(map(depends_on_variables, nodes)):
        raise TraceError(
            f"{user_line(user_frame())}: the value of this array depends on what is differentiated by: float(), numpy() and "
            "functions that weft leaves to NumPy would take it out of the graph, and its derivative would be lost. Use weft's "
            "functions, wf.stop_gradient(x) if it is a constant, or return it with has_aux=True and read it outside; "
            "comparisons (if x > 0), integers and print are allowed"
        )
    if has_effects(order):
        raise _effect_error(order)
    leaves = [n for n in order if n.value is not None]
    return tiers.run(Graph(leaves, nodes), [n.value for n in leaves])


def _wait_for_content(node: Node, order: Sequence[Node] = ()) -> None:
    """Wait until another thread has written the content of a leaf; raise TraceError if it has none. order : the nodes computed
    from it"""
    if node in NODES_BEING_WRITTEN:
        with WRITE_LOCK:
            pass
    if node.value is None:
        raise TraceError(_read_error((node, *order)))


def depends_on_variables(node: Node) -> bool:
    """Return whether a gradient would flow to the node.

    It does not to integers and bools, nor through operations whose derivative is zero, such as ``stop_gradient``.
    """
    variables = CONTEXT.variables
    seen: set[Node] = set()
    stack = [node] if variables else []
    while stack:
        n = stack.pop()
        if n in variables:
            return True
        if n in seen or n.value is not None or n.op.vjp is zero_vjp or not (n.dtype in INEXACT or n.op.kind == "loop"):
            continue
        seen.add(n)
        stack += n.inputs
    return False


def buffer(node: Node, free: bool = False) -> Any:
    """Return a node's buffer, or its number if it is a run-time number. ``free`` is that of :func:`values`."""
    value = node.value
    return values([node], free)[0] if value is None or CONTEXT.retain_graph else value


def read_array(node: Node, free: bool = False) -> np.ndarray:
    """Return the content of a node as a read-only NumPy array. ``free`` is that of :func:`values`."""
    value = node.value
    if value is None or CONTEXT.retain_graph:
        value = values([node], free)[0]  # a buffer even for a run-time number
    elif node.op is SCALAR:
        return array_in(value, node.dtype)
    return execute.to_numpy(value, node.shape, node.dtype)


def read_number(node: Node, free: bool = False) -> Any:
    """Return the content of a node of one element as a NumPy number. ``free`` is that of :func:`values`."""
    value = node.value
    if value is None or CONTEXT.retain_graph or node.op is SCALAR:
        return read_array(node, free).reshape(())[()]
    return execute.read_first(value, node.dtype)


def _effect_error(order: Sequence[Node]) -> TraceError:
    """Return the error for reading, inside a transform, what an effect computes: other processes need not read it."""
    effect = next(n for n in order if n.op.effect and n.value is None)
    return TraceError(
        f"{user_line(user_frame())}: this value depends on {effect.params.get('what', effect.op.name)} "
        f"({user_line(effect.source_line)}), which runs where the transformed function (grad, vmap, scan) returns, on all ranks "
        "together: a value read on one rank only would leave the others waiting. Return it and read it outside"
    )


def _read_error(nodes: Sequence[Node]) -> str:
    trace = CONTEXT.trace
    place = trace.read_error if trace is not None and trace.read_error else "a traced function that has ended"
    origins = [getattr(node.holder(), "_trace", None) for node in nodes if isinstance(node.holder, weakref.ref)]
    origin = next((x for x in origins if x is not None and x.source_line is not None and x not in traces()), None)
    if origin is not None:
        place = f"{origin.read_error} (in line {user_line(origin.source_line)}) that has ended, where the array was left behind"
    frame = user_frame()
    advice = advise(*(frame or (None, -1))[:2])
    return f"{user_line(frame)}: the value of this array is not known inside {place}; {advice}"


def can_compute(node: Node) -> bool:
    """Return whether the node can be computed here: it depends on no placeholder of a trace."""
    if node.value is not None:
        return True
    return not any([is_placeholder(n) and n not in NODES_BEING_WRITTEN for n in topological_order((node,))])


def evaluate(*trees: Any) -> None:
    """Compute every Array in ``trees`` and wait for it: ``wf.eval``.

    Parameters
    ----------
    trees : Arrays, or dicts, lists, tuples and objects that hold some

    Raises
    ------
    TraceError
        Inside a traced function, where values are not known.

    Examples
    --------
    >>> import weft as wf
    >>> a = wf.ones(3) * 2
    >>> wf.eval(a, {"b": [a + 1]})
    """
    nodes = []
    stack = list(trees)
    seen: set[int] = set()
    while stack:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Cell):
            nodes.append(item.node)  # type: ignore[attr-defined]
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)
        elif hasattr(item, "__dict__"):
            stack.extend(vars(item).values())
    values(nodes)
    execute.wait_for(nodes)


# ---- pending work that nothing reads


def add_pending(ref: weakref.ref, node: Node) -> None:
    """Add an Array with the pending content ``node`` to the thread's list."""
    handles = CONTEXT.pending
    handles.append(ref)
    if len(handles) >= handles.limit:
        cut(node)


def cut(node: Node) -> None:
    """Count the pending work of this thread, ``node`` being the latest, and compute it if there is too much."""
    handles = CONTEXT.pending
    if CONTEXT.transform_depth:
        pending.sweep(handles)
        handles.limit = 2 * len(handles) + EVERY
        return
    where = node.source_line
    line = None if where is None else where[:2]
    same_line = handles.waits and line == handles.line
    if handles.waits and not same_line and len(handles) < handles.until:
        return
    since = len(handles) - handles.counted_length
    pending.sweep(handles)
    handles.counted_length = len(handles)
    waiting = [n for n in map(pending.find_node, handles) if n is not None]
    order = topological_order(waiting)
    handles.waits = False
    if same_line:
        return _compute_waiting(waiting, order, line)
    unread = [n for n in order if n.value is None]
    total = pending.nbytes(unread)
    in_loop, own_order = _has_iterations(unread), topological_order([node]) if total >= MAX_BYTES else ()
    enough, most = (MIN_LOOP_NODES, ENOUGH) if in_loop else (ENOUGH, MAX_NODES)
    if len(unread) >= most or (len(unread) >= enough and handles.line is None):
        _compute_waiting(waiting, order, line)
    elif total >= MAX_BYTES and (total := pending.nbytes([n for n in own_order if n.value is None])) >= MAX_BYTES:
        _compute_waiting([node], own_order, line)
    else:  # count again when half of the rest may be used up; rarely if the pending work does not grow
        rate = (len(unread) - handles.node_count) / max(1, since)  # nodes per Array
        handles.node_count = len(unread)
        handles.waits = rate > 0.1 and len(unread) >= enough
        room = (MAX_BYTES - total) * (len(unread) + 1) // (total + 1) // 2
        more = (
            MIN_LOOP_NODES - len(unread) if len(unread) < MIN_LOOP_NODES
            else ((most if handles.waits else enough) - len(unread)) // 2
        )
        budget = min(more, room)
        distance = max(FIRST_CHECK, min(EVERY, int(budget / rate))) if rate > 0.1 else max(EVERY, min(4 * EVERY, 4 * len(unread)))
        handles.until = len(handles) + distance
        handles.limit = len(handles) if handles.waits else handles.until


def _has_iterations(unread: Sequence[Node]) -> bool:
    """Return whether several iterations of a loop are pending."""
    if len(unread) < MIN_LOOP_NODES:
        return False
    lines = Counter([n.source_line[:2] for n in unread if n.source_line is not None])
    return bool(lines) and max(lines.values()) >= LOOP_REPEATS


def _without_placeholders(nodes: list[Node], order: Sequence[Node]) -> list[Node]:
    """Return the nodes that depend on no placeholder: an Array that outlives its trace has no content and never will."""
    if not any(map(is_placeholder, order)):
        return nodes
    unknown: set[Node] = set()
    for n in order:
        if is_placeholder(n) or (n.value is None and any(i in unknown for i in n.inputs)):
            unknown.add(n)
    return [n for n in nodes if n not in unknown]


def _try_to_compute(nodes: Sequence[Node], order: Sequence[Node] | None = None) -> list[Node]:
    """Compute nodes and return those that fail. Their error is raised when they are read; they are not tried here again."""
    try:
        materialise(nodes, order)
    except RUN_ERRORS:
        half = len(nodes) // 2
        return [*_try_to_compute(nodes[:half]), *_try_to_compute(nodes[half:])] if half else list(nodes)
    return []


def _compute_waiting(waiting: list[Node], order: Sequence[Node], line: Any) -> None:
    """Compute the ``waiting`` nodes, ``order`` being the graph behind them. Later iterations of a loop are cut at the same
    ``line``."""
    nodes = _without_placeholders(waiting, order)
    handles = CONTEXT.pending
    handles.limit = len(handles) + EVERY
    handles.line = line
    failed = _try_to_compute(nodes, order if len(nodes) == len(waiting) else None)
    pending.sweep(handles)
    if failed:
        pending.keep(handles, 0, [ref for ref in handles if pending.find_node(ref) not in failed])
    handles.limit, handles.node_count = len(handles) + FIRST_CHECK, 0


eval = evaluate  # the public name: wf.eval
