"""Products: dot_general and conv_general as Contractions, with the nodes that read them as the epilogue, and tallies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce
from math import prod
from typing import Any

from weft.dtypes.formats import BOOL, FLOAT32, FLOATS, INT32, Format
from weft.graph.node import Node
from weft.graph.primitives.conv_general import dilation_phases, tap_phase
from weft.graph.primitives.settings import has_formats
from weft.kernel import index as ix
from weft.kernel.index import Guard, Index
from weft.kernel.ir import Affine, Axis, Contraction, Phase, Reduction, Stage, Value, axis_index
from weft.kernel.summation import accumulator_order, product_order, window_order
from weft.kernel.target import Order, Orders, Target
from weft.schedule.convolution_order import permits_winograd, sums_along_positions
from weft.schedule.expand import Expander, Pending, Scope
from weft.schedule.group_structure import Structure, reduces


def phases(x: Expander, st: Structure) -> list[Phase]:
    """Return a phase for each part of the group's product. If the group has tallies, a last phase stores their results."""
    node = st.product
    assert node is not None
    parts = _dot(x, node) if node.op.kind == "product" else _conv(x, node)
    order = _dot_order if node.op.kind == "product" else _conv_order
    tallies: dict[Node, list[Value]] = {n: [] for n in st.nodes if reduces(n)}
    out = [Phase((), _stages(x, st, node, partial(order, x.view.target.orders), part, tallies)) for part in parts]
    x.scope = Scope()
    for tally, of_parts in tallies.items():
        x.complete[tally] = join_tally(x, tally, of_parts)
    last: list[Pending] = []
    for n in st.stored_nodes:
        if st.facts[n].full:
            index = (ix.ZERO,) * len(n.shape)
            last.append(Pending(n, index, (), x.at(n, index)))
    return [*out, Phase((), (Stage((), (), tuple(last)),))] if last else out  # type: ignore[arg-type]


def _dot_order(orders: Orders, m: list[Axis], n: list[Axis], k: list[Axis]) -> Order:
    rows, columns = (prod([a.extent for a in side]) for side in (m, n))
    return product_order(rows, columns, tuple([a.extent for a in k]), orders)


def _conv_order(orders: Orders, m: list[Axis], n: list[Axis], k: list[Axis]) -> Order | None:
    """Return the order of a convolution's sum, or None if the code generator orders it.

    m: image and positions; k: channel and taps.
    """
    spots, taps = (prod([a.extent for a in side[1:]]) for side in (m, k))
    return None if sums_along_positions(spots, taps) else window_order(k[0].extent, taps, orders)


# batch, m, n, k, left, right, and the index of the product's element (batch, m, n)
_Part = tuple[list[Axis], list[Axis], list[Axis], list[Axis], Value | None, Value | None, Index]


def _stages(
    x: Expander, st: Structure, node: Node, order: Callable[[list[Axis], list[Axis], list[Axis]], Order | None], part: _Part,
    tallies: dict[Node, list[Value]],
) -> Any:
    """Return a Contraction and its stores; with tallies, the stage of both. Add this part's result to each of ``tallies``."""
    batch, m, n, k, a, b, index = part
    number = x.reductions
    x.reductions += 1
    result = x.m.acc(number, node.dtype) if a is not None else x.m.const(0, node.dtype)
    x.scope = Scope()
    x.product = (node, index, result)
    at: dict[int, Affine] = dict(zip(st.tokens(node), index, strict=True))
    pending = []
    for stored in st.stored_nodes:
        if st.facts[stored].full:
            continue
        where = tuple([at[t] if t else ix.ZERO for t in st.tokens(stored)])
        if stored is node:
            where = index
        pending.append(Pending(stored, where, (), x.at(stored, where)))
    loops = tuple([*batch, *m, *n])
    reductions: list[Reduction] = []
    for tally, of_parts in tallies.items():
        below = st.read(tally.inputs[0])
        assert below is not None
        value = x.at(tally.inputs[0], tuple([at[st.find(t)] if t else ix.ZERO for t in below.dims]))
        value, dtype = expand_tally(x, value, tally)
        of_parts.append(x.reduce(tally, loops, tally.op.monoid, value, carried=False, into=reductions, dtype=dtype))
    if a is None or b is None:  # nothing to sum
        return (Stage(loops, tuple(reductions), tuple(pending)),)  # type: ignore[arg-type]
    a, b = (
        v if form is None else x.m.cast(x.m.cast(v, form), v.dtype)
        for v, form in zip((a, b), node.params.get("operands", (None, None)), strict=True)
    )
    accum = node.dtype.computed
    accumulator = node.params.get("accumulator")
    stores: Any = tuple(pending)
    if accumulator is not None:
        sum_order: Order | None = accumulator_order(accumulator, prod([axis.extent for axis in k]))
    else:
        sum_order = order(m, n, k)
    c = Contraction(
        number, tuple(batch), tuple(m), tuple(n), tuple(k), a, b, accum, sum_order, () if tallies else stores,
        _find_precision(node, x.view.target), accumulator,
        "winograd" if node.op.kind == "convolution" and permits_winograd(node, x.view.target) else "direct",
    )
    return (c, Stage(loops, tuple(reductions), stores)) if tallies else (c,)


def _find_precision(node: Node, target: Target) -> str:
    """Return the lowest precision that the node permits and the target has."""
    permitted = node.params.get("precision", "float32")
    if permitted == "bfloat16":
        if "bfloat16" in target.precisions and not has_formats(node.params):
            return permitted
        permitted = "tf32" if node.dtype is FLOAT32 else "float32"
    return permitted if permitted in target.precisions else "float32"


def expand_tally(x: Expander, value: Value, tally: Node) -> tuple[Value, Format]:
    """Return the value that a tally reduces, and the dtype of its result: bools and magnitudes are compared as integers.

    The bits of floats that are not negative are in the order of the floats, and NaN is above infinity. An integer comparison is
    one instruction, a float one that keeps NaN is five.
    """
    if value.dtype is BOOL:
        return x.m.cast(value, tally.dtype if tally.dtype is not BOOL else INT32), INT32 if tally.dtype is BOOL else tally.dtype
    if tally.op.monoid == "max" and _is_magnitude(value):
        bits = value.dtype.computed.integer
        return x.m.bitcast(x.m.cast(value, value.dtype.computed), bits), bits
    return value, tally.dtype


def _is_magnitude(value: Value) -> bool:
    while value.op == "cast" and value.args[0].dtype in FLOATS:
        value = value.args[0]
    return value.op == "abs" and value.dtype in FLOATS


def join_tally(x: Expander, tally: Node, of_parts: list[Value]) -> Value:
    """Return the result of a tally from the reductions of its parts: those of a product, or the only one."""
    operation = {"sum": "add", "prod": "mul"}.get(tally.op.monoid, tally.op.monoid)
    value = reduce(getattr(x.m, operation), of_parts)
    operand = tally.inputs[0].dtype
    if operand in FLOATS and value.dtype not in FLOATS:
        value = x.m.bitcast(value, operand.computed)
    if tally.dtype is BOOL:
        return x.m.ne(value, x.m.const(0, value))
    return x.m.cast(value, tally.dtype)


def _dot(x: Expander, node: Node) -> list[_Part]:
    """Return the one part of a dot_general."""
    a, b = node.inputs
    (ka, kb), (ba, bb) = node.params["contract"], node.params["batch"]
    batch = [x.axis(a.shape[d]) for d in ba]
    free_a = [d for d in range(len(a.shape)) if d not in ka and d not in ba]
    free_b = [d for d in range(len(b.shape)) if d not in kb and d not in bb]
    m = [x.axis(a.shape[d]) for d in free_a]
    n = [x.axis(b.shape[d]) for d in free_b]
    k = [x.axis(a.shape[d]) for d in ka]

    def read(operand: Node, dims: list[tuple[tuple[int, ...], list[Axis]]]) -> Value:
        index = [ix.ZERO] * len(operand.shape)
        for places, axes in dims:
            for d, axis in zip(places, axes, strict=True):
                index[d] = axis_index(axis)
        return x.at(operand, tuple(index))

    index = tuple([axis_index(i) for i in [*batch, *m, *n]])
    if any(i.extent == 0 for i in k):
        return [(batch, m, n, k, None, None, index)]
    x.scope = Scope()
    left = read(a, [(tuple(ba), batch), (tuple(free_a), m), (tuple(ka), k)])
    right = read(b, [(tuple(bb), batch), (tuple(free_b), n), (tuple(kb), k)])
    return [(batch, m, n, k, left, right, index)]


def _conv(x: Expander, node: Node) -> list[_Part]:
    """Return the parts of a convolution: one Contraction, or one for each phase of a dilated input.

    So no zero of the dilation is multiplied. Where no tap reaches a remainder of one dimension, later ones have one phase.
    """
    a, w = node.inputs
    p = node.params
    x_perm, w_perm, out_perm = p["dims"]
    images = a.shape[x_perm[0]]
    filters, inner = (w.shape[d] for d in w_perm[:2])
    groups = p["groups"]
    rank = len(p["stride"])
    periods = [dilation_phases(dilation, stride) for dilation, stride in zip(p["lhs_dilation"], p["stride"], strict=True)]
    extents = [node.shape[d] for d in out_perm[2:]]
    windows = [w.shape[d] for d in w_perm[2:]]

    def find_taps(d: int, r: int) -> tuple[int, int, int]:
        """Return the first tap that reaches positions of remainder r, the step to the next one, and their number."""
        first, every = tap_phase(r * p["stride"][d] - p["padding"][d][0], p["rhs_dilation"][d], p["lhs_dilation"][d], windows[d])
        return first, every, max(0, -(-(windows[d] - first) // every))

    def find_phases(d: int) -> Iterator[tuple[tuple[int, int], ...]]:
        """Yield (step, remainder) of each dimension from d on."""
        if d == rank:
            yield ()
            return
        for r in range(min(periods[d], extents[d])):
            rest = find_phases(d + 1) if find_taps(d, r)[2] else [((1, 0),) * (rank - d - 1)]
            yield from [((periods[d], r), *more) for more in rest]

    out: list[_Part] = []
    for phase in find_phases(0):
        g = [x.axis(groups)] if groups > 1 else []
        image, o, c = x.axis(images), x.axis(filters // groups), x.axis(inner)
        spots, taps = [], []
        positions: list[Affine] = []
        source: list[Affine] = []
        kernel: list[Affine] = []
        guards: list[Guard] = []
        empty = False
        for d in range(rank):
            stride, ld, rd = p["stride"][d], p["lhs_dilation"][d], p["rhs_dilation"][d]
            low = p["padding"][d][0]
            size = a.shape[x_perm[2 + d]]
            step, r = phase[d]
            spot = x.axis(-(-(extents[d] - r) // step))
            # output position = step * spot + r; the dilated input is read at position * stride + tap * rd - low,
            # which must be a multiple of ld: taps first, first + every, ...
            first, every, count = find_taps(d, r)
            tap = x.axis(count)
            empty = empty or count == 0
            spots.append(spot)
            taps.append(tap)
            positions.append(axis_index(spot, step).plus(Affine(r)))
            kernel.append(axis_index(tap, every).plus(Affine(first)))
            base = (r * stride - low + first * rd) // ld
            i = Affine(base).plus(axis_index(spot, step * stride // ld)).plus(axis_index(tap, every * rd // ld))
            source.append(i)
            guard = (i, 0, size)
            if not empty and not ix.always_holds(guard, x.extents):
                guards.append(guard)
        channel, filter_ = axis_index(c), axis_index(o)
        if groups > 1:
            channel = axis_index(g[0], inner).plus(channel)
            filter_ = axis_index(g[0], filters // groups).plus(filter_)
        index = ix.permute((axis_index(image), filter_, *positions), out_perm)
        batch, m, n, k = g, [image, *spots], [o], [c, *taps]
        if empty or c.extent == 0:
            out.append((batch, m, n, k, None, None, index))
            continue
        x.scope = Scope()
        left = x.guard(a, ix.permute((axis_index(image), channel, *source), x_perm), (), tuple(guards), 0)
        right = x.at(w, ix.permute((filter_, axis_index(c), *kernel), w_perm))
        out.append((batch, m, n, k, left, right, index))
    return out
