"""Products of bfloat16 by pairs: the bits of the chain of fmas, for every format that bfloat16 holds, at every edge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_gemm import Compiled, close, op, product, tiles
from test_integer_products import edge

from weft.devices.cpu.emit.isa import ISA, host_isa
from weft.devices.cpu.product import dot
from weft.devices.cpu.product.tiling import make_plan
from weft.dtypes.formats import BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT32, INT8, UINT8, Format, holds
from weft.dtypes.rounding import Accumulator
from weft.kernel.ir import Buffer, Kernel, Value
from weft.kernel.target import Order

pytestmark = pytest.mark.usefixtures("pairs_of_any_size")
FORMS = [BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2, INT8, UINT8]


@pytest.fixture
def pairs_of_any_size(monkeypatch):
    monkeypatch.setattr(dot, "MAX_FMA_FLOPS", 0)


def without_pairs() -> ISA:
    """Return this machine's ISA without products of bfloat16."""
    return replace(host_isa(), features=host_isa().features.replace("+avx512bf16", "-avx512bf16"))


def narrowed(kernel: Kernel, forms: tuple[Format, Format], rounds: tuple[bool, bool]) -> Kernel:
    """Return a float32 product whose operands are read in ``forms``, or are float32 numbers rounded to them."""
    c = kernel.phases[0].stages[0]
    sides = []
    for value, form, is_rounded in zip((c.a, c.b), forms, rounds, strict=True):
        stored = FLOAT32 if is_rounded else form
        read = replace(value, dtype=stored, attr=replace(value.attr, buffer=replace(value.attr.buffer, dtype=stored)))
        sides.append(op("cast", op("cast", read, dtype=form) if is_rounded else read, dtype=FLOAT32))
    a, b = sides
    inputs = tuple([_buffer(side) for side in sides])
    return replace(kernel, phases=(replace(kernel.phases[0], stages=(replace(c, a=a, b=b),)),), inputs=inputs)


def _buffer(value: Value) -> Buffer:
    while value.op == "cast":
        (value,) = value.args
    return value.attr.buffer


def draw(rng: np.random.Generator, shape: tuple[int, ...], form: Format, is_rounded: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the array in memory and its numbers after rounding, in float32."""
    if form in (INT8, UINT8):
        x = rng.integers(form.least, form.greatest, shape, endpoint=True).astype(form.numpy)
        return x, x.astype(np.float32)
    x = rng.standard_normal(shape).astype(np.float32)
    narrow = x.astype(form.numpy)
    return (x if is_rounded else narrow), narrow.astype(np.float32)


@pytest.mark.drawn(5)
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_random_products(rng, form):
    """Beside float64, and to the bit beside the same product by fmas."""
    for _ in range(3):
        m, n, k, batch = edge(rng, 150), edge(rng, 150), edge(rng, 700), int(rng.choice([0, 0, 3]))
        ta, tb = rng.random(2) < 0.5
        forms = (form, FORMS[rng.integers(len(FORMS))])
        rounds = tuple(bool(rng.random() < 0.4) and form not in (INT8, UINT8) for form in forms)
        lead = (batch,) if batch else ()
        (x, a), (y, b) = draw(rng, (*lead, m, k), forms[0], rounds[0]), draw(rng, (*lead, k, n), forms[1], rounds[1])
        kernel = narrowed(product(m, n, k, FLOAT32, ta, tb, batch=batch), forms, rounds)
        every = int(rng.choice([0, 0, 2, 3, 8, 32]))
        if every:
            (stage,) = kernel.phases[0].stages
            stage = replace(stage, accumulator=Accumulator(BFLOAT16, every), order=Order(1, every))
            kernel = replace(kernel, phases=(replace(kernel.phases[0], stages=(stage,)),))
        left, right = (np.ascontiguousarray(np.swapaxes(v, -1, -2)) if turn else v for v, turn in ((x, ta), (y, tb)))
        pieces = dict(kc=int(rng.integers(8, 60)), unit_rows=int(rng.integers(1, 40)), unit_columns=int(rng.integers(1, 90)))
        found = []
        for plan in (make_plan, tiles((3, 2), **pieces)):
            for isa in (host_isa(), without_pairs()):
                c = np.full((*lead, m, n), np.nan, np.float32)
                Compiled(kernel, isa=isa, plan=plan)(left, right, c)
                found.append(c)
        if not every:
            close(found[0], a, b, FLOAT32)
        drawn = (m, n, k, batch, ta, tb, forms, rounds, every, pieces)
        for other in found[1:]:
            assert np.array_equal(found[0].view(np.int32), other.view(np.int32)), drawn


def test_not_finite_and_zeros(rng):
    """Infinities, NaNs and zeros of both signs give those of the fmas, also beside the padding of an odd k."""
    for m, n, k in ((5, 40, 17), (1, 33, 3), (13, 16, 2)):
        values, odds = [0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan], [0.2, 0.2, 0.2, 0.3, 0.04, 0.04, 0.02]
        x, y = (rng.choice(values, shape, p=odds).astype(BFLOAT16.numpy) for shape in ((m, k), (k, n)))
        kernel = narrowed(product(m, n, k, FLOAT32), (BFLOAT16, BFLOAT16), (False, False))
        results = []
        for isa in (host_isa(), without_pairs()):
            c = np.full((m, n), 7, np.float32)
            Compiled(kernel, isa=isa)(x, y, c)
            results.append(c)
        assert np.array_equal(*results, equal_nan=True)


def test_subnormals_are_zero_or_exact(rng):
    """Operands and sums below the smallest normal number may be taken as zero; the rest is not changed."""
    tiny = FLOAT32.smallest_normal
    x = (rng.standard_normal((6, 9)) * tiny / 8).astype(BFLOAT16.numpy)
    y, c = np.ones((9, 20), BFLOAT16.numpy), np.full((6, 20), np.nan, np.float32)
    Compiled(narrowed(product(6, 20, 9, FLOAT32), (BFLOAT16, BFLOAT16), (False, False)))(x, y, c)
    exact = x.astype(np.float64) @ y.astype(np.float64)
    assert np.all((c == 0) | (np.abs(c - exact) <= 9 * 2.0**-149)) and np.abs(exact).max() > 0


def test_which_formats_make_pairs():
    """The kernel says so if the processor can and the formats fit."""
    for form in (*FORMS, FLOAT32):
        forms = (form, BFLOAT16)
        run = Compiled(narrowed(product(20, 40, 64, FLOAT32), forms, (False, False)))
        pairs = any("product of pairs" in path for path in run.generated.paths)
        assert pairs == (host_isa().multiplies_bfloat16 and holds(BFLOAT16, form))


def test_small_products_make_no_pairs(monkeypatch):
    """Eager code computes them, and keeps subnormal numbers."""
    monkeypatch.undo()
    run = Compiled(narrowed(product(20, 40, 64, FLOAT32), (BFLOAT16, BFLOAT16), (False, False)))
    assert not any("product of pairs" in path for path in run.generated.paths)
