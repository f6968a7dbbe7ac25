"""Products whose sums are rounded on the way: every plan, in pieces and in units, has the evaluator's bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from harness import isas
from test_gemm import Compiled, load, op, product, tiles

from tests.kernel.evaluate import evaluate
from weft.devices.cpu.emit.isa import host_isa
from weft.devices.cpu.product.gemm import generate_gemm
from weft.devices.cpu.product.tiling import make_plan
from weft.dtypes.formats import BFLOAT16, FLOAT16, FLOAT32, FORMATS, Format, fixed_format
from weft.dtypes.rounding import Accumulator
from weft.kernel.ir import Access, Axis, Buffer, Contraction, Kernel, Phase, Store, Value, axis_index, size_of
from weft.kernel.printer import print_kernel
from weft.kernel.summation import accumulator_order

FORMS = (FLOAT16, BFLOAT16, FORMATS["float8_e4m3fn"], FORMATS["float4_e2m1fn"], fixed_format(12, 6))


def rounding(kernel: Kernel, accumulator: Accumulator | None, operands: tuple[Format | None, Format | None]) -> Kernel:
    """Return a product whose sums and operands are rounded."""
    c = kernel.phases[0].stages[0]
    sides = zip((c.a, c.b), operands, strict=True)
    a, b = (v if f is None else op("cast", op("cast", v, dtype=f), dtype=v.dtype) for v, f in sides)
    order = c.order if accumulator is None else accumulator_order(accumulator, size_of(c.k))
    return replace(kernel, phases=(Phase((), (replace(c, a=a, b=b, order=order, accumulator=accumulator),)),))


def check(kernel: Kernel, arrays: list[np.ndarray], **options) -> None:
    (want,), _ = evaluate(kernel, arrays)
    got = np.full_like(want, 77)
    Compiled(kernel, **options)(*arrays, got)
    assert np.array_equal(got, want, equal_nan=True), print_kernel(kernel)


@pytest.mark.drawn(6)
@pytest.mark.parametrize("name", isas())
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_random_products(rng, name, form):
    isa = isas()[name]
    for _ in range(5):
        m, n = (int(rng.choice([1, 2, 5, 13, 33, 50])) for _ in range(2))
        k, every = int(rng.choice([1, 7, 31, 32, 90])), int(rng.choice([1, 1, 2, 5, 16, 32, 100]))
        ta, tb = rng.random(2) < 0.5
        batch = int(rng.choice([0, 0, 3]))
        operands = [(None, None), (BFLOAT16, None), (FLOAT16, FORMS[2])][int(rng.integers(3))]
        accumulator = Accumulator(form, every) if isa.fma else None  # without the instruction only templates round twice
        kernel = rounding(product(m, n, k, FLOAT32, ta, tb, batch=batch), accumulator, operands)
        arrays = [(rng.standard_normal(b.shape) * 2.0 ** rng.integers(-3, 4)).astype(np.float32) for b in kernel.inputs]
        if accumulator is None:
            continue
        pieces = dict(kc=int(rng.integers(8, 40)), unit_rows=int(rng.integers(1, 20)), unit_columns=int(rng.integers(1, 40)))
        for plan in (make_plan, tiles((3, 2), pack_a=bool(rng.random() < 0.5), pack_b=True, **pieces)):
            check(kernel, arrays, isa=isa, plan=plan)


@pytest.mark.parametrize("every", [1, 4, 6, 7])
def test_two_summed_axes(rng, every):
    """Pieces are whole blocks, which a row of k must hold; else the product is a loop nest."""
    turns, steps, rows, columns = Axis(0, 5), Axis(1, 12), Axis(2, 9), Axis(3, 21)
    a, b, c = Buffer(0, FLOAT32, (5, 9, 12)), Buffer(1, FLOAT32, (5, 12, 21)), Buffer(2, FLOAT32, (9, 21))
    accumulator = Accumulator(FLOAT16, every)
    stage = Contraction(
        5, (), (rows,), (columns,), (turns, steps), load(a, turns, rows, steps), load(b, turns, steps, columns), FLOAT32,
        accumulator_order(accumulator, 60),
        (Store(Access(c, (axis_index(rows), axis_index(columns))), Value("acc", (), FLOAT32, 5)),),
        accumulator=accumulator,
    )
    kernel = Kernel("product", (Phase((), (stage,)),), (a, b), (c,))
    assert (generate_gemm(kernel, host_isa()) is None) == (every == 7)
    if every != 7:
        check(kernel, [rng.standard_normal(x.shape).astype(np.float32) for x in (a, b)])


def test_large_products_in_pieces(rng):
    """More of k than fits into a piece: sums are stored between pieces."""
    for accumulator in (Accumulator(FLOAT16), Accumulator(BFLOAT16, 32), Accumulator(BFLOAT16, 3), Accumulator(FLOAT16, 900)):
        kernel = rounding(product(26, 70, 1100), accumulator, (None, None))
        check(kernel, [rng.standard_normal(b.shape).astype(np.float32) for b in kernel.inputs], plan=tiles(kc=100, pack_b=True))


def test_text_says_how_sums_are_rounded():
    kernel = rounding(product(4, 5, 64), Accumulator(BFLOAT16, 16), (None, None))
    assert "[lanes 1, block 16, in bfloat16 every 16]" in print_kernel(kernel)
    kernel = rounding(product(4, 5, 64), Accumulator(FLOAT16), (None, None))
    assert "[lanes 1, block 64, in float16]" in print_kernel(kernel)
