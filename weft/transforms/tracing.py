"""Trace a function: record its graph, the sources of the graph's inputs, the targets of its outputs and its results.

A jitted function returns the same as without jit: a returned argument is that object, and results that share memory still share
it. So a result may be an output of the Program, an object that existed before, or a view.

An *end* describes one result: ("node", node) a new array, ("static", value) an object that existed before, ("leaf", k) an
argument (or slot k of the tape, see ``weft/runtime/traced_int.py``), ("same", j) the same Array as result j,
("view", (owner, path)) a view, whose owner is an end of kind leaf, static, same or base; ("base", k) is the cell that argument
k views.

Before arrays count as left behind by a trace, unreachable cycles among the objects that the trace made are collected. Older
objects are set aside meanwhile (``gc.freeze``), because in a large program the search took half a second.
"""

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from weft.array import Array, Scalar, make_placeholder, ndarray, wrap, wrap_array
from weft.array.convert import as_node, numpy_node
from weft.array.numpy_methods import element_strides
from weft.array.views import ViewPath, map_starts, overlap
from weft.array.weak_scalar import tape_number
from weft.dtypes.formats import FLOAT64
from weft.dtypes.parse import parse_any_byte_order
from weft.eager.materialise import materialise
from weft.errors import TraceError
from weft.graph.calls import inline
from weft.graph.node import Graph, Node, topological_order
from weft.graph.primitives.table import INPUT, SCALAR, input_leaf, is_placeholder, scalar_leaf
from weft.runtime.traced_int import SCALARS, TRACED_TYPES, Slot, Tape
from weft.transforms.content import has_content
from weft.transforms.object_state import Content, swap_numbers
from weft.transforms.records import CONSTANTS, Record, read_argument
from weft.transforms.trace import JitTrace, Trace
from weft.transforms.tree import (
    attributes_of,
    dataclasses_in,
    flatten_results,
    has_structure,
    is_container,
    is_module,
    is_only_attributes,
)

_SCALARS = tuple(SCALARS)
End = tuple[str, Any]


@dataclass(slots=True)
class TracedCall:
    """The result of tracing one call.

    graph : its inputs are, in order, the Array leaves of the arguments (for leaves in ``bases`` the whole cell that they view);
        numbers (``scalars``: leaf numbers of float arguments, once for each dtype in use, and slots of the tape); captured
        cells; fixed buffers that were made while tracing
    results : ends (see the docstring of the module), in which nodes are replaced by sources: ``("out", k)`` a Program output,
        ``("in", k)`` an unchanged input. The first ``len(shows)`` are the results of the function
    shows : the node of each result, or the result itself if it is not an array of the trace
    structure : of the function's result, or of the tuple (result, value set, ...) if the function sets values in objects
    """

    graph: Graph
    arrays: tuple[int, ...]
    bases: frozenset[int]
    scalars: tuple[int, ...]
    captured_cells: tuple[Array, ...]
    fixed_nodes: tuple[Node, ...]
    results: tuple[End, ...]
    kinds: tuple[type, ...]  # of each result: ndarray, Scalar, or float for a run-time number
    shows: tuple[Any, ...]
    structure: Any
    writes: tuple[tuple[str, Any, End], ...]  # ("leaf", number, source) or ("cell", Array, source)
    survivors: list[tuple[Array, End, int]] = field(default_factory=list)  # arrays alive after the trace: cell, source, result/-1
    tape: Tape | None = None  # the computation on run-time numbers, replayed at each call
    one_call_only: bool = False  # whether the program is valid for this call only
    moving: tuple[int, ...] = ()  # numbers of the object values with tape slots, which follow the slots of the leaves
    sets: tuple[tuple[int, Any], ...] = ()  # values set in objects: number of the record; see ``Swap.changes`` for the place
    argument_sets: tuple[tuple[int, Any], ...] = ()  # the same for arguments: number in ``dataclasses_in``, and the place
    snapshots: tuple[Record, ...] = ()  # further records, which the numbers in ``sets`` continue with
    replaced_records: tuple[Record, ...] = ()  # of the containers whose whole content the function replaces
    # numbers that must be static, and the lines that need their values
    needed_values: Mapping[int, str] = field(default_factory=dict)

    @property
    def overwritten_inputs(self) -> dict[int, int] | None:
        """Map each output that becomes an array's content to the input that was its content before, both by number. None if a
        call changes anything else."""
        before_of: dict[int, int] = {}
        first = len(self.arrays) + len(self.scalars)
        cells = {id(cell): first + k for k, cell in enumerate(self.captured_cells)}
        for kind, target, (source, k) in self.writes:
            before = cells.get(id(target)) if kind == "cell" else self.arrays.index(target) if target in self.arrays else None
            if source != "out" or before is None or before_of.setdefault(k, before) != before:
                return None
        return None if self.survivors else before_of


class ResultSpec:
    """The ends of a traced call, found while its Arrays are alive. :meth:`complete` completes them.

    shows : the node of each result, or the result itself if it is not an array of the trace
    """

    def __init__(self, results: Sequence[Any], handles: Mapping[int, int], owners: Mapping[int, End], inner: Trace) -> None:
        """handles : id of a leaf passed to the function -> its number. owners : id of the cell that such a leaf shows -> the end
        of that cell"""
        self._handles, self._owners, self._inner = handles, owners, inner
        self._first_result: dict[int, int] = {}  # id of an Array -> its first result
        self._views: dict[int, list[tuple[int, ViewPath]]] = {}  # id of a cell made inside -> its views
        self._bases: dict[int, Node] = {}  # the nodes of these cells
        rows = [self._end(result, k) for k, result in enumerate(results)]
        self.ends, self.shows = [end for end, _ in rows], [node for _, node in rows]

    def complete(self, alive: Mapping[int, Array]) -> tuple[list[End], dict[int, int]]:
        """Return the ends of the results, followed by ends for arrays that are not results but whose memory results share, and
        the number of the end of each cell in ``alive`` (the Arrays that outlive the trace), by id."""
        ends = list(self.ends)
        at = dict(self._first_result)
        for key, views in self._views.items():
            node = self._bases[key]
            if key not in at:
                if key not in alive and not _any_overlap(node, [path for _, path in views]):
                    continue  # the views do not overlap and the array is gone: each becomes an array of its own
                at[key] = len(ends)
                ends.append(("node", node))
            for k, path in views:
                ends[k] = ("view", (("same", at[key]), path))
        return ends, {key: at[key] for key in alive if key in at}

    def _end(self, result: Any, k: int) -> tuple[End, Any]:
        """Return the end of result ``k``, and its node, or its value if it has none."""
        handles, owners, inner = self._handles, self._owners, self._inner
        if not isinstance(result, Array):
            if isinstance(result, np.ndarray):
                node = as_node(result)
                return ("node", node), node
            if type(result) in TRACED_TYPES and result.tape.open:
                return ("leaf", result.slot), result.value  # computed by Python at each call
            return ("leaf", handles[id(result)]) if id(result) in handles else ("static", result), result
        if id(result) in handles and not result.weak:
            return ("leaf", handles[id(result)]), result.node
        first = self._first_result.setdefault(id(result), k)
        if first != k:
            return ("same", first), result.node
        base = result._base
        path = () if base is None else map_starts(result._path, lambda x: Slot(x.slot) if x.tape.open else x.value)
        if base is None:
            if result.weak:  # the float64 number it is
                return ("node", result._node), result._node
            if inner.owns(result):
                return ("node", result.node), result.node
            return ("static", result), result
        if id(base) in owners:
            return ("view", (owners[id(base)], path)), result.node
        if not inner.owns(base):
            return (("view", (("static", base), path)) if inner.owns(result) else ("static", result)), result.node
        self._views.setdefault(id(base), []).append((k, path))
        self._bases[id(base)] = base.node
        return ("node", result.node), result.node


def needs_numbers(ends: Sequence[End], leaves: int) -> bool:
    """Return whether a result depends on run-time numbers other than returned int arguments."""
    views = [what[1] for kind, what in ends if kind == "view"]
    starts = [start for path in views for name, params in path if name == "slice" for start in params["start"]]
    return any([type(start) is Slot for start in starts]) or any([kind == "leaf" and what >= leaves for kind, what in ends])


def is_made_in(trace: Trace, known: Collection[int] = (), new: Callable[[], set[int]] | None = None) -> Callable[[Any], bool]:
    """Return a function that returns whether an object was made in a trace. It returns False for dataclasses, which are trees.

    known : ids of objects that existed before
    new : returns the ids of the objects made in the trace; None: an object that holds something of the trace counts as made in it
    """

    def holds(x: Any, seen: set[int]) -> bool:
        if isinstance(x, Array):
            return trace.owns(x.cell)
        if type(x) in TRACED_TYPES:
            return x.tape.open
        if id(x) in seen or id(x) in known:
            return False
        seen.add(id(x))
        parts: Iterable[Any] = x.values() if isinstance(x, dict) else x if isinstance(x, list | tuple) else ()
        if _is_object(x) or dataclasses.is_dataclass(x):
            parts = attributes_of(x).values()
        return any([holds(part, seen) for part in parts])

    def is_made(x: Any) -> bool:
        if id(x) in known or isinstance(x, Array) or not _is_object(x):
            return False
        return id(x) in new() if new is not None else holds(x, set())

    return is_made


def _is_object(x: Any) -> bool:
    if not is_only_attributes(type(x)):
        return False
    return is_module(x) or (not dataclasses.is_dataclass(x) and (has_structure(x) or has_content(x)))


def _any_overlap(node: Node, paths: Sequence[ViewPath]) -> bool:
    """Return whether any two of these views of one array overlap."""
    return any(overlap(node.shape, node.dtype, a, b) for k, a in enumerate(paths) for b in paths[:k])


def result_row(source: End, inputs: Sequence[Node], outputs: Sequence[Node]) -> tuple[str, Any, Any, Any]:
    """Return ("out", output, shape, dtype), ("in", input, shape, dtype), or (kind, value, None, None) for another end."""
    kind, k = source
    if kind != "out" and kind != "in":
        return (kind, k, None, None)
    node = (outputs if kind == "out" else inputs)[k]
    return (kind, k, node.shape, node.dtype)


def make_view(what: tuple[End, ViewPath], leaves: Sequence[Any], out: Sequence[Any]) -> Array:
    """Make the view described by an end's owner and path. Traced starts of slices are read from ``leaves``, by tape slot."""
    (kind, k), path = what
    owner = out[k] if kind == "same" else k if kind == "static" else leaves[k] if kind == "leaf" else leaves[k].cell
    return owner._view(map_starts(path, lambda number: leaves[number.slot]))


def _result_type(result: Any) -> type:
    return float if getattr(result, "weak", False) else Scalar if isinstance(result, Scalar) else ndarray


def _has_identity(x: Any) -> bool:
    """Return whether returning this argument must return the same object, which is not so for numbers and strings."""
    return not x.weak if isinstance(x, Array) else type(x) not in CONSTANTS and type(x) not in TRACED_TYPES


def is_static(leaf: Any) -> bool:
    """Return whether a leaf is part of the key of a traced function instead of an input."""
    return isinstance(leaf, _SCALARS) or not isinstance(leaf, Array | float | np.ndarray | np.generic)


def trace(
    f: Callable, leaves: list[Any], rebuild: Callable[[list[Any]], tuple[tuple, dict]], states: Collection[int] = (),
    together: Sequence[Sequence[int]] = (), collect: bool = True, moving: Collection[int] = (), records: Sequence[Record] = (),
    snapshots: Sequence[Record] = (),
) -> TracedCall:
    """Call ``f`` with placeholders for the Array and float leaves of its arguments. Writes to cells from outside are recorded,
    not executed.

    rebuild : function that makes (args, kwargs) from leaves
    states : ids of captured cells; leaves that show one of them are passed as they are
    together : groups of leaf numbers that show one cell, which becomes one placeholder with the leaves as views
    moving : numbers of the int and float leaves that are run-time numbers (see ``runtime/traced_int.py``); others are static.
        The numbers of the values in ``records`` follow those of the leaves
    collect : whether to collect garbage before arrays count as left behind
    records : the contents of the function and its arguments
    snapshots : the contents of containers that are not compared from call to call; a change of these limits the trace to one call
    """
    chosen = tuple(sorted([k - len(leaves) for k in moving if k >= len(leaves)]))
    handles: list[Any] = []
    places: dict[int, Node] = {}  # leaf number -> placeholder
    cells: dict[int, Array] = {}  # leaf number -> the Array whose content the placeholder is
    handle_of: dict[int, Any] = {}
    is_number = [is_static(x) or type(x) is float for x in leaves]
    # computed before the trace is entered: inside, these would count as reads
    forms = [
        None if f else (
            tuple(x.shape), parse_any_byte_order(x.dtype), element_strides(x)
        ) for x, f in zip(leaves, is_number, strict=True)
    ]
    group = {k: numbers[0] for numbers in together for k in numbers}
    wholes = {numbers[0]: leaves[numbers[0]].cell.node for numbers in together}
    with (
        _freeze_old_objects(collect) as aside, JitTrace(len(leaves) + len(chosen), f) as inner,
        swap_numbers((*records, *snapshots), chosen, inner.tape, len(leaves), len(snapshots)) as swap,
    ):
        for k, node in wholes.items():
            places[k] = input_leaf(node.shape, node.dtype)
            cells[k] = wrap_array(places[k])
        for k, leaf in enumerate(leaves):
            if type(leaf) is float and k in moving:
                places[k] = scalar_leaf(None, FLOAT64)
                handles.append(tape_number(places[k], leaf, inner.tape, k))
            elif k in moving:
                handles.append(inner.tape.number(leaf, k))
            elif type(leaf) is float or is_static(leaf) or (isinstance(leaf, Array) and id(leaf.cell) in states):
                handles.append(leaf)
            elif id(leaf) in handle_of:
                handles.append(handle_of[id(leaf)])
            elif k in group:
                cell = cells[group[k]]
                handles.append(cell if leaf._base is None else cell._view(leaf._path))
                handle_of[id(leaf)] = handles[-1]
            else:
                shape, dtype, strides = forms[k]  # type: ignore[misc]
                places[k] = input_leaf(shape, dtype)
                handles.append(make_placeholder(leaf, places[k], strides))
                cells[k] = handle_of[id(leaf)] = handles[-1]
        inner.made_arrays[:] = [weakref.ref(h) for h in (*handles, *cells.values()) if isinstance(h, Array) and h._trace is inner]
        args, kwargs = rebuild(handles)
        copies = dataclasses_in((args, kwargs)) if any([is_container(x) for x in (*args, *kwargs.values())]) else []
        known = {id(record.owner) for record in swap.contents}  # static arguments are no copies
        numbered_copies = [(k, x) for k, x in enumerate(copies) if id(x) not in known]
        first, argument_numbers = len(swap.contents), [k for k, _ in numbered_copies]
        swap.add_arguments([read_argument(x) for _, x in numbered_copies])
        del copies, numbered_copies
        out = f(*args, **kwargs)
        del args, kwargs
        new = cache(lambda: {*map(id, gc.get_objects())}) if aside else None
        owners_known = {id(record.owner) for record in (*records, *snapshots)}
        is_made = is_made_in(inner, owners_known, new)
        changes = list(swap.changes())
        sets = tuple([(n, place) for n, place, _ in changes if n < first])
        argument_sets = tuple([(argument_numbers[n - first], place) for n, place, _ in changes if n >= first])
        replaced = tuple([swap.contents[n] for n, place in sets if isinstance(place, Content)])
        existing = owners_known.union([id(x) for record in swap.contents[:first] for x in record.values if is_container(x)])
        results, structure = flatten_results(
            (out, *[value for *_, value in changes]) if changes else out, is_made, existing=existing,
        )
        del changes
        numbers = {id(h): k for k, h in reversed([*enumerate(handles)]) if _has_identity(h)}
        owners: dict[int, End] = {id(cell): ("base" if k in wholes else "leaf", k) for k, cell in cells.items()}
        ends_record = ResultSpec(results, numbers, owners, inner)
        kinds: list[type] = [_result_type(r) for r in results]
        writes: list[tuple[str, Any, Node]] = [
            ("leaf", k, cell._node) for k, cell in cells.items() if cell._node is not places[k]
        ]
        before = {id(cell): node for cell, node in inner.captured_cells}
        writes += [
            (
                "cell", cell, inner.nodes[key]
            ) for key, cell in inner.written_cells.items() if inner.nodes[key] is not before.get(key)
        ]
        swap.restore()
        del handles, cells, handle_of, results, out
        alive = _alive(inner, collect)
        inner.tape.close()
        ends, places_of = ends_record.complete(alive)
        kinds += [ndarray] * (len(ends) - len(kinds))
        # a number that is a result becomes a float
        survivors = [(cell, cell._node, -1 if cell.weak else places_of.get(key, -1)) for key, cell in alive.items()]
    traced = _assemble(inner, places, frozenset(wholes), ends, kinds, ends_record.shows, structure, writes, survivors)
    traced.moving, traced.sets, traced.argument_sets = chosen, sets, argument_sets
    traced.snapshots, traced.replaced_records = tuple(snapshots), replaced
    traced.one_call_only = traced.one_call_only or bool(replaced)
    return traced


def trace_with_numbers(
    moving: frozenset[int], f: Callable, leaves: list[Any], rebuild: Callable, states: Collection[int],
    together: Sequence[Sequence[int]], collect: bool, records: Sequence[Record], snapshots: Sequence[Record] = (),
) -> tuple[TracedCall, frozenset[int], bool]:
    """Call :func:`trace` with the run-time numbers ``moving``, or without any if that raises.

    A function may reject numbers that are not real ints (a JSON encoder, ``type(i) is int``); its numbers become static.
    Return the traced call, the numbers that remain dynamic, and whether the function was traced twice.
    """
    if moving:
        try:
            traced = trace(f, leaves, rebuild, states, together, collect, moving, records, snapshots)
        except Exception:
            pass  # an error of the user's own is raised again by the second trace, without this one as its context
        else:
            tape = traced.tape
            traced.needed_values = number_slots(tape.static, len(leaves), traced.moving) if tape else {}
            dynamic = moving.difference(traced.needed_values)
            if not dynamic and tape and not tape.nodes and not needs_numbers(traced.results, len(leaves)):
                traced.tape = None  # all its numbers are part of the key
            return traced, dynamic, False
    traced = trace(f, leaves, rebuild, states, together, collect, (), records, snapshots)
    traced.needed_values = dict.fromkeys(moving, "")
    return traced, frozenset(), bool(moving)


def number_slots(slots: Mapping[int, str], leaves: int, moving: Sequence[int]) -> dict[int, str]:
    """Translate the tape slots of leaves and object values to the numbers of these leaves and values."""
    return {slot if slot < leaves else leaves + moving[slot - leaves]: line for slot, line in slots.items()}


@contextmanager
def _freeze_old_objects(collect: bool) -> Iterator[bool]:
    """Exclude existing objects from garbage collection during a trace: a large program's would take half a second to collect.
    Yield whether they are excluded."""
    freezes = collect and not gc.get_freeze_count()
    if freezes:
        gc.freeze()
    try:
        yield freezes
    finally:
        if freezes:
            gc.unfreeze()


def _alive(inner: JitTrace, collect: bool) -> dict[int, Array]:
    """Return the Arrays of a trace that are still referenced, by id. ``collect``: collect garbage first, so that reference cycles
    do not count."""
    if collect and (any(ref() is not None for ref in inner.made_arrays) or inner.tape.live_numbers()):
        gc.collect()
    return {id(cell): cell for cell in (ref() for ref in inner.made_arrays) if cell is not None and cell._base is None}


def _assemble(
    inner: JitTrace, places: dict[int, Node], bases: frozenset[int], ends: list[End], kinds: list[type], shows: list[Any],
    structure: Any, writes: list[tuple[str, Any, Node]], survivors: list[tuple[Any, Node, int]],
) -> TracedCall:
    arrays = tuple(k for k, n in places.items() if n.op is INPUT)
    inputs = [places[k] for k in arrays]
    scalars: list[int] = []
    for k, node in places.items():
        if node.op is SCALAR:
            for twin in inner.scalars.get(node, {}).values():
                inputs.append(twin)
                scalars.append(k)
            if node not in inner.scalars:
                inputs.append(node)
                scalars.append(k)
    for slot, node in inner.tape.nodes:
        inputs.append(node)
        scalars.append(slot)
    inputs += [node for _, node in inner.captured_cells]
    targets = [n for kind, n in ends if kind == "node"] + [n for _, _, n in writes] + [n for _, n, _ in survivors]
    leaves = set(inputs)
    fixed: list[Node] = []
    for node in topological_order(targets, stop=frozenset(leaves)):
        if node in leaves or (node.value is None and not is_placeholder(node)):
            continue
        if node.value is None:
            raise TraceError(
                "a traced function used an array that another trace left behind (stored in an attribute or a global while "
                "tracing): its content is not known; return it from that function instead"
            )
        fixed.append(node)
    inputs += fixed
    position = {n: k for k, n in enumerate(inputs)}
    outputs: dict[Node, int] = {}

    def source(node: Node) -> End:
        if node in position:
            return ("in", position[node])
        return ("out", outputs.setdefault(node, len(outputs)))

    results = tuple([source(content) if kind == "node" else (kind, content) for kind, content in ends])
    landing = tuple((kind, target, source(node)) for kind, target, node in writes)
    alive = [(cell, source(node), k) for cell, node, k in survivors]
    return TracedCall(
        inline(Graph(inputs, tuple(outputs))), arrays, bases, tuple(scalars), tuple(cell for cell, _ in inner.captured_cells),
        tuple(fixed), results, tuple(kinds), tuple(shows), structure, landing, alive, inner.tape if inner.tape.steps else None,
        inner.one_call_only,
    )


def materialise_argument(array: Any) -> Array:
    """Return the argument as an Array with a buffer: materialise a pending Array, copy a NumPy array."""
    if not isinstance(array, Array):
        return make_placeholder(
            array, as_node(array), element_strides(array)
        ) if isinstance(array, np.ndarray) else wrap(as_node(array))
    node = array.node
    if node.value is None:
        materialise((node,))
    elif node.op is not SCALAR:
        return array
    if node.op is SCALAR:
        content = numpy_node(np.asarray(node.value, node.dtype.numpy))
        if isinstance(array, Scalar):
            array._node = content
        else:
            array._set(content)
    return array
