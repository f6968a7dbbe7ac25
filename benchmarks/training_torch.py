"""PyTorch: the same programs. Of the memory formats the faster one is taken, after a few steps of each."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np
import problems
import torch
import training_problems as P
from torch import nn

torch.set_num_threads(int(os.environ["BENCH_THREADS"]))
torch.set_flush_denormal(True)
VERSION = torch.__version__


def _fill(net, weights) -> None:
    with torch.no_grad():
        for p, value in zip(net.parameters(), weights, strict=True):
            p.copy_(torch.from_numpy(np.ascontiguousarray(value)))


def _faster(variants: list[Callable], calls: int = 4) -> Callable:
    def seconds(call: Callable) -> float:
        call()
        found = []
        for _ in range(calls):
            start = time.perf_counter()
            call()
            found.append(time.perf_counter() - start)
        return min(found)

    return min(variants, key=seconds)


def _stepper(net, optimizer, x, y, loss=nn.functional.cross_entropy) -> Callable:
    def step(x=x, y=y):
        optimizer.zero_grad()
        value = loss(net(x), y)
        value.backward()
        optimizer.step()
        return value

    return step


def learner() -> tuple[Callable, Callable]:
    batch = P.LEARNER["batch"]
    images, labels = P.images(batch * P.LEARNER["steps"])
    rows = torch.from_numpy(P.order(len(images)).reshape(-1, batch))

    def made(layout):
        net = nn.Sequential(
            nn.Conv2d(1, 10, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(1960, 100), nn.ReLU(), nn.Linear(100, 10),
        )
        _fill(net, problems.cnn(8)[0])
        net = net.to(memory_format=layout)
        x, y = torch.from_numpy(images).to(memory_format=layout), torch.from_numpy(labels)
        step = _stepper(net, torch.optim.Adam(net.parameters(), 1e-3, fused=True), None, None)
        return lambda at: step(x[at], y[at])

    def epoch(layout):
        step = made(layout)

        def call():
            for at in rows:
                value = step(at)
            return value.item()

        return call

    def show():
        step = made(torch.contiguous_format)
        return np.array([step(at).item() for at in rows[: P.COMPARED]])

    return _faster([epoch(torch.contiguous_format), epoch(torch.channels_last)]), show


def keras() -> tuple[Callable, Callable]:
    images, labels = P.images(P.KERAS["batch"])

    def made(layout, dropout=True):
        net = nn.Sequential(
            nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25 * dropout),
            nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5 * dropout), nn.Linear(128, 10),
        )
        _fill(net, P.keras())
        net = net.to(memory_format=layout)
        x, y = torch.from_numpy(images).to(memory_format=layout), torch.from_numpy(labels)
        optimizer = torch.optim.Adadelta(net.parameters(), P.KERAS["lr"], rho=P.KERAS["rho"], eps=P.KERAS["eps"])
        step = _stepper(net, optimizer, x, y)
        return lambda: step().item()

    def show():
        call = made(torch.contiguous_format, dropout=False)
        return np.array([call() for _ in range(P.COMPARED)])

    return _faster([made(torch.contiguous_format), made(torch.channels_last)]), show


def lorenz() -> tuple[Callable, Callable]:
    """Eager: a loop over the steps of the solver in Python."""
    weights, u0, data = P.lorenz()
    net = nn.Sequential(nn.Linear(3, 100), nn.Tanh(), nn.Linear(100, 3))
    _fill(net, weights)
    optimizer = torch.optim.Adam(net.parameters(), P.LORENZ["lr"], fused=True)
    u0, data, h = torch.from_numpy(u0), torch.from_numpy(data), 1.0 / P.LORENZ["steps"]

    def solve(u):
        points = [u]
        for _ in range(P.LORENZ["steps"]):
            k1 = net(u)
            k2 = net(u + h / 2 * k1)
            k3 = net(u + h / 2 * k2)
            k4 = net(u + h * k3)
            u = u + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            points.append(u)
        return torch.stack(points)

    def call():
        optimizer.zero_grad()
        value = ((solve(u0) - data) ** 2).sum()
        value.backward()
        optimizer.step()
        return value.item()

    return call, lambda: np.array([call() for _ in range(P.COMPARED)])
