"""What is not read, stored or looped over a second time: kept reductions, handed-over results, sums of one element."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from tests.graph.fusing import check, kernels, leaf, number, op, run
from weft.dtypes.formats import INT64
from weft.dtypes.parse import parse_dtype
from weft.graph.gradient import backward
from weft.graph.node import Node
from weft.kernel.hazards import in_place
from weft.kernel.ir import Contraction
from weft.schedule.build import build


def loads_of(program, values, position: int = 0) -> int:
    """How often elements of an input of the last kernel are read."""
    return run(program, values)[1][-1][position].loads


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_a_reduction_is_kept_where_a_later_phase_needs_it(axis: int, keepdims: bool) -> None:
    """The norm of sums, and the sums divided by it: the matrix is read once."""
    rng = np.random.default_rng()
    x = leaf(24, 40)
    s = op("reduce_sum", x, axes=(axis,), keepdims=keepdims)
    whole = op("reduce_sum", op("square", s), axes=tuple(range(len(s.shape))), keepdims=False)
    values = [rng.normal(size=x.shape).astype(np.float32)]
    program = check([x], [op("divide", s, whole)], values, count=1)
    assert loads_of(program, values) == x.size


def test_a_chain_of_kept_reductions() -> None:
    """Variance rests on the mean; of both only what the last phase reads is kept."""
    x = leaf(9, 33)
    mean = op("divide", op("reduce_sum", x, axes=(1,), keepdims=True), number(33))
    wide = op("reduce_sum", op("square", op("subtract", x, mean)), axes=(1,), keepdims=True)
    whole = op("reduce_sum", op("add", wide, mean), axes=(0, 1), keepdims=False)
    values = [np.random.default_rng().normal(size=x.shape).astype(np.float32)]
    program = check([x], [op("multiply", op("subtract", op("divide", x, wide), mean), whole)], values, count=1)
    assert loads_of(program, values) == 3 * x.size


def test_a_short_reduction_is_computed_again() -> None:
    x = leaf(40, 3)
    s = op("reduce_sum", x, axes=(1,), keepdims=False)
    values = [np.random.default_rng().normal(size=x.shape).astype(np.float32)]
    whole = op("reduce_sum", op("square", s), axes=(0,), keepdims=False)
    assert loads_of(check([x], [op("divide", s, whole)], values, count=1), values) == 2 * x.size


def clipped(transposed: bool) -> tuple[list[Node], list[Node]]:
    """A product scaled by its own norm, as gradients are clipped."""
    x, w = leaf(6, 4), leaf(6, 5)
    g = op("dot_general", x, w, contract=((0,), (0,)), batch=((), ()))
    if transposed:
        g = op("permute", g, axes=(1, 0))
    norm = op("sqrt", op("reduce_sum", op("square", g), axes=(0, 1), keepdims=False))
    return [x, w], [op("divide", g, norm)]


@pytest.mark.parametrize("transposed", [False, True])
def test_the_square_of_a_gradient_is_not_stored(transposed: bool) -> None:
    program = check(*clipped(transposed), count=2)
    first, second = kernels(program)
    assert len(first.outputs) == 1 and len(second.inputs) == 1


def test_the_derivative_of_an_activation_is_not_stored() -> None:
    """The kernel of the layer's gradient computes 1 - y * y from the layer's result, which is stored for other readers."""
    x, w, g, v = leaf(200, 8), leaf(8, 6), leaf(200, 5), leaf(6, 5)
    y = op("tanh", op("dot_general", x, w, contract=((1,), (0,)), batch=((), ())))
    below = op("dot_general", g, v, contract=((1,), (1,)), batch=((), ()))
    slope = op("multiply", below, op("subtract", number(1.0), op("square", y)))
    program = check([x, w, g, v], [y, slope], count=2)
    assert [len(k.outputs) for k in kernels(program)] == [1, 1]


def test_a_result_that_needs_more_memory_stays_where_it_is() -> None:
    """The square of a product is read by a reduction, the product by nobody: only the square is stored."""
    x, w = leaf(6, 4), leaf(4, 5)
    square = op("square", op("dot_general", x, w, contract=((1,), (0,)), batch=((), ())))
    program = check([x, w], [op("reduce_sum", square, axes=(0, 1), keepdims=False)], count=2)
    assert kernels(program)[0].name == "dot_square"


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("shape, axis", [((7, 80), 1), ((70, 5), 0), ((3, 4, 65), 2)])
def test_a_sum_of_one_element_runs_no_loop(shape: tuple[int, ...], axis: int, dtype) -> None:
    """Labels beyond the last position, and negative ones, choose nothing."""
    rng = np.random.default_rng()
    x = leaf(*shape)
    kept = tuple(1 if a == axis else n for a, n in enumerate(shape))
    label = leaf(*kept, dtype=parse_dtype(dtype))
    places = op("broadcast_to", op("reshape", op("iota", shape=(shape[axis],), dtype=parse_dtype(dtype), axis=0),
                                   shape=tuple(n if a == axis else 1 for a, n in enumerate(shape))), shape=shape)
    here = op("equal", places, op("broadcast_to", label, shape=shape))
    found = op("reduce_sum", op("where", here, op("exp", x), op("broadcast_to", number(0), shape=shape)),
               axes=(axis,), keepdims=False)
    labels = rng.integers(0, shape[axis], kept).astype(dtype)
    labels.reshape(-1)[:2] = shape[axis] + 1, -1 if parse_dtype(dtype).kind == "signed" else 200
    program = check([x, label], [found], [rng.normal(size=shape).astype(np.float32), labels], count=1)
    assert not any(s.reductions for p in kernels(program)[0].phases for s in p.stages)


def test_a_sum_of_one_element_is_no_negative_zero() -> None:
    x, label = leaf(3, 64), leaf(3, 1, dtype=INT64)
    here = op("equal", op("broadcast_to", op("reshape", op("iota", shape=(64,), dtype=INT64, axis=0), shape=(1, 64)),
                          shape=(3, 64)), op("broadcast_to", label, shape=(3, 64)))
    found = op("reduce_sum", op("where", here, x, op("broadcast_to", number(0), shape=(3, 64))), axes=(1,), keepdims=False)
    values = [np.full((3, 64), -0.0, np.float32), np.array([[0], [63], [64]])]
    program = check([x, label], [found], values, count=1)
    assert not np.signbit(run(program, values)[0][0]).any()


@pytest.mark.parametrize("contract", [((1,), (0,)), ((1,), (1,)), ((0,), (0,)), ((0,), (1,))])
def test_gradients_of_a_product_are_stored_as_their_operands(contract) -> None:
    """No gradient is transposed after its product: the optimizer reads it beside the parameter."""
    rng = np.random.default_rng()
    x, w = leaf(*((6, 4) if contract[0] == (1,) else (4, 6))), leaf(*((4, 5) if contract[1] == (0,) else (5, 4)))
    out = op("dot_general", x, w, contract=contract, batch=((), ()))
    g = leaf(*out.shape)
    found = backward([out], [g], [x, w])
    assert [n.op.name for n in found] == ["dot_general"] * 2
    values = [rng.normal(size=n.shape).astype(np.float32) for n in (x, w, g)]
    dx, dw = run(check([x, w, g], found, values, count=2), values)[0]
    left = values[0] if contract[0] == (1,) else values[0].T
    right = values[1] if contract[1] == (0,) else values[1].T
    want = values[2].astype(float) @ right.T, left.T.astype(float) @ values[2]
    np.testing.assert_allclose(dx, want[0] if contract[0] == (1,) else want[0].T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dw, want[1] if contract[1] == (0,) else want[1].T, rtol=1e-5, atol=1e-5)
    assert all(isinstance(s, Contraction) for k in kernels(check([x, w, g], found, values)) for p in k.phases for s in p.stages)


def test_what_a_carried_reduction_reads_is_not_written_over() -> None:
    """Its loop runs when all rows are done, though its stage stands before that of the stores."""
    x = leaf(4, 8)
    top = op("reduce_max", x, axes=(1,), keepdims=True)
    total = op("reduce_sum", op("multiply", x, top), axes=(0, 1), keepdims=False)
    below = op("subtract", x, top)
    both = check([x], [op("divide", below, op("reduce_sum", op("exp", below), axes=(1,), keepdims=True)), total], count=1)
    assert in_place(kernels(both)[0]) == []
    rows = op("reduce_sum", op("square", top), axes=(0, 1), keepdims=False)  # a number a row is made with the row
    fine = check([x], [op("divide", below, op("reduce_sum", op("exp", below), axes=(1,), keepdims=True)), rows], count=1)
    assert in_place(kernels(fine)[0]) == [(0, 0)]
    alone = check([x], [op("divide", below, op("reduce_sum", op("exp", below), axes=(1,), keepdims=True))], count=1)
    assert in_place(kernels(alone)[0]) == [(0, 0)]


@pytest.mark.parametrize("columns, fits", [(64, True), (65, False)])
def test_a_row_may_be_written_over_where_one_element_of_it_was_read(columns: int, fits: bool) -> None:
    """The loss of labels and the derivative by the scores: the element at the label lies in the row that is written."""
    y, label = leaf(5, columns), leaf(5, 1, dtype=INT64)
    place = op("broadcast_to", op("reshape", op("iota", shape=(64,), dtype=label.dtype, axis=0), shape=(1, 64)), shape=(5, 64))
    first = y if columns == 64 else op("slice", y, start=(0, 0), step=(1, 1), shape=(5, 64))
    here = op("equal", place, op("broadcast_to", label, shape=(5, 64)))
    top = op("reduce_max", first, axes=(1,), keepdims=True)
    found = op("where", here, op("subtract", first, top), op("broadcast_to", number(0), shape=(5, 64)))
    total = op("reduce_sum", op("square", op("reduce_sum", found, axes=(1,), keepdims=True)), axes=(0, 1), keepdims=False)
    e = op("exp", op("subtract", first, top))
    out = op("divide", e, op("reduce_sum", e, axes=(1,), keepdims=True))
    values = [np.random.default_rng().normal(size=y.shape).astype(np.float32), np.array([[3], [63], [0], [64], [7]])]
    program = check([y, label], [out, total], values, count=1)
    assert bool(in_place(kernels(program)[0])) == fits


def test_temporaries_lie_where_their_operands_lay() -> None:
    x, w = leaf(8, 6), leaf(6, 9)
    scores = op("dot_general", x, w, contract=((1,), (0,)), batch=((), ()))
    shifted = op("exp", op("subtract", scores, op("reduce_max", scores, axes=(1,), keepdims=True)))
    shares = op("divide", shifted, op("reduce_sum", shifted, axes=(1,), keepdims=True))
    program = check([x, w], [op("dot_general", shares, w, contract=((1,), (1,)), batch=((), ()))], count=3)
    assert program.arena <= 8 * 9 * 4 + 63
    kept = check([x, w], [op("dot_general", op("add", shares, scores), w, contract=((1,), (1,)), batch=((), ())), scores])
    assert kept.arena


@pytest.mark.parametrize("pool", ["max_pool2d(t, 2)", "avg_pool2d(t, 2)", "max_pool2d(t, 3, 2, 1)", "avg_pool2d(t, 3, 2, 1)"])
@pytest.mark.parametrize("norm", ["batch_norm(t, None, None)", "group_norm(t, 4)", "instance_norm(t)"])
def test_the_gradient_of_windows_is_stored_once(norm: str, pool: str) -> None:
    """Behind a norm: its gradient's reductions read it, and do not have a kernel of windows store what each of them reads."""
    def loss(x, w):
        t = wf.nn.relu(eval(f"wf.nn.{norm}", {"wf": wf, "t": x * w}))
        return eval(f"wf.nn.{pool}", {"wf": wf, "t": t}).mean()

    program = build(wf.jit(wf.grad(loss, argnums=(0, 1))).trace(wf.zeros((8, 16, 16, 16)), wf.ones((1, 16, 1, 1))).graph)
    stored = [len(k.outputs) for k in kernels(program) if "unpool" in k.name]
    assert stored == [1]
    assert sum(info.bytes for info in program.info) <= 16.1 * 8 * 16 * 16 * 16 * 4
