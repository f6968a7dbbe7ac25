"""Golden kernels: what is one kernel, how it reads, and that it computes what the graph asks for."""

from __future__ import annotations

import contextlib
import sys
import threading
import time

import numpy as np
import pytest

from tests.graph.fusing import F32, F64, check, kernels, leaf, mean, number, op
from weft.dtypes.formats import FLOAT16, INT32, INT64, UINT32, UINT64, Format
from weft.graph.node import Graph, Node
from weft.kernel.printer import kernel_key, print_kernel
from weft.schedule import fuse
from weft.schedule.build import build
from weft.schedule.fusion_graph import FusionGraph

floats = pytest.mark.parametrize("dtype", [F32, F64], ids=str)


def normalised(a: Node, *axes: int) -> Node:
    """As people write it: the mean twice."""
    centred = op("subtract", a, mean(a, *axes))
    variance = mean(op("square", op("subtract", a, mean(a, *axes))), *axes)
    return op("divide", centred, op("sqrt", op("add", variance, number(1e-5, a.dtype))))


def softmax(x: Node, axis: int) -> Node:
    e = op("exp", op("subtract", x, op("reduce_max", x, axes=(axis,), keepdims=True)))
    return op("divide", e, op("reduce_sum", e, axes=(axis,), keepdims=True))


@floats
@pytest.mark.parametrize(("shape", "axis"), [((7, 40), 1), ((33, 40), 0), ((3, 70, 5), 1), ((5, 1), 1), ((1, 37), 0)])
def test_normalise_is_one_kernel(shape: tuple[int, ...], axis: int, dtype: Format) -> None:
    a = leaf(*shape, dtype=dtype)
    (kernel,) = kernels(check([a], [normalised(a, axis)], count=1, special=shape[axis] == 1))
    assert len(kernel.phases) == 1


def test_normalise_of_many_columns_is_one_kernel() -> None:
    a = leaf(4096, 1024)
    program = build(Graph([a], [normalised(a, 0)]))
    (kernel,) = kernels(program)
    assert len(kernel.phases) == 1 and kernel.phases[0].axes[0].extent == 1024
    assert program.info[0].bytes == 2 * 4096 * 1024 * 4 and program.arena == 0


@floats
@pytest.mark.parametrize("axis", [0, 1])
def test_softmax(axis: int, dtype: Format) -> None:
    x = leaf(9, 65, dtype=dtype)
    check([x], [softmax(x, axis)], count=1)


@floats
def test_layer_norm(dtype: Format) -> None:
    x, gamma, beta = leaf(6, 50, dtype=dtype), leaf(50, dtype=dtype), leaf(50, dtype=dtype)
    check([x, gamma, beta], [op("add", op("multiply", normalised(x, 1), gamma), beta)], count=1)


@floats
def test_batch_norm(dtype: Format) -> None:
    x, gamma = leaf(4, 3, 5, 6, dtype=dtype), leaf(3, dtype=dtype)
    out = op("multiply", normalised(x, 0, 2, 3), op("reshape", gamma, shape=(1, 3, 1, 1)))
    check([x, gamma], [out], count=1)


@floats
def test_divided_by_its_sum(dtype: Format) -> None:
    x = leaf(130, 77, dtype=dtype)
    drawn = np.random.default_rng(1).random((130, 77)).astype(dtype.numpy)
    program = check([x], [op("divide", x, op("reduce_sum", x, axes=(0, 1), keepdims=False))], [drawn], count=1)
    assert program.info[0].phases == 2


@floats
def test_mean_of_squares_of_what_is_left(dtype: Format) -> None:
    a = leaf(31, 17, dtype=dtype)
    centred = op("subtract", a, mean(a, 0, 1))
    program = check([a], [mean(op("square", centred), 0, 1, keepdims=False)], count=1)
    assert program.info[0].phases == 3


def dense(x: Node, w: Node, b: Node) -> Node:
    z = op("add", op("dot_general", x, w, contract=((1,), (0,)), batch=((), ())), b)
    return op("maximum", z, number(0, x.dtype))


@floats
def test_dense_layer(dtype: Format) -> None:
    x, w, b = leaf(5, 7, dtype=dtype), leaf(7, 3, dtype=dtype), leaf(3, dtype=dtype)
    check([x, w, b], [dense(x, w, b)], count=1)


def conv(x: Node, w: Node, **over: object) -> Node:
    rank = len(x.shape) - 2
    plain = tuple(range(rank + 2))
    params: dict = {
        "stride": (1,) * rank, "padding": ((1, 1),) * rank, "lhs_dilation": (1,) * rank, "rhs_dilation": (1,) * rank,
        "groups": 1, "dims": (plain, plain, plain),
    }
    return op("conv_general", x, w, **{**params, **over})


@floats
def test_convolution_bias_relu(dtype: Format) -> None:
    x, w, b = leaf(2, 3, 6, 5, dtype=dtype), leaf(4, 3, 3, 3, dtype=dtype), leaf(4, dtype=dtype)
    out = op("maximum", op("add", conv(x, w), op("reshape", b, shape=(1, 4, 1, 1))), number(0, dtype))
    check([x, w, b], [out], count=1)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2, 3])
@pytest.mark.parametrize("taps", [1, 2, 3])
def test_dilated_input_multiplies_no_zeros(stride: int, dilation: int, taps: int) -> None:
    x, w = leaf(2, 3, 5, 4, dtype=F64), leaf(4, 3, taps, taps, dtype=F64)
    out = conv(x, w, stride=(stride, stride), lhs_dilation=(dilation, dilation), padding=((2, 1), (1, 2)))
    (kernel,) = kernels(check([x, w], [out], count=1, special=True))
    steps = dilation // np.gcd(dilation, stride)
    reached = [any((r * stride + tap - 2) % dilation == 0 for tap in range(taps)) for r in range(min(steps, out.shape[2]))]
    assert len(kernel.phases) == sum([min(steps, out.shape[3]) if some else 1 for some in reached])


def adam(w: Node, g: Node, m: Node, v: Node, rate: Node) -> list[Node]:
    d = w.dtype
    m1 = op("add", op("multiply", m, number(0.9, d)), op("multiply", g, number(0.1, d)))
    v1 = op("add", op("multiply", v, number(0.99, d)), op("multiply", op("square", g), number(0.01, d)))
    step = op("divide", op("multiply", m1, rate), op("add", op("sqrt", op("abs", v1)), number(1e-3, d)))
    return [op("subtract", w, step), m1, v1]


@floats
def test_adam(dtype: Format) -> None:
    w, g, m, v, rate = (leaf(*s, dtype=dtype) for s in ((4, 5), (4, 5), (4, 5), (4, 5), ()))
    program = check([w, g, m, v, rate], adam(w, g, m, v, rate), count=1)
    assert {(0, 0), (2, 1), (3, 2)} <= set(program.donate)
    assert program.info[0].bytes == (4 + 3) * 20 * dtype.bytes + dtype.bytes


@floats
def test_adam_in_the_product_of_the_weight_gradient(dtype: Format) -> None:
    x, dy = leaf(6, 4, dtype=dtype), leaf(6, 5, dtype=dtype)
    w, m, v, rate = (leaf(*s, dtype=dtype) for s in ((5, 4), (5, 4), (5, 4), ()))
    g = op("permute", op("dot_general", x, dy, contract=((0,), (0,)), batch=((), ())), axes=(1, 0))
    program = check([x, dy, w, m, v, rate], adam(w, g, m, v, rate), count=1)
    assert program.donate[:1] == ((2, 0),)


@floats
def test_cross_entropy_and_its_gradient(dtype: Format) -> None:
    """Rows, a loss carried over them, and what comes after the loss: one kernel of two phases."""
    x, labels = leaf(6, 40, dtype=dtype), leaf(6, 40, dtype=dtype)
    s = op("subtract", x, op("reduce_max", x, axes=(1,), keepdims=True))
    logp = op("subtract", s, op("log", op("reduce_sum", op("exp", s), axes=(1,), keepdims=True)))
    loss = op("negative", mean(op("reduce_sum", op("multiply", logp, labels), axes=(1,), keepdims=False), 0, keepdims=False))
    gradient = op("divide", op("subtract", softmax(x, 1), labels), number(6, dtype))
    (kernel,) = kernels(check([x, labels], [loss, gradient], count=1, tolerance=1e-4))
    assert [r.is_carried for stage in kernel.phases[0].stages for r in getattr(stage, "reductions", ())].count(True) == 1


def test_a_reshape_of_a_result_is_an_alias() -> None:
    x, w = leaf(4, 6), leaf(12, 5)
    flat = op("reshape", op("exp", x), shape=(2, 12))
    program = check([x, w], [op("dot_general", flat, w, contract=((1,), (0,)), batch=((), ()))], count=2)
    assert any(s.kind == "alias" for s in program.slots) and program.arena == 128


def test_moved_data_costs_no_kernel() -> None:
    x, w = leaf(4, 6), leaf(4, 5)
    for moved in (
        op("permute", x, axes=(1, 0)),
        op("slice", op("permute", x, axes=(1, 0)), start=(5, 0), step=(-1, 1), shape=(6, 4)),
    ):
        check([x, w], [op("dot_general", moved, w, contract=((1,), (0,)), batch=((), ()))], count=1)
    joined = op("concat", x, op("pad", w, low=(0, 1), high=(0, 0), value=2.0), axis=0)
    check([x, w], [op("exp", joined)], count=1)
    check([x, w], [op("reduce_sum", op("reshape", x, shape=(3, 8)), axes=(1,), keepdims=False)], count=1)


def test_outputs_that_are_inputs_or_equal() -> None:
    x = leaf(3, 4)
    y = op("exp", x)
    check([x], [y, y, x, op("reshape", y, shape=(12,)), op("reshape", x, shape=(2, 6))], count=1)
    check([x], [op("broadcast_to", number(2.5), shape=(2, 3))], count=1)


def test_pooling_and_its_gradient() -> None:
    x, g = leaf(2, 3, 8, 6), leaf(2, 3, 4, 3)
    how = {"window": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0))}
    largest, where = (op("reduce_window", x, kind=k, **how) for k in ("max", "argmax"))
    check([x], [largest, where], count=1)
    back = op("window_gather", g, where, size=(8, 6), **how)
    check([x, g], [op("multiply", back, x)], count=2)
    for window, stride, padding in (((3, 3), (2, 2), ((1, 1), (1, 0))), ((3, 2), (1, 1), ((1, 1), (0, 0)))):
        how = {"window": window, "stride": stride, "padding": padding}
        total = op("reduce_window", x, kind="sum", **how)
        where = op("reduce_window", x, kind="argmax", **how)
        check([x], [total, where], count=1)
        check([x], [op("window_gather", op("square", total), where, size=(8, 6), **how)], special=True)
        check([x], [op("window_gather", total, size=(8, 6), **how)])


@pytest.mark.parametrize("shape", [(1, 1, 5, 6), (2, 3, 5, 6), (1, 1, 10, 6)])
@pytest.mark.parametrize("kind", ["sum", "max", "argmax"])
def test_windows_too_large_to_write_out(shape: tuple[int, ...], kind: str) -> None:
    x = leaf(*shape)
    y = op("reduce_window", x, kind=kind, window=(5, 6), stride=(5, 6), padding=((0, 0), (0, 0)))
    check([x], [op("add", y, y)], count=1, special=True)
    y = op("reduce_window", op("negative", op("square", x)), kind=kind, window=(5, 6), stride=(5, 6), padding=((0, 0), (0, 0)))
    check([x], [op("add", y, y)], count=1, special=True)
    y = op("reduce_window", x, kind=kind, window=(5, 5), stride=(1, 1), padding=((2, 2), (2, 2)))
    check([x], [op("add", y, y)], count=1)


def test_sums_of_half_width_numbers_are_wide() -> None:
    x = leaf(5, 300, dtype=FLOAT16)
    (kernel,) = kernels(check([x], [op("reduce_sum", x, axes=(1,), keepdims=False)], count=1))
    assert "[float32 -> float16" in print_kernel(kernel)


def test_running_sum_scatter_and_writes() -> None:
    x, u = leaf(4, 9), leaf(3, 9)
    i = leaf(3, dtype=INT32)
    check([x], [op("exp", op("cumulative_sum", op("sin", x), axis=1))])
    index = np.array([1, -1, 1], np.int32)
    rng = np.random.default_rng(0)
    values = [rng.standard_normal((4, 9)).astype(np.float32), rng.standard_normal((3, 9)).astype(np.float32), index]
    check([x, u, i], [op("scatter", x, op("multiply", u, number(2)), i, axes=(0,), mode="add")], values, count=1)
    check([x, u, i], [op("gather", x, i, axes=(0,))], values, count=1)
    half = op("divide", u, op("reduce_sum", op("abs", u), axes=(0, 1), keepdims=False))
    check([x, u, i], [op("scatter", x, half, i, axes=(0,), mode="set")], [*values[:2], np.array([1, -1, 0], np.int32)], count=2)
    part = leaf(2, 4)
    check([x, part], [op("slice_set", x, part, start=(1, 0), step=(2, 2))], count=1)
    check([x, part], [op("exp", op("slice_set", x, part, start=(1, 3), step=(1, 1)))], count=1)


def test_positions_that_depend_on_positions() -> None:
    """Chains of gathered indices: expanded once each, not as trees."""
    table, start = leaf(7, dtype=INT64), leaf(5, dtype=INT32)
    at = op("cast", start, dtype=INT64)
    for _ in range(12):
        at = op("gather", table, op("add", at, op("multiply", at, at)), axes=(0,))
    rng = np.random.default_rng(0)
    check([table, start], [at], [rng.integers(0, 7, 7), rng.integers(0, 7, 5).astype(np.int32)], count=1, special=True)


def test_random_bits_with_what_is_made_of_them() -> None:
    key, base = (leaf(dtype=UINT64) for _ in range(2))
    bits = op("random_bits", key, base, shape=(5, 7))
    upper = op("bitwise_right_shift", bits, number(8, UINT32))
    unit = op("multiply", op("cast", upper, dtype=F32), number(2.0**-24))
    x = leaf(5, 7)
    kept = op("where", op("less", unit, number(0.6)), x, number(0))
    check([key, base, x], [kept], count=1)


def test_nothing_to_compute() -> None:
    x = leaf(0, 4)
    program = check([x], [op("exp", x), op("reduce_sum", x, axes=(0,), keepdims=False)], count=1, special=True)
    assert program.outputs[0][0] == (0, 4)
    a, b = leaf(3, 0), leaf(0, 2)
    check([a, b], [op("dot_general", a, b, contract=((1,), (0,)), batch=((), ()))], count=1, special=True)


def test_numbers_are_arguments() -> None:
    from weft.graph.primitives.table import scalar_leaf

    x, rate = leaf(3, 4), scalar_leaf(None, F32)
    program = build(Graph([x, rate], [op("multiply", x, rate)]))
    (step,) = program.steps
    assert step.scalars == (1,) and step.kernel.scalars == (F32,) and len(step.args) == 2  # type: ignore[union-attr]


def test_golden_softmax() -> None:
    x = leaf(8, 64)
    (kernel,) = kernels(build(Graph([x], [softmax(x, 1)])))
    assert print_kernel(kernel) == """\
kernel max_sub_exp_sum_div(b0 float32[8, 64]) -> b1 float32[8, 64]
  phase a0<8
    stage a2<64
      v0 = load b0[a0, a2]
      acc0 = max v0 over a2<64 [float32 -> float32, lanes 32, block 4096]
    stage a3<64
      v0 = load b0[a0, a3]
      v1 = sub v0 acc0
      v2 = exp v1
      acc1 = sum v2 over a3<64 [float32 -> float32, lanes 32, block 4096]
    stage a1<64
      v0 = load b0[a0, a1]
      v1 = sub v0 acc0
      v2 = exp v1
      v3 = div v2 acc1
      b1[a0, a1] = v3"""


def test_golden_dense() -> None:
    x, w, b = leaf(5, 7), leaf(7, 3), leaf(3)
    (kernel,) = kernels(build(Graph([x, w, b], [dense(x, w, b)])))
    assert print_kernel(kernel) == """\
kernel dot_add_max(b0 float32[5, 7], b1 float32[7, 3], b2 float32[3]) -> b3 float32[5, 3]
  phase -
    product acc0 float32: batch -; m a0<5; n a1<3; k a2<7
      v0 = load b0[a0, a2]
      v1 = load b1[a2, a1]
      acc0 = sum v0 * v1 [lanes 1, block 7]
      v2 = load b2[a1]
      v3 = add acc0 v2
      v4 = max v3 0.0:float32
      b3[a0, a1] = v4"""


def test_golden_convolution() -> None:
    x, w = leaf(2, 3, 6, 5), leaf(4, 3, 3, 3)
    (kernel,) = kernels(build(Graph([x, w], [conv(x, w)])))
    assert print_kernel(kernel) == """\
kernel conv(b0 float32[2, 3, 6, 5], b1 float32[4, 3, 3, 3]) -> b2 float32[2, 4, 6, 5]
  phase -
    product acc0 float32: batch -; m a0<2, a3<6, a5<5; n a1<4; k a2<3, a4<3, a6<3
      v0 = load b0[a0, a2, a3+a4-1, a5+a6-1] if 0<=a3+a4-1<6, 0<=a5+a6-1<5 else 0.0
      v1 = load b1[a1, a2, a4, a6]
      acc0 = sum v0 * v1 [lanes 1, block 27]
      b2[a0, a1, a3, a5] = acc0"""


def test_equal_computations_have_equal_keys() -> None:
    def one() -> str:
        x, w, b = leaf(5, 7), leaf(7, 3), leaf(3)
        unused = op("exp", x)
        return kernel_key(kernels(build(Graph([b, w, x], [dense(x, w, b)])))[0]) + unused.op.name[:0]

    assert one() == one()
    x = leaf(5, 7)
    keys = {kernel_key(kernels(build(Graph([x], [op(f, x)])))[0]) for f in ("exp", "sin")}
    assert len(keys) == 2


def test_a_long_chain_is_cut_and_stays_right() -> None:
    x = y = leaf(3, 4)
    for k in range(400):
        y = op("sin", op("add", y, number(0.01 * k)))
    program = check([x], [y])
    assert 2 <= len(kernels(program)) <= 24
    assert any("group too large" in b for i in program.info for b in i.boundary)


def test_long_chains_of_moves_are_cut() -> None:
    x = leaf(3, 4)
    y = x
    for k in range(300):
        y = op("pad", op("slice", y, start=(0, 1), step=(1, 1), shape=(3, 3)), low=(0, k % 2), high=(0, 1 - k % 2), value=1.0)
    check([x], [y], special=True)
    y = x
    for _ in range(9):
        y = op("concat", y, op("slice", y, start=(y.shape[0] - 1, 0), step=(-1, 1), shape=y.shape), axis=0)
    check([x], [op("sin", y)])
    many = [leaf(2, 2) for _ in range(40)]
    check(many, [op("concat", *many, axis=0)], count=1)
    y = x
    for _ in range(14):
        y = op("add", op("sin", y), op("slice", op("tanh", y), start=(0, 3), step=(1, -1), shape=(3, 4)))
    check([x], [y])


def test_squares_of_squares_are_not_walked_as_trees() -> None:
    x = y = leaf(3, 4)
    for _ in range(60):
        y = op("multiply", y, y)
    check([x], [y], [np.full((3, 4), 1.0, np.float32)], count=1)


def test_threads_that_fuse_at_once_leave_the_recursion_limit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    before, real, met, came = sys.getrecursionlimit(), fuse._fuse, threading.Barrier(2), []

    def meeting(view: FusionGraph) -> tuple:
        came.append(view)
        last = len(came) == 2
        with contextlib.suppress(threading.BrokenBarrierError):
            met.wait(0.1)  # both are inside, if both may be
        time.sleep(0.05 * last)  # who came last leaves last
        return real(view)

    monkeypatch.setattr(fuse, "_fuse", meeting)
    x = leaf(3)
    graph = Graph([x], [op("exp", x)])
    threads = [threading.Thread(target=fuse.fuse, args=(graph,)) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(came) == 2 and sys.getrecursionlimit() == before
