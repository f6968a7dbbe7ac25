"""Results of a traced function: new arrays, its arguments, arrays from outside, and views of any of these.

A jitted function returns the same as without jit: a returned argument is that object, and results that share memory still share
it. So a result may be an output of the Program, an object that existed before, or a view.

An *end* describes one result: ("node", node) a new array, ("static", value) an object that existed before, ("leaf", k) an
argument (or slot k of the tape, see ``weft/runtime/traced_int.py``), ("same", j) the same Array as result j,
("view", (owner, path)) a view, whose owner is an end of kind leaf, static, same or base; ("base", k) is the cell that argument
k views.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.array import Array
from weft.array.convert import as_node
from weft.array.views import ViewPath, map_starts, overlap
from weft.graph.node import Node
from weft.runtime.traced_int import TRACED_TYPES, Slot
from weft.transforms.content import has_content
from weft.transforms.trace import Trace
from weft.transforms.tree import attributes_of, has_structure, is_module, is_only_attributes

End = tuple[str, Any]
# kinds of results in a call: an output, an input's content, an existing object, an argument leaf;
# LATER: derived from other results
OUT, IN, STATIC, LEAF, LATER = range(5)
_EXISTS = {"static": STATIC, "leaf": LEAF, "same": LATER, "view": LATER}


@dataclass(slots=True)
class ResultSpec:
    """The ends of a traced call, found while its Arrays are alive. :meth:`settled` completes them.

    shows : the node of each result, or the result itself if it is not an array of the trace
    """

    ends: list[End] = field(default_factory=list)
    shows: list[Any] = field(default_factory=list)
    _first: dict[int, int] = field(default_factory=dict)  # id of an Array -> its first result
    _views: dict[int, list[tuple[int, ViewPath]]] = field(default_factory=dict)  # id of a cell made inside -> its views
    _bases: dict[int, Node] = field(default_factory=dict)  # the nodes of these cells

    def settled(self, alive: Mapping[int, Array]) -> tuple[list[End], dict[int, int]]:
        """Return the ends of the results, followed by ends for arrays that are not results but whose memory results share, and
        the number of the end of each cell in ``alive`` (the Arrays that outlive the trace), by id."""
        ends = list(self.ends)
        at = dict(self._first)
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


def describe_results(results: Sequence[Any], handles: Mapping[int, int], owners: Mapping[int, End], inner: Trace) -> ResultSpec:
    """Return the end of each result.

    handles : id of a leaf passed to the function -> its number
    owners : id of the cell that such a leaf shows -> the end of that cell
    """
    ends = ResultSpec()
    for k, result in enumerate(results):
        end, node = _end(result, handles, owners, inner, ends, k)
        ends.ends.append(end)
        ends.shows.append(node)
    return ends


def _end(
    result: Any, handles: Mapping[int, int], owners: Mapping[int, End], inner: Trace, ends: ResultSpec, k: int,
) -> tuple[End, Any]:
    if not isinstance(result, Array):
        if isinstance(result, np.ndarray):
            node = as_node(result)
            return ("node", node), node
        if type(result) in TRACED_TYPES and result.tape.open:
            return ("leaf", result.slot), result.value  # computed by Python at each call
        return ("leaf", handles[id(result)]) if id(result) in handles else ("static", result), result
    if id(result) in handles and not result.weak:
        return ("leaf", handles[id(result)]), result.node
    first = ends._first.setdefault(id(result), k)
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
    ends._views.setdefault(id(base), []).append((k, path))
    ends._bases[id(base)] = base.node
    return ("node", result.node), result.node


def _any_overlap(node: Node, paths: Sequence[ViewPath]) -> bool:
    """Return whether any two of these views of one array overlap."""
    return any(overlap(node.shape, node.dtype, a, b) for k, a in enumerate(paths) for b in paths[:k])


def result_row(source: End, inputs: Sequence[Node], outputs: Sequence[Node]) -> tuple[int, Any, Any, Any]:
    """Return (OUT, output, shape, dtype), (IN, input, shape, dtype), or (STATIC | LEAF | LATER, value, None, None)."""
    kind, k = source
    if kind in _EXISTS:
        return (_EXISTS[kind], k, None, None)
    node = (outputs if kind == "out" else inputs)[k]
    return (OUT if kind == "out" else IN, k, node.shape, node.dtype)


def make_view(what: tuple[End, ViewPath], leaves: Sequence[Any], out: Sequence[Any]) -> Array:
    """Make the view described by an end's owner and path. Traced starts of slices are read from ``leaves``, by tape slot."""
    (kind, k), path = what
    owner = out[k] if kind == "same" else k if kind == "static" else leaves[k] if kind == "leaf" else leaves[k].cell
    return owner._view(map_starts(path, lambda number: leaves[number.slot]))
