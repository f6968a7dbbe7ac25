"""What a traced function gives back: arrays of its own, its arguments, arrays from outside, and views of any of these.

A jitted function gives what it gives without jit. An argument that is returned is that very argument, two results that share
memory share it still. So a result is not only a value of the Program: it may be a handle that exists, or a view of one.

An end is a pair: ("node", node) an array of its own, ("static", value) what exists already, ("leaf", k) an argument
(or what the tape has in slot k, see ``weft/runtime/traced_int.py``),
("same", j) the very Array that another result is, ("view", (owner, path)), where the owner is an end as well: of kind
leaf, static, same, or base (k): the cell of which an argument is a view.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.array import Array
from weft.array.convert import as_node
from weft.array.views import Path, overlap, with_starts
from weft.graph.node import Node
from weft.runtime.traced_int import GIVEN, Slot
from weft.transforms.content import has_content
from weft.transforms.trace import Trace
from weft.transforms.tree import attributes_of, has_structure, is_module, is_only_attributes

End = tuple[str, Any]
# what a result is in a call: an output, an input's content, or what exists already (the object, or the leaf's number);
# LATER: what is made of other results
OUT, IN, STATIC, LEAF, LATER = range(5)
_EXISTS = {"static": STATIC, "leaf": LEAF, "same": LATER, "view": LATER}


@dataclass(slots=True)
class Ends:
    """The ends of a traced call, as far as they are known while its Arrays are alive; :meth:`settled` says the rest.

    shows: of every result the node, or what it is where it is no array of the trace.
    """

    ends: list[End] = field(default_factory=list)
    shows: list[Any] = field(default_factory=list)
    _first: dict[int, int] = field(default_factory=dict)  # id of an Array -> the result that is it
    _views: dict[int, list[tuple[int, Path]]] = field(default_factory=dict)  # id of a cell made inside -> results that are views
    _bases: dict[int, Node] = field(default_factory=dict)  # what these cells hold

    def settled(self, alive: Mapping[int, Array]) -> tuple[list[End], dict[int, int]]:
        """The ends, after those of the results more where memory is shared that is no result itself; and which end a cell
        of ``alive`` is (by id), which has outlived the trace."""
        ends = list(self.ends)
        at = dict(self._first)
        for key, views in self._views.items():
            node = self._bases[key]
            if key not in at:
                if key not in alive and not _meet(node, [path for _, path in views]):
                    continue  # nothing shows that they were one array: each is one of its own
                at[key] = len(ends)
                ends.append(("node", node))
            for k, path in views:
                ends[k] = ("view", (("same", at[key]), path))
        return ends, {key: at[key] for key in alive if key in at}


def needs_numbers(ends: Sequence[End], leaves: int) -> bool:
    """Whether results are made of run-time numbers, beside int arguments that are returned."""
    views = [what[1] for kind, what in ends if kind == "view"]
    starts = [start for path in views for name, params in path if name == "slice" for start in params["start"]]
    return any([type(start) is Slot for start in starts]) or any([kind == "leaf" and what >= leaves for kind, what in ends])


def is_made_in(trace: Trace, known: Collection[int] = (), new: Callable[[], set[int]] | None = None) -> Callable[[Any], bool]:
    """Return what says whether an object was made in a trace. Dataclasses are trees, and no such objects.

    known : objects (by id) that were there before
    new : gives the objects that were not, where that can be told; else they are those that hold something of the trace
    """

    def holds(x: Any, seen: set[int]) -> bool:
        if isinstance(x, Array):
            return trace.owns(x.cell)
        if type(x) in GIVEN:
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


def ends_of(results: Sequence[Any], handles: Mapping[int, int], owners: Mapping[int, End], inner: Trace) -> Ends:
    """What each of ``results`` is.

    handles : id of what the function was called with -> number of the argument
    owners : id of the cell that such a handle shows -> the end that it is
    """
    found = Ends()
    for k, result in enumerate(results):
        end, node = _end(result, handles, owners, inner, found, k)
        found.ends.append(end)
        found.shows.append(node)
    return found


def _end(
    result: Any, handles: Mapping[int, int], owners: Mapping[int, End], inner: Trace, found: Ends, k: int,
) -> tuple[End, Any]:
    if not isinstance(result, Array):
        if isinstance(result, np.ndarray):
            node = as_node(result)
            return ("node", node), node
        if type(result) in GIVEN and result.tape.open:
            return ("leaf", result.slot), result.value  # computed by Python at each call
        return ("leaf", handles[id(result)]) if id(result) in handles else ("static", result), result
    if id(result) in handles and not result.weak:
        return ("leaf", handles[id(result)]), result.node
    first = found._first.setdefault(id(result), k)
    if first != k:
        return ("same", first), result.node
    base = result._base
    path = () if base is None else with_starts(result._path, lambda x: Slot(x.slot) if x.tape.open else x.value)
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
    found._views.setdefault(id(base), []).append((k, path))
    found._bases[id(base)] = base.node
    return ("node", result.node), result.node


def _meet(node: Node, paths: Sequence[Path]) -> bool:
    """Whether any two of some views of one array show an element in common."""
    return any(overlap(node.shape, node.dtype, a, b) for k, a in enumerate(paths) for b in paths[:k])


def row_of(source: End, inputs: Sequence[Node], outputs: Sequence[Node]) -> tuple[int, Any, Any, Any]:
    """(OUT, output, shape, dtype), (IN, input, shape, dtype), or (STATIC | LEAF | LATER, value, None, None)."""
    kind, k = source
    if kind in _EXISTS:
        return (_EXISTS[kind], k, None, None)
    node = (outputs if kind == "out" else inputs)[k]
    return (OUT if kind == "out" else IN, k, node.shape, node.dtype)


def view_of(what: tuple[End, Path], leaves: Sequence[Any], out: Sequence[Any]) -> Array:
    """The view that a result is: its owner and its path. Slices begin where the numbers of the call say, which follow leaves."""
    (kind, k), path = what
    owner = out[k] if kind == "same" else k if kind == "static" else leaves[k] if kind == "leaf" else leaves[k].cell
    return owner._view(with_starts(path, lambda number: leaves[number.slot]))
