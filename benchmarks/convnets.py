"""``weft bench convnets``: AlexNet, Overfeat, VGG-A, VGG-E, GoogLeNet and ResNet-50 on the CPU, a line a layer, beside PyTorch.

Each library computes in a process of its own, and the processes take turns: a library's threads that wait for work keep the
processors of another one in the same process.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from math import prod
from pathlib import Path
from typing import Any

from benchmarks.convnet_report import draw, print_foot, print_head, print_layer, print_sums
from benchmarks.nets import DEFINITIONS, Layer, Net, layers, shrink
from benchmarks.turns import KEPT_MEMORY, about, answer, thread_variables
from weft.placement.device_figures import Machine
from weft.process import files
from weft.process.distribution import install_command

ROOT = Path(__file__).parents[1]
QUICK_BATCH = 4
CALLS = 3  # a pass, in a turn
PAUSE_S = 0.1  # before a turn: threads of PyTorch keep their processors for some ten milliseconds after a call


def convnets(arguments: argparse.Namespace) -> int:
    """Print the tables and write the files; returns the exit status."""
    libraries = ["weft", "torch"] if arguments.peers else ["weft"]
    nets = _choose_nets(arguments)
    _check(arguments, nets)
    record = measure(nets, libraries, arguments)
    if arguments.json is not None:
        files.write_atomically(arguments.json, (json.dumps(record, indent=1) + "\n").encode(), "bench --json")
    if arguments.picture is not None:
        files.write_atomically(arguments.picture, draw(record), "bench --picture")
    return 0


def _choose_nets(arguments: argparse.Namespace) -> dict[str, Net]:
    defined = DEFINITIONS[arguments.definition]
    names = arguments.nets.split(",") if arguments.nets is not None else ["alexnet"] if arguments.quick else list(defined)
    for name in names:
        if name not in defined:
            raise ValueError(f"bench: no net {name!r}; there are {', '.join(defined)}")
    for option in ("batch", "threads", "image", "narrow", "repeats"):
        value = getattr(arguments, option)
        if value is not None and value < 1:
            raise ValueError(f"bench: --{option} must be at least 1, not {value}")
    batch = arguments.batch or (QUICK_BATCH if arguments.quick else None)
    return {
        name: replace(shrink(defined[name], arguments.image, arguments.narrow), batch=batch or defined[name].batch)
        for name in names
    }


def _choose_layers(net: Net, only: str | None) -> list[Layer]:
    return [layer for layer in layers(net) if only is None or layer.name in only.split(",")]


def _check(arguments: argparse.Namespace, nets: dict[str, Net]) -> None:
    """Raise before anything is measured."""
    names = {layer.name: name for name, net in nets.items() for layer in layers(net)}
    for name in arguments.layers.split(",") if arguments.layers is not None else ():
        if name not in names:
            raise ValueError(f"bench: no layer {name!r} in {', '.join(nets)}; there are {', '.join(names)}")
    if arguments.cpu_time and arguments.threads != 1:
        raise ValueError("bench: --cpu-time is the time of one thread: give --threads 1 too")
    if arguments.peers and importlib.util.find_spec("torch") is None:
        raise ImportError("bench: --peers needs PyTorch, which is not installed: pip install torch")
    if arguments.picture and importlib.util.find_spec("matplotlib") is None:
        raise ImportError(f"bench: --picture needs matplotlib: {install_command('plot')}")
    for option in ("json", "picture"):
        path = getattr(arguments, option)
        if path is not None:
            files.target(path, f"bench --{option}")


def measure(nets: dict[str, Net], libraries: Sequence[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the record of a run, and print its tables while it is made. Times are the least ones, in seconds."""
    import weft as wf
    from weft.placement.device_figures import machine

    if arguments.threads is not None:
        wf.set_num_threads(arguments.threads)
    threads, limits = wf.get_num_threads(), machine("cpu")
    repeats = arguments.repeats or (3 if arguments.quick else 10)
    settings = {"BENCH_ALGORITHM": arguments.algorithm, "BENCH_PRECISION": arguments.precision}
    with start_workers(libraries, threads, arguments.cpu_time, settings) as workers:
        record: dict[str, Any] = {
            "about": about(), "versions": {library: answer(library, worker) for library, worker in workers.items()},
            "definition": arguments.definition, "algorithm": arguments.algorithm, "precision": arguments.precision,
            "threads": threads, "clock": "cpu" if arguments.cpu_time else "wall", "repeats": repeats,
            "peak_flops": limits.flops, "memory_bytes_per_second": limits.memory, "nets": {},
        }
        ask = _asker(workers, repeats, 0.0 if threads == 1 else PAUSE_S)
        for name, net in nets.items():
            print_head(record, name, net)
            found: dict[str, Any] = {"batch": net.batch, "image": net.side, "layers": []}
            record["nets"][name] = found
            for layer in _choose_layers(net, arguments.layers):
                found["layers"].append(_describe(layer, net.batch, limits) | {"seconds": ask(net, layer.name)})
                print_layer(record, name, found["layers"][-1])
            print_sums(record, name)
            if arguments.layers is None:
                found["whole"] = ask(net, None)
                found["memory"] = {library: memory_of(library, net, threads, settings) for library in libraries}
                print_foot(record, name)
    return record


def _describe(layer: Layer, batch: int, limits: Machine) -> dict[str, Any]:
    return {
        "name": layer.name, "kind": layer.kind, "inside": layer.inside, "outside": layer.outside,
        "multiply_adds": layer.flops // 2, "limit": find_limit(layer, batch, limits),
    }


def find_limit(layer: Layer, batch: int, limits: Machine) -> str:
    """Return what limits a layer's forward pass on this machine: "arithmetic", or "memory" for input, parameters and result."""
    numbers = batch * (prod(layer.inside) + prod(layer.outside)) + sum([prod(shape) for shape in layer.parameters])
    return "arithmetic" if batch * layer.flops / limits.flops > 4 * numbers / limits.bandwidth_at(4 * numbers) else "memory"


def _asker(
    workers: dict[str, subprocess.Popen[str]], repeats: int, pause_s: float,
) -> Callable[[Net, str | None], dict[str, dict[str, float]]]:
    """Return a function of a net and a layer: library -> pass -> least seconds of a call, from turns of all libraries."""

    def ask(library: str, request: dict[str, Any]) -> Any:
        worker = workers[library]
        assert worker.stdin is not None
        worker.stdin.write(json.dumps(request) + "\n")
        worker.stdin.flush()
        return answer(library, worker)

    def measure_turns(net: Net, layer: str | None) -> dict[str, dict[str, float]]:
        passes = {library: ask(library, {"net": asdict(net), "layer": layer}) for library in workers}
        least: dict[str, dict[str, float]] = {library: {} for library in workers}
        for left in range(repeats, 0, -CALLS):
            for library, names in passes.items():
                time.sleep(pause_s if len(workers) > 1 else 0.0)
                for name in names:
                    seconds = min(ask(library, {"pass": name, "calls": min(left, CALLS)}))
                    least[library][name] = min(seconds, least[library].get(name, seconds))
        return least

    return measure_turns


@contextmanager
def start_workers(
    libraries: Sequence[str], threads: int, cpu_time: bool, settings: Mapping[str, str] = {},  # noqa: B006
) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Context manager: a process for each library, ended at the end."""
    extra = {**KEPT_MEMORY, "BENCH_CLOCK": "cpu" if cpu_time else "wall", **settings}
    workers: dict[str, subprocess.Popen[str]] = {}
    try:
        for library in libraries:
            workers[library] = _start(library, threads, extra)
        yield workers
    finally:
        for process in workers.values():
            process.kill()
            process.wait()


def _start(library: str, threads: int, extra: Mapping[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.convnet_worker", library]
    env = {**os.environ, **thread_variables(threads), **extra}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=ROOT)


def memory_of(library: str, net: Net, threads: int, settings: Mapping[str, str]) -> dict[str, int] | None:
    """Return bytes before and at the peak of training steps of a net, in a new process; None where the system does not say.

    The process has the C library's usual settings: memory that is kept would count.
    """
    if not Path("/proc/self/status").exists():
        return None
    process = _start(library, threads, settings)
    try:
        out, _ = process.communicate(json.dumps({"memory": asdict(net)}) + "\n")
    finally:
        process.kill()
        process.wait()
    if process.returncode:
        raise ChildProcessError(f"bench: the process that measures the memory of {library} ended with {process.returncode}")
    return json.loads(out.splitlines()[-1])
