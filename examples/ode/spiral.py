"""A net of 2-50-2 learns the spiral du/dt = A u^3 from 30 points of one trajectory.

    python examples/ode/spiral.py --plot spiral.png  # the picture needs matplotlib

This is the first example of every library for neural differential equations: Chen et al., Neural ordinary differential
equations, 2018; Rackauckas et al., DiffEqFlux, 2019.
"""

from __future__ import annotations

import argparse

import numpy as np

import weft as wf

TS = np.linspace(0.0, 1.5, 30)
U0 = wf.array([2.0, 0.0])
A = wf.array([[-0.1, 2.0], [-2.0, -0.1]])


def main(argv: list[str] | None = None) -> wf.optim.MinimizeResult:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=300, help="steps of Adam, and at most so many of L-BFGS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", metavar="FILE")
    arguments = parser.parse_args(argv)

    data = wf.ode.solve(lambda t, u, p: A @ u**3, U0, TS, rtol=1e-6).ys
    wf.random.seed(arguments.seed)
    net = wf.nn.Sequential(lambda u: u**3, wf.nn.Linear(2, 50), wf.nn.Tanh(), wf.nn.Linear(50, 2))
    node = wf.nn.NeuralODE(net, ts=TS, rtol=1e-5)

    def loss(node: wf.nn.NeuralODE) -> wf.Array:
        return ((node(U0) - data) ** 2).mean()

    def callback(step: int, node: wf.nn.NeuralODE, value: float) -> None:
        print(f"step {step:4d}  loss {value:.2e}")

    rough = wf.optim.minimize(loss, node, wf.optim.Adam(0.05), steps=arguments.iterations, callback=callback, every=100)
    fine = wf.optim.minimize(loss, rough.best_params, "L-BFGS", steps=arguments.iterations, callback=callback, every=100)
    print(f"{fine.message}: largest error {float(abs(fine.params(U0) - data).max()):.4f}")

    if arguments.plot:
        import matplotlib.pyplot as plt

        dense = np.linspace(TS[0], TS[-1], 201)
        plt.figure(figsize=(4, 3.6), layout="constrained")
        plt.plot(*data.T, "o", markersize=4, label="data")
        for label, model in (("before", node), ("fitted", fine.params)):
            plt.plot(*wf.nn.NeuralODE(model.net, ts=dense, rtol=1e-5)(U0).T, label=label)
        plt.legend()
        plt.savefig(arguments.plot, dpi=100)
    return fine


if __name__ == "__main__":
    main()
