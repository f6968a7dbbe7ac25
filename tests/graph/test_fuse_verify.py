"""The verifier finds what is wrong with a kernel; the evaluator means what the IR says; indices are followed right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.graph.fusing import F32, F64, kernels, leaf, number, op
from tests.graph.test_fuse import dense, softmax
from tests.kernel.evaluate import evaluate, reduce_in_order
from tests.kernel.verify import KernelError, verify
from weft.dtypes.formats import INT64
from weft.graph.node import Graph
from weft.kernel import index as ix
from weft.kernel.expressions import Machine
from weft.kernel.ir import Access, Affine, Axis, Buffer, Contraction, Kernel, Phase, Reduction, Stage, Store, Value, axis_index
from weft.kernel.target import Order
from weft.schedule.build import build

M = Machine()
X, Y = Buffer(0, F32, (4, 6)), Buffer(1, F32, (4, 6))
R, C = Axis(0, 4), Axis(1, 6)


def kernel(value: Value, store: Access | None = None, axes: tuple[Axis, ...] = (R, C)) -> Kernel:
    store = store or Access(Y, (axis_index(R), axis_index(C)))
    return Kernel("test", (Phase(axes, (Stage((), (), (Store(store, value),)),)),), (X,), (Y,))


HERE = Access(X, (axis_index(R), axis_index(C)))


def test_a_good_kernel_passes() -> None:
    verify(kernel(M.load(HERE)))


BAD = {
    "runs from": kernel(M.load(Access(X, (axis_index(R), axis_index(C).plus(Affine(1)))))),
    "outside of its loop": kernel(M.load(Access(X, (axis_index(R), axis_index(7))))),
    "before it is complete": kernel(M.acc(3, F32)),
    "is stored in": kernel(M.cast(M.load(HERE), F64)),
    "add of": kernel(Value("add", (M.load(HERE), M.const(1, F64)), F32)),
    "not a machine operation": kernel(Value("frobnicate", (M.load(HERE),), F32)),
    "with 1 arguments": kernel(Value("add", (M.load(HERE),), F32)),
    "are stored": kernel(M.load(HERE), Access(Y, (axis_index(R), axis_index(C)), ((axis_index(C), 0, 6),)), (R, Axis(1, 5))),
    "stored 6 times": kernel(M.load(HERE), Access(Y, (axis_index(R), Affine()))),
    "not one of the kernel's": kernel(Machine().load(Access(Buffer(0, F32, (4, 7)), (axis_index(R), axis_index(C))))),
    "indices into": kernel(M.load(Access(X, (axis_index(R),)))),
    "scalar 0": kernel(M.scalar(0, F32)),
}


@pytest.mark.parametrize("why", BAD)
def test_what_is_wrong_is_found(why: str) -> None:
    with pytest.raises(KernelError, match=why):
        verify(BAD[why])


def test_a_guard_makes_a_far_index_right() -> None:
    far = axis_index(C).plus(Affine(-2))
    verify(kernel(M.load(Access(X, (axis_index(R), far), ((far, 0, 6),)))))


@pytest.mark.parametrize("scale", [-2, -1, 1, 2, 3])
def test_a_guard_on_a_gathered_index_holds_for_its_multiples(scale: int) -> None:
    """x[scale * i] read where the gathered i is guarded: 0 <= i < 2, so 0 <= scale * i <= 3."""
    i = M.cast(M.load(HERE), INT64)
    far = Affine(0 if scale > 0 else -scale, (), ((i, scale),))
    reads = Kernel("test", (Phase((R, C), (Stage((), (), (Store(
        Access(Y, (axis_index(R), axis_index(C))), M.load(Access(X, (far, axis_index(C)), ((Affine(0, (), ((i, 1),)), 0, 2),))),
    ),)),)),), (X,), (Y,))
    verify(reads)
    wide = Kernel("test", (Phase((R, C), (Stage((), (), (Store(
        Access(Y, (axis_index(R), axis_index(C))), M.load(Access(X, (far, axis_index(C)), ((Affine(0, (), ((i, 1),)), 0, 9),))),
    ),)),)),), (X,), (Y,))
    with pytest.raises(KernelError, match="runs from"):
        verify(wide)


def scatter_into_one(first: tuple[int, ...], second: tuple[Axis, ...]) -> Kernel:
    """y (1, 6): written by a copy, and then by every row of x; ``first`` phases, ``second`` is what the writing phase shares."""
    y, at = Buffer(1, F32, (1, 6)), (Affine(), axis_index(C))
    copy = Phase((C,), (Stage((), (), (Store(Access(y, at), M.const(0.0, F32)),)),))
    own = tuple(a for a in (R, C) if a not in second)
    write = Phase(second, (Stage(own, (), (Store(Access(y, at), M.load(HERE)),)),))
    return Kernel("test", tuple((copy, write)[k] for k in first), (X,), (y,))


def test_a_scatter_into_one_row_writes_it_again_and_again() -> None:
    verify(scatter_into_one((0, 1), ()))
    for first, second in (((1,), ()), ((1, 0), ()), ((0, 1), (R,)), ((0, 1), (R, C))):
        with pytest.raises(KernelError, match="stored 4 times"):
            verify(scatter_into_one(first, second))


def test_results_of_rows_are_gone_after_their_phase() -> None:
    (k,) = kernels(build(Graph([x := leaf(4, 6)], [softmax(x, 1)])))
    verify(k)
    phase = k.phases[0]
    split = Kernel(k.name, (Phase(phase.axes, phase.stages[:2]), Phase(phase.axes, phase.stages[2:])), k.inputs, k.outputs)
    with pytest.raises(KernelError, match="before it is complete"):
        verify(split)
    stages = (phase.stages[1], phase.stages[0], phase.stages[2])
    with pytest.raises(KernelError, match="before it is complete"):
        verify(Kernel(k.name, (Phase(phase.axes, stages),), k.inputs, k.outputs))


def test_products_are_checked() -> None:
    (k,) = kernels(build(Graph([x := leaf(5, 7), w := leaf(7, 3), b := leaf(3)], [dense(x, w, b)])))
    verify(k)
    (c,) = k.phases[0].stages
    assert isinstance(c, Contraction)
    with pytest.raises(KernelError, match="outside of its loop"):
        verify(replace(k, phases=(Phase((), (replace(c, a=c.b, b=c.a),)),)))


def test_the_order_of_a_sum() -> None:
    """Numbers whose sum depends on the order: each order gives its own, worked out by hand."""
    big = np.array([1e8, 1, -1e8, 1], np.float32)

    def total(lanes: int, block: int, n: int = 4) -> float:
        r = Reduction(0, (Axis(0, n),), "sum", M.const(0, F32), F32, F32, Order(lanes, block))
        return float(reduce_in_order(big[:n], r))

    assert total(1, 64) == 1.0  # ((1e8 + 1) - 1e8) + 1
    assert total(2, 64) == 2.0  # (1e8 - 1e8) + (1 + 1)
    assert total(1, 1) == 0.0  # (1e8 + 1) + (-1e8 + 1)
    assert total(1, 2) == 0.0  # (1e8 + 1) + (-1e8 + 1)


def test_loads_and_stores_are_counted() -> None:
    (k,) = kernels(build(Graph([x := leaf(8, 64)], [softmax(x, 1)])))
    _, (read, written) = evaluate(k, [np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)])
    assert (read.loads, read.touched, written.stores, written.touched) == (3 * 512, 512, 512, 512)


def test_an_access_out_of_bounds_is_an_error() -> None:
    k = kernel(M.load(Access(X, (axis_index(R), axis_index(C).plus(Affine(1))))))
    with pytest.raises(IndexError, match="out of bounds"):
        evaluate(k, [np.ones((4, 6), np.float32)])


def test_indices_through_reshapes() -> None:
    """Against NumPy: where element (i, j, ...) of a reshape is in its operand."""
    cases = [((6, 4), (2, 3, 4)), ((24,), (4, 6)), ((4, 1, 6), (2, 2, 6, 1)), ((2, 3, 4), (2, 1, 3, 4)), ((12, 2), (3, 2, 2, 2))]
    for source, shape in cases:
        assert ix.follows(shape, source)
        axes = [Axis(k, n) for k, n in enumerate(shape)]
        extents = {a.id: a.extent for a in axes}
        where = ix.reshape(tuple(axis_index(a) if a.extent > 1 else ix.ZERO for a in axes), shape, source, extents)
        numbers = np.arange(24).reshape(source)
        for at in np.ndindex(*shape):
            place = tuple(i.const + sum(at[a] * c for a, c in i.terms) for i in where)
            assert numbers[place] == np.arange(24).reshape(shape)[at]


def test_a_merge_is_followed_where_loops_allow_it() -> None:
    i, j = Axis(0, 4), Axis(1, 6)
    extents = {0: 4, 1: 6}
    flat = axis_index(i, 6).plus(axis_index(j))
    assert ix.reshape((flat,), (24,), (4, 6), extents) == (axis_index(i), axis_index(j))
    assert not ix.follows((24,), (4, 6))
    assert ix.reshape((axis_index(Axis(2, 24)),), (24,), (4, 6), {2: 24}) is None


def test_split() -> None:
    extents = {0: 5, 1: 3, 2: 7}
    q, r = ix.split(axis_index(0, 6).plus(axis_index(1, 2)).plus(Affine(1)), 6, extents)  # type: ignore[misc]
    assert (q, r) == (axis_index(0), axis_index(1, 2).plus(Affine(1)))
    assert ix.split(axis_index(2), 6, extents) is None
    assert ix.split(axis_index(0, 6).plus(Affine(-4)), 6, extents) == (axis_index(0).plus(Affine(-1)), Affine(2))


def test_numbers_of_numpy_and_python_are_one_constant() -> None:
    m = Machine()
    assert m.const(np.float32(0.1), F32) is m.const(0.1, F32)
    assert m.const(float("nan"), F32) is m.const(float("nan"), F32)
    assert m.const(0.0, F32) is not m.const(-0.0, F32)
    assert op("add", leaf(2), number(1)).shape == (2,)
