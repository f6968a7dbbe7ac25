"""Convolutions as the scheduler hands them over: conv_general and its gradients become kernels that match."""

from __future__ import annotations

import numpy as np
import pytest
from conv_cases import Native, force_filter_vectors
from harness import fresh

from weft.devices.cpu.convolution import conv, filter_weights
from weft.devices.cpu.convolution.conv import generate_conv
from weft.devices.cpu.emit.isa import host_isa
from weft.devices.cpu.generate import generate
from weft.dtypes.formats import FLOAT32
from weft.dtypes.parse import parse_dtype
from weft.graph.gradient import backward
from weft.graph.interpret import interpret
from weft.graph.node import Graph
from weft.graph.primitives import TABLE, bind, constant, input_leaf
from weft.kernel.ir import Contraction
from weft.schedule.build import build
from weft.schedule.program import Call, Program

# x, w, stride, padding, lhs dilation, rhs dilation, groups
CASES = {
    "plain": ((2, 3, 9, 10), (4, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1),
    "one channel": ((5, 1, 12, 12), (10, 1, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 1),
    "stride 2": ((2, 4, 11, 12), (6, 4, 3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), (1, 1), 1),
    "stride 3": ((1, 3, 17, 13), (5, 3, 4, 2), (3, 2), ((0, 2), (1, 0)), (1, 1), (1, 1), 1),
    "1x1": ((3, 7, 6, 5), (4, 7, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1),
    "1x1 stride 2": ((3, 7, 6, 7), (4, 7, 1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1), (1, 1), 1),
    "dilated": ((2, 2, 12, 13), (3, 2, 3, 3), (1, 1), ((2, 2), (1, 3)), (1, 1), (2, 3), 1),
    "groups": ((2, 6, 8, 9), (9, 2, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1), 3),
    "transposed": ((2, 3, 5, 6), (4, 3, 3, 3), (1, 1), ((1, 1), (2, 1)), (2, 2), (1, 1), 1),
    "one column of weights": ((5, 1, 6, 5), (16, 1, 1, 1), (1, 1), ((0, 1), (2, 2)), (1, 1), (1, 1), 1),
    "cropped": ((2, 3, 9, 12), (4, 3, 3, 1), (2, 1), ((-1, 2), (1, -2)), (1, 1), (1, 1), 1),
    "whole image": ((4, 5, 6, 6), (7, 5, 6, 6), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1), 1),
    "one dimension": ((3, 4, 19), (5, 4, 5), (2,), ((2, 1),), (1,), (1,), 1),
    "three dimensions": ((2, 2, 5, 6, 7), (3, 2, 3, 2, 3), (1, 1, 2), ((1, 1), (0, 1), (1, 1)), (1, 1, 1), (1, 1, 1), 1),
    "stride 4": ((2, 3, 23, 21), (5, 3, 6, 6), (4, 4), ((1, 1), (0, 1)), (1, 1), (1, 1), 1),
    "stride 3, three dimensions": ((2, 2, 8, 9, 10), (3, 2, 4, 4, 4), (3, 3, 3), ((1, 1),) * 3, (1, 1, 1), (1, 1, 1), 1),
}


def run(graph: Graph, *given: list[np.ndarray], any_generator: bool = False) -> list[list[np.ndarray]]:
    """The graph's outputs for each list of arrays, every convolution from this generator unless ``any_generator``."""
    program = build(graph)
    natives: list[Native] = []
    for step in program.steps:
        assert isinstance(step, Call) and not step.scalars
        generated = generate_conv(step.kernel, host_isa())
        if generated is None:  # only what rearranges channels between groups is no convolution
            stages = [stage for phase in step.kernel.phases for stage in phase.stages]
            assert any_generator or not any(isinstance(stage, Contraction) for stage in stages)
            generated = generate(step.kernel, host_isa())
        natives.append(Native(step.kernel, generated))
    return [_outputs(program, natives, arrays) for arrays in given]


def _outputs(program: Program, natives: list[Native], arrays: list[np.ndarray]) -> list[np.ndarray]:
    slots: dict[int, np.ndarray] = {}
    for slot in program.slots:
        if slot.kind == "input":
            slots[slot.id] = arrays[slot.position]
        elif slot.kind != "alias":
            slots[slot.id] = fresh(slot.dtype, slot.shape)
            slots[slot.id].fill(np.nan)
    for slot in program.slots:
        if slot.kind == "alias":
            slots[slot.id] = slots[slot.of].reshape(slot.shape)
    for step, native in zip(program.steps, natives, strict=True):
        native.run([slots[s] for s in step.args])
    outputs = {slot.position: slots[slot.id] for slot in program.slots if slot.kind == "output"}
    return [outputs[i] for i in range(len(outputs))]


@pytest.mark.parametrize("what", ["forward", "to x", "to w", "forward by filters", "to x by filters", "to w by filters"])
@pytest.mark.parametrize("name", CASES)
def test_directions(name: str, what: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    if what.endswith(" by filters"):
        what = what.removesuffix(" by filters")
        force_filter_vectors(monkeypatch)
        monkeypatch.setattr(conv, "is_efficient", lambda *_: True)
        monkeypatch.setattr(filter_weights, "CHAIN", int(rng.choice((1, 5, 40, 200))))
    xs, ws, stride, padding, lhs, rhs, groups = CASES[name]

    def graph(dtype: type) -> Graph:
        x, w = input_leaf(xs, parse_dtype(dtype)), input_leaf(ws, parse_dtype(dtype))
        dims = (tuple(range(len(xs))),) * 3
        y = bind(
            TABLE["conv_general"],
            x,
            w,
            stride=stride,
            padding=padding,
            lhs_dilation=lhs,
            rhs_dilation=rhs,
            groups=groups,
            dims=dims,
        )
        if what == "forward":
            return Graph([x, w], [y])
        g = input_leaf(y.shape, parse_dtype(dtype))
        (d,) = backward([y], [g], [x if what == "to x" else w])
        return Graph([w, g] if what == "to x" else [x, g], [d])

    single = graph(np.float32)
    arrays = [rng.standard_normal(i.shape).astype(np.float32) for i in single.inputs]
    hurt = [a.copy() for a in arrays]  # what the windows see (of the weights, zeros of padding would see it too)
    seen = hurt[0 if what != "to x" else 1].reshape(-1)
    seen[rng.integers(0, seen.size, 2)] = np.inf, np.nan
    (got,), (spread,) = run(single, arrays, hurt)
    double = graph(np.float64)
    want = interpret(double, [a.astype(np.float64) for a in arrays])[0]
    scale = interpret(double, [abs(a).astype(np.float64) for a in arrays])[0]
    assert np.isfinite(got).all() and abs(want).max() > 0.1
    assert (abs(got - want) <= 3e-6 * scale + 1e-30).all()
    with np.errstate(invalid="ignore"):
        reached = interpret(double, [a.astype(np.float64) for a in hurt])[0]
    assert (np.isnan(spread) == np.isnan(reached)).all() and (np.isinf(spread) == np.isinf(reached)).all()


def test_phases_that_are_alike_share_their_code() -> None:
    """The gradient of a strided convolution has a phase a remainder; most differ in numbers only."""
    def lines(stride: int) -> int:
        x, w = input_leaf((2, 2, 24, 24), FLOAT32), input_leaf((5, 2, 4, 4), FLOAT32)
        dims = (tuple(range(4)),) * 3
        y = bind(
            TABLE["conv_general"], x, w, stride=(stride, stride), padding=((1, 1), (1, 1)), lhs_dilation=(1, 1),
            rhs_dilation=(1, 1), groups=1, dims=dims,
        )
        step = build(Graph([x, w, g := input_leaf(y.shape, y.dtype)], backward([y], [g], [x]))).steps[0]
        assert isinstance(step, Call)
        generated = generate_conv(step.kernel, host_isa())
        assert generated is not None
        return generated.ir.count("\n")

    assert lines(4) < 6 * lines(1)  # 16 phases


@pytest.mark.parametrize("aligned", [True, False])
def test_large_results(aligned: bool, rng: np.random.Generator) -> None:
    """A 1x1 convolution whose stores bypass the caches and read large arrays, prefetched, also past the end of an image."""
    n, c = 2, int(rng.integers(1, 9))
    h, w = 4 * int(rng.integers(9, 14)), 4 * int(rng.integers(9, 14)) - 3 * (not aligned)
    o = (8 << 20) // (4 * n * h * w) + int(rng.integers(1, 20))
    shapes = (n, c, h, w), (o, c, 1, 1), (n, o, h, w), (1, o, 1, 1)
    arrays = [rng.integers(-9, 10, shape).astype(np.float32) for shape in shapes]
    x, weights, other, scale = (input_leaf(shape, FLOAT32) for shape in shapes)
    sums = bind(
        TABLE["conv_general"], x, weights, dims=((0, 1, 2, 3),) * 3, stride=(1, 1), padding=((0, 0),) * 2, groups=1,
        lhs_dilation=(1, 1), rhs_dilation=(1, 1),
    )
    added = bind(TABLE["add"], sums, other)
    scaled = bind(TABLE["multiply"], added, bind(TABLE["broadcast_to"], scale, shape=other.shape))
    ((got, got_scaled),) = run(Graph([x, weights, other, scale], [added, scaled]), arrays)
    want = np.einsum("nchw,oc->nohw", arrays[0], arrays[1][:, :, 0, 0]) + arrays[2]
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(got_scaled, want * arrays[3])


def test_strided_gradient_with_stores(rng: np.random.Generator) -> None:
    """Gradients of convolutions of any stride, added to an array where a mask allows it: gaps between windows, ends of rows."""
    for _ in range(4):
        n, c, o = (int(k) for k in rng.integers(1, 5, 3))
        stride = tuple(int(k) for k in rng.permutation((rng.integers(1, 4), rng.integers(2, 4))))
        taps = tuple(int(k) for k in rng.integers(1, 4, 2))
        size = tuple(int(rng.integers(k, 50)) for k in taps)
        x_shape, w_shape = (n, c, *size), (o, c, *taps)
        x, w, other, mask = (input_leaf(shape, FLOAT32) for shape in (x_shape, w_shape, x_shape, x_shape))
        y = bind(
            TABLE["conv_general"], x, w, dims=((0, 1, 2, 3),) * 3, stride=stride, padding=((0, 0),) * 2, groups=1,
            lhs_dilation=(1, 1), rhs_dilation=(1, 1),
        )
        g = input_leaf(y.shape, FLOAT32)
        (slope,) = backward([y], [g], [x])
        zero = bind(TABLE["multiply"], mask, constant(0, FLOAT32))
        added = bind(TABLE["where"], bind(TABLE["less"], zero, mask), bind(TABLE["add"], slope, other), zero)
        graph = Graph([w, other, mask, g], [added])
        arrays = [rng.integers(-9, 10, i.shape).astype(np.float32) for i in graph.inputs]
        ((got,),) = run(graph, arrays, any_generator=True)  # a window as large as the image is a product
        np.testing.assert_array_equal(got, interpret(graph, arrays)[0])
