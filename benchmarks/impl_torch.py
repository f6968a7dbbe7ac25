"""PyTorch at its best: channels_last for convolutions, fused Adam, denormals flushed."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import problems
import torch

torch.set_num_threads(int(os.environ["BENCH_THREADS"]))
torch.set_flush_denormal(True)
VERSION = torch.__version__
LAST = torch.channels_last


def gemm(m: int, k: int, n: int) -> tuple[Callable, Callable]:
    a, b = (torch.from_numpy(v) for v in problems.gemm(m, k, n))
    return lambda: a @ b, lambda: (a @ b).numpy()


def conv(name: str, part: str) -> tuple[Callable, Callable]:
    x, w, dy, pad = problems.conv(name)
    tx, tw, tdy = (torch.from_numpy(v).to(memory_format=LAST) for v in (x, w, dy))
    if part == "forward":
        def call():
            return torch.nn.functional.conv2d(tx, tw, padding=pad)
    else:
        mask = [part == "input gradient", part == "weight gradient", False]
        def call():
            return torch.ops.aten.convolution_backward(
                tdy, tx, tw, None, [1, 1], [pad, pad], [1, 1], False, [0, 0], 1, mask
            )[0 if mask[0] else 1]
    def inference():
        with torch.inference_mode():
            return call()
    return inference, lambda: inference().contiguous().numpy()


def cnn(batch: int) -> tuple[Callable, Callable]:
    weights, images, labels = problems.cnn(batch)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 10, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(1960, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10),
    )
    with torch.no_grad():
        for p, value in zip(net.parameters(), weights, strict=True):
            p.copy_(torch.from_numpy(value))
    net = net.to(memory_format=LAST)
    x, y = torch.from_numpy(images).to(memory_format=LAST), torch.from_numpy(labels)
    optimizer = torch.optim.Adam(net.parameters(), 1e-3, fused=True)
    return _stepper(net, optimizer, torch.nn.functional.cross_entropy, x, y, batch)


def mlp(batch: int) -> tuple[Callable, Callable]:
    weights, x, y = problems.mlp(batch)
    net = torch.nn.Sequential(torch.nn.Linear(3, 100), torch.nn.Tanh(), torch.nn.Linear(100, 3))
    with torch.no_grad():
        for p, value in zip(net.parameters(), weights, strict=True):
            p.copy_(torch.from_numpy(value.T if value.ndim == 2 else value))
    optimizer = torch.optim.Adam(net.parameters(), 1e-3, fused=True)
    return _stepper(net, optimizer, torch.nn.functional.mse_loss, torch.from_numpy(x), torch.from_numpy(y), batch)


def _stepper(net, optimizer, loss, x, y, batch) -> tuple[Callable, Callable]:
    position = [0]

    def step():
        i = position[0]
        position[0] = (i + batch) % (len(x) - batch + 1) if len(x) > batch else 0
        optimizer.zero_grad()
        value = loss(net(x[i : i + batch]), y[i : i + batch])
        value.backward()
        optimizer.step()
        return value

    return step, lambda: np.array([step().item() for _ in range(5)])


def softmax() -> tuple[Callable, Callable]:
    x = torch.from_numpy(problems.rows())
    return lambda: torch.softmax(x, 1), lambda: torch.softmax(x, 1).numpy()


def batch_norm() -> tuple[Callable, Callable]:
    x = torch.from_numpy(problems.rows())

    def call():
        return torch.nn.functional.batch_norm(x, None, None, training=True, eps=1e-5)

    return call, lambda: call().numpy()


def call10() -> tuple[Callable, Callable]:
    a, b = torch.arange(10.0), torch.ones(10)

    def call():
        with torch.inference_mode():
            return a + b

    return call, lambda: call().numpy()
