"""Predator and prey: the equations are known but for three rates and the law by which one eats the other, which a net learns.

    python examples/ode/predator_prey.py --plot predator_prey.png  # the picture needs matplotlib

Rates and net are fitted together to 61 noisy states; then the model predicts three times as far. The problem is that of
Rackauckas et al., Universal differential equations for scientific machine learning, 2020, with the linear rates unknown too.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import weft as wf

TS = np.linspace(0.0, 6.0, 61)
U0 = wf.array([0.44249296, 4.6280594], dtype="float64")
TRUE = {"birth": 1.3, "death": 1.8, "gain": 0.8 / 0.9}  # and the prey eaten is 0.9 x y


def rates_of_change(u: wf.Array, p: dict[str, Any], eaten: wf.Array) -> wf.Array:
    x, y = u
    return wf.stack([p["birth"] * x - eaten, p["gain"] * eaten - p["death"] * y])


def true(t: wf.Array, u: wf.Array, p: dict[str, Any]) -> wf.Array:
    return rates_of_change(u, p, 0.9 * u[0] * u[1])


def model(t: wf.Array, u: wf.Array, p: dict[str, Any]) -> wf.Array:
    return rates_of_change(u, p, u[0] * u[1] * p["net"](u)[0])  # nothing is eaten without prey or predators


def solve(f: Any, p: dict[str, Any], ts: np.ndarray = TS) -> wf.Array:
    return wf.ode.solve(f, U0, ts, args=p, rtol=1e-6, atol=1e-6).ys


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=300, help="steps of Adam, and at most so many of BFGS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", metavar="FILE")
    arguments = parser.parse_args(argv)

    wf.random.seed(arguments.seed)
    data = solve(true, TRUE)
    data = data * (1 + 0.005 * wf.random.normal(size=data.shape))
    net = wf.nn.Sequential(
        wf.nn.Linear(2, 10), wf.nn.Tanh(), wf.nn.Linear(10, 10), wf.nn.Tanh(), wf.nn.Linear(10, 1), wf.nn.Softplus(),
    )
    start = {name: wf.array(1.0, dtype="float64") for name in TRUE} | {"net": net.astype("float64")}

    def loss(p: dict[str, Any]) -> wf.Array:
        return ((solve(model, p) - data) ** 2).mean()

    def callback(step: int, p: dict[str, Any], value: float) -> None:
        print(f"step {step:4d}  loss {value:.2e}")

    rough = wf.optim.minimize(loss, start, wf.optim.Adam(0.02), steps=arguments.iterations, callback=callback, every=100)
    fine = wf.optim.minimize(loss, rough.best_params, "BFGS", steps=arguments.iterations, callback=callback, every=100)
    print(fine.message)
    p = fine.params
    for name, value in TRUE.items():
        print(f"{name:5s}  found {float(p[name]):.3f}  true {value:.3f}")
    law = wf.vmap(p["net"])(data)[:, 0]
    print(f"eaten / (x y)  found {float(law.min()):.3f} to {float(law.max()):.3f}  true 0.9")

    if arguments.plot:
        import matplotlib.pyplot as plt

        far = np.linspace(0.0, 18.0, 361)
        plt.figure(figsize=(6, 2.7), layout="constrained")
        plt.plot(TS, data, "o", markersize=3)
        plt.gca().set_prop_cycle(None)
        plt.plot(far, solve(model, p, far), label=["prey", "predators"])
        plt.plot(far, solve(true, TRUE, far), "k:", linewidth=1, label=["truth", None])
        plt.axvline(TS[-1], color="#888", linewidth=0.8)
        plt.xlabel("time")
        plt.legend(fontsize=8, loc="upper left")
        plt.savefig(arguments.plot, dpi=100)
    return p


if __name__ == "__main__":
    main()
