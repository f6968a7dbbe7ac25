"""Index rules: the element of a result at an index, read from the operands of its primitive (``Primitive.at``).

Loaded with the first kernel, since arrays and graphs do not need the kernel IR.
"""

from __future__ import annotations

from weft.dtypes.formats import INT64, UINT8, UINT64
from weft.dtypes.rounding import rounded_number
from weft.graph.node import AxisMaps, Node, Reader
from weft.kernel import index as ix
from weft.kernel.expressions import iterate_values
from weft.kernel.index import Guard, Guards, Index
from weft.kernel.ir import Affine, Value


def reshape(reader: Reader, node: Node, index: Index, guards: Guards) -> Value | None:
    (x,) = node.inputs
    inner = ix.reshape(index, node.shape, x.shape, reader.extents)
    return None if inner is None else reader.at(x, inner, guards)


def recompute(reader: Reader, node: Node, index: Index, guards: Guards) -> Value:
    return reader.at(node.inputs[0], index, guards)


def permute(reader: Reader, node: Node, index: Index, guards: Guards) -> Value:
    return reader.at(node.inputs[0], ix.permute(index, node.params["axes"]), guards)


def broadcast_to(reader: Reader, node: Node, index: Index, guards: Guards) -> Value:
    (x,) = node.inputs
    return reader.at(x, ix.broadcast(index, x.shape), guards)


def slice_(reader: Reader, node: Node, index: Index, guards: Guards) -> Value:
    return reader.at(node.inputs[0], ix.slice_index(index, node.params["start"], node.params["step"]), guards)


def pad(reader: Reader, node: Node, index: Index, guards: Guards) -> Value:
    (x,), value = node.inputs, node.params["value"]
    inner, own = ix.pad(index, node.params["low"], x.shape, reader.extents)
    if x.size == 0:
        return reader.m.const(value, node.dtype)
    return reader.guard(x, inner, guards, own, rounded_number(value, node.dtype))


def concat(reader: Reader, node: Node, index: Index, guards: Guards) -> Value:
    m, axis = reader.m, node.params["axis"]
    low, high = ix.bounds(index[axis], reader.extents)
    start, parts = 0, []
    for operand in node.inputs:
        n = operand.shape[axis]
        if n and start <= high and low < start + n:
            parts.append((operand, start, n))
        start += n
    out: Value | None = None
    for operand, begin, n in reversed(parts):
        moved = index[axis].plus(Affine(-begin))
        own = (moved, 0, n)
        inner = (*index[:axis], moved if n != 1 else ix.ZERO, *index[axis + 1:])
        if ix.always_holds(own, reader.extents):
            out = reader.at(operand, inner, guards)
            continue
        value = reader.at(operand, inner, (*guards, own))
        out = value if out is None else m.select(m.lt(m.index(index[axis]), m.const(begin + n, INT64)), value, out)
    return m.const(0, node.dtype) if out is None else out  # no operand covers the index: the guards never hold


def iota(reader: Reader, node: Node, index: Index, guards: Guards) -> Value:
    return reader.m.cast(reader.m.index(index[node.params["axis"]]), node.dtype)


def unpack_nibbles(reader: Reader, node: Node, index: Index, guards: Guards) -> Value:
    m = reader.m
    byte = reader.at(node.inputs[0], (*index[:-2], index[-1]), guards)
    return m.nibble(byte, m.cast(m.index(index[-2].times(4)), UINT8))


def slice_set(reader: Reader, node: Node, index: Index, guards: Guards) -> Value:
    base, new = node.inputs
    inner, own = [], []
    for i, start, step, n in zip(index, node.params["start"], node.params["step"], new.shape, strict=True):
        j = i.plus(Affine(-start)).times(step)  # step is 1 or -1: others end a kernel
        inner.append(j)
        if not ix.always_holds((j, 0, n), reader.extents):
            own.append((j, 0, n))
    if new.size == 0 or ix.never_holds(tuple(own), reader.extents):
        return reader.at(base, index, guards)
    inside = reader.m.guards_hold(tuple(own))
    if inside is None:
        return reader.at(new, tuple(inner), guards)
    return reader.m.select(inside, reader.at(new, tuple(inner), guards + tuple(own)), reader.at(base, index, guards))


def gather(reader: Reader, node: Node, index: Index, guards: Guards) -> Value:
    source, indices = node.inputs[0], node.inputs[1:]
    lead = max((len(i.shape) for i in indices), default=0)
    inner: list[Affine | None] = [None] * len(source.shape)
    for axis, operand in zip(node.params["axes"], indices, strict=True):
        inner[axis] = reader.position(operand, ix.broadcast(index[:lead], operand.shape), guards, source.shape[axis])
    rest = iter(index[lead:])
    value = reader.at(source, tuple([next(rest) if i is None else i for i in inner]), guards)
    checks = [v for i in inner if i is not None for v, _ in i.gather if v.op == "check"]
    return _depend_on(reader, checks, value) if checks else value


def _depend_on(reader: Reader, checks: list[Value], value: Value) -> Value:
    """Return ``value`` with a dependence on all ``checks``, so that checks that do not change the value are executed too."""
    m, below = reader.m, {id(v) for v in iterate_values([value])}
    for check in checks:
        if id(check) not in below:
            other = m.const(int(value.op == "const" and value.attr == 0), value)  # never selected
            value = m.select(m.ge(check, m.const(0, INT64)), value, other)
    return value


def window_gather(reader: Reader, node: Node, index: Index, guards: Guards) -> Value | None:
    """Return the sum over the few windows that cover a position: one term for each distance between window and position."""
    p, m = node.params, reader.m
    g = node.inputs[0]
    where = node.inputs[1] if len(node.inputs) > 1 else None
    window, stride = p["window"], p["stride"]
    count = len(window)
    lead = index[: len(index) - count]
    terms: list[tuple[list[Affine], list[Affine], list[Guard]]] = [([], [], [])]
    for d in range(count):
        i = index[len(lead) + d].plus(Affine(p["padding"][d][0]))
        s, w, n = stride[d], window[d], g.shape[len(lead) + d]
        if n == 1:  # an element is in the only window or not
            beside = [x for x in ((i, 0, w),) if not ix.always_holds(x, reader.extents)]
            terms = [([*a, ix.ZERO], [*b, i], [*c, *beside]) for a, b, c in terms]
            continue
        beyond = p["padding"][d][0] % s  # i - beyond = quotient * s + rest
        pair = (i, ix.ZERO) if s == 1 else ix.split(i.plus(Affine(-beyond)), s, reader.extents)
        if pair is None:
            return None
        quotient, rest = pair[0], pair[1].plus(Affine(beyond))
        extended = []
        for j in range(-((beyond + s - 1) // s), -(-(w - beyond) // s)):
            o, q = quotient.plus(Affine(-j)), rest.plus(Affine(j * s))
            own: list[Guard] = [x for x in ((o, 0, n), (q, 0, w)) if not ix.always_holds(x, reader.extents)]
            low, high = ix.bounds(o, reader.extents)
            if high < 0 or low >= n or ix.bounds(q, reader.extents)[0] >= w:
                continue
            extended += [([*a, o], [*b, q], [*c, *own]) for a, b, c in terms]
        terms = extended
    joined = any(n == 1 and w > s for n, s, w in zip(g.shape[len(lead):], stride, window, strict=True))
    total: Value | None = m.const(0, g.dtype.computed) if joined else None  # -0.0 becomes 0.0, as in sums over windows
    for at, inside, own in terms:
        value = reader.guard(g, (*lead, *at), guards, tuple(own), 0)
        if where is not None:
            flat = ix.ZERO
            for q, w in zip(inside, window, strict=True):
                flat = flat.times(w).plus(q)
            position = reader.at(where, (*lead, *at), guards + tuple(own))
            value = m.select(m.eq(position, m.cast(m.index(flat), where.dtype)), value, m.const(0, value.dtype))
        if rounded_number(0, node.dtype) != 0:  # float8_e8m0fnu, for which ``guard`` returns float32
            value = m.cast(value, node.dtype.computed)
        total = value if total is None else m.add(total, value)
    return m.const(0, node.dtype) if total is None else m.cast(total, node.dtype)


def random_bits(reader: Reader, node: Node, index: Index, guards: Guards) -> Value:
    key, base = (reader.at(i, (), guards) for i in node.inputs)
    flat = ix.ZERO
    for i, n in zip(index, node.shape, strict=True):
        flat = flat.times(n).plus(i)
    return reader.m.philox(key, base, reader.m.cast(reader.m.index(flat), UINT64), node.params.get("bits", 32))


def reshape_along(node: Node) -> AxisMaps | None:
    """For each dimension of the result, return the operand's dimension that it equals, else None.

    Dimensions that the reshape merges or splits equal none.
    """
    before = node.inputs[0].shape
    if not ix.follows(node.shape, before):
        return None
    left = [d for d, n in enumerate(before) if n != 1]
    out: list[int | None] = []
    k, size = 0, 1
    for n in node.shape:
        if n == 1:
            out.append(None)
            continue
        extent = before[left[k]]
        out.append(left[k] if n == extent else None)
        size *= n
        if size == extent:
            k, size = k + 1, 1
    return (tuple(out),)
