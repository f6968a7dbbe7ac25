"""Products of 8-bit integers in int32, and of narrow weights with floats: exact sums, on every instruction, at every edge."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from cross import kernels_of, leaf
from harness import isas
from test_gemm import Compiled, load, op, product, tiles

from weft.devices.cpu.emit.isa import ISA, host_isa
from weft.devices.cpu.generate import generate
from weft.devices.cpu.product.tiling import make_plan
from weft.dtypes.formats import FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT32, FLOAT64, FORMATS, INT8, INT16, INT32, UINT8, Format
from weft.graph.primitives import bind, constant
from weft.graph.primitives.table import TABLE
from weft.kernel.ir import Access, Axis, Buffer, Contraction, Kernel, Phase, Store, Value, axis_index
from weft.kernel.summation import product_order

BYTES = (INT8, UINT8)
PAIRS = list(itertools.product(BYTES, BYTES))


def instructions() -> dict[str, ISA]:
    """Return the ISAs that this machine can run, and its own with the other ways to multiply units and with shorter vectors."""
    host, found = host_isa(), isas()
    others = {f"host, {dot or 'plain'}": replace(host, dot=dot) for dot in ("madd", "") if dot != host.dot}
    return {**found, **others, **({"host, 256 bits": replace(host, bits=256)} if host.bits > 256 else {})}


def widening(kernel: Kernel, a: Format, b: Format) -> Kernel:
    """Return a product whose operands are read in other formats and cast to the accumulator."""
    c = kernel.phases[0].stages[0]

    def read(value: Value, form: Format) -> tuple[Buffer, Value]:
        buffer = replace(value.attr.buffer, dtype=form)
        value = replace(value, dtype=form, attr=replace(value.attr, buffer=buffer))
        return buffer, value if form is c.accum else op("cast", value, dtype=c.accum)

    (left, x), (right, y) = read(c.a, a), read(c.b, b)
    return replace(kernel, phases=(Phase((), (replace(c, a=x, b=y),)),), inputs=(left, right))


def draw(rng: np.random.Generator, shape: tuple[int, ...], form: Format) -> np.ndarray:
    return rng.integers(form.least, form.greatest, shape, endpoint=True).astype(form.numpy)


def wrapped(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the exact product, wrapped to int32."""
    return (a.astype(np.int64) @ b.astype(np.int64)).astype(np.int32)


def edge(rng: np.random.Generator, most: int) -> int:
    """Draw an extent, often beside a multiple of a vector or a tile."""
    near = int(rng.choice([1, 2, 4, 6, 8, 12, 16, 32, 48, 64, 96, 128, 256])) + int(rng.integers(-1, 2))
    return max(1, min(most, near if rng.random() < 0.7 else int(rng.integers(1, most))))


@pytest.mark.drawn(10)
@pytest.mark.parametrize("name", instructions())
@pytest.mark.parametrize("a,b", PAIRS, ids=str)
def test_random_products(rng, name, a, b):
    for _ in range(3):
        m, n, k, batch = edge(rng, 150), edge(rng, 150), edge(rng, 700), int(rng.choice([0, 0, 3]))
        ta, tb = rng.random(2) < 0.5
        lead = (batch,) if batch else ()
        x, y = draw(rng, (*lead, m, k), a), draw(rng, (*lead, k, n), b)
        pieces = dict(kc=int(rng.integers(8, 60)), unit_rows=int(rng.integers(1, 40)), unit_columns=int(rng.integers(1, 90)))
        for plan in (make_plan, tiles((3, 2), pack_a=bool(rng.random() < 0.5), pack_b=True, **pieces)):
            c = np.full((*lead, m, n), -7, np.int32)
            kernel = widening(product(m, n, k, INT32, ta, tb, batch=batch), a, b)
            left, right = (np.ascontiguousarray(np.swapaxes(v, -1, -2)) if turn else v for v, turn in ((x, ta), (y, tb)))
            Compiled(kernel, isa=instructions()[name], plan=plan)(left, right, c)
            assert np.array_equal(c, wrapped(x, y)), (m, n, k, batch, ta, tb, pieces)


@pytest.mark.drawn(12)
@pytest.mark.parametrize("name", instructions())
@pytest.mark.parametrize("a,b", PAIRS, ids=str)
def test_extremes(rng, name, a, b):
    """All numbers at their bounds: the largest sums of pairs and of fours, and the largest corrections."""
    for m, n, k in ((3, 20, 515), (1, 20, 259), (20, 1, 64)):
        run = Compiled(widening(product(m, n, k, INT32, tb=True), a, b), isa=instructions()[name])
        for x, y in itertools.product((a.least, a.greatest), (b.least, b.greatest)):
            left, right = np.full((m, k), x, a.numpy), np.full((n, k), y, b.numpy)
            c = np.full((m, n), -7, np.int32)
            run(left, right, c)
            assert (c == x * y * k).all()


def test_sums_wrap(rng):
    """255 * 255 * 40000 is beyond int32."""
    k = 40000
    x, y, c = np.full((2, k), 255, np.uint8), np.full((k, 70), 255, np.uint8), np.zeros((2, 70), np.int32)
    Compiled(widening(product(2, 70, k, INT32), UINT8, UINT8))(x, y, c)
    assert (c == wrapped(x[:1], y[:, :1])).all() and c[0, 0] < 0


@pytest.mark.parametrize("name", instructions())
def test_products_with_a_vector(rng, name):
    for tb in (True, False):
        for a, b in PAIRS:
            n, k = edge(rng, 70), edge(rng, 1500)
            x, y = draw(rng, (1, k), a), draw(rng, (k, n), b)
            right = np.ascontiguousarray(y.T) if tb else y
            row, column = np.full((1, n), -7, np.int32), np.full((n, 1), -7, np.int32)
            Compiled(widening(product(1, n, k, INT32, tb=tb), a, b), isa=instructions()[name])(x, right, row)
            Compiled(widening(product(n, 1, k, INT32, ta=not tb), b, a), isa=instructions()[name])(right, x, column)
            assert np.array_equal(row, wrapped(x, y)) and np.array_equal(column.T, row), (n, k, tb)


@pytest.mark.parametrize("name", instructions())
@pytest.mark.parametrize("k", [8, 33])
def test_k_in_groups_that_do_not_merge(rng, name, k):
    """y[p, q] = sum over b, k of g[b, p, k] * x[b, q, k]; the last unit of each group may not be whole."""
    p, q = 7, 70
    batch, rows, columns, steps = Axis(0, 6), Axis(1, p), Axis(2, q), Axis(3, k)
    g, x, y = Buffer(0, INT32, (6, p, k)), Buffer(1, INT32, (6, q, k)), Buffer(2, INT32, (p, q))
    stage = Contraction(5, (), (rows,), (columns,), (batch, steps), load(g, batch, rows, steps), load(x, batch, columns, steps),
                        INT32, product_order(p, q, (6, k)),
                        (Store(Access(y, (axis_index(rows), axis_index(columns))), Value("acc", (), INT32, 5)),))
    kernel = widening(Kernel("groups", (Phase((), (stage,)),), (g, x), (y,)), INT8, INT8)
    a, b = draw(rng, (6, p, k), INT8), draw(rng, (6, q, k), INT8)
    for plan in (make_plan, tiles((2, 2), kc=3)):
        out = np.full((p, q), -7, np.int32)
        Compiled(kernel, isa=instructions()[name], plan=plan)(a, b, out)
        assert np.array_equal(out, wrapped(a.transpose(1, 0, 2).reshape(p, -1), b.transpose(0, 2, 1).reshape(-1, q)))


@pytest.mark.parametrize("name", isas())
def test_narrow_weights_have_the_bits_of_wide_ones(rng, name):
    """Rows of bytes are widened in whole registers; the sums keep their order."""
    for form, accum in itertools.product((FLOAT8_E4M3FN, FLOAT8_E5M2, INT8, UINT8, INT16), (FLOAT32, FLOAT64)):
        m, n, k, tb = int(rng.choice([1, 1, 9])), edge(rng, 60), edge(rng, 1300), bool(rng.random() < 0.7)
        x = rng.standard_normal((m, k)).astype(accum.numpy)
        codes = draw(rng, (n, k) if tb else (k, n), UINT8 if form.bits == 8 else INT16)
        weights = codes.view(form.numpy)
        weights[~np.isfinite(weights.astype(np.float64))] = 0
        kernel, got, want = product(m, n, k, accum, tb=tb), np.zeros((m, n), accum.numpy), np.zeros((m, n), accum.numpy)
        Compiled(widening(kernel, accum, form), isa=isas()[name])(x, weights, got)
        Compiled(kernel, isa=isas()[name])(x, weights.astype(accum.numpy), want)
        assert np.array_equal(got, want), (form, accum, m, n, k, tb)


@pytest.mark.parametrize("name", isas())
@pytest.mark.parametrize("form", [f for f in FORMATS.values() if f.kind == "float" and f.bytes == 1], ids=str)
def test_every_code_of_a_weight(name, form):
    count = 1 << form.bits
    for k in (1, 16, 21):
        weights, x, got = np.ones((count, k), form.numpy), np.zeros((1, k), np.float32), np.zeros((1, count), np.float32)
        weights[:, -1], x[0, -1] = np.arange(count, dtype=np.uint8).view(form.numpy), 1
        Compiled(widening(product(1, count, k, tb=True), FLOAT32, form), isa=isas()[name])(x, weights, got)
        assert np.array_equal(got[0], weights[:, -1].astype(np.float32), equal_nan=True)


def matrix_product(a, b):
    return bind(TABLE["dot_general"], a, b, contract=((1,), (0,)), batch=((), ()))


def cast(x, form: Format):
    return bind(TABLE["cast"], x, dtype=form)


def test_casts_and_dequantisation_join_the_product(rng):
    """relu(scale * (a @ b) + bias) of bytes is one kernel, which is no loop nest."""
    a, b, bias = draw(rng, (40, 70), UINT8), draw(rng, (70, 90), INT8), rng.standard_normal((40, 90)).astype(np.float32)
    nodes = [leaf(x) for x in (a, b, bias)]
    y = cast(matrix_product(cast(nodes[0], INT32), cast(nodes[1], INT32)), FLOAT32)
    scale, zero = (bind(TABLE["broadcast_to"], constant(x, FLOAT32), shape=(40, 90)) for x in (0.25, 0.0))
    y = bind(TABLE["maximum"], bind(TABLE["add"], bind(TABLE["multiply"], y, scale), nodes[2]), zero)
    (fused,) = kernels_of(nodes, [y])
    assert "product of integers" in generate(fused.kernel, host_isa()).paths
    got = np.full((40, 90), np.nan, np.float32)
    arrays = {n: x for n, x in zip(nodes, (a, b, bias), strict=True)}
    Compiled(fused.kernel)(*[arrays[n] for n, _ in fused.inputs], got)
    assert np.array_equal(got, np.maximum(wrapped(a, b).astype(np.float32) * np.float32(0.25) + bias, 0))


@pytest.mark.parametrize("form", [INT8, UINT8, INT16], ids=str)
def test_weights_of_integers_are_widened_where_they_are_read(rng, form):
    x, w = rng.standard_normal((5, 30)).astype(np.float32), draw(rng, (30, 40), form)
    nodes = [leaf(x), leaf(w)]
    (fused,) = kernels_of(nodes, [matrix_product(nodes[0], cast(nodes[1], FLOAT32))])
    assert "product" in generate(fused.kernel, host_isa()).paths
