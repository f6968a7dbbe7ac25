"""weft: the programs of ``examples/seeds`` with given weights. A call runs the training step on the next batch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import problems
import training_problems as P

import weft as wf

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "seeds"))
import keras_cnn  # noqa: E402

wf.set_num_threads(int(os.environ["BENCH_THREADS"]))
VERSION = wf.__version__


def _fill(net, weights) -> None:
    for array, value in zip(net.parameters().values(), weights, strict=True):
        array[...] = wf.asarray(np.ascontiguousarray(value))


def _compared(call: Callable[[], object]) -> np.ndarray:
    with wf.flush_denormals():
        return np.array([float(call()) for _ in range(P.COMPARED)])


def learner() -> tuple[Callable, Callable]:
    """A call is LEARNER["steps"] steps over shuffled images, as ``wf.train.fit`` makes them."""
    net = wf.nn.Sequential(
        wf.nn.Conv2d(1, 10, 3, padding=1), wf.nn.ReLU(), wf.nn.MaxPool2d(2), wf.nn.Flatten(),
        wf.nn.Linear(1960, 100), wf.nn.ReLU(), wf.nn.Linear(100, 10),
    )
    _fill(net, problems.cnn(8)[0])
    batch = P.LEARNER["batch"]
    x, y = P.images(batch * P.LEARNER["steps"])
    y, rows = y.astype(np.int32), P.order(len(x)).reshape(-1, batch)
    step = wf.train.training_step(net, wf.losses.cross_entropy, wf.optim.Adam(lr=1e-3).init(net))

    def call():
        with wf.flush_denormals():
            for at in rows:
                value = step(wf.asarray(x[at]), wf.asarray(y[at]), 1e-3)
            return float(value)

    return call, lambda: _compared(_one_by_one(lambda at: step(wf.asarray(x[at]), wf.asarray(y[at]), 1e-3), rows))


def _one_by_one(step: Callable, rows: np.ndarray) -> Callable:
    position = iter(range(len(rows)))
    return lambda: step(rows[next(position)])


def keras(dropout: bool = True) -> tuple[Callable, Callable]:
    """A call is one step at batch 128. The losses compared are those without dropout, whose draws differ."""
    x, y = P.images(P.KERAS["batch"])
    x, y = wf.asarray(x), wf.asarray(y.astype(np.int32))

    def stepper(dropout: bool):
        net = keras_cnn.start(keras_cnn.build(), x[:1]).train()
        _fill(net, P.keras())
        if not dropout:
            for layer in net:
                if isinstance(layer, wf.nn.Dropout):
                    layer.p = 0.0
        optimizer = wf.optim.AdaDelta(P.KERAS["lr"], P.KERAS["rho"], P.KERAS["eps"]).init(net)
        step = wf.train.training_step(net, wf.losses.cross_entropy, optimizer)

        def call():
            with wf.flush_denormals():
                return float(step(x, y, P.KERAS["lr"]))

        return call

    return stepper(True), lambda: _compared(stepper(False))


def lorenz() -> tuple[Callable, Callable]:
    """A call is one step: solve by the classical Runge-Kutta method from each point to the next, gradient, Adam."""
    weights, u0, data = P.lorenz()
    net = wf.nn.Sequential(wf.nn.Linear(3, 100), wf.nn.Tanh(), wf.nn.Linear(100, 3))
    node = wf.nn.NeuralODE(net, wf.ode.RK4(), ts=np.linspace(0, 1, P.LORENZ["steps"] + 1))
    _fill(node, weights)
    lr = P.LORENZ["lr"]
    step = wf.train.training_step(node, lambda found, data: ((found - data) ** 2).sum(), wf.optim.Adam(lr=lr).init(node))
    u0, data = wf.asarray(u0), wf.asarray(data)

    def call():
        return float(step(u0, data, lr))

    return call, lambda: _compared(call)
