"""Measure a card: launches, transfers, memory bandwidth, and products of each format and size."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from weft.devices.base import ChoosesByMeasuring, Device
from weft.dtypes.formats import BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT16, FLOAT32, FLOAT64, INT8, INT32, Format
from weft.graph.node import Graph, Node
from weft.graph.primitives.settings import precision_params
from weft.graph.primitives.table import TABLE, bind, input_leaf
from weft.schedule.build import build

SIZES = (1 << 16, 1 << 20, 1 << 23, 1 << 26, 1 << 28)  # working sets in bytes
EDGES = (64, 256, 1024, 4096)  # edges of square matrices
# name in estimates -> (format of the operands, of the accumulator, precision)
PRODUCTS: dict[str, tuple[Format, Format, str]] = {
    "float32": (FLOAT32, FLOAT32, "float32"), "tf32": (FLOAT32, FLOAT32, "tf32"), "tf32x3": (FLOAT32, FLOAT32, "tf32x3"),
    "bfloat16": (BFLOAT16, BFLOAT16, "float32"), "float16": (FLOAT16, FLOAT16, "float32"),
    "float8_e4m3fn": (FLOAT8_E4M3FN, FLOAT32, "float32"), "float8_e5m2": (FLOAT8_E5M2, FLOAT32, "float32"),
    "int8": (INT8, INT32, "float32"), "float64": (FLOAT64, FLOAT64, "float32"),
}
TUNING_S = 10.0  # limit for choosing the tiles of a product
_LONG = 0.05  # limit of a series in seconds
CHAIN = 8  # dependent kernels in a program


def measure(device: Device, sizes: Sequence[int] = SIZES, edges: Sequence[int] = EDGES, repeat: int = 20) -> dict[str, Any]:
    """Measure a device; return the figures that ``placement.device_figures.Machine`` defines.

    Takes some seconds, most of them for compilation.
    """
    one, many = _chain(device, 1), _chain(device, CHAIN)
    results: list[Any] = []
    launch = _seconds(device, lambda: results.append(many()), repeat) - _seconds(device, lambda: results.append(one()), repeat)
    # kept results make each run use new memory, so no graph is replayed
    call = _seconds(device, lambda: results.append(one()), repeat)
    results.clear()
    replay = _seconds(device, many, repeat) - _seconds(device, one, repeat)
    launch_each, replay_each = (max(t / (CHAIN - 1), 1e-9) for t in (launch, replay))
    products = tuple([
        (name, tuple([(2.0 * n**3, _product(device, *formats, n, repeat)) for n in edges])) for name, formats in PRODUCTS.items()
    ])
    return {
        "call": max(call - launch_each, 0.0), "launch": launch_each, "replay": min(launch_each, replay_each),
        "link": _link(device, sizes[-1], repeat),
        "bandwidth": [(2 * size, _copying(device, size, repeat)) for size in sizes], "products": products,
        "flops": max(rate for _, rate in products[0][1]),
    }


def _seconds(device: Device, run: Callable[[], Any], repeat: int) -> float:
    """Return the seconds of a run in a long series: the best of three series, shortened if a run takes long."""

    def series(count: int) -> float:
        device.synchronise()
        begin = time.perf_counter()
        for _ in range(count):
            run()
        device.synchronise()
        return (time.perf_counter() - begin) / count

    series(1)  # compiles and loads
    count = max(1, min(repeat, int(_LONG / max(series(1), 1e-9))))
    return max(min([series(count) for _ in range(3)]), 1e-9)


def _run(device: Device, inputs: Sequence[Node], output: Node) -> Callable[[], Any]:
    """Compile a graph and return a function that runs it on ones."""
    run = device.compile(build(Graph(list(inputs), [output]), device.target))
    memory = [device.upload(np.ones(prod(i.shape), i.dtype.numpy)) for i in inputs]
    return lambda: run(list(memory))


def _chain(device: Device, length: int) -> Callable[[], Any]:
    """Return a function that runs a program of ``length`` dependent products."""
    x = node = input_leaf((16, 16), FLOAT32)
    for _ in range(length):
        node = _matmul(node, x)
    return _run(device, [x], node)


def _matmul(a: Node, b: Node, precision: str = "float32") -> Node:
    return bind(TABLE["dot_general"], a, b, contract=((1,), (0,)), batch=((), ()), **precision_params(precision))


def _product(device: Device, stored: Format, accum: Format, precision: str, n: int, repeat: int) -> float:
    """Return the operations per second of a product of n x n matrices."""
    operands = [input_leaf((n, n), stored) for _ in range(2)]
    a, b = [x if stored is accum else bind(TABLE["cast"], x, dtype=accum) for x in operands]
    run = _run(device, operands, _matmul(a, b, precision))
    if isinstance(device, ChoosesByMeasuring):
        device.choose_variants(run, TUNING_S)
    return 2.0 * n**3 / _seconds(device, run, repeat)


def _copying(device: Device, size: int, repeat: int) -> float:
    """Return the bytes per second of an elementwise operation on ``size`` bytes."""
    x = input_leaf((size // 4,), FLOAT32)
    return 2 * size / _seconds(device, _run(device, [x], bind(TABLE["negative"], x)), repeat)


def _link(device: Device, size: int, repeat: int) -> tuple[float, float]:
    """Return the seconds of transferring one number, in the slower direction, and the bytes per second of large transfers."""
    small, large = np.zeros(1, np.float32), np.zeros(size // 4, np.float32)
    memories = [device.upload(x) for x in (small, large)]

    seconds = []
    for x, memory, count in zip((small, large), memories, (repeat, 3), strict=True):
        transfers = partial(device.upload, x), partial(device.download, memory, x.shape, FLOAT32)
        seconds.append([_seconds(device, transfer, count) for transfer in transfers])
    return max(seconds[0]), 2 * size / sum(seconds[1])
