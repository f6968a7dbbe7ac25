"""A neural differential equation in weft, and in diffrax where it is installed; Lorenz's equations in weft, diffrax and SciPy.

    python benchmarks/neural_ode.py [--python PATH] [--json FILE]
    python benchmarks/neural_ode.py --sizes DEVICE

``--python`` names the interpreter of an environment with jax, diffrax, optax and equinox; the libraries run one after another, in
processes of their own, with the same first weights and tolerances. A call of the first program is one iteration: 101 points of
Lorenz's equations from the state (1, 1, 1), Tsit5 with rtol 1e-3 and atol 1e-6, a net 3-100-3 with tanh, the mean squared error,
its gradient and a step of Adam(0.01). Both programs return the loss, which the caller reads. The second program solves Lorenz's
equations to t = 20 with 2001 returned states in float64, rtol 1e-6 and atol 1e-9; SciPy's solver is RK45.
"start to first result" is the time from the start of a process to its first loss, with an empty cache and with the cached code of
an earlier process. ``--sizes`` prints a table of another step, on one device: ten steps of RK4 through nets of four widths, for
one to 1,000 trajectories at once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from turns import check_output

ITERATIONS, REPEATS, END, POINTS = 300, 20, 20.0, 2001
CHECKED = 0, 1, 2, 10, 50, ITERATIONS - 1  # iterations whose losses are kept
SCALE = 20.0  # of the data, so that a net of this size can learn them
RHO, SIGMA, BETA = 28.0, 10.0, 8 / 3


def lorenz_numpy(t: float, y: np.ndarray) -> list[float]:
    return [SIGMA * (y[1] - y[0]), y[0] * (RHO - y[2]) - y[1], y[0] * y[1] - BETA * y[2]]


def data() -> tuple[np.ndarray, np.ndarray]:
    """Return the times and the scaled states of the data set."""
    from scipy.integrate import solve_ivp

    ts = np.linspace(0, 1, 101)
    ys = solve_ivp(lorenz_numpy, (0, 1), [1.0, 1.0, 1.0], method="DOP853", rtol=1e-10, atol=1e-10, t_eval=ts).y.T
    return ts.astype(np.float32), (ys / SCALE).astype(np.float32)


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"w1": (3, 100), "b1": (100,), "w2": (100, 3), "b2": (3,)}
    return {k: (rng.normal(size=s) / (np.sqrt(s[0]) if len(s) > 1 else 1e9)).astype(np.float32) for k, s in shapes.items()}


def measure(call: Callable[[], object], repeats: int) -> dict[str, float]:
    """Return the time of the first call in s, and the least and the median of later ones in us."""
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return {"first_s": first, "least_us": min(times) * 1e6, "median_us": float(np.median(times)) * 1e6}


def weft_iteration(ts: np.ndarray, ys: np.ndarray, w: dict[str, np.ndarray]) -> Callable[[], tuple[float, object]]:
    import weft as wf

    states, p = wf.array(ys), {k: wf.array(v) for k, v in w.items()}
    optimizer = wf.optim.Adam(0.01).init(p)

    def loss_of(p: dict) -> object:
        net = lambda t, y, p: wf.tanh(y @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]  # noqa: E731
        out = wf.ode.solve(net, states[0], ts, args=p, rtol=1e-3, atol=1e-6)
        return ((out.ys - states) ** 2).mean(), out.steps

    @wf.jit
    def step(p: dict) -> object:
        (loss, steps), slope = wf.value_and_grad(loss_of, has_aux=True)(p)
        optimizer.update(p, slope)
        return loss, steps

    def iterate() -> tuple[float, object]:
        loss, steps = step(p)
        return float(loss), steps

    return iterate


def run_weft() -> dict[str, object]:
    import weft as wf

    @wf.jit
    def lorenz(y: object) -> object:
        f = lambda t, y, args: wf.stack(  # noqa: E731
            [SIGMA * (y[1] - y[0]), y[0] * (RHO - y[2]) - y[1], y[0] * y[1] - BETA * y[2]])
        return wf.ode.solve(f, y, np.linspace(0, END, POINTS), rtol=1e-6, atol=1e-9).ys

    iterate, losses = weft_iteration(*data(), weights()), []
    trained = measure(lambda: losses.append(iterate()[0]), ITERATIONS)
    start = wf.ones(3, dtype="float64")
    return {
        "version": wf.__version__, "losses": [losses[k] for k in CHECKED], "last steps": int(iterate()[1]), "iteration": trained,
        "lorenz": measure(lambda: lorenz(start).numpy(), REPEATS),
    }


def diffrax_solve(f: Callable, y: object, times: object, args: object, rtol: float, atol: float) -> object:
    import diffrax

    return diffrax.diffeqsolve(
        diffrax.ODETerm(f), diffrax.Tsit5(), times[0], times[-1], None, y, args, saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol), max_steps=4096,
    )


def diffrax_iteration(ts: np.ndarray, ys: np.ndarray, w: dict[str, np.ndarray]) -> Callable[[], tuple[float, object]]:
    import jax
    import jax.numpy as jnp
    import optax

    states, times, p = jnp.asarray(ys), jnp.asarray(ts), {k: jnp.asarray(v) for k, v in w.items()}
    optimizer = optax.adam(0.01)

    def loss_of(p: dict) -> object:
        net = lambda t, y, p: jnp.tanh(y @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]  # noqa: E731
        out = diffrax_solve(net, states[0], times, p, 1e-3, 1e-6)
        return ((out.ys - states) ** 2).mean(), out.stats["num_steps"]

    @jax.jit
    def step(p: dict, moments: object) -> object:
        (loss, steps), slope = jax.value_and_grad(loss_of, has_aux=True)(p)
        change, moments = optimizer.update(slope, moments)
        return loss, steps, optax.apply_updates(p, change), moments

    held = {"p": p, "moments": optimizer.init(p)}

    def iterate() -> tuple[float, object]:
        loss, steps, held["p"], held["moments"] = step(held["p"], held["moments"])
        return float(loss), steps

    return iterate


def run_diffrax() -> dict[str, object]:
    import diffrax
    import jax
    import jax.numpy as jnp

    iterate, losses = diffrax_iteration(*data(), weights()), []
    trained = measure(lambda: losses.append(iterate()[0]), ITERATIONS)
    last = int(iterate()[1])
    jax.config.update("jax_enable_x64", True)
    grid = jnp.linspace(0, END, POINTS)

    @jax.jit
    def lorenz(y: object) -> object:
        f = lambda t, y, args: jnp.stack(  # noqa: E731
            [SIGMA * (y[1] - y[0]), y[0] * (RHO - y[2]) - y[1], y[0] * y[1] - BETA * y[2]])
        return diffrax_solve(f, y, grid, None, 1e-6, 1e-9).ys

    start = jnp.ones(3)
    return {
        "version": f"{diffrax.__version__}, jax {jax.__version__}", "losses": [losses[k] for k in CHECKED],
        "last steps": last, "iteration": trained, "lorenz": measure(lambda: np.asarray(lorenz(start)), REPEATS),
    }


def run_scipy() -> dict[str, object]:
    import scipy
    from scipy.integrate import solve_ivp

    times = np.linspace(0, END, POINTS)
    return {
        "version": scipy.__version__,
        "lorenz": measure(
            lambda: solve_ivp(lorenz_numpy, (0, END), [1.0, 1.0, 1.0], rtol=1e-6, atol=1e-9, t_eval=times).y, 3),
    }


RUNS = {"weft": run_weft, "diffrax": run_diffrax, "scipy": run_scipy}
ITERATION = {"weft": weft_iteration, "diffrax": diffrax_iteration}
INPUTS = "ts", "ys", "w1", "b1", "w2", "b2"


def start_once(name: str, folder: Path) -> None:
    """Print when the first iteration has returned its loss. ``folder`` has the inputs."""
    ts, ys, *w = [np.load(folder / f"{key}.npy") for key in INPUTS]
    ITERATION[name](ts, ys, dict(zip(INPUTS[2:], w, strict=True)))()
    print(time.time())


def measure_start(name: str, python: str, rounds: int = 3) -> dict[str, float]:
    """Return the seconds from the start of a process to the first loss: cold, and with what the first process has cached.

    Each is the least of some rounds. The files of Python's bytecode exist, as after an installation.
    """
    least = {"cold": float("inf"), "cached": float("inf")}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            for key, value in zip(INPUTS, [*data(), *weights().values()], strict=True):
                np.save(Path(folder) / f"{key}.npy", value)
            environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
            environment |= {"WEFT_CACHE": f"{folder}/objects", "JAX_COMPILATION_CACHE_DIR": f"{folder}/jax",
                            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
            for kind in least:
                begin = time.time()
                done = subprocess.run([python, __file__, "--only", name, "--start", folder], capture_output=True, text=True,
                                      env=environment, check=True)
                least[kind] = min(least[kind], float(done.stdout.strip().splitlines()[-1]) - begin)
    return {f"{kind}_s": seconds for kind, seconds in least.items()}


def print_sizes(device: str) -> None:
    """Print the time of a training step by the width of the net and the number of trajectories: ten steps of RK4 and Adam."""
    import weft as wf

    wf.set_device(device)
    ts, batches = np.linspace(0, 1, 11).astype(np.float32), (1, 10, 100, 1000)
    print("| width | " + " | ".join(f"batch {b}" for b in batches) + " |\n|" + " --- |" * (len(batches) + 1))

    def step_of(width: int, batch: int) -> Callable[[], object]:
        rng = np.random.default_rng(0)
        shapes = {"w1": (3, width), "b1": (width,), "w2": (width, 3), "b2": (3,)}
        p = {k: wf.array((rng.normal(size=s) / np.sqrt(s[0])).astype(np.float32)) for k, s in shapes.items()}
        y, target = wf.array(rng.normal(size=(batch, 3)).astype(np.float32)), wf.zeros((11, batch, 3))
        optimizer = wf.optim.Adam(0.001).init(p)

        def loss(p: dict) -> object:
            net = lambda t, y, p: wf.tanh(y @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]  # noqa: E731
            return ((wf.ode.solve(net, y, ts, args=p, solver=wf.ode.RK4()).ys - target) ** 2).mean()

        @wf.jit
        def step(p: dict) -> object:
            value, slope = wf.value_and_grad(loss)(p)
            optimizer.update(p, slope)
            return value

        return lambda: float(step(p))

    for width in (10, 100, 1000, 4000):
        times = [measure(step_of(width, b), 20)["least_us"] for b in batches]
        print(f"| {width} | " + " | ".join(f"{t:.3g} us" if t < 1e4 else f"{t / 1e3:.3g} ms" for t in times) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="interpreter of an environment with diffrax")
    parser.add_argument("--only", choices=RUNS, help="run one library in this process and print its figures as JSON")
    parser.add_argument("--start", metavar="FOLDER", type=Path, help="with --only: print the time of the first result")
    parser.add_argument("--json", metavar="FILE", type=check_output, help="where the figures are written")
    parser.add_argument("--sizes", metavar="DEVICE", help="print the time of a training step by net size and batch on a device")
    arguments = parser.parse_args()
    if arguments.sizes:
        print_sizes(arguments.sizes)
        return
    if arguments.start:
        start_once(arguments.only, arguments.start)
        return
    if arguments.only:
        print(json.dumps(RUNS[arguments.only]()))
        return
    threads = len(os.sched_getaffinity(0))
    results: dict[str, Any] = {"machine": platform.platform(), "threads": threads, "python": platform.python_version()}
    for name in RUNS:
        python = arguments.python if name == "diffrax" else sys.executable
        command = [python, str(Path(__file__)), "--only", name]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"{name}: not run: {done.stderr.strip()}")
            continue
        results[name] = json.loads(done.stdout.strip().splitlines()[-1])
        if name in ITERATION:
            results[name]["start to first result"] = measure_start(name, python)
        print(f"{name}: {results[name]}", flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
