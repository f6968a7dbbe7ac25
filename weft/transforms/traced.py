"""Tracing a function: its graph, and where the graph's inputs come from and its outputs go."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.array import Array, Scalar, own, wrap
from weft.array.number import number
from weft.convert import as_node
from weft.dtypes import float64
from weft.errors import TraceError
from weft.graph.node import Graph, Node, topological
from weft.graph.primitives.table import INPUT, SCALAR, input_leaf, scalar_leaf
from weft.look import materialise
from weft.transforms.trace import JitTrace
from weft.transforms.tree import flatten, is_container, is_module


@dataclass(slots=True)
class Traced:
    """A traced call.

    ``graph.inputs`` are, in order: the Array leaves of the arguments; float arguments (``scalars``: leaf numbers, a
    leaf once for each dtype it is used in); captured cells; fixed buffers that were made while tracing.
    ``results`` and ``writes`` say where values are found: ``("out", k)`` a Program output, ``("in", k)`` an input
    unchanged, ``("static", value)``.
    """

    graph: Graph
    arrays: tuple[int, ...]
    scalars: tuple[int, ...]
    captured: tuple[Array, ...]
    fixed: tuple[Node, ...]
    results: tuple[tuple[str, Any], ...]
    kinds: tuple[type[Array], ...]  # of the results: Array or Scalar
    structure: Any
    writes: tuple[tuple[str, Any, tuple[str, Any]], ...]  # ("leaf", number | "cell", Array, source)
    survivors: list[tuple[Array, tuple[str, Any]]] = field(default_factory=list)


def is_static(leaf: Any) -> bool:
    """Whether a leaf belongs to the key of a traced function, not to its inputs."""
    return not isinstance(leaf, Array | float | np.ndarray | np.generic)


def trace(
    f: Callable, leaves: list[Any], rebuild: Callable[[list[Any]], tuple[tuple, dict]], states: Collection[int] = (),
) -> Traced:
    """Call ``f`` with placeholders for the Array and float leaves of its arguments; those in ``states`` (by id) stay cells.

    ``rebuild`` makes (args, kwargs) of leaves. Writes to cells from outside are recorded, not done.
    """
    inner = JitTrace()
    handles: list[Any] = []
    places: dict[int, Node] = {}  # leaf number -> placeholder
    seen: dict[int, Any] = {}
    forms = [None if is_static(x) or type(x) is float else (tuple(x.shape), x.dtype) for x in leaves]  # outside: no reads
    with inner:
        for k, leaf in enumerate(leaves):
            if is_static(leaf) or id(leaf) in states:
                handles.append(leaf)
            elif type(leaf) is float:
                places[k] = scalar_leaf(None, float64)
                handles.append(number(places[k]))
            elif id(leaf) in seen:
                handles.append(seen[id(leaf)])
            else:
                shape, dtype = forms[k]  # type: ignore[misc]
                places[k] = input_leaf(shape, dtype)
                handles.append(wrap(places[k]) if isinstance(leaf, Scalar) else own(places[k]))
                seen[id(leaf)] = handles[-1]
        inner.made.clear()
        args, kwargs = rebuild(handles)
        out = f(*args, **kwargs)
        del args, kwargs
        results, structure = flatten(out, modules=False) if is_container(out) and not is_module(out) else ([out], None)
        ends: list[Any] = [_end(r, inner) for r in results]
        kinds: tuple[type[Array], ...] = tuple(Scalar if isinstance(r, Scalar) else Array for r in results)
        writes: list[tuple[str, Any, Node]] = []
        for k, node in places.items():
            if node.op is INPUT and handles[k]._node is not node:
                writes.append(("leaf", k, handles[k]._node))
        writes += [("cell", cell, inner.nodes[key]) for key, cell in inner.written.items()]
        mine = {id(x) for x in (*results, *handles)}
        alive = [cell for cell in (ref() for ref in inner.made) if cell is not None and id(cell) not in mine]
        survivors = [(cell, cell._node) for cell in alive if cell._base is None]
    del out, results
    return _assemble(inner, places, ends, kinds, structure, writes, survivors)


def _end(result: Any, inner: JitTrace) -> Any:
    if isinstance(result, Array):
        return result.node
    if isinstance(result, np.ndarray):
        return as_node(result)
    return ("static", result)


def _assemble(
    inner: JitTrace, places: dict[int, Node], ends: list[Any], kinds: tuple[type[Array], ...], structure: Any,
    writes: list[tuple[str, Any, Node]], survivors: list[tuple[Any, Node]],
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
    captured = [(cell, node) for cell, node in inner.captured]
    inputs += [node for _, node in captured]
    wanted = [n for n in ends if isinstance(n, Node)] + [n for _, _, n in writes] + [n for _, n in survivors]
    known = set(inputs)
    fixed: list[Node] = []
    for node in topological(wanted, stop=frozenset(known)):
        if node in known or (node.value is None and (node.op.kind != "leaf" or node.op.name == "constant")):
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

    def source(node: Any) -> tuple[str, Any]:
        if not isinstance(node, Node):
            return node
        if node in position:
            return ("in", position[node])
        return ("out", outputs.setdefault(node, len(outputs)))

    results = tuple(source(e) for e in ends)
    landing = tuple((kind, target, source(node)) for kind, target, node in writes)
    left = [(cell, source(node)) for cell, node in survivors]
    return Traced(
        Graph(inputs, tuple(outputs)), arrays, tuple(scalars), tuple(cell for cell, _ in captured),
        tuple(fixed), results, kinds, structure, landing, left,
    )


def concrete(array: Any) -> Array:
    """An argument with a buffer: pending Arrays are computed, NumPy arrays copied."""
    if not isinstance(array, Array):
        return own(as_node(array)) if isinstance(array, np.ndarray) else wrap(as_node(array))
    node = array.node
    if node.value is None:
        materialise((node,))
    elif node.op is not SCALAR:
        return array
    if node.op is SCALAR:
        from weft.convert import numpy_node

        content = numpy_node(np.asarray(node.value, node.dtype))
        if isinstance(array, Scalar):
            array._node = content
        else:
            array._set(content)
    return array


