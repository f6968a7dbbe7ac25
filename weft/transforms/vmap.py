"""vmap: map a function of one example over many.

The function is called once, with the shapes of one example; its graph is then rewritten for all examples by the batching rules
of the primitives.

vmap writes into each example's part of a mapped argument; the function of ``scan`` gets copies. A write to memory with two
names (a variable of grad, one example of vmap) is refused, since its meaning is not defined.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.array import Array, make_placeholder, wrap
from weft.array.convert import as_node
from weft.array.numpy_methods import element_strides
from weft.eager.materialise import compute_fallible, read_array
from weft.errors import AxisError, ShapeError, TraceError, need_function
from weft.graph.batching import BatchedNode, batch
from weft.graph.node import Node
from weft.graph.primitives.table import TABLE, bind, input_leaf
from weft.graph.source_lines import user_frame, user_line
from weft.transforms.aliases import check_writable, touch
from weft.transforms.rebinding import Rebinding
from weft.transforms.trace import VmapTrace, leave_traces_on_interrupt
from weft.transforms.tracing import is_made_in
from weft.transforms.tree import flatten, flatten_results, flatten_value, is_container, is_module, unflatten


def vmap(f: Callable, in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """Map ``f`` over an axis of its arguments, as one program without a loop.

    Parameters
    ----------
    f : function of Arrays or trees. Its writes into a mapped argument are done in each example's part of the argument. Random
        numbers without a key (also those of dropout) are drawn once, for all examples: for others, map over keys of
        :func:`wf.random.split`
    in_axes : int, None (not mapped) or a tuple with one entry per argument; an entry may be a tree like its argument
    out_axes : int, None, or a tree like the result: the position of the mapped axis. None in the result of ``f`` stays None

    Returns
    -------
    function of the same arguments, each with the mapped axis

    Raises
    ------
    ShapeError, AxisError, ValueError
        When called: an argument lacks the axis, or extents differ; ``in_axes`` does not fit the arguments, or maps none.
    TraceError
        ``f`` reads the content of an array, rebinds an attribute, an item or a variable from outside, or writes a mapped
        argument that shares memory with another array.

    Examples
    --------
    >>> import weft as wf
    >>> rows = wf.array([[1.0, 2.0], [3.0, 4.0]])
    >>> wf.vmap(lambda row: row.sum())(rows)
    array([3., 7.], dtype=float32)
    """

    need_function("vmap: f", f, "give the function, wf.vmap(f)(x), not its result")

    @functools.wraps(f)
    @leave_traces_on_interrupt
    def mapped(*args: Any, **kwargs: Any) -> Any:
        name = getattr(f, "__name__", type(f).__name__)
        axes = in_axes if isinstance(in_axes, tuple | list) else (in_axes,) * len(args)
        if len(axes) != len(args):
            raise ValueError(f"vmap of {name}: in_axes has {len(axes)} entries for {len(args)} arguments")
        mapping: dict[Node, BatchedNode] = {}
        sizes: dict[int, str] = {}
        records: list[_MappedArray] = []
        positional = [
            _map_argument(a, ax, f"vmap of {name}: argument {k}", mapping, sizes, records)
            for k, (a, ax) in enumerate(zip(args, axes, strict=True))
        ]
        keywords = {k: _map_argument(v, 0, f"vmap of {name}: argument {k}", mapping, sizes, records) for k, v in kwargs.items()}
        if not sizes:
            raise ValueError(f"vmap of {name}: no argument is mapped; give at least one axis in in_axes")
        if len(sizes) > 1:
            extents = ", ".join(f"{n} ({what})" for n, what in sizes.items())
            raise ShapeError(f"vmap of {name}: the mapped axes have different extents: {extents}")
        (size,) = sizes
        names = Rebinding(f, "wf.vmap")
        with VmapTrace(f) as trace:
            for m in records:
                m.handle._trace = trace
            try:
                out = f(*positional, **keywords)
                names.take(trace)
                names.refuse_all()
            finally:
                names.restore()
            leaves, structure = flatten_results(out, is_made_in(trace), modules=True)
            nodes = [as_node(leaf) for leaf in leaves if leaf is not None]
        places = _axes_of_leaves(out_axes, out, leaves, f"vmap of {name}: out_axes")
        writes = [
            (cell, trace.nodes[key]) for key, cell in trace.written_cells.items() if trace.nodes[key] is not trace.outer(cell)
        ]
        changed = [m for m in records if m.handle._node is not m.node]
        _refuse_aliases(records, changed, trace, {id(cell) for cell, _ in writes}, f"vmap of {name}")
        batched = batch([*nodes, *(n for _, n in writes), *(m.handle._node for m in changed)], mapping)
        for node, dim in batched[len(nodes) : len(nodes) + len(writes)]:
            if dim is not None:
                raise ShapeError(
                    f"vmap of {name}: the function writes an array from outside (shape {node.shape} for all examples); "
                    "one array cannot hold every example's value: return it instead"
                )
        ends = zip(changed, batched[len(nodes) + len(writes) :], strict=True)
        wholes = [_move(node, dim, m.axis, size) for m, (node, dim) in ends]
        if writes or changed:  # a vmap that fails must not have written anything
            compute_fallible([*[node for node, _ in batched], *wholes])
        for (cell, _), (node, _) in zip(writes, batched[len(nodes) :], strict=False):
            cell._set(node)  # type: ignore[attr-defined]
        for m, whole in zip(changed, wholes, strict=True):
            if isinstance(m.argument, Array):
                m.argument._set(whole)
            else:
                m.argument[...] = read_array(whole)
        remaining = iter(batched)
        results = [
            None if leaf is None else wrap(_move(*next(remaining), place, size))
            for leaf, place in zip(leaves, places, strict=True)
        ]
        return unflatten(structure, results)

    return mapped


@dataclass(frozen=True, eq=False, slots=True)
class _MappedArray:
    """A mapped array: the argument, its mapped axis, and the array of one example with its initial placeholder."""

    argument: Any
    axis: int
    handle: Array
    node: Node
    label: str


def _map_argument(
    value: Any, axes: Any, what: str, mapping: dict[Node, BatchedNode], sizes: dict[int, str], mapped: list[_MappedArray],
) -> Any:
    """Return the argument for one example, in which mapped Arrays are placeholders."""
    if axes is None or is_module(value):
        return value
    leaves, structure = flatten_value(value, modules=False)
    out = []
    for leaf, axis in zip(leaves, _axes_of_leaves(axes, value, leaves, what), strict=True):
        if axis is None or is_module(leaf) or isinstance(leaf, str | int | float) or leaf is None:
            if isinstance(leaf, int | float) and axis is not None and structure is None:
                raise ShapeError(f"{what} is the number {leaf!r}, which has no axis to map over: give None for it in in_axes")
            out.append(leaf)
            continue
        node = as_node(leaf)
        if not -len(node.shape) <= axis < len(node.shape):
            raise AxisError(f"{what} has shape {node.shape}, it has no axis {axis} to map over")
        axis %= len(node.shape)
        sizes.setdefault(node.shape[axis], what.rsplit(": ", 1)[-1])
        same = [m.handle for m in mapped if m.argument is leaf and m.axis == axis]  # an array passed twice is one array
        if not same:
            example = input_leaf(node.shape[:axis] + node.shape[axis + 1 :], node.dtype)
            mapping[example] = (node, axis)
            handle = make_placeholder(leaf, example, element_strides(leaf, axis)) if example.shape else wrap(example)
            mapped.append(_MappedArray(leaf, axis, handle, example, what))
        out.append(same[0] if same else mapped[-1].handle)
    return unflatten(structure, out)


def _refuse_aliases(
    mapped: list[_MappedArray], changed: list[_MappedArray], trace: VmapTrace, written: set[int], what: str,
) -> None:
    """Raise TraceError if a written array shares memory with another one: writes to a placeholder do not show in aliases."""
    for m in mapped:
        if m in changed:
            check_writable(m.argument, what)
        cell = id(m.argument.cell) if isinstance(m.argument, Array) else None
        other = next((o.label for o in mapped if o is not m and touch(o.argument, m.argument)), "")
        if not other and (cell in trace.cells_read or cell in written):
            other = "an array from outside, or one that is not mapped"
        if other and (m in changed or cell in written):
            raise TraceError(
                f"{user_line(user_frame())}: {m.label} shares memory with {other.removeprefix(what + ': ')}, and one of them is "
                "written in place, so the other's content is ambiguous; give a copy (.copy()) of one of them"
            )


def _axes_of_leaves(axes: Any, tree: Any, leaves: list[Any], what: str) -> list[Any]:
    """Return one axis per leaf of ``tree``. ``axes``: one axis for all leaves, or a tree whose leaves may stand for branches"""
    if isinstance(axes, bool):
        raise TypeError(f"{what}: the axis must be an int or None, not {axes}")
    if axes is None or isinstance(axes, int):
        return [axes] * len(leaves)
    if isinstance(tree, dict) and isinstance(axes, dict):
        if axes.keys() != tree.keys():
            raise ValueError(f"{what}: axes for the keys {sorted(axes)} of a dict with keys {sorted(tree)}")
        pairs = [(axes[k], tree[k]) for k in sorted(tree)]
    elif isinstance(tree, list | tuple) and isinstance(axes, list | tuple) and len(axes) == len(tree):
        pairs = list(zip(axes, tree, strict=True))
    else:
        raise ValueError(f"{what}: axes {axes!r} do not match a {type(tree).__name__}")
    out: list[Any] = []
    for ax, branch in pairs:
        inner = flatten(branch, modules=False)[0] if is_container(branch) else [] if branch is None else [branch]
        out.extend(_axes_of_leaves(ax, branch, inner, what))
    return out


def _move(node: Node, dim: int | None, place: Any, size: int) -> Node:
    """Return the result with its mapped axis moved from ``dim`` to ``place``."""
    if place is None:
        if dim is not None:
            raise ShapeError("vmap: out_axes is None for a result that depends on the mapped arguments")
        return node
    if dim is None:
        node, dim = bind(TABLE["broadcast_to"], node, shape=(size, *node.shape)), 0
    ndim = len(node.shape)
    if not -ndim <= place < ndim:
        raise AxisError(f"vmap: out_axes is {place}, but the result has {ndim} axes")
    place %= ndim
    if place == dim:
        return node
    order = [d for d in range(ndim) if d != dim]
    order.insert(place, dim)
    return bind(TABLE["permute"], node, axes=tuple(order))
