"""Which arrays between a Program's kernels lie channels last: images between convolutions of 16-bit formats, and their weights.

Products of 16-bit formats go to tensor cores, which are fed by loads of 16 bytes where memory runs along what is summed or along
the result; row by row, an image's memory runs along its pixels, shifted by each tap, and loads are single elements. What
convolutions read as images or weights lies channels last; what lies between follows where that moves more bytes along memory than
across it. A Program's own inputs and outputs stay row by row, and so does what is seen under a second shape, by NumPy, or by a
loop. Weights among the inputs are laid anew once a run, where the traffic that this saves exceeds what it costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.graph.node import Node, Shape
from weft.graph.primitives.elementwise import CAST
from weft.kernel.convolution import plain_load
from weft.kernel.hazards import in_place
from weft.kernel.ir import Access, Contraction, Kernel
from weft.kernel.storage import channels_last, lying, relay
from weft.kernel.target import Target
from weft.schedule.fuse import Fused
from weft.schedule.fusion_graph import View, strip
from weft.schedule.traffic import traffic

_ROWS, _DEEP = 128, 32  # of a product's tiles: rows of the result, and from how many on one axis of k fills a tile
_SECTOR = 32  # bytes that memory gives at least


def laid_out(view: View, fused: list[Fused], target: Target) -> list[Fused]:
    """The same kernels on memory that lies as they read it best."""
    products = {k: found for k, f in enumerate(fused) if (found := list(_convolutions(f))) and f.kernel is not None}
    if not products:
        return fused
    last = _chosen(view, fused, products, target.channels_last)
    relaid = _weights(view, fused, products, target, last)
    made: dict[tuple, tuple[Kernel, tuple[tuple[int, int], ...]]] = {}
    out: list[Fused] = []
    there: set[Node] = set()
    for k, f in enumerate(fused):
        instead = {key: relaid[key] for key in f.inputs if k in products and key in relaid}
        for (node, shape), new in instead.items():
            if new not in there:
                there.add(new)
                kernel = relay(shape, node.dtype)
                out.append(Fused(kernel, (), ((node, shape),), (new,), (), (), bytes=traffic(kernel)))
        out.append(_moved(f, last | there, instead, target, made))
    return out


@dataclass(frozen=True, slots=True)
class _Product:
    """A convolution of two 16-bit arrays. a, b: how it reads them."""

    contraction: Contraction
    a: Access
    b: Access


def _convolutions(f: Fused) -> Iterator[_Product]:
    if f.kernel is None or not any(n.op.kind == "convolution" for n in f.nodes):
        return
    for phase in f.kernel.phases:
        for c in phase.stages:
            if isinstance(c, Contraction) and min(prod([x.extent for x in side]) for side in (c.m, c.n)) > 1:
                a, b = (plain_load(v, c.accum.name) for v in (c.a, c.b))
                if a is not None and b is not None and a.buffer.dtype.narrow and a.buffer.dtype is b.buffer.dtype:
                    yield _Product(c, a, b)


def _runs(access: Access, c: Contraction) -> int:
    """How many elements lie side by side, channels last, along an axis that is no pixel and no tap."""
    axes = {x.id: x.extent for x in (c.m[0], *c.n, c.k[0])}
    return max([axes.get(axis, 0) for axis, coef in access.index[1].terms if coef == 1], default=0)


# ---- what lies between kernels


def _chosen(view: View, fused: Sequence[Fused], products: dict[int, list[_Product]], least: int) -> set[Node]:
    """The arrays that lie channels last."""
    free = _free(view, fused, least)
    last: set[Node] = set()
    for k, found in products.items():
        args = _arguments(fused[k])
        for p in found:
            last |= {args[x.buffer.id] for x in (p.a, p.b) if _runs(x, p.contraction) >= least} & free
    readers: dict[Node, list[int]] = {}
    for k, f in enumerate(fused):
        if f.kernel is not None:
            for node in dict.fromkeys(_arguments(f)):
                readers.setdefault(node, []).append(k)
    waiting = list(last)
    while waiting:  # who touches the same kernels may follow
        near = {n for k in readers[waiting.pop()] for n in _arguments(fused[k]) if n in free and n not in last}
        for node in sorted(near, key=view.number.__getitem__):
            if sum([_vote(node, fused[k], products.get(k, ()), last, free, least) for k in readers[node]]) > 0:
                last.add(node)
                waiting.append(node)
    return last


def _free(view: View, fused: Sequence[Fused], least: int) -> set[Node]:
    """The arrays of many channels that only kernels see, all under one shape, and that would lie otherwise channels last."""
    fixed = {strip(o) for o in view.graph.outputs} | view.given
    found: set[Node] = set()
    for f in fused:
        if f.kernel is None or any(n.op.chains for n in f.nodes):
            fixed |= {strip(n) for n in (*(n for n, _ in f.inputs), *f.outputs, *f.nodes)}
            continue
        seen = (*f.inputs, *((n, n.shape) for n in f.outputs))
        fixed |= {strip(n) for n, shape in seen if strip(n).shape != shape}
        found |= {n for n in f.outputs if channels_last(n.shape) and n.shape[1] >= least}
    return found - fixed


def _arguments(f: Fused) -> list[Node]:
    """The arrays that a kernel's buffers are, in order."""
    return [strip(n) for n, _ in f.inputs] + [strip(n) for n in f.outputs]


def _vote(node: Node, f: Fused, products: Sequence[_Product], last: set[Node], free: set[Node], least: int) -> int:
    """Bytes that a kernel moves along memory if ``node`` lies channels last, less those that it moves across."""
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


# ---- weights that a program is given


def _weights(
    view: View, fused: Sequence[Fused], products: dict[int, list[_Product]], target: Target, last: set[Node],
) -> dict[tuple[Node, Shape], Node]:
    """Weights to lay anew -> what stands for them then."""
    saved: dict[tuple[Node, Shape], int] = {}
    for k, found in products.items():
        f = fused[k]
        for p in found:
            if p.b.buffer.id >= len(f.inputs) or p.b.buffer.id == p.a.buffer.id:
                continue
            key = f.inputs[p.b.buffer.id]
            given = strip(key[0]) in view.given and channels_last(key[1]) and _runs(p.b, p.contraction) >= target.channels_last
            if given:
                saved[key] = saved.get(key, 0) + _wasted(p)
    return {
        (node, shape): Node(CAST, (node,), {"dtype": node.dtype}, shape, node.dtype)
        for (node, shape), wasted in saved.items() if wasted - 2 * node.nbytes >= target.relaying
    }


def _wasted(p: _Product) -> int:
    """Bytes that memory gives in vain for weights as they lie: each row of tiles reads them all, by sectors."""
    c, access = p.contraction, p.b
    nbytes = prod(access.buffer.shape) * access.buffer.dtype.bytes
    steps = dict(access.flat().terms)
    longest = max(c.k, key=lambda x: x.extent)
    inside = [longest] if longest.extent >= _DEEP else list(c.k)
    step = min([abs(steps[x.id]) for x in (*inside, *c.n) if steps.get(x.id) and x.extent > 1], default=1)
    return (min(step, _SECTOR // access.buffer.dtype.bytes) - 1) * nbytes * -(-prod([x.extent for x in c.m]) // _ROWS)


# ---- kernels on it


def _moved(
    f: Fused, last: set[Node], instead: dict[tuple[Node, Shape], Node], target: Target,
    made: dict[tuple, tuple[Kernel, tuple[tuple[int, int], ...]]],
) -> Fused:
    """A kernel on arrays that lie as chosen; ``made``: kernels of equal layers are one object."""
    if f.kernel is None:
        return f
    if instead:
        f = replace(f, inputs=tuple([(instead[key], key[1]) if key in instead else key for key in f.inputs]))
    assert f.kernel is not None
    orders = {k: channels_last(n.shape) for k, n in enumerate(_arguments(f)) if n in last}
    if not orders:
        return f
    key = (id(f.kernel), tuple(orders.items()))
    if key not in made:
        kernel = lying(f.kernel, orders)
        made[key] = kernel, tuple(in_place(kernel, target.keeps))
    kernel, pairs = made[key]
    return replace(f, kernel=kernel, pairs=pairs)
