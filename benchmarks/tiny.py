"""Programs whose arithmetic takes microseconds: weft beside JAX, diffrax, PyTorch, NumPy and SciPy, in one run.

    python benchmarks/tiny.py [--rounds 3] [--threads 2] [--libraries weft jax] [--only Lorenz] [--json FILE]

Needs an environment with weft and the other libraries. As in ``training.py``, each library has a process of its own, and they
take turns at every case. A training step is the forward pass, the mean squared error, its gradient, and gradient descent in
place; a call is timed from Python, with arrays that are ready. All libraries start from the same weights and data, and their
results after the same calls are compared. PyTorch runs as it is and under ``torch.compile``; the faster one counts. Solvers have
equal tolerances, and their errors against DOP853 at 1e-12 are in the JSON file.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import turns
from measure import seconds_per_call

Program = tuple[Callable[[], Any], Callable[[], np.ndarray]]  # a call, and what it has computed so far
RATE, MANY = 1e-3, 100
RTOL, ATOL = 1e-3, 1e-6
RHO, SIGMA, BETA = 28.0, 10.0, 8 / 3


@dataclass(frozen=True)
class Net:
    """A training step: layer sizes, samples, and the number of steps in a call."""

    sizes: tuple[int, ...]
    batch: int
    steps: int = 1

    def weights(self) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        pairs = list(zip(self.sizes, self.sizes[1:], strict=False))
        return [w.astype(np.float32) for m, n in pairs for w in (rng.normal(size=(m, n)) / np.sqrt(m), np.zeros(n))]

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(1)
        x, y = rng.normal(size=(self.batch, self.sizes[0])), rng.normal(size=(self.batch, self.sizes[-1]))
        return x.astype(np.float32), y.astype(np.float32)


@dataclass(frozen=True)
class Lorenz:
    """Lorenz's equations from t = 0 to 1 by a pair of order 5, float64, the last state: one start, or a batch of starts."""

    batch: int = 0

    def starts(self) -> np.ndarray:
        return np.ones(3) if not self.batch else np.random.default_rng(2).uniform(-10, 10, (self.batch, 3)) + [0, 0, 20]

    def exact(self) -> np.ndarray:
        from scipy.integrate import solve_ivp

        return np.stack([solve_ivp(lorenz, (0, 1), y, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
                         for y in np.atleast_2d(self.starts())[:20]])


@dataclass(frozen=True)
class Case:
    problem: Net | Lorenz
    peer: str
    required: float


SMALL = (3, 100, 3)
CASES = {
    "MLP 3-100-3, batch 101, a step": Case(Net(SMALL, 101), "jax", 4),
    "MLP 3-100-3, batch 1, a step": Case(Net(SMALL, 1), "numpy", 6),
    "MLP 3-100-3, batch 101, 100 steps": Case(Net(SMALL, 101, MANY), "jax", 2),
    "MLP 3-100-3, batch 1, 100 steps": Case(Net(SMALL, 1, MANY), "jax", 2),
    "MLP 4-32-16-4, batch 10,000, a step": Case(Net((4, 32, 16, 4), 10_000), "torch", 6),
    "Lorenz once": Case(Lorenz(), "scipy", 20),
    "Lorenz, 1,000 starts": Case(Lorenz(1000), "jax", 3),
}


def lorenz(t: float, y: Any) -> list[Any]:
    return [SIGMA * (y[1] - y[0]), y[0] * (RHO - y[2]) - y[1], y[0] * y[1] - BETA * y[2]]


def forward(tanh: Callable, p: Any, x: Any) -> Any:
    for k in range(0, len(p) - 2, 2):
        x = tanh(x @ p[k] + p[k + 1])
    return x @ p[-2] + p[-1]


def weft_program(problem: Net | Lorenz) -> Program:
    import weft as wf

    wf.set_num_threads(int(os.environ["BENCH_THREADS"]))
    if isinstance(problem, Lorenz):
        f = lambda t, y, args: wf.stack(lorenz(t, y))  # noqa: E731
        one = lambda y: wf.ode.solve(f, y, [0.0, 1.0], rtol=RTOL, atol=ATOL).ys[-1]  # noqa: E731
        solve, start = wf.jit(wf.vmap(one) if problem.batch else one), wf.array(problem.starts())
        return lambda: solve(start).numpy(), lambda: solve(start).numpy()
    p, (x, y) = [wf.array(w) for w in problem.weights()], map(wf.array, problem.data())
    loss = wf.value_and_grad(lambda p, x, y: ((forward(wf.tanh, p, x) - y) ** 2).mean())

    def step(p: list, x: Any, y: Any) -> Any:
        value, slopes = loss(p, x, y)
        for w, slope in zip(p, slopes, strict=True):
            w -= RATE * slope
        return value

    @wf.jit
    def call(p: list, x: Any, y: Any) -> Any:
        if problem.steps == 1:
            return step(p, x, y)
        return wf.scan(lambda _, k: (None, step(p, x, y)), None, length=problem.steps)[1][-1]

    return lambda: call(p, x, y), lambda: np.concatenate([w.numpy().ravel() for w in p])


def jax_program(problem: Net | Lorenz) -> Program:
    import jax
    import jax.numpy as jnp

    if isinstance(problem, Lorenz):
        return diffrax_program(problem)
    state, (x, y) = {"p": [jnp.asarray(w) for w in problem.weights()]}, map(jnp.asarray, problem.data())
    loss = jax.value_and_grad(lambda p, x, y: ((forward(jnp.tanh, p, x) - y) ** 2).mean())

    def step(p: list, x: Any, y: Any) -> Any:
        value, slopes = loss(p, x, y)
        return [w - RATE * slope for w, slope in zip(p, slopes, strict=True)], value

    def many(p: list, x: Any, y: Any) -> Any:
        p, values = jax.lax.scan(lambda p, _: step(p, x, y), p, length=problem.steps)
        return p, values[-1]

    jitted = jax.jit(step if problem.steps == 1 else many, donate_argnums=0)

    def call() -> Any:
        state["p"], value = jitted(state["p"], x, y)
        return value.block_until_ready()

    return call, lambda: np.concatenate([np.asarray(w).ravel() for w in state["p"]])


def diffrax_program(problem: Lorenz) -> Program:
    import diffrax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)

    def one(y: Any) -> Any:
        return diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: jnp.stack(lorenz(t, y))), diffrax.Tsit5(), 0.0, 1.0, None, y,
            stepsize_controller=diffrax.PIDController(rtol=RTOL, atol=ATOL), adjoint=diffrax.DirectAdjoint(), max_steps=4096,
        ).ys[-1]

    solve, start = jax.jit(jax.vmap(one) if problem.batch else one), jnp.asarray(problem.starts())
    return lambda: solve(start).block_until_ready(), lambda: np.asarray(solve(start))


def numpy_program(problem: Net) -> Program:
    p, (x, y) = problem.weights(), problem.data()

    def step() -> Any:
        inner = [x]
        for k in range(0, len(p) - 2, 2):
            inner.append(np.tanh(inner[-1] @ p[k] + p[k + 1]))
        change = inner[-1] @ p[-2] + p[-1] - y
        value = (change * change).mean()
        slope = change * np.float32(2 / change.size)
        for k in range(len(p) - 2, -1, -2):
            below = slope @ p[k].T if k else None
            p[k] -= RATE * (inner[k // 2].T @ slope)
            p[k + 1] -= RATE * slope.sum(axis=0)
            if below is not None:
                slope = below * (1 - inner[k // 2] ** 2)
        return value

    def call() -> Any:
        for _ in range(problem.steps - 1):
            step()
        return step()

    return call, lambda: np.concatenate([w.ravel() for w in p])


def torch_program(problem: Net, compiled: bool = False) -> Program:
    import torch

    torch.set_num_threads(int(os.environ["BENCH_THREADS"]))
    p = [torch.tensor(w, requires_grad=True) for w in problem.weights()]
    x, y = map(torch.from_numpy, problem.data())
    loss = lambda p, x, y: ((forward(torch.tanh, p, x) - y) ** 2).mean()  # noqa: E731
    loss = torch.compile(loss) if compiled else loss

    def call() -> Any:
        for _ in range(problem.steps):
            value = loss(p, x, y)
            slopes = torch.autograd.grad(value, p)
            with torch.no_grad():
                torch._foreach_add_(p, slopes, alpha=-RATE)
        return value

    return call, lambda: np.concatenate([w.detach().numpy().ravel() for w in p])


def scipy_program(problem: Lorenz) -> Program:
    from scipy.integrate import solve_ivp

    def call() -> Any:
        return np.stack([solve_ivp(lorenz, (0, 1), y, rtol=RTOL, atol=ATOL).y[:, -1] for y in np.atleast_2d(problem.starts())])

    return call, lambda: call().reshape(problem.starts().shape)


LIBRARIES: dict[str, Callable[..., Program]] = {
    "weft": weft_program, "jax": jax_program, "torch": torch_program, "torch.compile": lambda x: torch_program(x, True),
    "numpy": numpy_program, "scipy": scipy_program,
}
NETS_ONLY, SOLVERS_ONLY = ("torch", "torch.compile", "numpy"), ("scipy",)


def has(library: str, problem: Net | Lorenz) -> bool:
    return library not in (NETS_ONLY if isinstance(problem, Lorenz) else SOLVERS_ONLY)


def worker(library: str, folder: str) -> None:
    """Measure each case named on standard input; results go to ``folder``, seconds to standard output."""
    module = __import__(library.split(".")[0])
    print(json.dumps(module.__version__), flush=True)
    for line in sys.stdin:
        name = line.strip()
        problem = CASES[name].problem
        if not has(library, problem):
            print(json.dumps(None), flush=True)
            continue
        start = time.perf_counter()
        call, result = LIBRARIES[library](problem)
        call()
        first = time.perf_counter() - start
        np.save(Path(folder) / f"{library} {name}.npy", result())
        seconds = seconds_per_call(call, settle=turns.settling(library))
        error = float(np.abs(np.atleast_2d(result())[:20] - problem.exact()).max()) if isinstance(problem, Lorenz) else None
        print(json.dumps({"first": first, "seconds": seconds, "error": error}), flush=True)


def main() -> None:
    arguments = turns.parser(__doc__, LIBRARIES).parse_args()
    if arguments.worker:
        worker(arguments.worker, arguments.folder)
        return
    names = turns.chosen(CASES, arguments.only)
    record = turns.measure_rounds(arguments, names, __file__, lambda library, name: has(library, CASES[name].problem))
    table(record, arguments.libraries, names)


def table(record: dict, libraries: list[str], names: list[str]) -> None:
    rounds = [r["measured"] for r in record["rounds"]]
    print(f"{record['threads']} threads: median microseconds a call; ratio = required peer / weft; results differ by at most")
    print(f"{'':38}" + "".join(f"{lib:>14}" for lib in libraries) + f"{'ratio':>8}{'required':>15}{'differ':>10}")
    for name in names:
        case = CASES[name]
        medians = [{lib: statistics.median(r[lib][name]["seconds"]) for lib in libraries if r[lib][name]} for r in rounds]
        line = f"{name:38}"
        for lib in libraries:
            line += f"{1e6 * statistics.median(t[lib] for t in medians):14.2f}" if lib in medians[0] else f"{'-':>14}"
        peers = [lib for lib in medians[0] if lib.split(".")[0] == case.peer]
        if peers and "weft" in medians[0]:
            ratio = statistics.median(min(t[lib] for lib in peers) / t["weft"] for t in medians)
            differ = max(v for key, v in record["disagreement"].items() if key.endswith(f" {name}"))
            line += f"{ratio:8.2f}{f'{case.required:g} x {case.peer}':>15}{differ:10.1e}"
        print(line)


if __name__ == "__main__":
    main()
