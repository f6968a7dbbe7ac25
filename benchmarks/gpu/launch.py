"""The cost of launching kernels: a chain of small ones, launched one by one and replayed as a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft as wf
from benchmarks.gpu.closeness import apart, told
from benchmarks.gpu.setting import Rows, Setting, normal
from weft.dtypes.formats import FLOAT32
from weft.graph.node import Graph, Node
from weft.graph.primitives.table import TABLE, bind, input_leaf
from weft.schedule.build import build

SIDE = 16


def rows(setting: Setting) -> Rows:
    """Yield rows for chains of 1 to 256 products, each a kernel of its own, a jitted call and an upload."""
    for length in (1, 4) if setting.quick else (1, 8, 64, 256):
        yield f"{length} kernel{'s' * (length > 1)}", lambda length=length: _chain(setting, length)  # type: ignore[misc]
    yield "a jitted call", lambda: _call(setting)
    yield "an upload of 4 bytes", lambda: _upload(setting)


def matrices() -> tuple[np.ndarray, np.ndarray]:
    """Return the initial matrix, and an orthogonal one, so that numbers do not grow along a chain."""
    turn, _ = np.linalg.qr(normal((SIDE, SIDE), 1, "float64"))
    return normal((SIDE, SIDE), 2), turn.astype(np.float32)


def _chain(setting: Setting, length: int) -> dict[str, Any]:
    device = setting.card
    x, w = input_leaf((SIDE, SIDE), FLOAT32), input_leaf((SIDE, SIDE), FLOAT32)
    node: Node = x
    for _ in range(length):
        node = bind(TABLE["dot_general"], node, w, contract=((1,), (0,)), batch=((), ()))
    run = device.compile(build(Graph([x, w], [node]), device.target))
    start, turn = matrices()
    buffers = [device.upload(start), device.upload(turn)]
    results: list[Any] = []  # keeps results alive: each run gets other memory, so nothing is replayed

    def one_by_one() -> None:
        if len(results) > 2000:
            results.clear()
        results.append(run(list(buffers)))

    before = setting.launches
    want = np.asarray(start, np.float64)
    for _ in range(length):
        want = want @ turn
    (out,) = run(list(buffers))
    started = setting.launches - before
    result = device.download(out, (SIDE, SIDE), FLOAT32)
    row = {**told(apart(result, want, terms=SIDE * length)), "sample": [float(v) for v in result[0, :4]], "launches": started}
    first = setting.timed({"one by one": one_by_one}, host=True)["one by one"]
    results.clear()
    for _ in range(4):
        run(list(buffers))  # with the same memory, runs are replayed as a graph from the third on
    before = device.counters().get("replays", 0)
    again = setting.timed({"graph": lambda: run(list(buffers))})["graph"]
    replayed = device.counters().get("replays", 0) > before
    row |= {"one by one": first, "us a kernel": 1e6 * first["median"] / length}
    row |= {"graph": again, "us a node": 1e6 * again["median"] / length} if replayed else {}
    return {**row, **_torch(setting, length, start, turn)}


def _torch(setting: Setting, length: int, start: np.ndarray, turn: np.ndarray) -> dict[str, Any]:
    if setting.torch is None:
        return {}
    torch, x, w = setting.torch.torch, setting.torch.array(start), setting.torch.array(turn)

    def chain() -> Any:
        y = x
        for _ in range(length):
            y = y @ w
        return y

    sides: dict[str, Any] = {"torch": chain}
    if setting.torch.name != "cpu":
        chain()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            chain()
        sides["torch graph"] = graph.replay
    times = setting.timed(sides)
    return times | {f"{name} us a kernel": 1e6 * times[name]["median"] / length for name in sides if name in times}


def _call(setting: Setting) -> dict[str, Any]:
    """Measure a jitted function of one small kernel, as users call it."""
    start, turn = matrices()
    f, x, w = wf.jit(lambda x, w: wf.tanh(x @ w)), wf.array(start), wf.array(turn)
    row = told(apart(f(x, w).numpy(), np.tanh(start.astype(np.float64) @ turn), terms=SIDE))
    return {**row, **setting.timed({"one by one": lambda: f(x, w)}, host=True)}


def _upload(setting: Setting) -> dict[str, Any]:
    device, one = setting.card, np.ones(1, np.float32)
    row: dict[str, Any] = setting.timed({"one by one": lambda: device.upload(one)}, host=True)
    return {**row, **told(apart(device.download(device.upload(one), (1,), FLOAT32), one))}
