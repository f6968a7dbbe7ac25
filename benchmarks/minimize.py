"""BFGS and L-BFGS on a small net: ``wf.optim.minimize``, and SciPy with the gradient of weft and with one written in NumPy.

    python benchmarks/minimize.py [--rows 256] [--hidden 8] [--steps 200] [--repeats 5]

All runs have the same data, start, number of steps and float64. The first run includes tracing and compiling; the table has the
median of the others. Losses differ a little, since the line searches differ. Set OPENBLAS_NUM_THREADS=1 if other programs use the
cores: SciPy's BLAS otherwise waits for its threads.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize

import weft as wf

INPUTS = 3


def problem(rows: int, hidden: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Return inputs, targets and first parameters of a net with one hidden layer."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, INPUTS))
    start = {
        "a": rng.standard_normal((INPUTS, hidden)) / INPUTS**0.5, "b": 0.1 * rng.standard_normal(hidden),
        "c": rng.standard_normal(hidden) / hidden**0.5, "d": np.zeros(()),
    }
    return x, np.sin(x).sum(axis=1), start


def of_weft(x: np.ndarray, y: np.ndarray) -> Callable[[Any], Any]:
    """Return the loss in weft."""
    inputs, goal = wf.array(x), wf.array(y)
    return lambda p: ((wf.tanh(inputs @ p["a"] + p["b"]) @ p["c"] + p["d"] - goal) ** 2).mean()


def with_weft_gradient(loss: Callable[[Any], Any], unravel: Callable[[Any], Any]) -> Callable[[np.ndarray], Any]:
    """Return (loss, gradient) of a vector, for SciPy."""
    both = wf.jit(wf.value_and_grad(lambda v: loss(unravel(v))))

    def function(v: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = both(wf.array(v))
        return float(value), slope.numpy()

    return function


def with_numpy_gradient(x: np.ndarray, y: np.ndarray, hidden: int) -> Callable[[np.ndarray], Any]:
    """Return (loss, gradient) of a vector, by hand in NumPy, for SciPy."""
    cuts = np.cumsum([INPUTS * hidden, hidden, hidden])

    def function(v: np.ndarray) -> tuple[float, np.ndarray]:
        a, b, c, d = np.split(v, cuts)
        h = np.tanh(x @ a.reshape(INPUTS, hidden) + b)
        r = h @ c + d - y
        outer = 2 / len(y) * r
        inner = (outer[:, None] * c) * (1 - h * h)
        return (r * r).mean(), np.concatenate([(x.T @ inner).ravel(), inner.sum(0), h.T @ outer, [outer.sum()]])

    return function


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rows", 256), ("hidden", 8), ("steps", 200), ("repeats", 5)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    x, y, start = problem(options.rows, options.hidden)
    loss = of_weft(x, y)
    vector, unravel = wf.tree.ravel(start)
    first = vector.numpy()
    sources = {"weft": with_weft_gradient(loss, unravel), "NumPy": with_numpy_gradient(x, y, options.hidden)}
    (one, slope), (other, same) = [f(first) for f in sources.values()]
    np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_allclose(slope, same, rtol=1e-9, atol=1e-12)

    def by_scipy(method: str, source: str) -> tuple[float, int, int]:
        got = scipy.optimize.minimize(
            sources[source], first, jac=True, method=method, tol=0, options={"maxiter": options.steps, "maxfun": 10**6}
            if method != "BFGS" else {"maxiter": options.steps, "gtol": 0},
        )
        return float(got.fun), got.nit, got.nfev

    def by_weft(method: str) -> tuple[float, int, int]:
        got = wf.optim.minimize(loss, start, method, steps=options.steps, tol=0)
        return got.loss, got.steps, got.evaluations

    print(f"{first.size} parameters, {options.rows} rows, {options.steps} steps")
    print(f"{'method':8} {'run by':22} {'first, ms':>10} {'later, ms':>10} {'us/evaluation':>14}  steps  evals       loss")
    for method, theirs in (("BFGS", "BFGS"), ("L-BFGS", "L-BFGS-B")):
        runs = {
            "wf.optim.minimize": lambda m=method: by_weft(m), "SciPy, weft's gradient": lambda m=theirs: by_scipy(m, "weft"),
            "SciPy, NumPy's": lambda m=theirs: by_scipy(m, "NumPy"),
        }
        for name, run in runs.items():
            times = []
            for _ in range(options.repeats + 1):
                begin = time.perf_counter()
                value, steps, evaluations = run()
                times.append(1e3 * (time.perf_counter() - begin))
            later = statistics.median(times[1:])
            each = 1e3 * later / evaluations
            print(f"{method:8} {name:22} {times[0]:10.1f} {later:10.1f} {each:14.1f} {steps:6} {evaluations:6} {value:10.3g}")


if __name__ == "__main__":
    main()
