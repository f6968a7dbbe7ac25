"""Attention that stores no scores: random programs around the borders of tiles, against NumPy in float64 and the stored path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from layer_formulas import attention

import weft as wf
from weft.devices import counters
from weft.nn import attention as module

F = wf.nn.scaled_dot_product_attention
EXTENTS = (1, 2, 3, 15, 16, 17, 31, 63, 64, 65, 100, 127, 128, 129, 200)
WIDTHS = (1, 3, 8, 16, 20, 33, 64)
BOUND = {"float64": 1e-14, "float32": 2e-6, "float16": 4e-3, "bfloat16": 3e-2}


@pytest.fixture
def generator() -> np.random.Generator:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    return np.random.default_rng(seed)


@contextmanager
def storing(most: int) -> Iterator[None]:
    """So many scores are stored at most."""
    before, module.MAX_STORED_SCORES = module.MAX_STORED_SCORES, most
    try:
        yield
    finally:
        module.MAX_STORED_SCORES = before


@pytest.fixture(autouse=True)
def chained() -> Iterator[None]:
    with storing(-1):
        yield


class Program:
    """A random call: arrays in float64, what to pass on, and the same in NumPy."""

    def __init__(self, r: np.random.Generator, dtype: str) -> None:
        batch = [(), (2,), (2, 3)][r.integers(3)]
        length, keys = (int(r.choice(EXTENTS)) for _ in range(2))
        width, out = (int(r.choice(WIDTHS)) for _ in range(2))
        self.options: dict[str, Any] = {}
        self.times = 1
        shared = batch
        if batch and r.random() < 0.3:
            self.times = int(r.integers(2, 4))
            self.options["enable_gqa"] = True
            batch = (*batch[:-1], batch[-1] * self.times)
        shapes = [(*batch, length, width), (*shared, keys, width), (*shared, keys, out)]
        numpy = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
        self.arrays = [r.normal(size=s).astype(numpy).astype(np.float64) for s in shapes]
        self.same = length == keys and width == out and self.times == 1 and r.random() < 0.5  # q is k is v
        if self.same:
            self.arrays = self.arrays[:1] * 3
        self.allowed: Any = True
        self.bias: Any = 0.0
        kind = r.choice(["none", "causal", "bool", "float", "padding"])
        if kind == "causal":
            self.options["is_causal"] = True
            self.allowed = np.tri(length, keys, dtype=bool)
        elif kind in ("bool", "padding"):
            shape = (*(n if r.random() < 0.5 else 1 for n in batch), length if kind == "bool" else 1, keys)
            self.allowed = r.random(shape) < 0.7
            if kind == "bool":
                self.allowed[..., 0, :] = False  # attends to nothing
            self.options["attn_mask"] = wf.array(self.allowed)
        elif kind == "float":
            self.bias = r.normal(size=(length, keys)).astype(np.float32).astype(np.float64)
            self.options["attn_mask"] = wf.array(self.bias.astype(np.float32))
        if r.random() < 0.5:
            self.options["scale"] = self.scale = float(r.uniform(0.05, 0.5))
        else:
            self.scale = width**-0.5
        self.given = [wf.array(a).astype(dtype) for a in self.arrays]
        if self.same:
            self.given = self.given[:1] * 3
        print(shapes, kind, self.times, self.same, dtype)

    def wanted(self, g: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The result and the gradients of its sum weighted with ``g``, and the same sums of magnitudes."""
        q, k, v = self.arrays
        if self.times > 1:
            k, v = k.repeat(self.times, -3), v.repeat(self.times, -3)
        s = np.where(self.allowed, q @ k.swapaxes(-1, -2) * self.scale + self.bias, -np.inf)
        top = s.max(-1, keepdims=True)
        e = np.exp(s - np.where(np.isinf(top), 0, top))
        w = e / np.where(e.sum(-1, keepdims=True) == 0, 1, e.sum(-1, keepdims=True))

        def products(q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray, sign: int) -> list[np.ndarray]:
            through = g @ v.swapaxes(-1, -2)
            ds = w * (through - sign * (w * through).sum(-1, keepdims=True)) * self.scale
            found = [w @ v, ds @ k, ds.swapaxes(-1, -2) @ q, w.swapaxes(-1, -2) @ g]
            if self.times > 1:
                for n in (2, 3):
                    *lead, heads, rows, columns = found[n].shape
                    found[n] = found[n].reshape(*lead, heads // self.times, self.times, rows, columns).sum(-3)
            return found

        return products(q, k, v, g, 1), products(*map(np.abs, (q, k, v, g)), -1)

    def run(self, g: wf.Array) -> list[np.ndarray]:
        def value(q: Any, k: Any, v: Any) -> Any:
            return F(q, k, v, **self.options)

        def both(q: Any, k: Any, v: Any, g: Any) -> Any:
            slopes = wf.grad(lambda *x: (value(*x).astype(g.dtype) * g).sum(), argnums=(0, 1, 2))(q, k, v)
            return value(q, k, v), *slopes

        return [x.astype("float64").numpy() for x in wf.jit(both)(*self.given, g)]


@pytest.mark.parametrize("dtype", ["float32", "float32", "float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("turn", range(3))
def test_random_programs(turn: int, dtype: str, generator: np.random.Generator) -> None:
    p = Program(generator, dtype)
    g = generator.normal(size=(*p.arrays[0].shape[:-1], p.arrays[2].shape[-1]))
    weights = wf.array(g.astype(np.float64 if dtype == "float64" else np.float32))
    g = weights.astype(dtype).astype("float64").numpy()  # as the kernel's cotangent is rounded
    got, (want, sizes) = p.run(weights), p.wanted(g)
    for x, y, size in zip(got, want, sizes, strict=True):
        assert x.shape == y.shape
        assert np.abs(x - y).max() <= BOUND[dtype] * size.max()


def test_gradients_are_differences(generator: np.random.Generator) -> None:
    shapes = [(2, 70, 5), (2, 66, 5), (2, 66, 3)]
    arrays = [generator.normal(size=s) for s in shapes]
    g = generator.normal(size=(2, 70, 3))
    mask = np.tri(70, 66, dtype=bool)
    slopes = wf.jit(wf.grad(lambda *x: (F(*x, is_causal=True) * wf.array(g)).sum(), argnums=(0, 1, 2)))(*map(wf.array, arrays))
    for n, slope in enumerate(slopes):
        step = generator.normal(size=shapes[n])
        up, down = (
            (attention(*arrays[:n], arrays[n] + s * 1e-6 * step, *arrays[n + 1:], mask) * g).sum() for s in (1, -1)
        )
        assert abs((slope.numpy() * step).sum() - (up - down) / 2e-6) < 1e-6 * np.abs(slope.numpy() * step).sum()


def test_derivatives_of_derivatives_vmap_and_float_masks(generator: np.random.Generator) -> None:
    """They are those of the stored path."""
    x = [wf.array(generator.normal(size=s)) for s in ((3, 9, 4), (3, 7, 4), (3, 7, 2))]
    bias = wf.array(generator.normal(size=(9, 7)))

    def loss(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return (F(q, k, v, bias) ** 2).sum()

    def second(*args: Any) -> Any:
        slopes = wf.grad(loss, argnums=(0, 1, 2, 3))(*args)
        return sum((s * s).sum() for s in slopes)

    cases: list[Callable[..., Any]] = [
        lambda: wf.grad(second, argnums=(0, 1, 2, 3))(*x, bias),
        lambda: wf.vmap(lambda q, k, v: F(q, k, v, is_causal=True))(*x),
        lambda: wf.vmap(lambda q: F(q, x[1][0], x[2][0]))(x[0]),
        lambda: wf.vmap(lambda k: wf.grad(lambda q: (F(q, k, x[2][0]) ** 2).sum())(x[0][0]))(x[1]),
    ]
    for case in cases:
        got = case()
        with storing(1 << 60):
            want = case()
        for a, b in zip(*(y if isinstance(y, tuple) else (y,) for y in (got, want)), strict=True):
            assert np.abs(b.numpy()).max() > 0
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-10)


def test_dropout_is_the_stored_paths(generator: np.random.Generator) -> None:
    """The same words at the same places, in the gradient too, and the state goes on alike."""
    x = [wf.array(generator.normal(size=(2, 3, 70, 8)).astype("f")) for _ in range(3)]

    @wf.jit
    def run(q: Any, k: Any, v: Any) -> Any:
        return wf.value_and_grad(lambda q, k, v: (F(q, k, v, dropout_p=0.3) * v).sum(), argnums=(0, 1, 2))(q, k, v)

    found = []
    for most in (-1, 1 << 60):
        with storing(most):
            wf.random.seed(5)
            value, slopes = wf.jit(lambda q, k, v: run(q, k, v))(*x)
            found.append([value.numpy(), *(s.numpy() for s in slopes), wf.random.uniform(size=3).numpy()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
    wf.random.seed(5)
    whole = F(wf.zeros((1, 90, 2)), wf.zeros((1, 80, 2)), wf.array(np.eye(80, dtype="f")[None]), dropout_p=0.25).numpy()
    assert abs((whole == 0).mean() - 0.25) < 0.03 and np.allclose(whole[whole != 0], 1 / 80 / 0.75)
    assert not F(*x, dropout_p=1.0).numpy().any()


def test_kernels_and_memory(generator: np.random.Generator) -> None:
    """One kernel forward; the gradient is one more, beside the sum over rows that it reads. No memory as large as the scores."""
    length = 3072
    x = [wf.array(generator.normal(size=(1, length, 16)).astype("f")) for _ in range(3)]
    g = wf.array(generator.normal(size=(1, length, 16)).astype("f"))
    forward = wf.jit(lambda q, k, v: F(q, k, v, is_causal=True))
    both = wf.jit(lambda q, k, v: wf.grad(lambda q, k, v: (F(q, k, v, is_causal=True) * g).sum(), argnums=(0, 1, 2))(q, k, v))
    for f, kernels in ((forward, 1), (both, 3)):
        before = counters()
        f(*x)
        taken = counters()["allocator_bytes"] - before["allocator_bytes"]
        assert taken <= 40 * length * 16 * 4 < length * length * 4
        before = counters()
        f(*x)
        assert counters()["kernels"] - before["kernels"] == kernels


def test_not_finite_is_what_storing_gives(generator: np.random.Generator) -> None:
    """Infinities and NaNs reach what the stored path lets them reach, tiles that are skipped included."""
    base = [generator.normal(size=(150, 8)).astype("f") for _ in range(3)]
    for which in range(3):
        for value in (np.nan, np.inf, -np.inf):
            arrays = [a.copy() for a in base]
            arrays[which][int(generator.integers(150)), int(generator.integers(8))] = value
            results = []
            for most in (-1, 1 << 60):
                with storing(most):
                    results.append(F(*map(wf.array, arrays), is_causal=True).numpy())
            np.testing.assert_array_equal(np.isnan(results[0]), np.isnan(results[1]))
            np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_bits_do_not_depend_on_threads(generator: np.random.Generator) -> None:
    x = [wf.array(generator.normal(size=(2, 300, 32)).astype("f")) for _ in range(3)]
    f = wf.jit(lambda q, k, v: (F(q, k, v), *wf.grad(lambda q, k, v: (F(q, k, v) * v).sum(), argnums=(0, 1, 2))(q, k, v)))
    before, found = wf.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            wf.set_num_threads(threads)
            found.append([a.numpy().copy() for a in f(*x)])
    finally:
        wf.set_num_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
