"""tf32 and tf32x3 on gpu-sim, which rounds operands as tensor cores do, and in compiled code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.cuda.resources import usage
from weft.devices.cuda import adapter
from weft.devices.cuda.adapter import tf32
from weft.devices.cuda.generate import generate
from weft.devices.cuda.target import GPU
from weft.schedule.build import build
from weft.schedule.program import calls
from weft.transforms.jit import jit

pytest.importorskip("triton")

EPS = 2.0**-24


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    with wf.device("gpu-sim"):
        yield


def reference(x: np.ndarray, y: np.ndarray, precision: str) -> np.ndarray:
    """In float64, of operands as they are multiplied."""
    a, b = (tf32(v).astype(np.float64) if precision == "tf32" else v.astype(np.float64) for v in (x, y))
    return a @ b


@pytest.mark.parametrize("shape", [(48, 70, 33), (130, 16, 64), (17, 200, 16)])
def test_products_are_those_of_rounded_operands(shape: tuple[int, int, int], rng: np.random.Generator) -> None:
    m, k, n = shape
    x, y = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    f = jit(lambda x, y: x @ y)
    size = np.abs(x) @ np.abs(y)
    found = {}
    for precision in ("float32", "tf32", "tf32x3", "tf32"):
        with wf.matmul_precision(precision):
            lazy, jitted = (wf.array(x) @ wf.array(y)).numpy(), f(wf.array(x), wf.array(y)).numpy()
        np.testing.assert_array_equal(lazy, jitted)
        off = np.abs(lazy - reference(x, y, precision)) / size
        assert off.max() < 8 * EPS, precision
        found[precision] = np.abs(lazy - reference(x, y, "float32")) / size
    assert found["tf32"].max() > 16 * EPS  # that it was asked for shows
    assert f.traces == 3


def test_derivatives_are_as_short(rng: np.random.Generator) -> None:
    x, w = rng.standard_normal((2, 16, 6, 6)).astype(np.float32), rng.standard_normal((16, 16, 3, 3)).astype(np.float32)
    g = rng.standard_normal((2, 16, 6, 6)).astype(np.float32)

    def slopes(x: Any, w: Any) -> list[np.ndarray]:
        _, back = wf.vjp(lambda x, w: wf.nn.conv2d(x, w, padding=1), wf.array(x), wf.array(w))
        return [d.numpy() for d in back(wf.array(g))]

    exact = slopes(x, w)
    with wf.matmul_precision("tf32"):
        short = slopes(x, w)
    with wf.matmul_precision("tf32x3"):
        long = slopes(x, w)
    for a, b, c in zip(exact, short, long, strict=True):
        scale = np.abs(a).max()
        assert 1e-5 < np.abs(a - b).max() / scale < 3e-3
        assert np.abs(a - c).max() / scale < 2e-6


def test_rounding() -> None:
    """To ten bits behind the point, halves away from zero; what is short already stays."""
    one = np.float32(1)
    stay = (1, 1 + 2**-10, np.inf, -np.inf, np.nan, 0, -0.0)
    given = np.array([*stay, 1 + 2**-11, 1 + 2**-12, -(1 + 2**-11), 2**-149], np.float32)
    want = np.array([*stay, 1 + 2**-10, 1, -(1 + 2**-10), 0], np.float32)
    np.testing.assert_array_equal(tf32(given), want)
    assert tf32(np.nextafter(one, 0, dtype=np.float32)) == 1 and np.isinf(tf32(np.array(np.finfo(np.float32).max, np.float32)))
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    assert (np.abs(tf32(x) - x) <= 2.0**-11 * np.abs(x)).all() and (tf32(x) != x).mean() > 0.9
    np.testing.assert_array_equal(tf32(tf32(x)), tf32(x))


@pytest.mark.parametrize("precision", ["tf32", "tf32x3"])
def test_infinities(precision: str) -> None:
    x = np.ones((16, 32), np.float32)
    x[3, 5] = np.inf
    with wf.matmul_precision(precision):
        found = (wf.array(x) @ wf.full((32, 16), 0.1)).numpy()
    assert np.isinf(found[3]).all() and np.isfinite(np.delete(found, 3, 0)).all()


@pytest.mark.parametrize("capability", [80, 90, 100])
@pytest.mark.parametrize("precision", ["float32", "tf32", "tf32x3"])
@pytest.mark.parametrize("what", ["product", "convolution"])
def test_code_uses_tensor_cores(
    what: str, precision: str, capability: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    f: Any = (lambda x, y: x @ y) if what == "product" else wf.nn.conv2d
    shapes = ((1024, 1024), (1024, 1024)) if what == "product" else ((8, 32, 16, 16), (64, 32, 3, 3))
    with wf.matmul_precision(precision):
        graph = jit(f).trace(*[wf.zeros(s) for s in shapes]).graph
    launches = [launch for call in calls(build(graph, GPU)) for launch in generate(call.kernel).launches]
    codes = [adapter.compile_launch(launch, capability) for launch in launches]
    used = [usage(code) for code in codes]
    assert all(u.stack == 0 and u.registers <= 255 for u in used)
    words = [line for code in codes for line in code.assembly.splitlines() if "mma" in line and "tf32" in line]
    assert bool(words) == (precision != "float32")
