"""The training loop: it learns, it can be interrupted, it refuses bad data."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import weft as wf
from weft.errors import ShapeError


def _net() -> wf.nn.Sequential:
    wf.random.seed(0)
    return wf.nn.Sequential(wf.nn.Linear(2, 32), wf.nn.Tanh(), wf.nn.Linear(32, 2))


def _rings(n: int = 403):
    r = np.random.default_rng(0)
    x = r.normal(size=(n, 2)).astype("float32")
    return x, ((x**2).sum(1) > 1.2).astype("int32")


def test_learns_and_trains_the_ragged_batch() -> None:
    x, y = _rings()
    net = _net()
    history = wf.train.fit(net, x, y, epochs=40, batch_size=32, optimizer=wf.optim.Adam(lr=0.02), show=False)
    assert history.loss[-1] < 0.15 < history.loss[0]
    assert wf.train.accuracy(net, x, y) > 0.95
    assert not net.training


def test_same_seed_same_bits() -> None:
    x, y = _rings()
    weights = []
    for _ in range(2):
        net = _net()
        wf.train.fit(net, x, y, epochs=2, batch_size=32, show=False)
        weights.append(net[0].weight.numpy().copy())
    assert (weights[0] == weights[1]).all()


def test_validation_and_lines(capsys) -> None:
    x, y = _rings()
    history = wf.train.fit(_net(), x, y, epochs=2, validation=0.25)
    assert history.epochs[0].validation_accuracy is not None
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and lines[0].startswith("epoch 1/2") and "validation" in lines[0]


def test_interrupt_keeps_the_best_weights() -> None:
    x, y = _rings()
    net = _net()
    asked: list[float] = []

    def interrupt() -> None:
        asked.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    wf.train.fit(net, x, y, epochs=1, show=False)
    timer = threading.Timer(0.5, interrupt)
    timer.start()
    history = wf.train.fit(net, x, y, epochs=100_000, show=False)
    assert history.interrupted and history.best > 0
    assert time.perf_counter() - asked[0] < 1.0
    assert np.isfinite(net[0].weight.numpy()).all() and np.abs(net[0].weight.numpy()).max() > 0


@pytest.mark.parametrize("x,y,error,pattern", [
    (np.zeros((0, 2), "float32"), np.zeros(0, "int32"), ShapeError, "empty"),
    (np.ones((4, 2), "float32"), np.zeros(3, "int32"), ShapeError, "4 samples .* has 3"),
    (np.ones((4, 2), "float32"), np.array([0, 1, 2, 0]), ValueError, "label 2 at position 2"),
    (np.ones((4, 3), "float32"), np.zeros(4, "int32"), ShapeError, "in_features = 2"),
])
def test_bad_data(x, y, error, pattern) -> None:
    with pytest.raises(error, match=pattern):
        wf.train.fit(_net(), x, y, epochs=1, show=False)


class _Scale(wf.nn.Module):
    def __init__(self, dtype: str) -> None:
        super().__init__()
        self.factor = wf.zeros((3,), dtype=dtype)

    def forward(self, x: wf.Array) -> wf.Array:
        seen.append(x.dtype.name)
        return x * self.factor


seen: list[str] = []


@pytest.mark.parametrize("data,parameter,want", [
    ("float64", "float32", "float32"), ("float64", "float64", "float64"), ("float32", "float64", "float32"),
    ("uint8", "float32", "uint8"),
])
def test_dtypes_of_data(data: str, parameter: str, want: str) -> None:
    x = np.random.default_rng().integers(1, 9, size=(8, 3)).astype(data)
    model = _Scale(parameter)
    seen.clear()
    wf.train.fit(model, x, x * 2.0, epochs=1, batch_size=4, loss=wf.losses.mse, validation=(x, x * 2.0), show=False)
    assert set(seen) == {want} and model.factor.dtype == parameter and (model.factor.numpy() > 0).all()
