"""Whether a card computes what it should: code is loaded, primitives against NumPy, and writes that meet."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

import numpy as np

import weft as wf
from benchmarks.gpu.closeness import apart, told
from benchmarks.gpu.samples import Case, derivatives, primitives, values
from benchmarks.gpu.setting import Rows, Setting
from benchmarks.gpu.steps import COMPILERS
from weft.devices.base import ELSEWHERE
from weft.devices.cuda.adapter import compiled
from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.card_allocator import CardMemory, Memories
from weft.devices.cuda.nvidia import NvidiaDriver
from weft.graph.interpret import interpret
from weft.graph.node import Primitive, topological
from weft.graph.primitives.meeting import UNORDERED
from weft.schedule.build import build
from weft.schedule.program import calls

SEED = 20
UNWRITTEN = 0xAB  # of every byte that a program has not written
_CAPABILITY = 90  # for which texts are compiled where there is no card
_QUICK = 12  # of so many primitives one is looked at


def _chosen(setting: Setting) -> list[Primitive]:
    found = primitives()
    return found[:: _QUICK] if setting.quick else found


def _cases(op: Primitive, quick: bool) -> list[Case]:
    rng = np.random.default_rng(SEED)
    with np.errstate(all="ignore"):
        found = [*values(op, rng), *derivatives(op, rng)]
    return [case for case in found if sum(a.size for a in case.arrays) < 300][::4] if quick else found


# ---- load


class _Texts:
    """The launches of all samples, by primitive, each where it is first met; compiled by several processes where Triton does."""

    def __init__(self, setting: Setting) -> None:
        self._setting, self._device = setting, setting.card
        self.of: dict[str, list[Launch]] = {}
        self._made: dict[Any, Future[None]] = {}
        self._pool: ProcessPoolExecutor | None = None

    def ready(self) -> None:
        if self.of:
            return
        met: set[Any] = set()
        for op in _chosen(self._setting):
            new = self.of[op.name] = []
            for graph, _ in _cases(op, self._setting.quick):
                for call in calls(build(graph, self._device.target)):
                    for launch in self._device.printed(call.kernel).launches:
                        if (key := _key(launch)) not in met:
                            met.add(key)
                            new.append(launch)
        if self._setting.quick:
            self.of = {name: launches[:1] for name, launches in self.of.items()}
        if self._by_triton and not self._setting.quick:
            self._pool = ProcessPoolExecutor(min(COMPILERS, len(os.sched_getaffinity(0))), multiprocessing.get_context("spawn"))
            codes = getattr(self._device, "codes", None)
            for launch in [x for launches in self.of.values() for x in launches if codes is None or not codes.has(x, 16)]:
                self._made[_key(launch)] = self._pool.submit(_compile, launch, self._capability)

    @property
    def _capability(self) -> int:
        driver = getattr(self._device, "driver", None)
        return _CAPABILITY if driver is None else driver.capability

    @property
    def _by_triton(self) -> bool:
        """Not over a driver that the tests have, which brings a compiler of its own."""
        driver = getattr(self._device, "driver", None)
        return driver is None or isinstance(driver, NvidiaDriver)

    def load(self, launch: Launch) -> None:
        """Raises what compiling or loading does, and TimeoutError."""
        if _key(launch) in self._made:
            self._made[_key(launch)].result(max(self._setting.left, 0.1))
        if getattr(self._device, "driver", None) is None:
            compiled(launch, self._capability)
        else:
            self._device.code(launch, 16)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _key(launch: Launch) -> Any:
    return launch.text, launch.signature, launch.warps, launch.stages


def _compile(launch: Launch, capability: int) -> None:
    """In another process: Triton's own cache keeps what it makes, and this process finds it there."""
    compiled(launch, capability)


def load(setting: Setting) -> Rows:
    """A row a primitive."""
    texts = _Texts(setting)
    if getattr(setting.card, "driver", None) is None:
        setting.notes.append("gpu-sim loads nothing: its texts are compiled for compute capability 9.0, without a card")

    def printing() -> dict[str, Any]:
        texts.ready()
        return {"texts": sum([len(launches) for launches in texts.of.values()])}

    def loading(name: str) -> dict[str, Any]:
        texts.ready()
        failed, tried = [], 0
        for launch in texts.of[name]:
            if setting.left <= 0:
                break
            try:
                texts.load(launch)
            except TimeoutError:
                break
            except Exception as error:  # whatever Triton, ptxas and the driver raise: the others are worth knowing
                why = f"{type(error).__name__}: {error}"[:1000]
                failed.append({"error": why, "text": launch.text, "signature": str(launch.signature)})
            tried += 1
        row: dict[str, Any] = {"texts": len(texts.of[name]), "loaded": tried - len(failed), "right": not failed}
        if tried < row["texts"]:
            row["not tried"] = row["texts"] - tried
        return {**row, "first failure": failed[0]["error"], "log": failed} if failed else row

    try:
        yield "printing", printing
        for op in _chosen(setting):
            yield op.name, lambda name=op.name: loading(name)  # type: ignore[misc]
    finally:
        texts.close()


# ---- primitives


class _Patterned(Memories):
    """Memory that holds a pattern whenever it is given out, so that what is not written shows."""

    def __init__(self, device: Any, made: type[CardMemory]) -> None:
        super().__init__(device.driver, made)
        self._staging = device.staging

    def allocate(self, nbytes: int) -> CardMemory:
        found = super().allocate(nbytes)
        self._staging.upload(found.pointer, np.full(found.size, UNWRITTEN, np.uint8))
        return found


def patterned(device: Any) -> None:
    """From now on all memory of a device holds a pattern before it is written; that of gpu-sim does so anyway."""
    if hasattr(device, "memories"):
        made = type("CardMemory", (CardMemory,), {"__slots__": ()})
        ELSEWHERE[made] = device.name
        device.memories = _Patterned(device, made)


def checked(device: Any, cases: Iterable[Case]) -> dict[str, Any]:
    """How far off a device is on programs, beside the NumPy references."""
    count, worst, where = 0, 0.0, ""
    for graph, arrays in cases:
        with np.errstate(all="ignore"):
            expected = interpret(graph, arrays)
        got = _outputs(device, graph, device.compile(build(graph, device.target)), arrays)
        off = max([apart(g, want, terms=64) for g, want in zip(got, expected, strict=True)])
        if off > worst:
            worst, where = off, repr(graph)
        count += 1
    row = {"cases": count, **told(worst)}
    return row if row["right"] else {**row, "where": where[:2000]}


def _outputs(device: Any, graph: Any, run: Any, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    buffers = run([device.upload(a) for a in arrays])
    return [np.array(device.download(b, node.shape, node.dtype)) for b, node in zip(buffers, graph.outputs, strict=True)]


def check(setting: Setting) -> Rows:
    """A row a primitive."""
    patterned(setting.card)
    for op in _chosen(setting):
        yield op.name, lambda op=op: checked(setting.card, _cases(op, setting.quick))  # type: ignore[misc]


# ---- scatters

_LARGE = (100_000, 1000, 16)  # writes, rows, columns


def scatters(setting: Setting) -> Rows:
    """Programs whose writes meet: results are NumPy's, and of equal bits in all runs, but where any order was permitted."""
    runs = 3 if setting.quick else 100
    patterned(setting.card)
    for op in primitives():
        if op.kind in ("scatter", "board"):
            yield f"{op.name}, samples", lambda op=op: _repeated(setting, op, runs)  # type: ignore[misc]
    for dtype in ("float32", "float16", "int32"):
        for mode in ("set", "add", UNORDERED):
            if mode == "set" or dtype != "int32":
                yield f"{mode} {dtype}", lambda dtype=dtype, mode=mode: _meeting(setting, mode, dtype, runs)  # type: ignore[misc]


def _repeated(setting: Setting, op: Primitive, runs: int) -> dict[str, Any]:
    device, different, cases = setting.card, 0, _cases(op, False)[:: 10 if setting.quick else 1]
    row, least = checked(device, cases), runs
    for graph, arrays in cases:
        run = device.compile(build(graph, device.target))
        count, changed = _again(setting, runs, lambda run=run, g=graph, a=arrays: _outputs(device, g, run, a))  # type: ignore[misc]
        any_order = any(n.params.get("mode") == UNORDERED for n in topological(graph.outputs))
        least, different = min(least, count), different + (0 if any_order else changed)
    return {**row, "runs": least, "different": different, "right": row["right"] and not different}


def _again(setting: Setting, runs: int, run: Callable[[], Sequence[np.ndarray]]) -> tuple[int, int]:
    """(how often it ran, how often its bits were not the first ones); where time is over two runs are enough."""
    first, count, different = run(), 1, 0
    while count < runs and (count < 2 or setting.left > 0):
        different += _differ(first, run())
        count += 1
    return count, different


def _differ(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> bool:
    return any(a.tobytes() != b.tobytes() for a, b in zip(first, second, strict=True))


def _meeting(setting: Setting, mode: str, dtype: str, runs: int) -> dict[str, Any]:
    """About a hundred writes to each row of a table: the last one stays, or all are added, in their order or in any."""
    writes, rows, columns = (200, 7, 3) if setting.quick else _LARGE
    rng = np.random.default_rng(SEED)
    where = rng.integers(0, rows, writes)
    given = rng.integers(-50, 50, (writes, columns)).astype(dtype) if dtype == "int32" else (
        rng.standard_normal((writes, columns)).astype(dtype)
    )
    want = np.zeros((rows, columns), np.float64)
    if mode == "set":
        want[where] = given

        def program(table: Any, at: Any, values: Any) -> Any:
            table = table.copy()
            table[at] = values
            return table
    else:
        np.add.at(want, where, given.astype(np.float64))

        def program(table: Any, at: Any, values: Any) -> Any:
            return wf.vjp(lambda t: t[at], table)[1](values)[0]

    run, any_order = wf.jit(program), mode == UNORDERED
    table, at, values = wf.array(np.zeros((rows, columns), given.dtype)), wf.array(where), wf.array(given)
    with wf.deterministic(not any_order):
        first = run(table, at, values).numpy()
        runs, different = _again(setting, runs, lambda: [run(table, at, values).numpy()])
    largest = float(np.abs(given.astype(np.float64)).sum(axis=0).max()) if mode != "set" else None
    if dtype == "int32":
        want = want.astype(given.dtype)
    row = told(apart(first, want, terms=1 if mode == "set" else writes, scale=largest))
    right = row["right"] and (any_order or not different)
    return {"writes": writes, "rows": rows, **row, "runs": runs, "different": different, "right": right}
