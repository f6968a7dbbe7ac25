"""What a card can do, in figures: how long kernels take to be started, copies, memory, and products of each format and size."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Protocol

import numpy as np

from weft.devices.base import ChoosesByMeasuring
from weft.dtypes.formats import BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2, FLOAT16, FLOAT32, FLOAT64, INT8, INT32, Format
from weft.graph.node import Graph, Node
from weft.graph.primitives.precision import given
from weft.graph.primitives.table import TABLE, bind, input_leaf
from weft.kernel.target import Target
from weft.schedule.build import build

SIZES = (1 << 16, 1 << 20, 1 << 23, 1 << 26, 1 << 28)  # bytes
EDGES = (64, 256, 1024, 4096)  # of square matrices
# of products: what operands come in, what they add up in, and how exactly, by the name that estimates ask for
PRODUCTS: dict[str, tuple[Format, Format, str]] = {
    "float32": (FLOAT32, FLOAT32, "float32"), "tf32": (FLOAT32, FLOAT32, "tf32"), "tf32x3": (FLOAT32, FLOAT32, "tf32x3"),
    "bfloat16": (BFLOAT16, BFLOAT16, "float32"), "float16": (FLOAT16, FLOAT16, "float32"),
    "float8_e4m3fn": (FLOAT8_E4M3FN, FLOAT32, "float32"), "float8_e5m2": (FLOAT8_E5M2, FLOAT32, "float32"),
    "int8": (INT8, INT32, "float32"), "float64": (FLOAT64, FLOAT64, "float32"),
}
TUNING_S = 10.0  # that the choice of a product's tiles may take
_LONG = 0.05  # seconds that a series takes at most
CHAIN = 8  # kernels, one after the other


class Measured(Protocol):
    """What is asked of the device."""

    target: Target

    def compile(self, program: Any) -> Any: ...
    def upload(self, array: np.ndarray) -> Any: ...
    def download(self, buffer: Any, shape: tuple[int, ...], dtype: Format) -> np.ndarray: ...
    def synchronise(self) -> None: ...


def measure(device: Measured, sizes: Sequence[int] = SIZES, edges: Sequence[int] = EDGES, repeat: int = 20) -> dict[str, Any]:
    """``call``, ``launch``, ``replay``, ``link``, ``bandwidth``, ``products`` and ``flops``, as ``placement.machine`` keeps them.
    Some seconds, most of them for compiling."""
    one, many = _chain(device, 1), _chain(device, CHAIN)
    kept: list[Any] = []
    launch = _seconds(device, lambda: kept.append(many()), repeat) - _seconds(device, lambda: kept.append(one()), repeat)
    call = _seconds(device, lambda: kept.append(one()), repeat)  # what is kept lies elsewhere each time: nothing is replayed
    kept.clear()
    replay = _seconds(device, many, repeat) - _seconds(device, one, repeat)
    each, again = (max(t / (CHAIN - 1), 1e-9) for t in (launch, replay))
    products = tuple([
        (name, tuple([(2.0 * n**3, _product(device, *formats, n, repeat)) for n in edges])) for name, formats in PRODUCTS.items()
    ])
    return {
        "call": max(call - each, 0.0), "launch": each, "replay": min(each, again), "link": _link(device, sizes[-1], repeat),
        "bandwidth": [(2 * size, _copying(device, size, repeat)) for size in sizes], "products": products,
        "flops": max(rate for _, rate in products[0][1]),
    }


def _seconds(device: Measured, run: Callable[[], Any], repeat: int) -> float:
    """Of a run, when there are many: the best of three series, of fewer where one takes long."""

    def series(count: int) -> float:
        device.synchronise()
        begin = time.perf_counter()
        for _ in range(count):
            run()
        device.synchronise()
        return (time.perf_counter() - begin) / count

    series(1)  # loads what it needs
    count = max(1, min(repeat, int(_LONG / max(series(1), 1e-9))))
    return max(min([series(count) for _ in range(3)]), 1e-9)


def _run(device: Measured, inputs: Sequence[Node], output: Node) -> Callable[[], Any]:
    run = device.compile(build(Graph(list(inputs), [output]), device.target))
    memory = [device.upload(np.ones(prod(i.shape), i.dtype.numpy)) for i in inputs]
    return lambda: run(list(memory))


def _chain(device: Measured, length: int) -> Callable[[], Any]:
    x = node = input_leaf((16, 16), FLOAT32)
    for _ in range(length):
        node = _times(node, x)
    return _run(device, [x], node)


def _times(a: Node, b: Node, precision: str = "float32") -> Node:
    return bind(TABLE["dot_general"], a, b, contract=((1,), (0,)), batch=((), ()), **given(precision))


def _product(device: Measured, stored: Format, accum: Format, precision: str, n: int, repeat: int) -> float:
    operands = [input_leaf((n, n), stored) for _ in range(2)]
    a, b = [x if stored is accum else bind(TABLE["cast"], x, dtype=accum) for x in operands]
    run = _run(device, operands, _times(a, b, precision))
    if isinstance(device, ChoosesByMeasuring):
        device.settled(run, TUNING_S)
    return 2.0 * n**3 / _seconds(device, run, repeat)


def _copying(device: Measured, size: int, repeat: int) -> float:
    x = input_leaf((size // 4,), FLOAT32)
    return 2 * size / _seconds(device, _run(device, [x], bind(TABLE["negative"], x)), repeat)


def _link(device: Measured, size: int, repeat: int) -> tuple[float, float]:
    """Seconds of a copy of one number, there or back, whichever takes longer, and bytes a second of large ones there and back."""
    little, much = np.zeros(1, np.float32), np.zeros(size // 4, np.float32)
    there = [device.upload(x) for x in (little, much)]

    seconds = []
    for x, memory, count in zip((little, much), there, (repeat, 3), strict=True):
        ways = partial(device.upload, x), partial(device.download, memory, x.shape, FLOAT32)
        seconds.append([_seconds(device, way, count) for way in ways])
    return max(seconds[0]), 2 * size / sum(seconds[1])
