"""Convolutions in pairs of bfloat16: errors beside float64 of the rounded operands, in all passes; equal bits in any order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conv_cases import Native, conv_reference, force_filter_vectors, forward, load, weight_gradient, weight_reference
from test_bfloat16_products import without_pairs

import weft as wf
from weft.devices.cpu.convolution import filter_weights, pairs, tiling
from weft.devices.cpu.convolution.conv import generate_conv
from weft.devices.cpu.emit.isa import ISA, host_isa
from weft.devices.cpu.product.dot import MAX_FMA_FLOPS
from weft.dtypes.formats import FLOAT32
from weft.dtypes.parse import parse_dtype
from weft.kernel.ir import Access, Buffer, Kernel, Store, Value

BOUND = 1e-6  # times the sum of magnitudes: chains have at most a few hundred roundings of 6e-8, of random signs
PASSES = ["forward", "to x", "to w"]
ROUNDS = host_isa().multiplies_bfloat16  # other processors compute float32


@pytest.fixture
def pairs_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "MAX_FMA_FLOPS", 0)
    monkeypatch.setattr(filter_weights, "MIN_EFFICIENCY", 0.0)


def permit(kernel: Kernel) -> Kernel:
    """Return a kernel of one convolution, which may round its operands to bfloat16."""
    ((contraction,),) = (phase.stages for phase in kernel.phases)
    return replace(kernel, phases=(replace(kernel.phases[0], stages=(replace(contraction, precision="bfloat16"),)),))


def compile_pairs(kernel: Kernel, isa: ISA | None = None) -> Native:
    generated = generate_conv(permit(kernel), isa or host_isa())
    assert generated is not None and ("convolution of pairs" in generated.paths) == (isa is None and ROUNDS)
    return Native(kernel, generated, isa=isa or host_isa())


def run_both_ways(native: Native, arrays: list[np.ndarray]) -> np.ndarray:
    """Return the last array, computed forwards and, with the same bits, with chunks in the opposite order."""
    results = []
    for backwards in (False, True):
        arrays[-1].fill(7)
        native.run(arrays, backwards=backwards)
        results.append(arrays[-1].copy())
    assert results[0].tobytes() == results[1].tobytes()
    return results[0]


def draw_case(rng: np.random.Generator, what: str) -> tuple[Any, ...]:
    """Return n, c, h, w, o, kh, kw, stride, padding, dilation and groups of a random convolution with at least one pair."""
    n, c, o = (int(rng.integers(1, most)) for most in (6, 40, 40))
    n, c = (max(n, 2), c) if what == "to w" else (n, max(c, 2))
    groups = 1 if what == "to x" else int(rng.choice((1, 1, 2, 3)))
    kh, kw = (int(k) for k in rng.choice((1, 2, 3, 5), 2))
    stride, dilation = (tuple(int(s) for s in rng.choice((1, 1, 2, 3), 2)) for _ in range(2))
    padding = tuple(tuple(int(p) for p in rng.integers(0, 3, 2)) for _ in range(2))
    h, w = (int(rng.integers((k - 1) * d + 1, 24)) for k, d in zip((kh, kw), dilation, strict=True))
    return n, c, h, w, o, kh, kw, stride, padding, dilation, groups


def as_multiplied(x: np.ndarray) -> np.ndarray:
    """Return the numbers that are multiplied for an operand, in float64."""
    return (x.astype(np.float32).astype(ml_dtypes.bfloat16) if ROUNDS else x).astype(np.float64)


def reference(what: str, case: tuple[Any, ...], a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if what == "to w":
        return weight_reference(a, b, case[5], case[6], *case[7:])
    return conv_reference(a, b.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1] if what == "to x" else b, *case[7:])


def make_kernel(what: str, case: tuple[Any, ...], **more: Any) -> Kernel:
    return weight_gradient(*case, **more) if what == "to w" else forward(*case, flip=what == "to x", **more)


@pytest.mark.usefixtures("pairs_of_any_size")
@pytest.mark.parametrize("filter_vectors", [False, True])
@pytest.mark.parametrize("what", PASSES)
def test_random_shapes(what: str, filter_vectors: bool, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strides, borders, dilations, groups and odd numbers of channels and images, stored as float32 or as a narrower format."""
    if filter_vectors:
        force_filter_vectors(monkeypatch)
    for _ in range(3):
        case = draw_case(rng, what)
        dtype = str(rng.choice(("float32", "float32", "bfloat16", "float16")))
        monkeypatch.setattr(tiling, "IMAGE_BLOCK", float(rng.choice((0.01, 0.4))))
        kernel = make_kernel(what, case, dtype=dtype)
        a, b, out = (rng.standard_normal(x.shape).astype(parse_dtype(dtype).numpy) for x in (*kernel.inputs, *kernel.outputs))
        got = run_both_ways(compile_pairs(kernel), [a, b, out]).astype(np.float64)
        x, y = as_multiplied(a), as_multiplied(b)
        want, scale = reference(what, case, x, y), reference(what, case, abs(x), abs(y))
        rounding = {"float32": 0.0, "float16": 2.0**-11, "bfloat16": 2.0**-8}[dtype]
        assert (abs(got - want) <= BOUND * scale + 1.01 * rounding * abs(want) + 1e-7).all(), (case, dtype)


@pytest.mark.usefixtures("pairs_of_any_size")
@pytest.mark.parametrize("what", PASSES)
def test_not_finite(what: str, rng: np.random.Generator) -> None:
    """An infinity or NaN reaches only the results that depend on it, also beside the zero of an odd channel."""
    for _ in range(2):
        case = draw_case(rng, what)
        kernel = make_kernel(what, case)
        a, b, out = (rng.uniform(1, 2, x.shape).astype(np.float32) for x in (*kernel.inputs, *kernel.outputs))
        for v in (a, b):
            v.reshape(-1)[rng.integers(v.size)] = rng.choice((np.inf, -np.inf, np.nan))
        got = run_both_ways(compile_pairs(kernel), [a, b, out])
        with np.errstate(invalid="ignore"):
            want = reference(what, case, a, b)
        assert np.array_equal(np.isnan(got), np.isnan(want)) and np.array_equal(np.isinf(got), np.isinf(want)), case


@pytest.mark.usefixtures("pairs_of_any_size")
def test_bias_and_relu_in_the_kernel(rng: np.random.Generator) -> None:
    for _ in range(3):
        case = draw_case(rng, "forward")
        bias = Buffer(2, FLOAT32, (case[4] * case[10],))

        def epilogue(inputs: list[Buffer], y: Buffer, acc: Value, where: tuple[Any, ...], bias: Buffer = bias) -> Any:
            out = replace(y, id=3)
            total = Value("add", (acc, load(bias, where[1])), FLOAT32)
            value = Value("max", (total, Value("const", (), FLOAT32, 0.0)), FLOAT32)
            return [*inputs, bias], [out], (Store(Access(out, where), value),), ()

        kernel = make_kernel("forward", case, epilogue=epilogue)
        arrays = [rng.standard_normal(x.shape).astype(np.float32) for x in (*kernel.inputs, *kernel.outputs)]
        got = run_both_ways(compile_pairs(kernel), arrays)
        x, y = map(as_multiplied, arrays[:2])
        want = np.maximum(reference("forward", case, x, y) + arrays[2].astype(np.float64)[:, None, None], 0)
        assert (abs(got - want) <= BOUND * (reference("forward", case, abs(x), abs(y)) + 4)).all(), case


@pytest.mark.usefixtures("pairs_of_any_size")
@pytest.mark.parametrize("what", PASSES)
def test_other_processors_compute_float32(what: str, rng: np.random.Generator) -> None:
    case = draw_case(rng, what)
    kernel = make_kernel(what, case)
    a, b, out = (rng.standard_normal(x.shape).astype(np.float32) for x in (*kernel.inputs, *kernel.outputs))
    got = run_both_ways(compile_pairs(kernel, without_pairs()), [a, b, out])
    plain = Native(kernel, generate_conv(kernel, without_pairs()), isa=without_pairs())
    assert run_both_ways(plain, [a, b, out]).tobytes() == got.tobytes()


def test_small_convolutions_and_single_channels_make_no_pairs() -> None:
    for what, case in (
        ("forward", (2, 4, 6, 6, 4, 3, 3)), ("forward", (8, 1, 60, 60, 64, 3, 3)), ("to w", (1, 32, 40, 40, 64, 3, 3)),
    ):
        generated = generate_conv(permit(make_kernel(what, case)), host_isa())
        assert "convolution of pairs" not in generated.paths


def gradients(x: Any, w: Any, g: Any, how: dict[str, Any]) -> Any:
    y, back = wf.vjp(lambda x, w: wf.nn.conv2d(x, w, **how), x, w)
    return (y, *back(g))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_layer_and_its_gradients(dtype: str, rng: np.random.Generator) -> None:
    """In a program: within the roundings of operands, with equal bits on any number of threads, jitted or not."""
    n, c, o, size = (int(rng.integers(*ends)) for ends in ((2, 6), (16, 40), (16, 40), (12, 20)))
    how: dict[str, Any] = {"stride": int(rng.integers(1, 3)), "padding": int(rng.integers(0, 2))}
    x, w = (wf.asarray(rng.standard_normal(shape)).astype(dtype) for shape in ((n, c, size, size), (o, c, 3, 3)))
    exact = gradients(x, w, wf.ones_like(wf.nn.conv2d(x, w, **how)), how)
    g = wf.ones_like(exact[0])
    magnitudes = [v.numpy().astype(np.float64) for v in gradients(abs(x), abs(w), g, how)]
    jitted = wf.jit(lambda x, w, g: gradients(x, w, g, how))
    runs, threads = [], wf.get_num_threads()
    try:
        with wf.matmul_precision("bfloat16"):
            for count in (1, 2):
                wf.set_num_threads(count)
                runs += [[v.numpy() for v in f(x, w, g)] for f in (jitted, lambda *given: gradients(*given, how))]
    finally:
        wf.set_num_threads(threads)
    for other in runs[1:]:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(runs[0], other, strict=True))
    for found, value, scale in zip(runs[0], exact, magnitudes, strict=True):
        error = abs(found.astype(np.float64) - value.numpy().astype(np.float64))
        assert (error <= 2.02 * 2.0**-8 * scale).all()  # both operands are rounded; or the result, of bfloat16, in both ways
    if dtype == "float32":  # else the default has the same bits but for the order of sums
        rounds = ROUNDS and 2 * exact[0].size * 9 * c > MAX_FMA_FLOPS
        assert (runs[0][0].tobytes() != exact[0].numpy().tobytes()) == rounds
