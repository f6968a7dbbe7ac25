"""Robertson's reaction: three rate constants that differ by nine orders of magnitude, found from noisy concentrations.

    python examples/ode/robertson.py --plot robertson.png  # the picture needs matplotlib

    A -> B (0.04),  B + B -> B + C (3e7),  B + C -> A + C (1e4)

The equations are stiff: an implicit solver takes some hundred steps from 1e-5 to 1e5 seconds, and Levenberg-Marquardt
differentiates through them. The problem is that of H. H. Robertson, The solution of a set of reaction rate equations, 1966.
"""

from __future__ import annotations

import argparse

import numpy as np

import weft as wf

TS = np.concatenate([[0.0], np.logspace(-5, 5, 60)])
NOISE = 0.01  # relative
TRUE = wf.log(wf.array([0.04, 3e7, 1e4], dtype="float64"))
GUESS = wf.log(wf.array([0.1, 1e7, 1e5], dtype="float64"))


def concentrations(logs: wf.Array, ts: np.ndarray = TS) -> wf.Array:
    """Return A, B, C at ``ts`` for the logarithms of the three rate constants."""

    def f(t: wf.Array, y: wf.Array, rates: wf.Array) -> wf.Array:
        a, b, c = y
        slow, fast, back = rates
        return wf.stack([back * b * c - slow * a, slow * a - back * b * c - fast * b * b, fast * b * b])

    start = wf.array([1.0, 0.0, 0.0], dtype="float64")
    return wf.ode.solve(f, start, ts, args=wf.exp(logs), solver=wf.ode.Kvaerno5(), rtol=1e-6, atol=1e-10).ys


def main(argv: list[str] | None = None) -> np.ndarray:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", metavar="FILE")
    arguments = parser.parse_args(argv)

    r = np.random.default_rng(arguments.seed)
    data = concentrations(TRUE)[1:]
    data = data * wf.asarray(1 + NOISE * r.normal(size=data.shape))
    scale = data.max(axis=0)  # B is a part in 30,000

    def callback(step: int, logs: wf.Array, value: float) -> None:
        print(f"step {step:3d}  half the sum of squares {value:.5f}  rates", *(f"{k:.4g}" for k in wf.exp(logs).tolist()))

    fit = wf.optim.minimize(
        lambda logs: (concentrations(logs)[1:] - data) / scale, GUESS, "Levenberg-Marquardt", steps=arguments.iterations,
        callback=callback,
    )
    print(fit.message)
    for found, true in zip(wf.exp(fit.params).tolist(), wf.exp(TRUE).tolist(), strict=True):
        print(f"found {found:.4g}  true {true:.4g}")

    if arguments.plot:
        import matplotlib.pyplot as plt

        fine = np.concatenate([[0.0], np.logspace(-5, 5, 400)])
        plt.figure(figsize=(6, 2.7), layout="constrained")
        for k, (name, factor) in enumerate({"A": 1, "B": 1e4, "C": 1}.items()):
            label = name if factor == 1 else f"{name} x {factor:g}"
            plt.semilogx(TS[1:], factor * data[:, k], "o", color=f"C{k}", markersize=3, label=label)
            plt.semilogx(fine[1:], factor * concentrations(fit.params, fine)[1:, k], color=f"C{k}")
            plt.semilogx(fine[1:], factor * concentrations(GUESS, fine)[1:, k], ":", color=f"C{k}", linewidth=1)
        plt.xlabel("time (s)")
        plt.legend()
        plt.savefig(arguments.plot, dpi=100)
    return np.exp(fit.params.numpy())


if __name__ == "__main__":
    main()
