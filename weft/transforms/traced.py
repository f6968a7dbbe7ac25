"""Tracing a function: its graph, and where the graph's inputs come from and its outputs go."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from weft.array import Array, Scalar, ndarray, own, standing_for, wrap
from weft.array.convert import as_node
from weft.array.shapes import lies
from weft.array.weak_scalar import told_number
from weft.dtypes.formats import FLOAT64
from weft.dtypes.parse import of_any_order
from weft.eager.materialise import materialise
from weft.errors import TraceError
from weft.graph.node import Graph, Node, topological
from weft.graph.primitives.table import INPUT, SCALAR, input_leaf, is_placeholder, scalar_leaf
from weft.runtime.traced_int import GIVEN, SCALARS, Tape
from weft.transforms.content import Content
from weft.transforms.object_state import swapped
from weft.transforms.results import End, ends_of, is_made_in, needs_numbers
from weft.transforms.trace import JitTrace
from weft.transforms.tree import flatten_results
from weft.transforms.values import CONSTANTS

_SCALARS = tuple(SCALARS)


@dataclass(slots=True)
class Traced:
    """A traced call.

    ``graph.inputs`` are, in order: the Array leaves of the arguments (of leaves in ``bases`` the whole cell of which they
    are views); numbers (``scalars``: leaf numbers of float arguments, each once for each dtype it is used in, and slots of
    the tape); captured cells; fixed buffers that were made while tracing.
    ``results`` are ends (see ``results.py``), the first ``len(shows)`` of them those of the function; in place of nodes they
    have sources: ``("out", k)`` a Program output, ``("in", k)`` an input unchanged. ``writes`` have sources too.
    ``shows``: the node of each result, or what it is where it is no array of the trace.
    ``structure`` is that of what the function gives; where it sets something in objects, of a tuple: what it gives, what it sets.
    """

    graph: Graph
    arrays: tuple[int, ...]
    bases: frozenset[int]
    scalars: tuple[int, ...]
    captured: tuple[Array, ...]
    fixed: tuple[Node, ...]
    results: tuple[End, ...]
    kinds: tuple[type, ...]  # of the results: ndarray, Scalar, or float of a run-time number
    shows: tuple[Any, ...]
    structure: Any
    writes: tuple[tuple[str, Any, End], ...]  # ("leaf", number | "cell", Array, source)
    survivors: list[tuple[Array, End, int]] = field(default_factory=list)  # the result that each is, or -1
    tape: Tape | None = None  # what is computed of run-time numbers at each call
    once: bool = False  # whether it is for this call alone
    moving: tuple[int, ...] = ()  # the values of objects that the tape has slots for, behind those of the leaves
    sets: tuple[tuple[int, int], ...] = ()  # what the function sets in objects: numbers of a record and of its value
    needed: Mapping[int, str] = field(default_factory=dict)  # numbers that have to be static, and the lines that say so

    @property
    def written(self) -> dict[int, int] | None:
        """For each output that an array holds after a call the input that is what it held before, both by number; None where a
        call changes more than that."""
        found: dict[int, int] = {}
        first = len(self.arrays) + len(self.scalars)
        cells = {id(cell): first + k for k, cell in enumerate(self.captured)}
        for kind, target, (source, k) in self.writes:
            before = cells.get(id(target)) if kind == "cell" else self.arrays.index(target) if target in self.arrays else None
            if source != "out" or before is None or found.setdefault(k, before) != before:
                return None
        return None if self.survivors else found


def _kind(result: Any) -> type:
    return float if getattr(result, "weak", False) else Scalar if isinstance(result, Scalar) else ndarray


def _has_identity(x: Any) -> bool:
    """Whether an argument that is returned is this very object, and not just an equal number or text."""
    return not x.weak if isinstance(x, Array) else type(x) not in CONSTANTS and type(x) not in GIVEN


def is_static(leaf: Any) -> bool:
    """Whether a leaf belongs to the key of a traced function, not to its inputs."""
    return isinstance(leaf, _SCALARS) or not isinstance(leaf, Array | float | np.ndarray | np.generic)


def trace(
    f: Callable, leaves: list[Any], rebuild: Callable[[list[Any]], tuple[tuple, dict]], states: Collection[int] = (),
    together: Sequence[Sequence[int]] = (), collect: bool = True, moving: Collection[int] = (), contents: Sequence[Content] = (),
) -> Traced:
    """Call ``f`` with placeholders for the Array and float leaves of its arguments. Writes to cells from outside are recorded,
    not done.

    rebuild : makes (args, kwargs) of leaves
    states : cells (by id) that stay what they are, so that leaves which show them are not placeholders
    together : numbers of leaves that show one cell; it is one placeholder, and they are views of it
    moving : numbers of int and float leaves of which each call tells the value, see ``runtime/traced_int.py``; others are
        static. Behind the numbers of leaves come those of the values in ``contents``
    collect : whether cycles that nobody can reach are looked for before arrays count as left behind
    contents : what the function and its arguments hold
    """
    with _set_aside(collect) as aside:
        return _traced(f, leaves, rebuild, states, together, collect, moving, contents, aside)


def traced_with(
    moving: frozenset[int], f: Callable, leaves: list[Any], rebuild: Callable, states: Collection[int],
    together: Sequence[Sequence[int]], collect: bool, contents: Sequence[Content],
) -> tuple[Traced, frozenset[int], bool]:
    """:func:`trace` with numbers that move, those that still do, and whether it took one more: what refuses a number that is no
    int to C (a JSON encoder, ``type(i) is int``) gets ints, and has them from then on."""
    if moving:
        try:
            traced = trace(f, leaves, rebuild, states, together, collect, moving, contents)
        except Exception:
            pass  # an error of the function's own comes again, and is no consequence of this one
        else:
            tape = traced.tape
            traced.needed = numbered(tape.static, len(leaves), traced.moving) if tape else {}
            still = moving.difference(traced.needed)
            if not still and tape and not tape.nodes and not needs_numbers(traced.results, len(leaves)):
                traced.tape = None  # it would find what the key has told
            return traced, still, False
    traced = trace(f, leaves, rebuild, states, together, collect, (), contents)
    traced.needed = dict.fromkeys(moving, "")
    return traced, frozenset(), bool(moving)


def numbered(slots: Mapping[int, str], leaves: int, moving: Sequence[int]) -> dict[int, str]:
    """Return what a tape says of its first slots by the numbers of leaves and values."""
    return {slot if slot < leaves else leaves + moving[slot - leaves]: line for slot, line in slots.items()}


@contextmanager
def _set_aside(collect: bool) -> Iterator[bool]:
    """Leave out of the search for cycles what is older than the trace: in a large program that would take half a second. Whether
    that is done."""
    mine = collect and not gc.get_freeze_count()
    if mine:
        gc.freeze()
    try:
        yield mine
    finally:
        if mine:
            gc.unfreeze()


def _traced(
    f: Callable, leaves: list[Any], rebuild: Callable[[list[Any]], tuple[tuple, dict]], states: Collection[int],
    together: Sequence[Sequence[int]], collect: bool, moving: Collection[int], contents: Sequence[Content], aside: bool,
) -> Traced:
    """``aside``: whether the garbage collector knows of no object that is older than the trace"""
    chosen = tuple(sorted([k - len(leaves) for k in moving if k >= len(leaves)]))
    inner = JitTrace(len(leaves) + len(chosen))
    handles: list[Any] = []
    places: dict[int, Node] = {}  # leaf number -> placeholder
    cells: dict[int, Array] = {}  # leaf number -> the Array whose content the placeholder is
    seen: dict[int, Any] = {}
    free = [is_static(x) or type(x) is float for x in leaves]
    # outside: no reads
    forms = [None if f else (tuple(x.shape), of_any_order(x.dtype), lies(x)) for x, f in zip(leaves, free, strict=True)]
    group = {k: numbers[0] for numbers in together for k in numbers}
    wholes = {numbers[0]: leaves[numbers[0]].cell.node for numbers in together}
    with inner, swapped(contents, chosen, inner.tape, len(leaves)) as swap:
        for k, node in wholes.items():
            places[k] = input_leaf(node.shape, node.dtype)
            cells[k] = own(places[k])
        for k, leaf in enumerate(leaves):
            if type(leaf) is float and k in moving:
                places[k] = scalar_leaf(None, FLOAT64)
                handles.append(told_number(places[k], leaf, inner.tape, k))
            elif k in moving:
                handles.append(inner.tape.number(leaf, k))
            elif type(leaf) is float or is_static(leaf) or (isinstance(leaf, Array) and id(leaf.cell) in states):
                handles.append(leaf)
            elif id(leaf) in seen:
                handles.append(seen[id(leaf)])
            elif k in group:
                cell = cells[group[k]]
                handles.append(cell if leaf._base is None else cell._view(leaf._path))
                seen[id(leaf)] = handles[-1]
            else:
                shape, dtype, strides = forms[k]  # type: ignore[misc]
                places[k] = input_leaf(shape, dtype)
                handles.append(standing_for(leaf, places[k], strides))
                cells[k] = seen[id(leaf)] = handles[-1]
        inner.made[:] = [weakref.ref(h) for h in (*handles, *cells.values()) if isinstance(h, Array) and h._trace is inner]
        args, kwargs = rebuild(handles)
        out = f(*args, **kwargs)
        del args, kwargs
        known = {id(record.owner) for content in contents for record in content.records}
        is_made = is_made_in(inner, known, cache(lambda: {*map(id, gc.get_objects())}) if aside else None)
        changes = list(swap.changes())
        sets = tuple([(record, place) for record, place, _ in changes])
        results, structure = flatten_results((out, *[value for *_, value in changes]) if changes else out, is_made)
        del changes
        numbers = {id(h): k for k, h in reversed([*enumerate(handles)]) if _has_identity(h)}
        owners: dict[int, End] = {id(cell): ("base" if k in wholes else "leaf", k) for k, cell in cells.items()}
        found = ends_of(results, numbers, owners, inner)
        kinds: list[type] = [_kind(r) for r in results]
        writes: list[tuple[str, Any, Node]] = [
            ("leaf", k, cell._node) for k, cell in cells.items() if cell._node is not places[k]
        ]
        before = {id(cell): node for cell, node in inner.captured}
        writes += [
            ("cell", cell, inner.nodes[key]) for key, cell in inner.written.items() if inner.nodes[key] is not before.get(key)
        ]
        swap.restore()
        del handles, cells, seen, results, out
        alive = _alive(inner, collect)
        inner.tape.close()
        ends, places_of = found.settled(alive)
        kinds += [ndarray] * (len(ends) - len(kinds))
        survivors = [(cell, cell._node, places_of.get(key, -1)) for key, cell in alive.items()]
    traced = _assemble(inner, places, frozenset(wholes), ends, kinds, found.shows, structure, writes, survivors)
    traced.moving, traced.sets = chosen, sets
    return traced


def _alive(inner: JitTrace, collect: bool) -> dict[int, Array]:
    """The Arrays of a trace that somebody still holds, by id; ``collect``: not those that only a cycle of garbage holds."""

    def found() -> dict[int, Array]:
        return {id(cell): cell for cell in (ref() for ref in inner.made) if cell is not None and cell._base is None}

    if collect and (any(ref() is not None for ref in inner.made) or inner.tape.left()):
        gc.collect()
    return found()


def _assemble(
    inner: JitTrace, places: dict[int, Node], bases: frozenset[int], ends: list[End], kinds: list[type], shows: list[Any],
    structure: Any, writes: list[tuple[str, Any, Node]], survivors: list[tuple[Any, Node, int]],
) -> Traced:
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
    captured = [(cell, node) for cell, node in inner.captured]
    inputs += [node for _, node in captured]
    wanted = [n for kind, n in ends if kind == "node"] + [n for _, _, n in writes] + [n for _, n, _ in survivors]
    known = set(inputs)
    fixed: list[Node] = []
    for node in topological(wanted, stop=frozenset(known)):
        if node in known or (node.value is None and not is_placeholder(node)):
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

    results = tuple([source(what) if kind == "node" else (kind, what) for kind, what in ends])
    landing = tuple((kind, target, source(node)) for kind, target, node in writes)
    left = [(cell, source(node), k) for cell, node, k in survivors]
    return Traced(
        Graph(inputs, tuple(outputs)), arrays, bases, tuple(scalars), tuple(cell for cell, _ in captured),
        tuple(fixed), results, tuple(kinds), tuple(shows), structure, landing, left, inner.tape if inner.tape.steps else None,
        inner.once,
    )


def concrete(array: Any) -> Array:
    """An argument with a buffer: pending Arrays are computed, NumPy arrays copied."""
    if not isinstance(array, Array):
        return standing_for(array, as_node(array), lies(array)) if isinstance(array, np.ndarray) else wrap(as_node(array))
    node = array.node
    if node.value is None:
        materialise((node,))
    elif node.op is not SCALAR:
        return array
    if node.op is SCALAR:
        from weft.array.convert import numpy_node

        content = numpy_node(np.asarray(node.value, node.dtype.numpy))
        if isinstance(array, Scalar):
            array._node = content
        else:
            array._set(content)
    return array
