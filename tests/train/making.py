"""Small nets and data that the tests of training share."""

from __future__ import annotations

import numpy as np

import weft as wf


def data(n: int = 100, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    x = r.normal(size=(n, 3)).astype("float32")
    return x, (x[:, 0] + x[:, 1] * x[:, 2] > 0).astype("int32")


def net(seed: int = 0, dropout: float = 0.0) -> wf.nn.Sequential:
    wf.random.seed(seed)
    return wf.nn.Sequential(wf.nn.Linear(3, 8), wf.nn.Tanh(), wf.nn.Dropout(dropout), wf.nn.Linear(8, 2))


def bits(model: wf.nn.Module) -> dict[str, bytes]:
    return {name: a.numpy().tobytes() for name, a in model.arrays().items()}


class Broken(Exception):
    """Raised by a callback to end a run as a crash does."""
