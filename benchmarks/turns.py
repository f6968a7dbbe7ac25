"""Taking turns: a process for each library, all of them asked for one case after the other; what every benchmark records."""

from __future__ import annotations

import argparse
import compileall
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import seconds_per_call

HERE = Path(__file__).parent


def about() -> dict[str, str]:
    """Machine, processor, Python and commit of a run."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=HERE).stdout.strip()
    return {"machine": platform.platform(), "cpu": cpu(), "python": platform.python_version(), "commit": commit}


def calibrate() -> dict[str, float]:
    """This machine, this minute: NumPy's copy bandwidth and matrix product."""
    x = np.random.default_rng(0).standard_normal(1 << 24).astype(np.float32)
    y = np.empty_like(x)
    a = x[: 1 << 20].reshape(1024, 1024)
    copy = statistics.median(seconds_per_call(lambda: np.copyto(y, x)))
    product = statistics.median(seconds_per_call(lambda: a @ a))
    return {"copy GB/s": 2 * x.nbytes / copy / 1e9, "numpy gemm 1024 GFLOP/s": 2 * 1024**3 / product / 1e9}


def settling(library: str) -> Callable[[], None]:
    """What waits until a library's code is as good as it gets: weft's is compiled again behind the back of what runs."""
    return importlib.import_module("weft.devices").settle if library == "weft" else lambda: None


def start_worker(library: str, threads: int, folder: str, cache: str, script: str) -> subprocess.Popen[str]:
    """Every library as it is when it is installed: pip leaves bytecode beside the sources, a checkout may have none."""
    compileall.compile_dir(HERE.parent / "weft", quiet=1)
    env = {**os.environ, **thread_variables(threads), **KEPT_MEMORY, "WEFT_CACHE": cache, "JAX_PLATFORMS": "cpu"}
    if threads == 1:
        env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    cpus = sorted(os.sched_getaffinity(0))[-threads:]
    command = ["taskset", "-c", ",".join(map(str, cpus)), sys.executable, script, "--worker", library, "--folder", folder]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=HERE)


# Huge pages for PyTorch's arrays, and a C library that keeps freed memory: without them PyTorch asks for it in each step.
KEPT_MEMORY = {
    "THP_MEM_ALLOC_ENABLE": "1",
    "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4000000000:glibc.malloc.trim_threshold=16000000000",
}


def thread_variables(threads: int) -> dict[str, str]:
    """Return environment variables that give each library this number of threads."""
    return dict.fromkeys(("BENCH_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))


def one_round(
    libraries: list[str], threads: int, names: list[str], folder: str, cache: str, script: str,
) -> dict[str, dict]:
    """library -> what it measured: its version, and for each case the first call and seconds a call."""
    workers = {library: start_worker(library, threads, folder, cache, script) for library in libraries}
    try:
        out: dict[str, dict] = {library: {"version": answer(library, worker)} for library, worker in workers.items()}
        for name in names:
            for library, process in workers.items():
                assert process.stdin is not None
                process.stdin.write(name + "\n")
                process.stdin.flush()
                out[library][name] = answer(f"{library}, {name}", process)
        return out
    finally:
        for process in workers.values():
            process.kill()
            process.wait()


def answer(what: str, process: subprocess.Popen[str]) -> object:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{what}: the process ended with {process.wait()}")
    return json.loads(line)


def check_output(path: str) -> str:
    """Return the path of a file to write. As the ``type`` of an option it refuses others before anything is measured."""
    from weft.process.files import target

    try:
        target(path, path)
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return path


def parser(doc: str | None, libraries: Iterable[str], threads: Any = 2) -> argparse.ArgumentParser:
    """Return the options that benchmarks with rounds of workers share. threads : default, or None for a benchmark on one"""
    out = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--rounds", type=int, default=3)
    if threads is not None:
        out.add_argument("--threads", type=int, default=threads, nargs="+" if isinstance(threads, list) else None)
    out.add_argument("--libraries", nargs="+", default=list(libraries))
    out.add_argument("--only", nargs="*", default=[], help="cases whose names hold one of these words")
    out.add_argument("--json", type=check_output)
    out.add_argument("--worker", default=None, help=argparse.SUPPRESS)
    out.add_argument("--folder", default=None, help=argparse.SUPPRESS)
    return out


def chosen(names: Iterable[str], only: Sequence[str]) -> list[str]:
    """Return the names that hold one of the words, all of them without words."""
    return [name for name in names if not only or any(word in name for word in only)]


def measure_rounds(
    arguments: argparse.Namespace, names: list[str], script: str, has: Callable[[str, str], bool],
) -> dict[str, Any]:
    """Run all rounds and compare the results with weft's. Return the record of the run, which is also written as JSON.

    has : (library, case) -> whether the library has the case
    """
    record: dict[str, Any] = {**about(), "threads": arguments.threads, "rounds": []}
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        for number in range(arguments.rounds):
            before = calibrate()
            measured = one_round(arguments.libraries, arguments.threads, names, folder, cache, script)
            record["rounds"].append({"calibration": before, "measured": measured})
            print(f"round {number} done", file=sys.stderr, flush=True)
        record["disagreement"] = {
            f"{library} {name}": disagreement(folder, "weft", library, name)
            for name in names for library in arguments.libraries if library != "weft" and has(library, name)
        }
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(record, indent=1) + "\n")
    return record


def disagreement(folder: str, first: str, library: str, name: str) -> float:
    """Largest difference to the first library's output over the largest magnitude."""
    ours, theirs = (np.load(Path(folder) / f"{lib} {name.replace('/', '_')}.npy") for lib in (first, library))
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


def cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()
