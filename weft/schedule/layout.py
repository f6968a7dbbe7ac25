"""Choice of the arrays stored channels last: images between convolutions of 16-bit formats, and their weights.

Tensor cores multiply 16-bit formats. They are fed by loads of 16 bytes if memory runs along the summed axis or along the
result. In row-major order an image's memory runs along its pixels, shifted by each tap, and loads are single elements. Images
and weights of convolutions are therefore stored channels last, and so are arrays between them if that moves more bytes along
memory than across it. A Program's inputs and outputs stay row-major, and so do arrays that are read under a second shape, by
NumPy, or by a loop. Weights among the inputs are copied to channels last once a run, if that saves more traffic than it costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.graph.node import Node, Shape
from weft.graph.primitives.elementwise import CAST
from weft.kernel.convolution import operand_load
from weft.kernel.hazards import in_place
from weft.kernel.ir import Access, Contraction, Kernel
from weft.kernel.storage import channels_last, relay, reorder_memory
from weft.kernel.target import Target
from weft.schedule.fuse import FusedGroup
from weft.schedule.fusion_graph import FusionGraph, strip
from weft.schedule.traffic import traffic

_ROWS, _DEEP = 128, 32  # of a product's tiles: rows, and the least extent of one axis of k that fills a tile
_SECTOR = 32  # least bytes of one memory transaction


def choose_layouts(view: FusionGraph, fused: list[FusedGroup], target: Target) -> list[FusedGroup]:
    """Return the kernels on arrays in the chosen layouts, with kernels that copy weights to channels last in front."""
    products = {k: convolutions for k, f in enumerate(fused) if (convolutions := list(_convolutions(f))) and f.kernel is not None}
    if not products:
        return fused
    last = _choose_arrays(view, fused, products, target.channels_last)
    relaid = _weights(view, fused, products, target)
    kernels: dict[tuple, tuple[Kernel, tuple[tuple[int, int], ...]]] = {}
    out: list[FusedGroup] = []
    copied: set[Node] = set()
    for k, f in enumerate(fused):
        replaced = {key: relaid[key] for key in f.inputs if k in products and key in relaid}
        for (node, shape), new in replaced.items():
            if new not in copied:
                copied.add(new)
                kernel = relay(shape, node.dtype)
                out.append(FusedGroup(kernel, ((node, shape),), (new,), bytes=traffic(kernel)))
        out.append(_relay_arguments(f, last | copied, replaced, target, kernels))
    return out


@dataclass(frozen=True, slots=True)
class _Product:
    """A convolution of two 16-bit arrays. a, b: its accesses to them."""

    contraction: Contraction
    a: Access
    b: Access


def _convolutions(f: FusedGroup) -> Iterator[_Product]:
    """Yield the convolutions of a kernel whose operands are 16-bit arrays read from memory."""
    if f.kernel is None or not any(n.op.kind == "convolution" for n in f.nodes):
        return
    for phase in f.kernel.phases:
        for c in phase.stages:
            if isinstance(c, Contraction) and min(prod([x.extent for x in side]) for side in (c.m, c.n)) > 1:
                a, b = (operand_load(v, c.accum.name) for v in (c.a, c.b))
                if a is not None and b is not None and a.buffer.dtype.narrow and a.buffer.dtype is b.buffer.dtype:
                    yield _Product(c, a, b)


def _runs(access: Access, c: Contraction) -> int:
    """Return how many contiguous elements, channels last, an access reads along an axis that is neither pixel nor tap."""
    axes = {x.id: x.extent for x in (c.m[0], *c.n, c.k[0])}
    return max([axes.get(axis, 0) for axis, coef in access.index[1].terms if coef == 1], default=0)


# ---- arrays between kernels


def _choose_arrays(view: FusionGraph, fused: Sequence[FusedGroup], products: dict[int, list[_Product]], least: int) -> set[Node]:
    """Return the arrays to store channels last."""
    free = _candidates(view, fused, least)
    last: set[Node] = set()
    for k, convolutions in products.items():
        args = _arguments(fused[k])
        for p in convolutions:
            last |= {args[x.buffer.id] for x in (p.a, p.b) if _runs(x, p.contraction) >= least} & free
    readers: dict[Node, list[int]] = {}
    for k, f in enumerate(fused):
        if f.kernel is not None:
            for node in dict.fromkeys(_arguments(f)):
                readers.setdefault(node, []).append(k)
    waiting = list(last)
    while waiting:  # other arrays of the same kernels may follow
        near = {n for k in readers[waiting.pop()] for n in _arguments(fused[k]) if n in free and n not in last}
        for node in sorted(near, key=view.number.__getitem__):
            if sum([_vote(node, fused[k], products.get(k, ()), last, free, least) for k in readers[node]]) > 0:
                last.add(node)
                waiting.append(node)
    return last


def _candidates(view: FusionGraph, fused: Sequence[FusedGroup], least: int) -> set[Node]:
    """Return the arrays that may be stored channels last.

    They have many channels and an order that would change, and only kernels read them, all under one shape.
    """
    fixed = {strip(o) for o in view.graph.outputs} | view.graph_inputs
    result: set[Node] = set()
    for f in fused:
        if f.kernel is None or any(n.op.chains for n in f.nodes):
            fixed |= {strip(n) for n in (*(n for n, _ in f.inputs), *f.outputs, *f.nodes)}
            continue
        seen = (*f.inputs, *((n, n.shape) for n in f.outputs))
        fixed |= {strip(n) for n, shape in seen if strip(n).shape != shape}
        result |= {n for n in f.outputs if channels_last(n.shape) and n.shape[1] >= least}
    return result - fixed


def _arguments(f: FusedGroup) -> list[Node]:
    """Return the arrays behind a kernel's buffers, in order."""
    return [strip(n) for n, _ in f.inputs] + [strip(n) for n in f.outputs]


def _vote(node: Node, f: FusedGroup, products: Sequence[_Product], last: set[Node], free: set[Node], least: int) -> int:
    """Return the bytes that a kernel moves along memory if ``node`` is channels last, minus those it moves across memory."""
    assert f.kernel is not None
    total = 0
    for n, b in zip(_arguments(f), (*f.kernel.inputs, *f.kernel.outputs), strict=True):
        if n in last:
            total += n.nbytes
        elif n not in free and b.shape == node.shape:
            total -= n.nbytes
    for p in products:  # the columns of its tiles are filters
        filters = {x.id for x in p.contraction.n if x.extent >= least}
        own = [s.access for s in p.contraction.stores if strip(f.outputs[s.access.buffer.id - len(f.kernel.inputs)]) is node]
        if any(filters & {a for a, c in access.index[1].terms if c == 1} for access in own):
            total += node.nbytes // len(products)
    return total


# ---- weights among the inputs


def _weights(
    view: FusionGraph, fused: Sequence[FusedGroup], products: dict[int, list[_Product]], target: Target,
) -> dict[tuple[Node, Shape], Node]:
    """Map the weights to copy to channels last to the nodes that replace them."""
    saved: dict[tuple[Node, Shape], int] = {}
    for k, convolutions in products.items():
        f = fused[k]
        for p in convolutions:
            if p.b.buffer.id >= len(f.inputs) or p.b.buffer.id == p.a.buffer.id:
                continue
            key = f.inputs[p.b.buffer.id]
            is_input = strip(key[0]) in view.graph_inputs and channels_last(key[1]) and _runs(
                p.b, p.contraction
            ) >= target.channels_last
            if is_input:
                saved[key] = saved.get(key, 0) + _wasted_bytes(p)
    return {
        (node, shape): Node(CAST, (node,), {"dtype": node.dtype}, shape, node.dtype)
        for (node, shape), nbytes in saved.items() if nbytes - 2 * node.nbytes >= target.relaying
    }


def _wasted_bytes(p: _Product) -> int:
    """Return the bytes that are transferred but not used for row-major weights.

    Each row of tiles reads all weights, by sectors.
    """
    c, access = p.contraction, p.b
    nbytes = prod(access.buffer.shape) * access.buffer.dtype.bytes
    steps = dict(access.flat().terms)
    longest = max(c.k, key=lambda x: x.extent)
    inside = [longest] if longest.extent >= _DEEP else list(c.k)
    step = min([abs(steps[x.id]) for x in (*inside, *c.n) if steps.get(x.id) and x.extent > 1], default=1)
    return (min(step, _SECTOR // access.buffer.dtype.bytes) - 1) * nbytes * -(-prod([x.extent for x in c.m]) // _ROWS)


# ---- kernels on channels-last arrays


def _relay_arguments(
    f: FusedGroup, last: set[Node], replaced: dict[tuple[Node, Shape], Node], target: Target,
    kernels: dict[tuple, tuple[Kernel, tuple[tuple[int, int], ...]]],
) -> FusedGroup:
    """Return a kernel on arrays stored as chosen. ``kernels`` caches the results, so that equal layers share one."""
    if f.kernel is None:
        return f
    if replaced:
        f = replace(f, inputs=tuple([(replaced[key], key[1]) if key in replaced else key for key in f.inputs]))
    assert f.kernel is not None
    orders = {k: channels_last(n.shape) for k, n in enumerate(_arguments(f)) if n in last}
    if not orders:
        return f
    key = (id(f.kernel), tuple(orders.items()))
    if key not in kernels:
        kernel = reorder_memory(f.kernel, orders)
        kernels[key] = kernel, tuple(in_place(kernel, target.kept_orders))
    kernel, pairs = kernels[key]
    return replace(f, kernel=kernel, pairs=pairs)
