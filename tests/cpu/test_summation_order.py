"""One order of summation, whoever sums: every generator of reductions and products has the evaluator's bits, blocks included.

Orders here have short blocks, so that small cases have many of them: counts around powers of two, ends anywhere.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conv_cases import Native, forward
from harness import acc, access, buffers, compile_kernel, const, fresh, load, op
from nest_cases import F32, add
from test_gemm import Compiled, product, tiles

from tests.kernel.evaluate import evaluate
from weft.devices.cpu.convolution.conv import generate_conv
from weft.devices.cpu.emit.isa import host_isa
from weft.devices.cpu.nest.loop_plan import plan_part
from weft.devices.cpu.product.tiling import make_plan
from weft.dtypes.formats import FLOAT64
from weft.kernel.ir import Axis, Contraction, Kernel, Phase, Stage, Store
from weft.kernel.product import match_product
from weft.kernel.stages import split
from weft.kernel.summation import contraction_order, fold_in_order, product_order, reduction_order, window_order
from weft.kernel.target import Order

F64 = FLOAT64


def wide(rng, shape, dtype=F32) -> np.ndarray:
    """Numbers of very different sizes: another order has other bits."""
    return (rng.standard_normal(shape) * 2.0 ** rng.integers(-6, 7, shape)).astype(dtype.numpy)


def test_the_tree_of_blocks() -> None:
    """Written out: neighbours first, what is left from the right."""
    def joined(n: int, order: Order) -> str:
        step = np.frompyfunc(lambda x, k: f"{x}{k}", 2, 1)
        return fold_in_order(n, order, np.array("", object), step, np.frompyfunc(lambda x, y: f"({x} {y})", 2, 1))

    assert joined(7, Order(1, 1)) == "(((0 1) (2 3)) ((4 5) 6))"
    assert joined(5, Order(1, 1)) == "(((0 1) (2 3)) 4)"
    assert joined(6, Order(1, 4)) == "(0123 45)"
    assert joined(6, Order(2, 4)) == "((02 13) (4 5))"


def kinds(kernel: Kernel) -> set[str]:
    return {plan_part(part, host_isa()).kind for part in split(kernel)[0]}


def columns(shape: tuple[int, int], order: Order, monoid: str, dtype=F32) -> Kernel:
    """sum down the columns, then what divides by it."""
    x, y = buffers((dtype, shape), (dtype, (shape[1],)))
    r, c = Axis(0, shape[0]), Axis(1, shape[1])
    value = load(x, r, c)
    stages = (Stage((r,), (add(0, (r,), op("mul", value, value), order, monoid), add(1, (r,), value, order, monoid))),
              Stage((), (), (Store(access(y, c), op("add", acc(0, dtype), acc(1, dtype))),)))
    return Kernel("columns", (Phase((c,), stages),), (x,), (y,))


def rows(shape: tuple[int, ...], order: Order, monoid: str, dtype=F32) -> Kernel:
    """Over all axes but the second one (or over the last of two), as batch norm does."""
    kept = 1 if len(shape) > 2 else 0
    x, y = buffers((dtype, shape), (dtype, (shape[kept],)))
    axes = [Axis(i, e) for i, e in enumerate(shape)]
    own = tuple(a for i, a in enumerate(axes) if i != kept)
    stages = (Stage(own, (add(0, own, load(x, *axes), order, monoid),)),
              Stage((), (), (Store(access(y, axes[kept]), acc(0, dtype)),)))
    return Kernel("rows", (Phase((axes[kept],), stages),), (x,), (y,))


def whole(n: int, order: Order, monoid: str, dtype=F32) -> Kernel:
    x, y = buffers((dtype, (n,)), (dtype, ()))
    i = Axis(0, n)
    out = Stage((), (), (Store(access(y), op("add", acc(0, dtype), const(0, dtype))),))
    total = Stage((i,), (add(0, (i,), load(x, i), order, monoid),))
    return Kernel("whole", (Phase((), (total,)), Phase((), (out,))), (x,), (y,))


# what is built, which way of looping it takes
REDUCTIONS = [
    *((columns, shape, Order(1, block), kind) for shape, block, kind in [
        ((5, 40), 2, "tiles"), ((50, 33), 7, "tiles"), ((64, 20), 8, "tiles"), ((9, 3), 1, "tiles"), ((300, 7), 64, "tiles"),
        ((96, 300), 8, "sheet"), ((45, 520), 3, "sheet"), ((130, 1100), 64, "sheet"), ((65, 129), 64, "sheet"),
        ((4100, 40), 64, "blocks"), ((30_000, 9), 64, "blocks"), ((3000, 130), 17, "blocks"),
    ]),
    (columns, (50, 40), Order(32, 32), "tiles"), (columns, (33, 17), Order(32, 64), "tiles"),
    *((rows, shape, Order(32, block), kind) for shape, block, kind in [
        ((3, 700), 64, "rows"), ((40, 333), 32, "rows"), ((2, 129), 128, "rows"), ((3, 5, 7), 32, "rows"),
        ((20, 3, 49), 64, "rows"), ((7, 4, 64), 96, "rows"), ((6, 2, 300), 128, "rows"), ((4, 3, 17), 64, "rows"),
    ]),
    *((rows, shape, Order(1, block), kind) for shape, block, kind in [((9, 20), 3, "tiles"), ((30, 5, 8), 16, "tiles")]),
    *((whole, n, Order(32, block), kind) for n, block, kind in [
        (100, 32, "rows"), (1000, 64, "rows"), (777, 96, "rows"), (120_000, 4096, "full"), (200_001, 4096, "full"),
    ]),
]


@pytest.mark.parametrize("build,shape,order,kind", REDUCTIONS, ids=lambda x: getattr(x, "__name__", str(x)))
@pytest.mark.parametrize("monoid", ["sum", "prod"])
def test_reductions(build, shape, order, kind, monoid, rng) -> None:
    for dtype in (F32, F64) if monoid == "sum" else (F32,):
        kernel = build(shape, order, monoid, dtype)
        assert kind in kinds(kernel)
        x = wide(rng, shape, dtype) if monoid == "sum" else (1 + rng.uniform(-1, 1, shape) / 64).astype(dtype.numpy)
        (want,), _ = evaluate(kernel, [x])
        got = fresh(dtype, want.shape)
        compile_kernel(kernel)([x], [got])
        assert np.isfinite(want).all()
        assert got.tobytes() == want.tobytes()


def ordered(kernel: Kernel, order: Order) -> Kernel:
    (stage,) = kernel.phases[0].stages
    assert isinstance(stage, Contraction)
    return replace(kernel, phases=(Phase((), (replace(stage, order=order),)),))


PLANS = [make_plan, tiles((2, 2), kc=8), tiles((4, 1), pack_a=True, pack_b=True, kc=16), tiles((3, 2), pack_b=True, kc=32),
         tiles((6, 2), pack_a=True, pack_b=True, kc=64, unit_rows=6, unit_columns=32), tiles((5, 1), kc=24)]


@pytest.mark.parametrize("m,n,k,block", [(7, 20, 100, 16), (13, 33, 129, 8), (6, 17, 64, 16), (9, 40, 70, 70), (5, 18, 33, 16),
                                         (17, 5, 96, 24), (2, 50, 113, 16)])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_products_of_matrices(m, n, k, block, dtype, rng) -> None:
    kernel = ordered(product(m, n, k, dtype), Order(1, block))
    a, b = wide(rng, (m, k), dtype), wide(rng, (k, n), dtype)
    out = fresh(dtype, (m, n))
    compile_kernel(kernel)([a, b], [out])  # loops
    if dtype == F32:  # the evaluator has no exact fma of float64
        (want,), _ = evaluate(kernel, [a, b])
        assert out.tobytes() == want.tobytes()
    for plan in PLANS:
        got = np.full((m, n), np.nan, dtype.numpy)
        Compiled(kernel, plan=plan)(a, b, got)
        assert got.tobytes() == out.tobytes(), plan
    for ta, tb in ((True, False), (False, True), (True, True)):
        turned = ordered(product(m, n, k, dtype, ta, tb), Order(1, block))
        got = np.full((m, n), np.nan, dtype.numpy)
        Compiled(turned)(np.ascontiguousarray(a.T) if ta else a, np.ascontiguousarray(b.T) if tb else b, got)
        assert got.tobytes() == out.tobytes(), (ta, tb)


def test_a_call_of_the_inner_loop_may_do_many_blocks_or_a_part_of_one() -> None:
    p = match_product(ordered(product(60, 70, 3000), Order(1, 16)))
    assert p is not None
    assert {make_plan(p, host_isa(), pack_b=True, kc=kc).kc for kc in (5, 9, 16, 40, 130)} == {8, 16, 32, 128}


@pytest.mark.parametrize("n", [1, 9, 40, 300])
@pytest.mark.parametrize("k,block", [(5, 64), (64, 64), (65, 64), (200, 64), (513, 128), (448, 64)])
def test_products_with_a_vector(n, k, block, rng) -> None:
    lanes = 32 if n == 1 else 4
    kernel = ordered(product(1, n, k), Order(lanes, block))
    a, b = wide(rng, (1, k)), wide(rng, (k, n))
    (want,), _ = evaluate(kernel, [a, b])
    loops = fresh(F32, (1, n))
    compile_kernel(kernel)([a, b], [loops])
    assert loops.tobytes() == want.tobytes()
    for tb in (False, True):
        for isa in (host_isa(), replace(host_isa(), bits=128), replace(host_isa(), l1=1024)):  # the last one sweeps
            got = np.full((1, n), np.nan, F32.numpy)
            turned = ordered(product(1, n, k, tb=tb), Order(lanes, block))
            Compiled(turned, isa=isa)(a, np.ascontiguousarray(b.T) if tb else b, got)
            assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("p,q,k,block", [(5, 7, 49, 98), (5, 7, 49, 30), (6, 20, 16, 32), (9, 3, 33, 16), (4, 4, 40, 100)])
def test_products_over_axes_that_do_not_merge(p, q, k, block, rng) -> None:
    batch, r, c, steps = Axis(0, 6), Axis(1, p), Axis(2, q), Axis(3, k)
    g, x, y = buffers((F32, (6, p, k)), (F32, (6, q, k)), (F32, (p, q)))
    stage = Contraction(5, (), (r,), (c,), (batch, steps), load(g, batch, r, steps), load(x, batch, c, steps), F32,
                        Order(1, block), (Store(access(y, r, c), acc(5, F32)),))
    kernel = Kernel("groups", (Phase((), (stage,)),), (g, x), (y,))
    a, b = wide(rng, (6, p, k)), wide(rng, (6, q, k))
    (want,), _ = evaluate(kernel, [a, b])
    for plan in (make_plan, tiles((2, 2), kc=17), tiles((2, 1), kc=8)):
        got = np.full((p, q), np.nan, F32.numpy)
        Compiled(kernel, plan=plan)(a, b, got)
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("chans,window,blocks", [
    (5, (3, 3), (9, 18, 27, 45)), (6, (1, 1), (1, 2, 4)), (7, (2, 1), (4, 6)), (3, (5, 5), (25, 10, 7)),
    (4, (1, 13), (26, 13, 5)),
])
def test_convolutions(chans, window, blocks, rng) -> None:
    case = (2, chans, 9, 15, 5, *window)
    x, w = wide(rng, (2, chans, 9, 15)), wide(rng, (5, chans, *window))
    for block in blocks:  # the last ones end inside a window
        kernel = ordered(forward(*case), Order(1, block))
        (want,), _ = evaluate(kernel, [x, w])
        got = fresh(F32, want.shape)
        Native(kernel, generate_conv(kernel, host_isa())).run([x, w, got])
        assert got.tobytes() == want.tobytes()
        compile_kernel(kernel)([x, w], [got])
        assert got.tobytes() == want.tobytes()


def test_orders_are_made_of_extents_alone() -> None:
    assert reduction_order(100, True) == Order(32, 4096)
    assert reduction_order(5, False) == Order(1, 64)
    assert product_order(1, 1, (10_000,)) == Order(32, 4096)
    assert product_order(1, 7, (10_000,)) == product_order(7, 1, (10_000,)) == Order(4, 512)
    assert product_order(1, 7, (3, 1000)) == Order(1, 125)
    for m, n in ((10, 10), (300, 300)):
        for k in range(1, 2000, 7):
            order = product_order(m, n, (k,))
            assert order.lanes == 1
            assert 1 <= order.block <= 128
    assert product_order(300, 300, (128,)).block == 128
    assert product_order(20, 20, (128,)).block < 64
    assert window_order(64, 9).block % 9 == 0
    assert window_order(64, 9).block <= 256
    assert window_order(3, 300).block == 300
    assert window_order(4, 1024).block == 256
    kernel = product(3, 4, 50)
    stage = kernel.phases[0].stages[0]
    assert isinstance(stage, Contraction)
    assert contraction_order(replace(stage, order=None)) == stage.order
