"""A neural ordinary differential equation learns the Lorenz system: the small net that a GPU made slower.

    python examples/seeds/lorenz_node.py                  # 1,000 steps of Adam

Data and model are both solved by classical Runge-Kutta with a fixed step; each solve is one native loop, and the whole
training step (solve, gradient through the solve, Adam) is one native call.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import weft as wf

U0 = [1.0, 0.0, 0.0]
STEPS = 100  # saved points on (0, 1]


def rk4(f: Callable[[wf.Array], wf.Array], u: wf.Array, h: float) -> wf.Array:
    """One classical Runge-Kutta step of du/dt = f(u)."""
    k1 = f(u)
    k2 = f(u + h / 2 * k1)
    k3 = f(u + h / 2 * k2)
    k4 = f(u + h * k3)
    return u + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def solve(f: Callable[[wf.Array], wf.Array], u0: wf.Array, steps: int = STEPS, finer: int = 1) -> wf.Array:
    """u at 0, 1/steps, ..., 1: (steps + 1, 3). ``finer`` Runge-Kutta steps lie between two of them."""

    def step(u, _):
        for _ in range(finer):
            u = rk4(f, u, 1.0 / (steps * finer))
        return u, u

    return wf.concat([u0[None], wf.scan(step, u0, length=steps)[1]])


def lorenz(u: wf.Array, sigma: float = 10.0, rho: float = 28.0, beta: float = 8.0 / 3.0) -> wf.Array:
    x, y, z = u
    return wf.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


class NeuralODE(wf.nn.Module):
    """Solves du/dt = net(u) from ``u0``."""

    def __init__(self, net: wf.nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, u0: wf.Array) -> wf.Array:
        return solve(self.net, u0)


def build(seed: int = 0) -> NeuralODE:
    """3-100-3 with tanh: 703 parameters, Glorot's uniform numbers and zero biases."""
    wf.random.seed(seed)
    net = wf.nn.Sequential(wf.nn.Linear(3, 100), wf.nn.Tanh(), wf.nn.Linear(100, 3))
    for name, p in net.parameters().items():
        p[...] = wf.nn.init.zeros(p) if name.endswith("bias") else wf.nn.init.glorot_uniform(p)
    return NeuralODE(net)


def loss(solution: wf.Array, data: wf.Array) -> wf.Array:
    return ((solution - data) ** 2).sum()


def train(
    node: NeuralODE, u0: wf.Array, data: wf.Array, maxiters: int, lr: float, cb: Callable[[NeuralODE, float], bool],
) -> list[float]:
    """Adam; ``cb(node, loss)`` after each step ends the training when it returns True. Returns the losses."""
    step = wf.train.training_step(node, loss, wf.optim.Adam(lr=lr).init(node))
    losses = []
    for _ in range(maxiters):
        losses.append(float(step(u0, data, lr)))
        if cb(node, losses[-1]):
            break
    return losses


def main(argv: list[str] | None = None) -> list[float]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)

    u0 = wf.array(U0)
    data = solve(lorenz, u0, finer=10)
    print(f"Lorenz at t = 1: {np.round(data[-1].numpy(), 3)}")

    node = build(arguments.seed)
    seen = []

    def cb(node: NeuralODE, value: float) -> bool:
        seen.append(time.perf_counter())
        if len(seen) in (1, arguments.iterations) or len(seen) % 100 == 0:
            print(f"step {len(seen):5d}  loss {value:.4f}")
        return False

    losses = train(node, u0, data, arguments.iterations, 0.01, cb)
    if len(seen) > 1:
        print(f"{(seen[-1] - seen[0]) / (len(seen) - 1) * 1e3:.3f} ms a step")
    return losses


if __name__ == "__main__":
    main()
