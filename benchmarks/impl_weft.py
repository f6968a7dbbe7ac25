"""weft: jitted functions of channels-first arrays, as a user writes them; every timed call ends in wf.eval."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import problems

import weft as wf

wf.set_num_threads(int(os.environ["BENCH_THREADS"]))
VERSION = wf.__version__


def _timed(f: Callable, *args) -> tuple[Callable, Callable]:
    g = wf.jit(f)
    return lambda: wf.eval(g(*args)), lambda: g(*args).numpy()


def gemm(m: int, k: int, n: int) -> tuple[Callable, Callable]:
    return _timed(lambda a, b: a @ b, *(wf.asarray(v) for v in problems.gemm(m, k, n)))


def conv(name: str, part: str) -> tuple[Callable, Callable]:
    x, w, dy, pad = problems.conv(name)
    args = [wf.asarray(v) for v in (x, w, dy)]

    def forward(x, w):
        return wf.nn.conv2d(x, w, padding=pad)

    if part == "forward":
        return _timed(forward, *args[:2])
    which = 0 if part == "input gradient" else 1
    return _timed(lambda x, w, dy: wf.vjp(forward, x, w)[1](dy)[which], *args)


def _stepper(net, loss, x, y, batch) -> tuple[Callable, Callable]:
    step = wf.train.training_step(net, loss, wf.optim.Adam(lr=1e-3).init(net))
    batches = [(wf.asarray(x[i : i + batch]), wf.asarray(y[i : i + batch])) for i in range(0, len(x) - batch + 1, batch)]
    position = [0]

    def call():
        i = position[0]
        position[0] = (i + 1) % len(batches)
        value = step(*batches[i], 1e-3)
        wf.eval(value)
        return value

    return call, lambda: np.array([float(call()) for _ in range(5)])


def _fill(net, weights) -> None:
    for array, value in zip(net.parameters().values(), weights, strict=True):
        array[...] = wf.asarray(np.ascontiguousarray(value))


def cnn(batch: int) -> tuple[Callable, Callable]:
    weights, x, y = problems.cnn(batch)
    net = wf.nn.Sequential(
        wf.nn.Conv2d(1, 10, 3, padding=1), wf.nn.ReLU(), wf.nn.MaxPool2d(2), wf.nn.Flatten(),
        wf.nn.Linear(1960, 100), wf.nn.ReLU(), wf.nn.Linear(100, 10),
    )
    _fill(net, weights)
    return _stepper(net, wf.losses.cross_entropy, x, y.astype(np.int32), batch)


def mlp(batch: int) -> tuple[Callable, Callable]:
    weights, x, y = problems.mlp(batch)
    net = wf.nn.Sequential(wf.nn.Linear(3, 100), wf.nn.Tanh(), wf.nn.Linear(100, 3))
    _fill(net, [w.T if w.ndim == 2 else w for w in weights])
    return _stepper(net, wf.losses.mse, x, y, batch)


def softmax() -> tuple[Callable, Callable]:
    def f(x):
        e = wf.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return _timed(f, wf.asarray(problems.rows()))


def batch_norm() -> tuple[Callable, Callable]:
    return _timed(lambda x: (x - x.mean(axis=0)) / wf.sqrt(x.var(axis=0) + 1e-5), wf.asarray(problems.rows()))


def call10() -> tuple[Callable, Callable]:
    f = wf.jit(lambda a, b: a + b)
    a, b = wf.arange(10.0), wf.ones(10)
    return lambda: f(a, b), lambda: f(a, b).numpy()
