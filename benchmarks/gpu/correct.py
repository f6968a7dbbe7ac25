"""Correctness of a card: loading of all code, primitives compared with NumPy, and writes to equal indices."""

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
from weft.devices.base import DEVICE_OF_BUFFER_TYPE
from weft.devices.cuda.adapter import compile_launch
from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.card_allocator import CardAllocator, CardMemory
from weft.devices.cuda.nvidia import NvidiaDriver
from weft.graph.interpret import interpret
from weft.graph.node import Primitive, topological_order
from weft.graph.primitives.settings import ADD_UNORDERED
from weft.schedule.build import build
from weft.schedule.program import calls

SEED = 20
UNWRITTEN = 0xAB  # value of every byte that a program has not written
_CAPABILITY = 90  # compute capability for which code is compiled if there is no card
_QUICK = 12  # a quick run tests every 12th primitive


def _select_primitives(setting: Setting) -> list[Primitive]:
    all_primitives = primitives()
    return all_primitives[:: _QUICK] if setting.quick else all_primitives


def _cases(op: Primitive, quick: bool) -> list[Case]:
    rng = np.random.default_rng(SEED)
    with np.errstate(all="ignore"):
        cases = [*values(op, rng), *derivatives(op, rng)]
    return [case for case in cases if sum(a.size for a in case.arrays) < 300][::4] if quick else cases


# ---- load


class _Texts:
    """The launches of all samples by primitive, each once, under the first one. Triton compiles them in several processes."""

    def __init__(self, setting: Setting) -> None:
        self._setting, self._device = setting, setting.card
        self.of: dict[str, list[Launch]] = {}
        self._made: dict[Any, Future[None]] = {}
        self._pool: ProcessPoolExecutor | None = None

    def ready(self) -> None:
        if self.of:
            return
        seen_keys: set[Any] = set()
        for op in _select_primitives(self._setting):
            new = self.of[op.name] = []
            for graph, _ in _cases(op, self._setting.quick):
                for call in calls(build(graph, self._device.target)):
                    for launch in self._device.print_kernel(call.kernel).launches:
                        if (key := _key(launch)) not in seen_keys:
                            seen_keys.add(key)
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
        """Whether Triton compiles; False with the stub driver of the tests, which has a compiler of its own."""
        driver = getattr(self._device, "driver", None)
        return driver is None or isinstance(driver, NvidiaDriver)

    def load(self, launch: Launch) -> None:
        """Compile and load a launch. Raise the error of doing so, or TimeoutError."""
        if _key(launch) in self._made:
            self._made[_key(launch)].result(max(self._setting.left, 0.1))
        if getattr(self._device, "driver", None) is None:
            compile_launch(launch, self._capability)
        else:
            self._device.codes.load(launch, 16)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def _key(launch: Launch) -> Any:
    return launch.text, launch.signature, launch.warps, launch.stages


def _compile(launch: Launch, capability: int) -> None:
    """Compile in another process. The result is passed on through Triton's cache on disk."""
    compile_launch(launch, capability)


def load(setting: Setting) -> Rows:
    """Yield a row for each primitive."""
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
            except Exception as error:  # Triton, ptxas or the driver: continue with the other launches
                why = f"{type(error).__name__}: {error}"[:1000]
                failed.append({"error": why, "text": launch.text, "signature": str(launch.signature)})
            tried += 1
        row: dict[str, Any] = {"texts": len(texts.of[name]), "loaded": tried - len(failed), "right": not failed}
        if tried < row["texts"]:
            row["not tried"] = row["texts"] - tried
        return {**row, "first failure": failed[0]["error"], "log": failed} if failed else row

    try:
        yield "printing", printing
        for op in _select_primitives(setting):
            yield op.name, lambda name=op.name: loading(name)  # type: ignore[misc]
    finally:
        texts.close()


# ---- primitives


class _Patterned(CardAllocator):
    """Allocator that fills memory with a pattern, so that unwritten elements are detected."""

    def __init__(self, device: Any, buffer_type: type[CardMemory]) -> None:
        super().__init__(device.driver, buffer_type)
        self._staging = device.staging

    def allocate(self, nbytes: int) -> CardMemory:
        buffer = super().allocate(nbytes)
        self._staging.upload(buffer.pointer, np.full(buffer.size, UNWRITTEN, np.uint8))
        return buffer


def fill_with_pattern(device: Any) -> None:
    """Fill all memory that a device allocates from now on with a pattern. gpu-sim does so anyway."""
    if hasattr(device, "memories"):
        buffer_type = type("CardMemory", (CardMemory,), {"__slots__": ()})
        DEVICE_OF_BUFFER_TYPE[buffer_type] = device.name
        device.memories = _Patterned(device, buffer_type)


def checked(device: Any, cases: Iterable[Case]) -> dict[str, Any]:
    """Compare a device's results of programs with the NumPy references, and return the entries of a row."""
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
    """Yield a row for each primitive."""
    fill_with_pattern(setting.card)
    for op in _select_primitives(setting):
        yield op.name, lambda op=op: checked(setting.card, _cases(op, setting.quick))  # type: ignore[misc]


# ---- scatters

_LARGE = (100_000, 1000, 16)  # writes, rows, columns


def scatters(setting: Setting) -> Rows:
    """Yield rows for programs that write to equal indices. Results must be NumPy's, with equal bits in all runs unless any order
    is permitted."""
    runs = 3 if setting.quick else 100
    fill_with_pattern(setting.card)
    for op in primitives():
        if op.kind in ("scatter", "board"):
            yield f"{op.name}, samples", lambda op=op: _repeat_samples(setting, op, runs)  # type: ignore[misc]
    for dtype in ("float32", "float16", "int32"):
        for mode in ("set", "add", ADD_UNORDERED):
            if mode == "set" or dtype != "int32":
                yield f"{mode} {dtype}", lambda dtype=dtype, mode=mode: _measure_collisions(setting, mode, dtype, runs)  # type: ignore[misc]


def _repeat_samples(setting: Setting, op: Primitive, runs: int) -> dict[str, Any]:
    device, different, cases = setting.card, 0, _cases(op, False)[:: 10 if setting.quick else 1]
    row, least = checked(device, cases), runs
    for graph, arrays in cases:
        run = device.compile(build(graph, device.target))
        count, changed = _again(setting, runs, lambda run=run, g=graph, a=arrays: _outputs(device, g, run, a))  # type: ignore[misc]
        any_order = any(n.params.get("mode") == ADD_UNORDERED for n in topological_order(graph.outputs))
        least, different = min(least, count), different + (0 if any_order else changed)
    return {**row, "runs": least, "different": different, "right": row["right"] and not different}


def _again(setting: Setting, runs: int, run: Callable[[], Sequence[np.ndarray]]) -> tuple[int, int]:
    """Return the number of runs, and the number of those with other bits than the first. Without time left do two runs."""
    first, count, different = run(), 1, 0
    while count < runs and (count < 2 or setting.left > 0):
        different += _differ(first, run())
        count += 1
    return count, different


def _differ(first: Sequence[np.ndarray], second: Sequence[np.ndarray]) -> bool:
    return any(a.tobytes() != b.tobytes() for a, b in zip(first, second, strict=True))


def _measure_collisions(setting: Setting, mode: str, dtype: str, runs: int) -> dict[str, Any]:
    """Write about a hundred times to each row of a table: the last write stays, or all are added, in order or in any order."""
    writes, rows, columns = (200, 7, 3) if setting.quick else _LARGE
    rng = np.random.default_rng(SEED)
    where = rng.integers(0, rows, writes)
    values_ = rng.integers(-50, 50, (writes, columns)).astype(dtype) if dtype == "int32" else (
        rng.standard_normal((writes, columns)).astype(dtype)
    )
    want = np.zeros((rows, columns), np.float64)
    if mode == "set":
        want[where] = values_

        def program(table: Any, at: Any, values: Any) -> Any:
            table = table.copy()
            table[at] = values
            return table
    else:
        np.add.at(want, where, values_.astype(np.float64))

        def program(table: Any, at: Any, values: Any) -> Any:
            return wf.vjp(lambda t: t[at], table)[1](values)[0]

    run, any_order = wf.jit(program), mode == ADD_UNORDERED
    table, at, values = wf.array(np.zeros((rows, columns), values_.dtype)), wf.array(where), wf.array(values_)
    with wf.deterministic(not any_order):
        first = run(table, at, values).numpy()
        runs, different = _again(setting, runs, lambda: [run(table, at, values).numpy()])
    largest = float(np.abs(values_.astype(np.float64)).sum(axis=0).max()) if mode != "set" else None
    if dtype == "int32":
        want = want.astype(values_.dtype)
    row = told(apart(first, want, terms=1 if mode == "set" else writes, scale=largest))
    right = row["right"] and (any_order or not different)
    return {"writes": writes, "rows": rows, **row, "runs": runs, "different": different, "right": right}
