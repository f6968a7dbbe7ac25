"""Kernels built by hand: the golden shapes of loop nests."""

from __future__ import annotations

from harness import acc, access, buffers, const, load, op

from weft.dtypes.formats import FLOAT32
from weft.dtypes.parse import parse_dtype
from weft.kernel.ir import Axis, Kernel, Phase, Reduction, Stage, Store
from weft.kernel.target import Order

F32 = FLOAT32
ROWS, COLUMNS = Order(32, 4096), Order(1, 64)


def add(id_, axes, value, order, monoid="sum", dtype=None, accum=None):
    """A Reduction whose accumulator is as wide as its value."""
    return Reduction(id_, axes, monoid, value, parse_dtype(accum or value.dtype), parse_dtype(dtype or value.dtype), order)


def softmax(rows: int, columns: int, dtype=F32) -> Kernel:
    x, y = buffers((dtype, (rows, columns)), (dtype, (rows, columns)))
    r = Axis(0, rows)
    order = ROWS if columns >= 32 else Order(1, 4096)
    c = [Axis(i, columns) for i in (1, 2, 3)]

    def e(axis):
        return op("exp", op("sub", load(x, r, axis), acc(0, dtype)))

    stages = (
        Stage((c[0],), (add(0, (c[0],), load(x, r, c[0]), order, "max"),)),
        Stage((c[1],), (add(1, (c[1],), e(c[1]), order),)),
        Stage((c[2],), (), (Store(access(y, r, c[2]), op("div", e(c[2]), acc(1, dtype))),)),
    )
    return Kernel("softmax", (Phase((r,), stages),), (x,), (y,))


def normalise(shape: tuple[int, ...], axis: int, dtype=F32) -> Kernel:
    """(x - mean) / sqrt(var + eps) over one axis."""
    x, y = buffers((dtype, shape), (dtype, shape))
    n = shape[axis]
    last = axis == len(shape) - 1
    order = ROWS if last and n >= 32 else Order(1, 4096) if last else COLUMNS
    kept = [Axis(i, e) for i, e in enumerate(shape) if i != axis]
    loops = [Axis(10 + i, n) for i in range(3)]
    mean = op("div", acc(0, dtype), const(n, dtype))
    var = op("div", acc(1, dtype), const(n, dtype))

    def at(loop):
        return [*kept[:axis], loop, *kept[axis:]]

    def centred(loop):
        return op("sub", load(x, *at(loop)), mean)

    def square(v):
        return op("mul", v, v)

    out = op("div", centred(loops[2]), op("sqrt", op("add", var, const(1e-5, dtype))))
    stages = (
        Stage((loops[0],), (add(0, (loops[0],), load(x, *at(loops[0])), order),)),
        Stage((loops[1],), (add(1, (loops[1],), square(centred(loops[1])), order),)),
        Stage((loops[2],), (), (Store(access(y, *at(loops[2])), out),)),
    )
    return Kernel("normalise", (Phase(tuple(kept), stages),), (x,), (y,))


def share(rows: int, columns: int, dtype=F32) -> Kernel:
    """x / x.sum()."""
    x, y = buffers((dtype, (rows, columns)), (dtype, (rows, columns)))
    i, j, k, n = Axis(0, rows), Axis(1, columns), Axis(2, rows), Axis(3, columns)
    total = Stage((i, j), (add(0, (i, j), load(x, i, j), ROWS),))
    out = Stage((), (), (Store(access(y, k, n), op("div", load(x, k, n), acc(0, dtype))),))
    return Kernel("share", (Phase((), (total,)), Phase((k, n), (out,))), (x,), (y,))


def square_plus(rows: int, columns: int, dtype=F32) -> Kernel:
    """x * x + 1.5."""
    x, y = buffers((dtype, (rows, columns)), (dtype, (rows, columns)))
    i, j = Axis(0, rows), Axis(1, columns)
    v = op("add", op("mul", load(x, i, j), load(x, i, j)), const(1.5, dtype))
    return Kernel("square_plus", (Phase((i, j), (Stage((), (), (Store(access(y, i, j), v),)),)),), (x,), (y,))
