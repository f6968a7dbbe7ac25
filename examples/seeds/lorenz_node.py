"""A neural ordinary differential equation learns the Lorenz system: the small net that a GPU made slower.

    python examples/seeds/lorenz_node.py                    # 1,000 steps of Adam, then BFGS
    python examples/seeds/lorenz_node.py --plot lorenz.png  # needs matplotlib

Each solve, with its gradient and the update of the optimizer, is native code. `weft train lorenz` is this program as a command.
"""

from __future__ import annotations

import argparse

import numpy as np

import weft as wf

TS = np.linspace(0.0, 1.0, 101)
U0 = wf.array([1.0, 0.0, 0.0], dtype="float64")


def lorenz(t: wf.Array, u: wf.Array, p: list[float]) -> wf.Array:
    x, y, z = u
    sigma, rho, beta = p
    return wf.stack([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])


def build() -> wf.nn.NeuralODE:
    """3-100-3 with tanh: 703 parameters, Glorot's uniform numbers and zero biases."""
    dudt = wf.nn.Sequential(wf.nn.Linear(3, 100), wf.nn.Tanh(), wf.nn.Linear(100, 3)).astype("float64")
    for name, p in dudt.parameters().items():
        p[...] = wf.nn.init.zeros(p) if name.endswith("bias") else wf.nn.init.glorot_uniform(p)
    return wf.nn.NeuralODE(dudt, wf.ode.Tsit5(), ts=TS, rtol=1e-8, atol=1e-8)


def main(argv: list[str] | None = None) -> wf.optim.MinimizeResult:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=1000, help="steps of Adam, and at most so many of BFGS")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", metavar="FILE")
    arguments = parser.parse_args(argv)

    data = wf.ode.solve(lorenz, U0, TS, args=[10.0, 28.0, 8 / 3], rtol=1e-8, atol=1e-8).ys
    wf.random.seed(arguments.seed)
    node = build()

    def loss(node: wf.nn.NeuralODE) -> wf.Array:
        return ((node(U0) - data) ** 2).sum()

    def callback(step: int, node: wf.nn.NeuralODE, value: float) -> bool:
        print(f"step {step:5d}  loss {value:.4f}")
        return False  # True would end the run

    rough = wf.optim.minimize(loss, node, wf.optim.Adam(0.01), steps=arguments.iterations, callback=callback, every=100)
    fine = wf.optim.minimize(loss, rough.best_params, "BFGS", steps=arguments.iterations, callback=callback, every=100)
    print(fine.message)

    fitted = fine.params(U0)
    print(f"largest error {float(abs(fitted - data).max()):.4f}, largest value {float(abs(data).max()):.1f}")
    if arguments.plot:
        import matplotlib.pyplot as plt

        plt.figure(figsize=(6, 3.6), layout="constrained")
        plt.plot(TS, data, "o", markersize=3, label=[f"${name}$" for name in "xyz"])
        plt.gca().set_prop_cycle(None)
        plt.plot(TS, fitted)
        plt.xlabel("time")
        plt.legend()
        plt.savefig(arguments.plot, dpi=100)
    return fine


if __name__ == "__main__":
    main()
