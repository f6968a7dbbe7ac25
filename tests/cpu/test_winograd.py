"""Winograd's transforms: errors bounded by the magnitudes that are added, equal bits for all threads and ways of execution."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from conv_cases import Native, conv_reference, forward, load, weight_gradient, weight_reference

import weft as wf
from weft.devices.cpu.convolution import conv, winograd, winograd_forward, winograd_weights
from weft.devices.cpu.convolution.conv import generate_conv
from weft.devices.cpu.convolution.winograd_transform import Matrices, choose_outputs, winograd_matrices
from weft.devices.cpu.emit.isa import ISA, host_isa, isa_from_features
from weft.dtypes.formats import FLOAT32
from weft.kernel.convolution import match_conv
from weft.kernel.ir import Access, Buffer, Kernel, Store, Value

EPS = np.finfo(np.float32).eps


def permit(kernel: Kernel) -> Kernel:
    """Return a kernel of one convolution, which may use the transforms."""
    ((contraction,),) = (phase.stages for phase in kernel.phases)
    return replace(kernel, phases=(replace(kernel.phases[0], stages=(replace(contraction, algorithm="winograd"),)),))


def generate(kernel: Kernel, m: int, monkeypatch: pytest.MonkeyPatch, isa: ISA | None = None) -> Native:
    """Return the compiled kernel of F(m, r), whatever the estimates are."""
    for module in (conv, winograd):
        monkeypatch.setattr(module, "choose_outputs", lambda *_: m)
    generated = generate_conv(permit(kernel), isa or host_isa())
    assert generated is not None and any(path.startswith("convolution winograd") for path in generated.paths)
    return Native(kernel, generated, isa=isa)


def run_both_ways(native: Native, arrays: list[np.ndarray]) -> np.ndarray:
    """Return the last array, computed forwards and, with the same bits, with chunks in the opposite order."""
    results = []
    for backwards in (False, True):
        arrays[-1][...] = np.nan
        native.run(arrays, backwards=backwards)
        results.append(arrays[-1].copy())
    assert results[0].tobytes() == results[1].tobytes()
    return results[0]


def tile_windows(x: np.ndarray, n: int, m: int, rows: int, columns: int) -> np.ndarray:
    """Return [image, channel, tile row, tile column, n, n] of an image that zeros continue."""
    wide = np.zeros((*x.shape[:2], m * rows + n, m * columns + n))
    height, width = (min(a, b) for a, b in zip(x.shape[2:], wide.shape[2:], strict=True))
    wide[:, :, :height, :width] = x[:, :, :height, :width]
    view = np.lib.stride_tricks.sliding_window_view(wide, (n, n), axis=(2, 3))
    return view[:, :, : m * rows : m, : m * columns : m]


def both_sides(matrix: Any, tiles: np.ndarray) -> np.ndarray:
    return np.asarray(matrix) @ tiles @ np.asarray(matrix).T


def transform_forward(x: np.ndarray, w: np.ndarray, padding: Any, m: int, parts: Matrices) -> np.ndarray:
    """Return the convolution, computed in float64 by the transforms ``parts``."""
    r, n = w.shape[2], m + w.shape[2] - 1
    x = np.pad(x, ((0, 0), (0, 0), *padding))
    height, width = (e - r + 1 for e in x.shape[2:])
    rows, columns = -(-height // m), -(-width // m)
    d = both_sides(parts.inputs, tile_windows(x, n, m, rows, columns))
    y = both_sides(parts.outputs, np.einsum("ncyxab,ocab->noyxab", d, both_sides(parts.weights, w), optimize=True))
    return y.transpose(0, 1, 2, 4, 3, 5).reshape(*y.shape[:2], rows * m, columns * m)[:, :, :height, :width]


def transform_gradient(x: np.ndarray, dy: np.ndarray, padding: Any, m: int, parts: Matrices) -> np.ndarray:
    """Return the weight gradient, computed in float64 by the transforms ``parts``."""
    n = len(parts.inputs)
    rows, columns = (-(-e // m) for e in dy.shape[2:])
    d = both_sides(parts.inputs, tile_windows(np.pad(x, ((0, 0), (0, 0), *padding)), n, m, rows, columns))
    g = both_sides(np.transpose(parts.outputs), tile_windows(dy, m, m, rows, columns))
    return both_sides(np.transpose(parts.weights), np.einsum("ncyxab,noyxab->ocab", d, g, optimize=True))


def magnitudes(parts: Matrices) -> Matrices:
    return Matrices(*(np.abs(p) for p in (parts.inputs, parts.weights, parts.outputs)))  # type: ignore[arg-type]


KINDS = [(2, 3), (4, 3), (2, 5)]


@pytest.mark.parametrize("m, r", KINDS)
def test_matrices(m: int, r: int, rng: np.random.Generator) -> None:
    """The transforms compute the convolution and its gradient, in float64 to the last digits."""
    parts, padding = winograd_matrices(m, r), ((1, 2), (0, 1))
    x, w = rng.normal(size=(2, 3, 9, 11)), rng.normal(size=(4, 3, r, r))
    y = conv_reference(x, w, (1, 1), padding)
    assert np.abs(transform_forward(x, w, padding, m, parts) - y).max() < 1e-12
    dy = rng.normal(size=y.shape)
    assert np.abs(transform_gradient(x, dy, padding, m, parts) - weight_reference(x, dy, r, r, (1, 1), padding)).max() < 1e-11


def draw_case(rng: np.random.Generator, r: int) -> tuple[Any, ...]:
    """Return images, channels, height, width, filters, window and padding of a random convolution."""
    n, c, o = (int(rng.integers(1, most)) for most in (4, 40, 40))
    padding = tuple(tuple(int(p) for p in rng.integers(0, 3, 2)) for _ in range(2))
    h, w = (int(rng.integers(max(1, r - sum(p)), 20)) for p in padding)
    return n, c, h, w, o, r, r, (1, 1), padding


@pytest.mark.parametrize("m, r", KINDS)
@pytest.mark.parametrize("what", ["forward", "to x", "to w"])
def test_random_shapes(what: str, m: int, r: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each error is within a few roundings of the sum of magnitudes that the transforms add, in any number of rounds."""
    case = draw_case(rng, r)
    n, c, h, w, o, *_, padding = case
    for module in (winograd_forward, winograd_weights):
        monkeypatch.setattr(module, "BLOCK", int(rng.choice((16, 64))))
    monkeypatch.setattr(winograd, "ROUND_BYTES", int(rng.choice((1, 24 << 20))))
    monkeypatch.setattr(winograd, "MIN_TILES", int(rng.choice((1, 8))))
    monkeypatch.setattr(winograd, "MAX_STRIP", int(rng.choice((1, 128 << 10))))
    parts = winograd_matrices(m, r)
    kernel = weight_gradient(*case) if what == "to w" else forward(*case, flip=what == "to x")
    native = generate(kernel, m, monkeypatch)
    a, b, out = (rng.normal(size=buffer.shape).astype(np.float32) for buffer in (*kernel.inputs, *kernel.outputs))
    got = run_both_ways(native, [a, b, out])
    x, y = a.astype(np.float64), b.astype(np.float64)
    if what == "to w":
        want = weight_reference(x, y, r, r, (1, 1), padding)
        scale = transform_gradient(abs(x), abs(y), padding, m, magnitudes(parts))
    else:
        y = y.transpose(1, 0, 2, 3)[:, :, ::-1, ::-1] if what == "to x" else y
        want = conv_reference(x, y, (1, 1), padding)
        scale = transform_forward(abs(x), abs(y), padding, m, magnitudes(parts))
    assert (np.abs(got - want) <= 2 * EPS * scale).all(), (case, (np.abs(got - want) / scale).max() / EPS)


@pytest.mark.parametrize("features", [{"sse2": True}, {"avx2": True, "fma": True}], ids=str)
@pytest.mark.parametrize("what", ["forward", "to w"])
def test_narrower_vectors(
    features: dict[str, bool], what: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch,
) -> None:
    if features.get("avx2") and host_isa().bits < 256:
        pytest.skip("no AVX2")
    case = draw_case(rng, 3)
    kernel = weight_gradient(*case) if what == "to w" else forward(*case)
    native = generate(kernel, 4, monkeypatch, isa_from_features(features))
    a, b, out = (rng.normal(size=buffer.shape).astype(np.float32) for buffer in (*kernel.inputs, *kernel.outputs))
    got = run_both_ways(native, [a, b, out])
    reference = (lambda p, q: weight_reference(p, q, 3, 3, *case[7:])) if what == "to w" else (
        lambda p, q: conv_reference(p, q, *case[7:])
    )
    assert np.abs(got - reference(a, b)).max() <= 1e-4 * reference(abs(a), abs(b)).max()


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_halves(name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stored in 16 bits, transformed and summed in float32, rounded once."""
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    case = draw_case(rng, 3)
    native = generate(kernel := forward(*case, dtype=dtype), 4, monkeypatch)
    x, w, out = (rng.normal(size=buffer.shape).astype(dtype) for buffer in (*kernel.inputs, *kernel.outputs))
    got = run_both_ways(native, [x, w, out]).astype(np.float64)
    want, scale = (conv_reference(f(x), f(w), *case[7:]) for f in (np.asarray, np.abs))
    rounding = {"float16": 2.0**-11, "bfloat16": 2.0**-8}[name]
    assert (np.abs(got - want) <= rounding * np.abs(want) + 1e-4 * scale.max()).all()


def test_bias_relu_and_mask(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stores that follow see the sums that are stored alone."""
    case = draw_case(rng, 3)

    def epilogue(inputs: Any, y: Any, acc: Value, where: Any) -> Any:
        bias, second = Buffer(2, FLOAT32, (case[4],)), Buffer(3, FLOAT32, y.shape)
        z = Value("add", (acc, load(bias, where[1])), FLOAT32)
        first = Store(Access(second, where), acc)
        return (
            [*inputs, bias], [second, out := Buffer(4, FLOAT32, y.shape)],
            (first, Store(Access(out, where), Value("max", (z, Value("const", (), FLOAT32, 0.0)), FLOAT32))), (),
        )

    kernel = forward(*case, epilogue=epilogue)
    native = generate(kernel, 4, monkeypatch)
    x, w, bias, sums, out = (rng.normal(size=b.shape).astype(np.float32) for b in (*kernel.inputs, *kernel.outputs))
    got = run_both_ways(native, [x, w, bias, sums, out])
    assert np.array_equal(got, np.maximum(sums + bias[:, None, None], 0))


LAYERS = [(4, 64, 12, 14, 64, 3, 1), (2, 96, 13, 13, 128, 3, 1), (3, 48, 11, 9, 64, 5, 2), (1, 128, 8, 30, 64, 3, 0)]


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_ways_of_execution(layer: tuple[int, ...], rng: np.random.Generator) -> None:
    """Eager and jitted, fused and alone, one thread and two: the same bits, other bits than direct, and nearly its values."""
    n, c, h, width, o, r, p = layer
    x, w = wf.array(rng.normal(size=(n, c, h, width)).astype("f")), wf.array(rng.normal(size=(o, c, r, r)).astype("f"))
    bias, by = wf.array(rng.normal(size=o).astype("f")), wf.array(rng.normal(size=o).astype("f"))

    def layer_loss(x: Any, w: Any) -> Any:  # smooth: the gradient of a ReLU near 0 would depend on the last bits
        return (wf.nn.conv2d(x, w, bias, padding=p) ** 2 * by.reshape((-1, 1, 1))).sum()

    def results(x: Any, w: Any) -> Any:
        y = wf.nn.relu(wf.nn.conv2d(x, w, bias, padding=p))
        return (y, y.max(), *wf.grad(layer_loss, argnums=(0, 1))(x, w))

    direct = [a.numpy() for a in wf.jit(results)(x, w)]
    threads = wf.get_num_threads()
    with wf.conv_algorithm("winograd"):
        alone = wf.nn.conv2d(x, w, padding=p)
        want = [a.numpy() for a in results(x, w)]
        try:
            for count in (1, 2):
                wf.set_num_threads(count)
                for got, expected in zip(wf.jit(results)(x, w), want, strict=True):
                    assert got.numpy().tobytes() == expected.tobytes()
        finally:
            wf.set_num_threads(threads)
    assert np.array_equal(np.maximum(alone.numpy() + bias.numpy()[:, None, None], 0), want[0])
    for a, b in zip(direct, want, strict=True):
        assert not np.array_equal(a, b) or a.size == 1
        assert np.abs(a - b).max() <= 1e-4 * np.sqrt((b**2).mean())


@pytest.mark.parametrize("move", [
    lambda x: x.transpose(0, 1, 3, 2), lambda x: x[..., ::-1], lambda x: x.astype("float16").astype("float32"),
    lambda x: wf.concatenate([x, x], axis=1)[:, : x.shape[1]],
])
def test_operands_that_move(move: Any, rng: np.random.Generator) -> None:
    x, w = wf.array(rng.normal(size=(2, 64, 12, 12)).astype("f")), wf.array(rng.normal(size=(64, 64, 3, 3)).astype("f"))

    def grads(x: Any, w: Any) -> Any:
        return wf.grad(lambda x, w: (wf.nn.conv2d(move(x), move(w), padding=1) ** 2).sum(), argnums=(0, 1))(x, w)

    with wf.conv_algorithm("winograd"):
        for got, want in zip(wf.jit(grads)(x, w), grads(x, w), strict=True):
            assert got.numpy().tobytes() == want.numpy().tobytes()


@pytest.mark.parametrize("how", [
    {"stride": 2}, {"dilation": 2}, {"groups": 2}, {"dtype": "float64"}, {"spatial": 1}, {"window": 4},
], ids=str)
def test_others_stay_direct(how: dict[str, Any], rng: np.random.Generator) -> None:
    how = dict(how)
    dtype, spatial, window = how.pop("dtype", "float32"), how.pop("spatial", 2), how.pop("window", 3)
    x = wf.array(rng.normal(size=(2, 64, *(14,) * spatial)).astype(dtype))
    w = wf.array(rng.normal(size=(64, 64 // how.get("groups", 1), *(window,) * spatial)).astype(dtype))
    convolve = {1: wf.nn.conv1d, 2: wf.nn.conv2d}[spatial]
    direct = convolve(x, w, padding=1, **how).numpy()
    with wf.conv_algorithm("winograd"):
        assert convolve(x, w, padding=1, **how).numpy().tobytes() == direct.tobytes()


def test_choice() -> None:
    """By extents: F(4 x 4) for large layers, F(2 x 2) for windows of 5 x 5, none where transforms would take longer."""
    def chosen(kernel: Kernel) -> int:
        ((contraction,),) = (phase.stages for phase in permit(kernel).phases)
        found = match_conv(contraction)
        assert found is not None
        return choose_outputs(found, isa_from_features({k: True for k in ("avx512f", "avx512bw", "avx512dq", "avx512vl")}))

    pads = {3: ((1, 1), (1, 1)), 5: ((2, 2), (2, 2))}
    for make in (forward, weight_gradient):
        assert chosen(make(16, 256, 28, 28, 256, 3, 3, padding=pads[3])) == 4
        assert chosen(make(16, 64, 27, 27, 192, 5, 5, padding=pads[5])) == 2
        assert chosen(make(1, 512, 7, 7, 512, 3, 3, padding=pads[3])) == 0
        assert chosen(make(16, 3, 64, 64, 64, 3, 3, padding=pads[3])) == 0
        assert chosen(make(16, 64, 27, 27, 64, 3, 5, padding=(pads[3][0], pads[5][0]))) == 0


def test_setting(rng: np.random.Generator) -> None:
    """The algorithm belongs to the operation that is written, and to its derivative."""
    x, w = wf.array(rng.normal(size=(2, 64, 12, 12)).astype("f")), wf.array(rng.normal(size=(64, 64, 3, 3)).astype("f"))
    f = wf.jit(lambda x, w: wf.nn.conv2d(x, w, padding=1))
    direct = f(x, w).numpy()
    with wf.conv_algorithm("winograd"):
        assert any("Winograd" in note for kernel in wf.explain(f, x, w).kernels for note in kernel.notes)
        transformed = f(x, w).numpy()
        pending = wf.jit(lambda x, w: wf.vjp(lambda w: wf.nn.conv2d(x, w, padding=1), w)[1](x)[0])(x, w).numpy()
    assert wf.get_conv_algorithm() == "direct"
    assert not np.array_equal(direct, transformed) and np.array_equal(f(x, w).numpy(), direct)
    again = wf.jit(lambda x, w: wf.vjp(lambda w: wf.nn.conv2d(x, w, padding=1), w)[1](x)[0])(x, w).numpy()
    assert not np.array_equal(pending, again)
    for function in (wf.conv_algorithm, wf.set_conv_algorithm):
        with pytest.raises(ValueError, match='algorithm=\'fft\' must be "direct" or "winograd"'):
            function("fft")
