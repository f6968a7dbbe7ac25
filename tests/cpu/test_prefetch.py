"""Rows of large tables are asked for ahead of time, and what is computed stays what it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.devices.cpu.emit.isa import host_isa
from weft.devices.cpu.generate import generate
from weft.schedule.build import build
from weft.schedule.program import calls

rng = np.random.default_rng()


def asked(f: Callable, *args: Any) -> list[str]:
    """The calls that ask for memory in what ``f`` becomes."""
    program = build(wf.jit(f).trace(*args).graph)
    text = "".join(generate(call.kernel, host_isa()).ir for call in calls(program))
    return [line for line in text.splitlines() if "call void @llvm.prefetch" in line]


def mean(table: Any, index: Any) -> Any:
    return wf.nn.embedding(index, table).mean(axis=1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 5, 100, 203])
def test_means_of_rows(count: int, dtype: str) -> None:
    table = rng.normal(size=(1200, 100)).astype(dtype)
    index = rng.integers(-1200, 1200, (count, 10))
    found = wf.jit(mean)(wf.array(table), wf.array(index)).numpy()
    np.testing.assert_allclose(found, table.astype(np.float64)[index].mean(axis=1), rtol=0, atol=1e-6)


def test_only_rows_of_large_tables_are_asked_for() -> None:
    index = wf.array(rng.integers(0, 50, (60, 10)))
    lines = asked(mean, wf.ones((1200, 100)), index)
    assert len(lines) == 10 * 7 and all("i32 0, i32 3" in line for line in lines)  # ten rows of 400 bytes, to read
    assert not asked(mean, wf.ones((50, 100)), index)  # it lies in the caches
    assert not asked(mean, wf.ones((100_000, 5)), index)  # short rows
    assert not asked(lambda x: x.mean(axis=1), wf.ones((300, 10, 100)))  # memory in order
    many = wf.array(rng.integers(0, 50, (60, 40)))
    assert not asked(mean, wf.ones((1200, 100)), many)


def test_an_update_asks_once_for_what_it_reads_and_writes() -> None:
    table = {"t": wf.ones((1200, 100))}
    optimizer = wf.optim.Adam(0.1, groups={"t": {"sparse": True}}).init(table)
    index = wf.array(rng.integers(0, 1200, (30, 10)))

    def step(index: Any) -> None:
        optimizer.update(table, wf.grad(lambda p: (p["t"][index] ** 2).sum())(table))

    lines = asked(step, index)
    assert sum("i32 1, i32 3" in line for line in lines) == 3 * 7  # parameter and two means


@pytest.mark.parametrize("touched", [3, 400])
def test_adam_on_rows(touched: int) -> None:
    start = rng.normal(size=(1200, 100))
    p = {"t": wf.array(start.astype("f"))}
    optimizer = wf.optim.Adam(0.1, groups={"t": {"sparse": True}}).init(p)

    @wf.jit
    def step(index: Any, factor: Any) -> None:
        optimizer.update(p, wf.grad(lambda p: (p["t"][index] * factor).sum())(p))

    w, m, v = start.astype("f").astype(np.float64), np.zeros(start.shape), np.zeros(start.shape)
    for t in range(1, 5):
        index = rng.integers(0, 1200, (touched,))
        index[-1] = 1199
        factor = rng.normal(size=(touched, 100)).astype("f")
        step(wf.array(index), wf.array(factor))
        g, k = np.zeros(start.shape), np.unique(index)
        np.add.at(g, index, factor.astype(np.float64))
        m[k] = 0.9 * m[k] + 0.1 * g[k]
        v[k] = 0.999 * v[k] + 0.001 * g[k] ** 2
        w[k] -= 0.1 * (m[k] / (1 - 0.9**t)) / (np.sqrt(v[k] / (1 - 0.999**t)) + 1e-8)
    np.testing.assert_allclose(p["t"].numpy(), w, rtol=0, atol=5e-5)
