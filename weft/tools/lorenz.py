"""The program of ``weft train lorenz``: a neural differential equation learns the Lorenz system."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import weft as wf
from weft.process.figures import make_figure

TS = np.linspace(0.0, 1.0, 101)
TOLERANCE = 1e-8  # line searches need a loss whose noise, which is that of the step sizes, is small
EVERY = 10  # steps between two points of the loss curve


def train_lorenz(arguments: argparse.Namespace) -> int:
    """Fit the net by Adam and then BFGS, write the weights and the picture, and return the exit status."""
    u0 = wf.array([1.0, 0.0, 0.0], dtype="float64")
    data = wf.ode.solve(_lorenz, u0, TS, rtol=TOLERANCE, atol=TOLERANCE).ys
    wf.random.seed(arguments.seed)
    net = wf.nn.Sequential(wf.nn.Linear(3, 100), wf.nn.Tanh(), wf.nn.Linear(100, 3)).astype("float64")
    for name, p in net.parameters().items():
        p[...] = wf.nn.init.zeros(p) if name.endswith("bias") else wf.nn.init.glorot_uniform(p)
    node: Any = wf.nn.NeuralODE(net, ts=TS, rtol=TOLERANCE, atol=TOLERANCE)
    curves: dict[str, tuple[list[int], list[float]]] = {}
    done, interrupted = 0, False
    for name, method, steps in (
        ("Adam", wf.optim.Adam(arguments.lr), arguments.steps), ("BFGS", wf.optim.BFGS(), arguments.bfgs_steps),
    ):
        if not steps or interrupted:
            continue
        print(f"{name}: {steps} steps", flush=True)
        numbers, losses = curves[name] = [], []

        def record(step: int, params: Any, loss: float) -> None:
            numbers.append(done + step)  # noqa: B023  called before the loop goes on
            losses.append(loss)  # noqa: B023

        result = wf.optim.minimize(
            lambda node: ((node(u0) - data) ** 2).sum(), node, method, steps=steps, callback=record, every=EVERY, progress=True,
        )
        print(f"loss {result.best_loss:.4g}: {result.message}", flush=True)
        node, done, interrupted = result.best_params, done + result.steps, result.interrupted
    fitted = node(u0)
    if arguments.save:
        wf.io.save(arguments.save, node.net)
        print(f"weights: {arguments.save}")
    if arguments.plot:
        _draw(arguments.plot, data, fitted, curves)
        print(f"fitted trajectory: {arguments.plot}")
    print(f"largest error: {float(abs(fitted - data).max()):.3g} (values up to {float(abs(data).max()):.1f})")
    return 130 if interrupted else 0


def _lorenz(t: Any, u: Any, args: Any) -> Any:
    x, y, z = u
    return wf.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])


def _draw(path: str, data: Any, fitted: Any, curves: dict[str, tuple[list[int], list[float]]]) -> None:
    figure = make_figure((9, 3.6), "the picture")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    for k, name in enumerate("xyz"):
        left.plot(TS, data[:, k], "o", color=f"C{k}", markersize=3, label=f"{name}(t)")
        left.plot(TS, fitted[:, k], color=f"C{k}")
    left.set_title("data (points) and fitted trajectory (lines)", fontsize=10)
    left.set_xlabel("t")
    left.legend()
    for name, (numbers, losses) in curves.items():
        right.plot(numbers, losses, label=name)
    right.set_yscale("log")
    right.set_xlabel("step")
    right.set_ylabel("loss")
    right.legend()
    figure.savefig(path, dpi=100)
