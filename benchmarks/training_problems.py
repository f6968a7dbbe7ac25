"""The seeds' training programs as problems: data, starting weights and settings that every library is given."""

from __future__ import annotations

import numpy as np

LEARNER = {"batch": 8, "steps": 100}  # conv 10 3x3, pool 2, dense 100, dense 10; Adam
KERAS = {"batch": 128, "classes": 10, "lr": 1.0, "rho": 0.95, "eps": 1e-6}
LORENZ = {"lr": 0.01, "steps": 100}
COMPARED = 5  # steps whose losses are compared


def images(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 1, 28, 28) and labels, as MNIST's in shape."""
    r = np.random.default_rng(5)
    return r.random((count, 1, 28, 28), np.float32), r.integers(0, 10, count).astype(np.int64)


def order(count: int) -> np.ndarray:
    """The order in which an epoch goes through the images."""
    return np.random.default_rng(6).permutation(count)


def keras() -> list[np.ndarray]:
    """Weights of the Keras net as PyTorch lays them out: (O, I, kh, kw) and (out, in), each with its bias."""
    r = np.random.default_rng(7)
    out = []
    for shape in ((32, 1, 3, 3), (64, 32, 3, 3), (128, 9216), (10, 128)):
        field = int(np.prod(shape[2:]))
        limit = np.sqrt(6 / ((shape[0] + shape[1]) * field))
        out += [r.uniform(-limit, limit, shape).astype(np.float32), np.zeros(shape[0], np.float32)]
    return out


def lorenz() -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Weights of the 3-100-3 net ((out, in) and bias), the start (3,), and 101 points of the Lorenz system on [0, 1]."""
    r = np.random.default_rng(8)
    weights = []
    for out, inside in ((100, 3), (3, 100)):
        limit = np.sqrt(6 / (out + inside))
        weights += [r.uniform(-limit, limit, (out, inside)).astype(np.float32), np.zeros(out, np.float32)]

    def f(u: np.ndarray) -> np.ndarray:
        x, y, z = u
        return np.array([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    u = np.array([1.0, 0.0, 0.0])
    points, h = [u], 1e-3
    for k in range(1000):
        k1 = f(u)
        k2 = f(u + h / 2 * k1)
        k3 = f(u + h / 2 * k2)
        k4 = f(u + h * k3)
        u = u + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        if k % 10 == 9:
            points.append(u)
    return weights, points[0].astype(np.float32), np.array(points, np.float32)
