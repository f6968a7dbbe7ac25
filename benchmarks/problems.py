"""The problems every library is given: same arrays, same starting weights, and a float64 answer to compare with."""

from __future__ import annotations

import numpy as np

GEMM = [(n, n, n) for n in (64, 128, 256, 512, 1024, 2048)] + [(128, 4096, 4096)]
# images, in channels, out channels, kernel, padding, side
CONV = {"alexnet conv2": (16, 64, 192, 5, 2, 27), "vgg 64->128": (4, 64, 128, 3, 1, 112)}
CNN = (8, 128)
MLP = (1, 101)
ROWS = (4096, 1024)


def gemm(m: int, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(m + n)
    return r.standard_normal((m, k), np.float32), r.standard_normal((k, n), np.float32)


def conv(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    images, inside, outside, kernel, pad, side = CONV[name]
    r = np.random.default_rng(7)
    x = r.standard_normal((images, inside, side, side), np.float32)
    w = r.standard_normal((outside, inside, kernel, kernel), np.float32) * np.float32(0.05)
    dy = r.standard_normal((images, outside, side, side), np.float32)
    return x, w, dy, pad


def rows() -> np.ndarray:
    return np.random.default_rng(3).standard_normal(ROWS, np.float32)


def cnn(batch: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Weights as PyTorch lays them out (O, I, kh, kw), (out, in); images (N, 1, 28, 28); labels."""
    r = np.random.default_rng(1)

    def glorot(shape: tuple[int, ...], fan_in: int, fan_out: int) -> np.ndarray:
        limit = np.sqrt(6 / (fan_in + fan_out))
        return r.uniform(-limit, limit, shape).astype(np.float32)

    weights = [
        glorot((10, 1, 3, 3), 9, 90), np.zeros(10, np.float32),
        glorot((100, 1960), 1960, 100), np.zeros(100, np.float32),
        glorot((10, 100), 100, 10), np.zeros(10, np.float32),
    ]
    return weights, r.random((2048, 1, 28, 28), np.float32), r.integers(0, 10, 2048).astype(np.int64)


def mlp(batch: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """3-100-3 tanh net: weights (in, out); inputs and targets (batch, 3)."""
    r = np.random.default_rng(2)
    weights = [
        r.standard_normal((3, 100), np.float32) * np.float32(0.3), np.zeros(100, np.float32),
        r.standard_normal((100, 3), np.float32) * np.float32(0.1), np.zeros(3, np.float32),
    ]
    return weights, r.standard_normal((batch, 3), np.float32), r.standard_normal((batch, 3), np.float32)
