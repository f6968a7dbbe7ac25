"""State that is updated in place by the kernel that still reads it."""

from __future__ import annotations

import numpy as np
import pytest
from cross import check_in_place
from harness import acc, access, buffers, compile_kernel, fresh, load, op

import weft as wf
from tests.kernel.evaluate import evaluate
from tests.kernel.verify import verify
from weft.dtypes.formats import FLOAT32, INT64
from weft.kernel.hazards import in_place
from weft.kernel.ir import Access, Affine, Axis, Buffer, Kernel, Phase, Reduction, Stage, Store, Value
from weft.kernel.target import Order

F32 = FLOAT32


def test_a_sum_over_all_rows_sees_the_state_before_its_update() -> None:
    """The sum needs each row's maximum, so it runs in the kernel that writes the softmax over its operand."""
    given = np.random.default_rng().normal(size=(64, 300)).astype(np.float32)
    state = {"x": wf.array(given) + 0.0}
    wf.eval(state["x"])

    @wf.jit
    def step():
        x = state["x"]
        top = x.max(axis=1, keepdims=True)
        e = wf.exp(x - top)
        total = (x * top).sum()
        x[...] = e / e.sum(axis=1, keepdims=True)
        return total

    want = given.astype(np.float64)
    for _ in range(3):
        total = float(step())
        top = want.max(axis=1, keepdims=True)
        np.testing.assert_allclose(total, (want * top).sum(), rtol=1e-4, atol=1e-2)
        want = np.exp(want - top) / np.exp(want - top).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(state["x"].numpy(), want, rtol=1e-5)


def _pairs(kernel: Kernel) -> set[tuple[int, int]]:
    return set(in_place(kernel))


def test_stores_read_again_what_the_reductions_of_their_stage_read():
    """{acc = sum b0; b2 = b1; b3 = b0}: b2 must not lie where b0 lies, since b0 is read again for b3 after b2 is written."""
    b0, b1, b2, b3 = buffers(*[(F32, (70,))] * 4)
    i = Axis(0, 70)
    shared = load(b0, i)  # one Value, as fuse makes it: what is listed once for the sum must be listed for the store too
    total = Reduction(0, (i,), "sum", shared, F32, F32, Order(32, 4096))
    stores = (Store(access(b2, i), load(b1, i)), Store(access(b3, i), shared))
    kernel = Kernel("again", (Phase((), (Stage((i,), (total,), stores),)),), (b0, b1), (b2, b3))
    assert (0, 0) not in _pairs(kernel)
    assert {(0, 1), (1, 0)} <= _pairs(kernel)


def test_a_row_that_is_written_again_and_again_is_not_read_from_the_same_memory():
    """{b1[0, j] = b0[0, j] + 1} for every i, in order: with shared memory each would add to what the one before has made."""
    b0, b1 = buffers(*[(F32, (1, 5))] * 2)
    i, j = Axis(0, 3), Axis(1, 5)
    row = (Affine(), Affine(0, ((1, 1),)))
    copy = Stage((j,), (), (Store(Access(b1, row), Value("load", (), F32, Access(b0, row))),))
    again = op("add", Value("load", (), F32, Access(b0, row)), Value("const", (), F32, 1.0))
    twice = Phase((), (Stage((i, j), (), (Store(Access(b1, row), again),)),))
    kernel = Kernel("again", (Phase((), (copy,)), twice), (b0,), (b1,))
    verify(kernel)
    assert not _pairs(kernel)
    once = Phase((), (Stage((j,), (), (Store(Access(b1, row), again),)),))
    assert _pairs(Kernel("once", (Phase((), (copy,)), once), (b0,), (b1,))) == {(0, 0)}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(64, 300), (3, 40), (5, 17), (40, 6)])
def test_what_rows_keep_is_not_read_again(shape: tuple[int, int], axis: int, first: bool) -> None:
    """The exponentials come from the row's own array, so the stores read the operand only for what is written behind them."""
    given = np.random.default_rng().normal(size=shape).astype(np.float32)
    a, b = wf.array(given) + 0.0, wf.zeros(shape) + 0.0
    wf.eval(a, b)

    @wf.jit
    def step() -> None:
        x = a + 0
        e = wf.exp(x - x.max(axis=axis, keepdims=True))
        p = e / e.sum(axis=axis, keepdims=True)
        if first:
            a[...] = p
        b[...] = wf.sin(x) * 0.5 + p
        if not first:
            a[...] = p

    want = given.astype(np.float64)
    for _ in range(3):
        step()
        e = np.exp(want - want.max(axis=axis, keepdims=True))
        p = e / e.sum(axis=axis, keepdims=True)
        np.testing.assert_allclose(b.numpy(), np.sin(want) * 0.5 + p, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(a.numpy(), p, rtol=1e-4, atol=1e-6)
        want = p


def test_reductions_in_another_order_come_before_the_stores(rng):
    """Two sums of one stage run along different axes: both are over before the stage writes over what they read."""
    shape = (9, 9)
    b0, b1 = buffers((F32, shape), (F32, shape))
    b2 = Buffer(2, INT64, ())
    i, j = Axis(0, 9), Axis(1, 9)
    first = Reduction(0, (i, j), "argmax", load(b0, i, j), F32, INT64, Order(32, 4096))
    second = Reduction(1, (j, i), "argmax", load(b0, i, j), F32, INT64, Order(32, 4096))
    stage = Stage((i, j), (first, second), (Store(access(b1, i, j), op("neg", load(b0, i, j))),))
    last = Phase((), (Stage((), (), (Store(access(b2), acc(1, np.int64)),)),))
    kernel = Kernel("turned", (Phase((), (stage,)), last), (b0,), (b1, b2))
    verify(kernel)
    x = rng.normal(size=shape).astype(np.float32)
    compiled = compile_kernel(kernel)
    out = [fresh(b.dtype, b.shape) for b in kernel.outputs]
    compiled([x], out)
    assert int(out[1]) == int(np.argmax(x.T))
    assert (0, 0) in _pairs(kernel)
    check_in_place(compiled, [x], (), (0, 0), out, evaluate(kernel, [x])[0])


_ROWS, _EDGE = 6, Value("const", (), INT64, 0)


def _row(buffer: Buffer, *axes: Axis) -> Affine:
    """A row that an index array says."""
    at = Value("load", (), INT64, Access(buffer, tuple(Affine(0, ((a.id, 1),)) for a in axes)))
    last = Value("const", (), INT64, _ROWS - 1)
    return Affine(0, (), ((Value("min", (Value("max", (at, _EDGE), INT64), last), INT64), 1),))


def _moving(columns: int, read: str, times: int) -> Kernel:
    """A copy of a table, and then a row of it written, as often as ``times`` says, with what another row holds."""
    b0, b3 = Buffer(0, F32, (_ROWS, columns)), Buffer(3, F32, (_ROWS, columns))
    b1, b2 = (Buffer(k, INT64, (times,) if times > 1 else ()) for k in (1, 2))
    a, c, i, j = Axis(0, _ROWS), Axis(1, columns), Axis(2, times), Axis(3, columns)
    copy = Store(Access(b3, (Affine(0, ((0, 1),)), Affine(0, ((1, 1),)))), load(b0, a, c))
    own = Affine(0, ((3, 1),)) if columns > 1 else Affine()
    column = {"same": own, "turned": Affine(columns - 1, ((3, -1),)) if columns > 1 else own, "first": Affine()}[read]
    loops = (*((i,) if times > 1 else ()), *((j,) if columns > 1 else ()))
    outer = (i,) if times > 1 else ()
    value = op("mul", Value("load", (), F32, Access(b0, (_row(b1, *outer), column))), Value("const", (), F32, 2.0))
    write = Store(Access(b3, (_row(b2, *outer), own)), value)
    phases = (Phase((a, c), (Stage((), (), (copy,)),)), Phase((), (Stage(loops, (), (write,)),)))
    return Kernel("moving", phases, (b0, b1, b2), (b3,))


@pytest.mark.parametrize("columns", [1, 2, 5, 16, 37, 200])
@pytest.mark.parametrize("read", ["same", "turned", "first"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_row_is_made_of_another_in_place_where_columns_stay(columns: int, read: str, times: int, rng) -> None:
    """Whatever rows the index arrays say. Turned columns, or a second row in the same loop, may read what was written."""
    kernel = _moving(columns, read, times)
    fits = times == 1 and (read == "same" or columns == 1)
    assert ((0, 0) in _pairs(kernel)) == fits
    verify(kernel)
    compiled = compile_kernel(kernel)
    for _ in range(6):
        x = rng.normal(size=(_ROWS, columns)).astype(np.float32)
        rows = [np.asarray(rng.integers(0, _ROWS, (times,) if times > 1 else ())) for _ in range(2)]
        out = [fresh(b.dtype, b.shape) for b in kernel.outputs]
        compiled([x, *rows], out)
        want = x.copy()
        for k in range(times):
            source = x[rows[0].reshape(-1)[k]] * 2
            want[rows[1].reshape(-1)[k]] = source if read == "same" else source[::-1] if read == "turned" else source[0]
        assert out[0].tobytes() == want.tobytes()
        if fits:
            check_in_place(compiled, [x, *rows], (), (0, 0), out, evaluate(kernel, [x, *rows])[0])
