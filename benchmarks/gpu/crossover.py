"""The size from which the GPU is faster: products of n x n, estimated by the placement and measured."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

import weft as wf
from benchmarks.gpu.closeness import apart, told
from benchmarks.gpu.setting import Rows, Setting, normal
from weft.devices import get_device
from weft.devices.base import Measuring
from weft.devices.cuda.measure import measure
from weft.dtypes.formats import FLOAT32
from weft.graph.node import Graph
from weft.graph.primitives.table import TABLE, bind, input_leaf
from weft.placement.choose import choose
from weft.placement.device_figures import Machine, machine
from weft.schedule.build import build

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)


def rows(setting: Setting) -> Rows:
    """Yield a row with the figures of both devices, from which the estimates are computed; then a row for each size."""
    cached: dict[str, Machine] = {}
    yield "figures", lambda: _figures(setting, cached)
    for n in (4, 24) if setting.quick else SIZES:
        yield f"{n} x {n}", lambda n=n: _row(setting, n, cached)  # type: ignore[misc]


def machines(setting: Setting, cached: dict[str, Machine]) -> dict[str, Machine]:
    """Return the figures of both devices. An interpreter is measured at small sizes, only to show that this works."""
    if not cached:
        cached["cpu"] = machine("cpu")
        device: Any = get_device(setting.device)
        if isinstance(device, Measuring) and not setting.quick:
            cached[setting.device] = machine(setting.device)
        else:
            figures = measure(device, sizes=(1 << 8, 1 << 10), edges=(4, 16), repeat=1)
            cached[setting.device] = Machine(getattr(device, "processor", device.name), 1, **figures)
    return cached


def _figures(setting: Setting, cached: dict[str, Machine]) -> dict[str, Any]:
    by_device = machines(setting, cached)
    figures = by_device[setting.device]
    return {
        "launch us": 1e6 * figures.launch, "graph node us": 1e6 * figures.replay, "call us": 1e6 * figures.call,
        "memory GB/s": figures.memory / 1e9, "float32 GFLOP/s": figures.flops / 1e9,
        "link GB/s": figures.link[1] / 1e9 if figures.link else None,
        "profile": {"devices": {name: asdict(m) for name, m in by_device.items()}},  # as $WEFT_PROFILE has it
    }


def _row(setting: Setting, n: int, cached: dict[str, Machine]) -> dict[str, Any]:
    a, b = normal((n, n), 21), normal((n, n), 22)
    f = wf.jit(lambda a, b: a @ b)
    x, y = wf.array(a), wf.array(b)
    result = f(x, y).numpy()
    row = told(apart(result[:8], a[:8].astype(np.float64) @ b.astype(np.float64), terms=n))
    row |= {"sample": [float(v) for v in result[0, :4]]}
    host_a, host_b = wf.array(a), wf.array(b)
    with wf.device("cpu"):
        wf.eval(host_a, host_b)
        f(host_a, host_b).numpy()

    def on_cpu() -> Any:
        with wf.device("cpu"):
            return f(host_a, host_b)

    sides = {"cpu": on_cpu, "resident": lambda: f(x, y), "with copies": lambda: f(wf.array(a), wf.array(b))}
    times = setting.timed(sides, host=True)
    figures = machines(setting, cached)
    p, q = input_leaf((n, n), FLOAT32), input_leaf((n, n), FLOAT32)
    product = bind(TABLE["dot_general"], p, q, contract=((1,), (0,)), batch=((), ()))
    program = build(Graph([p, q], [product]), get_device("cpu").target)
    for name, place in (("cpu", "cpu"), ("resident", setting.device), ("with copies", setting.device)):
        where = "cpu" if name == "with copies" else place
        decision = choose(program, figures, [(a.nbytes, where), (b.nbytes, where)])
        told_us = next(e.total for e in decision.estimates if e.device == place)
        row[f"{name} estimated ms"] = 1e3 * told_us
        row[name] = times[name]
    quicker = "cpu" if times["cpu"]["median"] <= times["with copies"]["median"] else setting.device
    chosen = choose(program, figures, [(a.nbytes, "cpu")] * 2).device
    return {**row, "quicker": quicker, "auto takes": chosen}
