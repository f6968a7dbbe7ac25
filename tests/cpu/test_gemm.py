"""Matrix products against float64 NumPy: transposes, batches, odd sizes, blocks, epilogues; same bits on every path."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest

from weft.devices.cpu.emit.isa import ISA, host_isa
from weft.devices.cpu.product.gemm import generate_gemm
from weft.devices.cpu.product.tiling import ProductPlan, make_plan, should_swap
from weft.dtypes.formats import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32
from weft.kernel.ir import Access, Affine, Axis, Buffer, Contraction, Kernel, Phase, Store, Value, axis_index
from weft.kernel.product import match_product
from weft.kernel.summation import product_order

F4, F8, BF = FLOAT32, FLOAT64, BFLOAT16

# Chunks run in an order that the test chooses: chunk = (c * @step) % n, worker = chunk & 1.
RUNTIME = """
@weft_counters = global [8 x i64] zeroinitializer
@step = global i64 1
@chunks = global i64 0
define void @weft_parallel(ptr %body, ptr %context, i64 %n) {
entry:
  store i64 %n, ptr @chunks
  %step = load i64, ptr @step
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %head]
  %scaled = mul i64 %i, %step
  %chunk = urem i64 %scaled, %n
  %worker = and i64 %chunk, 1
  call void %body(ptr %context, i64 %chunk, i64 %worker)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %head, label %done
done:
  ret void
}
"""


class Compiled:
    """One kernel in memory, called with NumPy arrays."""

    def __init__(self, kernel: Kernel, isa: ISA | None = None, plan=make_plan) -> None:
        isa = isa or host_isa()
        self.generated = generate_gemm(kernel, isa, plan)
        assert self.generated is not None
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        module = llvm.parse_assembly(self.generated.ir)
        module.verify()
        module.link_in(llvm.parse_assembly(RUNTIME))
        self.machine = llvm.Target.from_default_triple().create_target_machine(features=isa.features, opt=2)
        builder = llvm.create_pass_builder(self.machine, llvm.create_pipeline_tuning_options(speed_level=0))
        manager = llvm.create_new_function_pass_manager()
        manager.add_sroa_pass()
        for function in module.functions:
            if not function.is_declaration:
                manager.run(function, builder)
        self.engine = llvm.create_mcjit_compiler(module, self.machine)
        self.engine.finalize_object()
        self.function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.engine.get_function_address(kernel.name))

    def word(self, name: str) -> ctypes.c_int64:
        return ctypes.c_int64.from_address(self.engine.get_global_value_address(name))

    def __call__(self, *arrays: np.ndarray, scalars: tuple = (), step: int = 1) -> None:
        g = self.generated
        raw = np.full(g.scratch + 2 * g.worker_scratch + 64, 0xFF, np.uint8)  # NaN: reading what was not written shows
        self.word("step").value = step
        slots = [a.ctypes.data for a in arrays]
        slots += [int.from_bytes(np.asarray(s).tobytes().ljust(8, b"\0"), "little") for s in scalars]
        args = np.array([*slots, (raw.ctypes.data + 63) // 64 * 64], np.uint64)
        self.function(args.ctypes.data)


def load(buffer: Buffer, *index) -> Value:
    return Value("load", (), buffer.dtype, Access(buffer, tuple(i if isinstance(i, Affine) else axis_index(i) for i in index)))


def op(name: str, *args: Value, dtype=None) -> Value:
    return Value(name, args, dtype or args[0].dtype)


def product(m, n, k, dtype=F4, ta=False, tb=False, accum=None, batch=0) -> Kernel:
    """C = A @ B, or with transposed operands, or a batch of them."""
    accum = accum or dtype
    am, an, ak, ab = Axis(0, m), Axis(1, n), Axis(2, k), Axis(3, batch)
    lead, lead_axes = ((batch,), (ab,)) if batch else ((), ())
    a = Buffer(0, dtype, (*lead, *((k, m) if ta else (m, k))))
    b = Buffer(1, dtype, (*lead, *((n, k) if tb else (k, n))))
    c = Buffer(2, accum, (*lead, m, n))
    contraction = Contraction(
        5, lead_axes, (am,), (an,), (ak,), load(a, *lead_axes, *((ak, am) if ta else (am, ak))),
        load(b, *lead_axes, *((an, ak) if tb else (ak, an))), accum, product_order(m, n, (k,)),
        (Store(Access(c, tuple(axis_index(x) for x in (*lead_axes, am, an))), Value("acc", (), accum, 5)),),
    )
    return Kernel("product", (Phase((), (contraction,)),), (a, b), (c,))


def with_stores(kernel: Kernel, stores, inputs=(), outputs=None, scalars=()) -> Kernel:
    contraction = replace(kernel.phases[0].stages[0], stores=tuple(stores))
    return replace(
        kernel, phases=(Phase((), (contraction,)),), inputs=(*kernel.inputs, *inputs),
        outputs=tuple(outputs or kernel.outputs), scalars=scalars,
    )


def random(rng, shape, dtype=F4) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype.numpy)


def close(got, a, b, dtype, extra=0.0) -> None:
    """Within the bound of a chain of K roundings."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    bound = (np.abs(a) @ np.abs(b)) * (a.shape[-1] + 2) * np.finfo(dtype.numpy).eps + extra + 1e-30
    assert np.isfinite(got).all()
    assert np.max(np.abs(got - a @ b) / bound) <= 1


def tiles(tile=None, **fields):
    """make_plan with another choice."""
    def plan(p, isa) -> ProductPlan:
        return make_plan(p, isa, tile=tile, **fields)
    return plan


SIZES = [(1, 1, 1), (2, 3, 7), (7, 17, 3), (3, 101, 100), (101, 3, 100), (17, 129, 33), (1, 101, 129), (129, 1, 101),
         (40, 7, 300), (8, 100, 700), (1, 300, 1024), (2, 300, 512), (129, 101, 300)]


@pytest.mark.drawn(13)
@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("m,n,k", SIZES)
def test_products(m, n, k, dtype):
    rng = np.random.default_rng()
    for ta in (False, True):
        for tb in (False, True):
            run = Compiled(product(m, n, k, dtype, ta, tb))
            a, b = random(rng, (k, m) if ta else (m, k), dtype), random(rng, (n, k) if tb else (k, n), dtype)
            c = np.full((m, n), np.nan, dtype.numpy)
            run(a, b, c)
            close(c, a.T if ta else a, b.T if tb else b, dtype)
            assert run.word("weft_counters").value == 1


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_all_paths_give_the_same_bits(ta, tb):
    rng = np.random.default_rng()
    m, n, k = 97, 110, 130
    kernel = product(m, n, k, F4, ta, tb)
    a, b = random(rng, (k, m) if ta else (m, k)), random(rng, (n, k) if tb else (k, n))
    plans = [
        make_plan, tiles((6, 2)), tiles((1, 1)), tiles((6, 2), pack_a=True, pack_b=True),
        tiles((4, 3), pack_a=True, pack_b=True, kc=40), tiles((2, 4), pack_b=True, kc=16, unit_columns=64),
        tiles((6, 2), pack_a=True, pack_b=True, kc=33, unit_rows=30, unit_columns=40),
    ]
    results = []
    for plan in plans:
        c = np.full((m, n), np.nan, F4.numpy)
        Compiled(kernel, plan=plan)(a, b, c)
        results.append(c)
    close(results[0], a.T if ta else a, b.T if tb else b, F4)
    for c in results[1:]:
        assert np.array_equal(c.view(np.uint32), results[0].view(np.uint32))


@pytest.mark.parametrize("long", [False, True])
def test_tiles_that_differ_in_a_row_or_in_packing_share_a_function(long):
    """The values of the stores are emitted once for each width of a tile."""
    rng = np.random.default_rng()
    height, vectors = 6, 2
    lanes = host_isa().lanes(F4.bytes)
    for _ in range(5):
        panels, columns = int(rng.integers(4, 20)), int(rng.integers(2, 9))
        last = int(rng.integers(1, vectors * lanes))
        m, n, k = panels * height - int(rng.integers(1, panels)), columns * vectors * lanes + last, int(rng.integers(20, 700))
        kernel = product(m, n, k)
        store = kernel.phases[0].stages[0].stores[0]
        kernel = with_stores(kernel, [replace(store, value=op("exp" if long else "sqrt", store.value))])
        plan = tiles((height, vectors), pack_b=True)
        run = Compiled(kernel, plan=plan)
        ir = run.generated.ir
        assert ir.count("define internal void @product.tile") == 2
        assert "product copies b" in run.generated.paths
        if not long:
            assert len(re.findall(r"= call .*@llvm.sqrt", ir)) == height * (vectors + -(-last // lanes))
        a, b, c = random(rng, (m, k)), random(rng, (k, n)), np.full((m, n), np.nan, F4.numpy)
        a, b = np.abs(a) / k, np.abs(b)
        run(a, b, c)
        plain = np.full((m, n), np.nan, F4.numpy)
        Compiled(kernel, plan=tiles((1, 1)))(a, b, plain)
        assert np.array_equal(c, plain) and np.isfinite(c).all()


def test_lanes_that_are_not_neighbours_are_stored_in_a_loop():
    """The transposed result of a long product has one store a lane in the text, not one for each element of a large tile."""
    rng = np.random.default_rng()
    lanes = host_isa().lanes(F4.bytes)
    for _ in range(4):
        m, n, k = lanes, int(rng.integers(100, 400)), int(rng.integers(512, 900))
        run = Compiled(product(m, n, k, tb=True))
        assert len(re.findall(r"store float ", run.generated.ir)) <= 200  # of 240 in a tile of AVX-512
        a, b, c = random(rng, (m, k)), random(rng, (n, k)), np.full((m, n), np.nan, F4.numpy)
        run(a, b, c)
        close(c, a, b.T, F4)


def test_rows_do_not_depend_on_their_number():
    rng = np.random.default_rng()
    a, b = random(rng, (50, 70)), random(rng, (70, 45))
    whole, two = np.empty((50, 45), F4.numpy), np.empty((2, 45), F4.numpy)
    Compiled(product(50, 45, 70))(a, b, whole)
    run = Compiled(product(2, 45, 70))
    for i in (0, 13, 48):
        run(np.ascontiguousarray(a[i : i + 2]), b, two)
        assert np.array_equal(two, whole[i : i + 2])


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("n,k", [(1, 1), (1, 2), (1, 63), (1, 3000), (3, 9), (100, 99), (100, 128), (1100, 77), (41, 301)])
def test_products_with_a_vector_have_the_same_bits_in_every_layout(n, k, dtype):
    rng = np.random.default_rng()
    a, b = random(rng, (1, k), dtype), random(rng, (k, n), dtype)
    results = []
    for tb in (False, True):
        for isa in (host_isa(), replace(host_isa(), bits=128)):
            c = np.full((1, n), np.nan, dtype.numpy)
            Compiled(product(1, n, k, dtype, tb=tb), isa=isa)(a, np.ascontiguousarray(b.T) if tb else b, c)
            results.append(c)
            c = np.full((n, 1), np.nan, dtype.numpy)
            Compiled(product(n, 1, k, dtype, ta=not tb), isa=isa)(np.ascontiguousarray(b.T) if tb else b, a, c)
            results.append(c.T)
    close(results[0], a, b, dtype)
    # neither k nor the result lies side by side
    loose = np.full((k, n, 2), np.nan, dtype.numpy)
    loose[:, :, 0] = b
    am, an, ak = Axis(0, 1), Axis(1, n), Axis(2, k)
    buffers = Buffer(0, dtype, (1, k)), Buffer(1, dtype, (k, n, 2)), Buffer(2, dtype, (1, n))
    contraction = Contraction(
        5, (), (am,), (an,), (ak,), load(buffers[0], am, ak), load(buffers[1], ak, an, Affine(0)), dtype,
        product_order(1, n, (k,)),
        (Store(Access(buffers[2], (axis_index(am), axis_index(an))), Value("acc", (), dtype, 5)),),
    )
    c = np.full((1, n), np.nan, dtype.numpy)
    Compiled(Kernel("loose", (Phase((), (contraction,)),), buffers[:2], buffers[2:]))(a, loose, c)
    results.append(c)
    for c in results[1:]:
        assert np.array_equal(c, results[0])


def test_large_products_with_a_vector_in_any_order_of_chunks():
    rng = np.random.default_rng()
    n, k = 4200, 350
    a, b = random(rng, (1, k)), random(rng, (k, n))
    results = []
    for tb, step in ((False, 1), (False, 3), (True, 1), (True, 3)):
        run = Compiled(product(1, n, k, tb=tb))
        c = np.full((1, n), np.nan, F4.numpy)
        run(a, np.ascontiguousarray(b.T) if tb else b, c, step=step)
        assert run.word("chunks").value > 1
        results.append(c)
    close(results[0], a, b, F4)
    assert all(np.array_equal(c, results[0]) for c in results)


def test_blocked_product_with_chunks_in_any_order():
    rng = np.random.default_rng()
    m, n, k = 260, 530, 601
    run = Compiled(product(m, n, k))
    a, b = random(rng, (m, k)), random(rng, (k, n))
    results = []
    for step in (1, 7, 11):
        c = np.full((m, n), np.nan, F4.numpy)
        run(a, b, c, step=step)
        results.append(c)
    assert run.word("chunks").value >= 8
    close(results[0], a, b, F4)
    assert all(np.array_equal(c, results[0]) for c in results)


@pytest.mark.parametrize("ta", [False, True])
def test_results_stored_row_by_row_in_parts_of_the_columns(ta):
    rng = np.random.default_rng()
    m, k, isa = int(rng.integers(13, 30)), int(rng.integers(9, 17)), replace(host_isa(), l2=256 << 10)
    n = int(rng.integers(isa.l2 // 2 // 4 // k, 3 * isa.l2 // 4 // k)) + isa.l2 // 8 // m
    kernel = product(m, n, k, F4, ta)
    plan = make_plan(match_product(kernel), isa)
    assert plan.by_rows and plan.n_units > 1 and plan.m_units == plan.panels
    a, b = random(rng, (k, m) if ta else (m, k)), random(rng, (k, n))
    results = []
    for plan, step in ((make_plan, 1), (make_plan, 7), (tiles((6, 2)), 1)):
        c = np.full((m, n), np.nan, F4.numpy)
        Compiled(kernel, isa, plan)(a, b, c, step=step)
        results.append(c)
    close(results[0], a.T if ta else a, b, F4)
    assert all(np.array_equal(c, results[0]) for c in results)


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("by_rows", [False, True])
def test_an_operand_read_from_memory_once(by_rows, dtype):
    rng = np.random.default_rng()
    isa, other = replace(host_isa(), l2=32 << 10), bool(rng.integers(2))
    lanes = isa.lanes(dtype.bytes)
    few, k = int(rng.integers(lanes // 2 + 1 if by_rows else 4, lanes + 1)), int(rng.integers(64, 700))
    many = int(rng.integers(1, 40)) + max(64 if by_rows else 32 * lanes, isa.l2 // k)
    m, n, ta, tb = (many, few, False, other) if by_rows else (few, many, other, False)
    kernel = product(m, n, k, dtype, ta, tb)
    plan = make_plan(match_product(kernel), isa)
    assert (plan.prefetch_a, plan.prefetch_b) == (by_rows, not by_rows) or isa.registers < 32
    a, b = random(rng, (k, m) if ta else (m, k), dtype), random(rng, (n, k) if tb else (k, n), dtype)
    results = []
    for plan in (make_plan, tiles((6, 2))):
        c = np.full((m, n), np.nan, dtype.numpy)
        Compiled(kernel, isa, plan)(a, b, c)
        results.append(c)
    close(results[0], a.T if ta else a, b.T if tb else b, dtype)
    assert np.array_equal(*results)


@pytest.mark.parametrize("dtype", [FLOAT16, BF], ids=str)
@pytest.mark.parametrize("ta,tb", [(False, False), (True, True)])
def test_halves_accumulate_in_float32(dtype, ta, tb):
    rng = np.random.default_rng()
    m, n, k = 37, 29, 45
    a, b = random(rng, (k, m) if ta else (m, k), dtype), random(rng, (n, k) if tb else (k, n), dtype)
    c = np.full((m, n), np.nan, F4.numpy)
    Compiled(product(m, n, k, dtype, ta, tb, accum=F4))(a, b, c)
    close(c, a.T if ta else a, b.T if tb else b, F4)


def test_halves_through_casts_and_to_halves():
    rng = np.random.default_rng()
    m, n, k = 19, 21, 23
    kernel = product(m, n, k, BF, accum=F4)
    c = kernel.phases[0].stages[0]
    out = Buffer(2, BF, (m, n))
    acc = Value("acc", (), F4, 5)
    stage = replace(c, a=op("cast", c.a, dtype=F4), b=op("cast", c.b, dtype=F4),
                    stores=(Store(Access(out, c.stores[0].access.index), op("cast", acc, dtype=BF)),))
    kernel = replace(kernel, phases=(Phase((), (stage,)),), outputs=(out,))
    a, b, got = random(rng, (m, k), BF), random(rng, (k, n), BF), np.zeros((m, n), BF.numpy)
    Compiled(kernel)(a, b, got)
    want = a.astype(np.float64) @ b.astype(np.float64)
    assert np.max(np.abs(got.astype(np.float64) - want) / (np.abs(want) + 0.1)) < 2**-7


@pytest.mark.parametrize("batch,m,n,k", [(3, 5, 7, 11), (40, 16, 16, 16), (9, 64, 70, 50), (2, 200, 210, 300)])
def test_batched(batch, m, n, k):
    rng = np.random.default_rng()
    for ta, tb in ((False, False), (False, True), (True, False)):
        a = random(rng, (batch, *((k, m) if ta else (m, k))))
        b = random(rng, (batch, *((n, k) if tb else (k, n))))
        c = np.full((batch, m, n), np.nan, F4.numpy)
        Compiled(product(m, n, k, F4, ta, tb, batch=batch))(a, b, c, step=1)
        close(c, np.swapaxes(a, 1, 2) if ta else a, np.swapaxes(b, 1, 2) if tb else b, F4)


@pytest.mark.parametrize("columns", [1, 3, 4, 5, 10, 15])
def test_few_columns(columns):
    """A quarter of a vector of columns is enough for vectors along them, if the other side would be transposed."""
    rng = np.random.default_rng()
    m, k = int(rng.integers(20, 700)), int(rng.integers(2, 200))
    for ta, tb in ((False, False), (False, True), (True, False)):
        kernel, lanes = product(m, columns, k, F4, ta, tb), host_isa().lanes(4)
        assert should_swap(match_product(kernel), lanes) == (columns < (lanes if ta else lanes // 4))
        a, b = random(rng, (k, m) if ta else (m, k)), random(rng, (columns, k) if tb else (k, columns))
        c = np.full((m, columns), np.nan, F4.numpy)
        Compiled(kernel)(a, b, c, step=1)
        close(c, a.T if ta else a, b.T if tb else b, F4)


def test_work_on_the_results_counts_for_threads():
    """A product of little arithmetic runs on several threads if its results pass through a costly function."""
    kernel = product(5000, 32, 4)
    store = kernel.phases[0].stages[0].stores[0]
    costly = with_stores(kernel, [replace(store, value=Value("tanh", (store.value,), F4))])
    assert [make_plan(match_product(k), host_isa()).chunks > 1 for k in (kernel, costly)] == [False, True]


@pytest.mark.parametrize("m,n,k,swapped", [(661, 33, 70, True), (661, 36, 70, False), (1003, 9, 300, True), (661, 33, 60, False)])
def test_a_tall_operand_that_lies_along_its_rows_changes_sides(m, n, k, swapped):
    """The gradient of a large table: many rows, few columns, both operands k by k in memory."""
    rng = np.random.default_rng()
    kernel = product(m, n, k, F4, ta=True)
    assert should_swap(match_product(kernel), host_isa().lanes(4)) == swapped
    a, b, c = random(rng, (k, m)), random(rng, (k, n)), np.full((m, n), np.nan, F4.numpy)
    Compiled(kernel)(a, b, c, step=1)
    close(c, a.T, b, F4)


def groups(axes_merge: bool) -> tuple[Kernel, tuple[int, ...]]:
    """x[p, q, k] @ w[k, r, s] -> y[p, q, r, s], or y[q, p, s, r], whose groups do not merge."""
    p, q, r, s, k = Axis(0, 4), Axis(1, 6), Axis(2, 5), Axis(3, 9), Axis(4, 31)
    x, w = Buffer(0, F4, (4, 6, 31)), Buffer(1, F4, (31, 5, 9))
    order = (p, q, r, s) if axes_merge else (q, p, s, r)
    y = Buffer(2, F4, tuple(a.extent for a in order))
    stage = Contraction(5, (), (p, q), (r, s), (k,), load(x, p, q, k), load(w, k, r, s), F4, product_order(24, 45, (31,)),
                        (Store(Access(y, tuple(axis_index(a) for a in order)), Value("acc", (), F4, 5)),))
    return Kernel("groups", (Phase((), (stage,)),), (x, w), (y,)), y.shape


@pytest.mark.parametrize("merge", [True, False])
def test_axis_groups(merge):
    rng = np.random.default_rng()
    kernel, shape = groups(merge)
    matched = match_product(kernel)
    assert (matched.rows, matched.columns, matched.batch) == ((24, 45, 1) if merge else (6, 9, 20))
    x, w, y = random(rng, (4, 6, 31)), random(rng, (31, 5, 9)), np.full(shape, np.nan, F4.numpy)
    Compiled(kernel)(x, w, y)
    want = np.einsum("pqk,krs->pqrs", x.astype(F8.numpy), w.astype(F8.numpy))
    got = y if merge else y.transpose(1, 0, 3, 2)
    assert np.max(np.abs(got - want)) < 31 * 20 * np.finfo(F4.numpy).eps


@pytest.mark.parametrize("p,q,k", [(5, 7, 49), (70, 40, 33), (1, 9, 300)])
def test_k_in_groups_that_do_not_merge(p, q, k):
    """The weight gradient of channels-first data: y[p, q] = sum over b, k of g[b, p, k] * x[b, q, k]."""
    rng = np.random.default_rng()
    batch, rows, columns, steps = Axis(0, 6), Axis(1, p), Axis(2, q), Axis(3, k)
    g, x, y = Buffer(0, F4, (6, p, k)), Buffer(1, F4, (6, q, k)), Buffer(2, F4, (p, q))
    stage = Contraction(5, (), (rows,), (columns,), (batch, steps), load(g, batch, rows, steps),
                        load(x, batch, columns, steps), F4, product_order(p, q, (6, k)),
                        (Store(Access(y, (axis_index(rows), axis_index(columns))), Value("acc", (), F4, 5)),))
    kernel = Kernel("groups", (Phase((), (stage,)),), (g, x), (y,))
    a, b = random(rng, (6, p, k)), random(rng, (6, q, k))
    for plan in (make_plan, tiles((2, 2), kc=17)):
        out = np.full((p, q), np.nan, F4.numpy)
        Compiled(kernel, plan=plan)(a, b, out)
        flat_a, flat_b = a.transpose(1, 0, 2).reshape(p, -1), b.transpose(1, 0, 2).reshape(q, -1)
        close(out, flat_a, flat_b.T, F4)


@pytest.mark.parametrize("m,n,k", [(1, 40, 33), (2, 5, 64), (50, 1, 40), (30, 40, 20)])
def test_operands_that_are_broadcast_or_reversed(m, n, k):
    """b[n] is the same for all k, or a column repeated for all n; a runs backwards along k."""
    rng = np.random.default_rng()
    am, an, ak = Axis(0, m), Axis(1, n), Axis(2, k)
    x, w, y = Buffer(0, F4, (m, k)), Buffer(1, F4, (k,)), Buffer(2, F4, (m, n))
    reverse = load(x, axis_index(am), axis_index(ak, -1).plus(Affine(k - 1)))
    stage = Contraction(5, (), (am,), (an,), (ak,), reverse, load(w, ak), F4, product_order(m, n, (k,)),
                        (Store(Access(y, (axis_index(am), axis_index(an))), Value("acc", (), F4, 5)),))
    a, b, out = random(rng, (m, k)), random(rng, k), np.full((m, n), np.nan, F4.numpy)
    Compiled(Kernel("wide", (Phase((), (stage,)),), (x, w), (y,)))(a, b, out)
    close(out, a[:, ::-1], np.repeat(b[:, None], n, 1), F4)


def test_not_a_plain_product():
    kernel = product(4, 5, 6)
    stage = kernel.phases[0].stages[0]
    guarded = replace(stage.a, attr=replace(stage.a.attr, guard=((axis_index(0), 1, 4),)))
    squared = op("mul", stage.a, stage.a)
    for a in (guarded, squared):
        assert generate_gemm(replace(kernel, phases=(Phase((), (replace(stage, a=a),)),)), host_isa()) is None
    integers = product(4, 5, 6, INT32)
    assert generate_gemm(integers, host_isa()) is None


# epilogues


def epilogue_case(m, n, k, plan=make_plan, long=False):
    """y = f(acc * scalar + bias[n] + column[m] + residual[m, n]); f is relu, or tanh."""
    kernel = product(m, n, k)
    am, an = axis_index(0), axis_index(1)
    bias, column, residual = Buffer(2, F4, (n,)), Buffer(3, F4, (m,)), Buffer(4, F4, (m, n))
    y = Buffer(5, F4, (m, n))
    acc = Value("acc", (), F4, 5)
    t = op("mul", acc, Value("scalar", (), F4, 0))
    for v in (load(bias, an), load(column, am), load(residual, am, an)):
        t = op("add", t, v)
    t = op("tanh", t) if long else op("max", t, Value("const", (), F4, 0.0))
    kernel = with_stores(kernel, [Store(Access(y, (am, an)), t)], (bias, column, residual), (y,), (F4,))
    return Compiled(kernel, plan=plan)


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("m,n,k", [(101, 100, 30), (7, 3, 20), (50, 3, 20), (1, 45, 10), (45, 1, 10), (1, 1, 9), (33, 130, 300)])
def test_epilogue(m, n, k, long):
    rng = np.random.default_rng()
    a, b = random(rng, (m, k)), random(rng, (k, n))
    bias, column, residual = random(rng, n), random(rng, m), random(rng, (m, n))
    scale = np.float32(0.37)
    want = a.astype(F8.numpy) @ b.astype(F8.numpy) * scale + bias + column[:, None] + residual
    want = np.tanh(want) if long else np.maximum(want, 0)
    results = []
    for plan in (make_plan, tiles((2, 2), pack_a=True, pack_b=True, kc=8)):
        run = epilogue_case(m, n, k, plan, long)
        y = np.full((m, n), np.nan, F4.numpy)
        run(a, b, bias, column, residual, y, scalars=(scale,))
        results.append(y)
        assert np.max(np.abs(y - want)) < 40 * k * np.finfo(F4.numpy).eps
        again = residual.copy()  # in == out at the same index
        run(a, b, bias, column, again, again, scalars=(scale,))
        assert np.array_equal(again, y)
    assert np.array_equal(results[0], results[1])


@pytest.mark.parametrize("m,n,k", [(100, 101, 8), (30, 3, 101), (260, 300, 40)])
def test_adam_in_the_epilogue_in_place(m, n, k):
    """g = A^T B; m', v', w' written over m, v, w."""
    rng = np.random.default_rng()
    kernel = product(m, n, k, ta=True)
    am, an = axis_index(0), axis_index(1)
    w, mo, ve = (Buffer(i, F4, (m, n)) for i in (2, 3, 4))
    w2, mo2, ve2 = (Buffer(i, F4, (m, n)) for i in (5, 6, 7))
    g = Value("acc", (), F4, 5)

    def const(x):
        return Value("const", (), F4, x)

    first = op("add", op("mul", load(mo, am, an), const(0.9)), op("mul", g, const(0.1)))
    second = op("add", op("mul", load(ve, am, an), const(0.99)), op("mul", op("mul", g, g), const(0.01)))
    step = op("div", op("mul", first, Value("scalar", (), F4, 0)), op("add", op("sqrt", second), const(1e-3)))
    new = op("sub", load(w, am, an), step)
    stores = [Store(Access(t, (am, an)), v) for t, v in ((w2, new), (mo2, first), (ve2, second))]
    run = Compiled(with_stores(kernel, stores, (w, mo, ve), (w2, mo2, ve2), (F4,)))
    a, b = random(rng, (k, m)), random(rng, (k, n))
    state = [random(rng, (m, n)), random(rng, (m, n)), np.abs(random(rng, (m, n))) + 0.5]
    grad = a.T.astype(F8.numpy) @ b.astype(F8.numpy)
    want_m = state[1] * 0.9 + grad * 0.1
    want_v = state[2] * 0.99 + grad**2 * 0.01
    want_w = state[0] - want_m * 0.01 / (np.sqrt(want_v) + 1e-3)
    out = [s.copy() for s in state]
    run(a, b, *out, *out, scalars=(np.float32(0.01),))
    for got, want in zip(out, (want_w, want_m, want_v), strict=True):
        assert np.max(np.abs(got - want) / (1 + np.abs(want))) < 50 * k * np.finfo(F4.numpy).eps


def test_narrow_vectors_give_the_same_bits():
    """The 128-bit plan of the same machine: the chain of an element does not depend on the vector width."""
    host = host_isa()
    if host.bits == 128:
        pytest.skip("the host has 128-bit vectors only")
    rng = np.random.default_rng()
    for dtype in (F4, F8):
        for m, ta, tb in ((53, False, False), (53, True, True), (2, False, True)):
            a, b = random(rng, (64, m) if ta else (m, 64), dtype), random(rng, (47, 64) if tb else (64, 47), dtype)
            wide, narrow = np.empty((m, 47), dtype.numpy), np.empty((m, 47), dtype.numpy)
            Compiled(product(m, 47, 64, dtype, ta, tb))(a, b, wide)
            Compiled(product(m, 47, 64, dtype, ta, tb), isa=replace(host, bits=128))(a, b, narrow)
            assert np.array_equal(wide, narrow)


def test_without_fused_multiply_add():
    rng = np.random.default_rng()
    a, b, c = random(rng, (23, 31)), random(rng, (31, 19)), np.empty((23, 19), F4.numpy)
    Compiled(product(23, 19, 31), isa=replace(host_isa(), fma=False))(a, b, c)
    close(c, a, b, F4)


def test_code_for_avx512_compiles():
    for kernel in (product(64, 100, 100), product(300, 500, 600, tb=True), product(40, 3, 50, F8)):
        generated = generate_gemm(kernel, ISA(512, 32, True, 32 << 10, 1 << 20, ""))
        llvm.parse_assembly(generated.ir).verify()
