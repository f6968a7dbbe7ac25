"""A pendulum with friction: noisy angles give the friction, the length and the first state, each with its standard error.

    python examples/ode/pendulum.py --plot pendulum.png  # the picture needs matplotlib

The residuals of 201 angles are minimised by Levenberg-Marquardt through the solver.
"""

from __future__ import annotations

import argparse

import numpy as np

import weft as wf

TS = np.linspace(0.0, 20.0, 201)
NOISE = 0.1  # standard deviation of the angles, in radians
NAMES = ("friction (1/s)", "length (m)", "first angle", "first speed (1/s)")
TRUE = wf.array([0.15, 1.2, 2.0, 0.0], dtype="float64")
GUESS = wf.array([0.0, 1.0, 1.5, 0.0], dtype="float64")


def angles(p: wf.Array, ts: np.ndarray = TS) -> wf.Array:
    """Return the angles at ``ts`` of the pendulum with these four parameters."""

    def f(t: wf.Array, y: wf.Array, p: wf.Array) -> wf.Array:
        friction, length = p[:2]
        return wf.stack([y[1], -9.81 / length * wf.sin(y[0]) - friction * y[1]])

    return wf.ode.solve(f, p[2:], ts, args=p, rtol=1e-7, atol=1e-7).ys[:, 0]


def main(argv: list[str] | None = None) -> tuple[np.ndarray, np.ndarray]:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--plot", metavar="FILE")
    arguments = parser.parse_args(argv)

    data = angles(TRUE) + NOISE * wf.asarray(np.random.default_rng(arguments.seed).normal(size=TS.size))

    def callback(step: int, p: wf.Array, value: float) -> None:
        print(f"step {step:3d}  half the sum of squares {value:.4f}")

    fit = wf.optim.minimize(
        lambda p: angles(p) - data, GUESS, "Levenberg-Marquardt", steps=arguments.iterations, callback=callback,
    )
    print(fit.message)
    slopes = wf.jacfwd(angles)(fit.params).numpy()
    variance = 2 * fit.loss / (TS.size - len(NAMES))
    errors = np.sqrt(np.diag(variance * np.linalg.inv(slopes.T @ slopes)))
    for name, found, error, true in zip(NAMES, fit.params.tolist(), errors, TRUE.tolist(), strict=True):
        print(f"{name:18s} {found:7.4f} +- {error:.4f}  true {true:.4f}")

    if arguments.plot:
        import matplotlib.pyplot as plt

        fine = np.linspace(TS[0], TS[-1], 1001)
        plt.figure(figsize=(6, 2.7), layout="constrained")
        plt.plot(TS, data, ".", label="data")
        plt.plot(fine, angles(GUESS, fine), ":", linewidth=1, label="guess")
        plt.plot(fine, angles(fit.params, fine), label="fitted")
        plt.xlabel("time (s)")
        plt.ylabel("angle")
        plt.legend(ncols=3)
        plt.savefig(arguments.plot, dpi=100)
    return fit.params.numpy(), errors


if __name__ == "__main__":
    main()
