"""Programs that do not fit on a card under "auto": placed on the CPU beforehand, or run again there when the card is full."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.cuda.stub import Card, made
from tests.cuda.test_auto import LINK, QUICK, SLOW
from tests.cuda.test_launcher import standing
from weft.devices import get_device
from weft.devices.cuda.nvidia import OutOfMemory
from weft.process.bounded_cache import BoundedCache
from weft.runtime import auto_device, execute
from weft.runtime.context import CONTEXT

pytest.importorskip("triton")

FELL = r"a program that 'auto' placed on gpu runs on the CPU from now on: a stub of a card has no .* left"


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Card]:
    """A quick card of 8 MB beside a slow CPU, under "auto"."""
    path = tmp_path / "machines.json"
    path.write_text(json.dumps({"devices": {"cpu": SLOW, "gpu": {**QUICK, "link": LINK}}}))
    monkeypatch.setenv("WEFT_PROFILE", str(path))
    device, driver = made(limit=8 << 20)
    with standing(device, monkeypatch), wf.device("auto"):
        yield device, driver


def fails(driver: Any, patch: pytest.MonkeyPatch, after: int, told: int | None = 1 << 30) -> None:
    """From the n-th allocation on there is no memory, whatever the driver tells before."""
    original, count = type(driver).allocate, [0]

    def allocate(nbytes: int) -> int:
        count[0] += 1
        if count[0] > after:
            raise OutOfMemory("stub")
        return original(driver, nbytes)

    patch.setattr(driver, "allocate", allocate)
    if told is not None:
        patch.setattr(driver, "free", lambda: told)


def test_what_does_not_fit_is_placed_on_the_cpu(card: Card, capsys: pytest.CaptureFixture) -> None:
    device, driver = card
    f = wf.jit(lambda x: wf.tanh(x).sum(axis=1)[:, None] * x)
    small, large = (wf.array(np.ones((n, 1000), np.float32)) for n in (100, 1500))  # the latter: 6 MB in, and 6 out
    assert f(small).device == "gpu"
    found = wf.explain(f, large)
    assert found.placement is not None and found.placement.device == "cpu" and "on cpu: gpu would take" in capsys.readouterr().out
    assert ": 0.0112 GiB more are needed there, and 0.00" in found.placement.reason  # 6 MB in, and 6 out
    assert [e.device for e in found.placement.estimates] == ["cpu", "gpu"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = f(large)
    assert out.device == "cpu" and large.device == "cpu"
    np.testing.assert_allclose(out.numpy(), np.full((1500, 1000), 1000 * np.tanh(1)), rtol=1e-5)
    assert wf.explain(f, small).placement.device == "gpu"  # type: ignore[union-attr]
    assert f(small).device == "gpu" and device.memories.bytes_in_use < 2 << 20


def test_it_is_asked_again_when_there_may_be_memory(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    _, driver = card
    monkeypatch.setattr(auto_device, "_RETRY_RUNS", 5)
    f = wf.jit(lambda x: wf.tanh(x) * 2)
    x = wf.array(np.ones((100, 1000), np.float32))
    monkeypatch.setattr(driver, "free", lambda: 1000)
    before = [f(x).device for _ in range(7)]
    monkeypatch.setattr(driver, "free", lambda: 7 << 20)
    after = [f(x).device for _ in range(7)]
    assert set(before) == {"cpu"} and after[0] == "cpu" and after[-1] == "gpu" and x.device == "gpu"


def plain() -> tuple[Callable[[], Any], Callable[[], list[np.ndarray]]]:
    x, w = wf.array(np.ones((40, 300), np.float32)), wf.array(np.ones((300, 20), np.float32) / 300)
    f = wf.jit(lambda x: wf.tanh(x @ w).sum(axis=0))
    out: list[Any] = []
    return lambda: out.append(f(x)), lambda: [o.numpy() for o in out]


def stateful() -> tuple[Callable[[], Any], Callable[[], list[np.ndarray]]]:
    state, more = wf.zeros((3, 300)), wf.zeros((3, 300))
    x = wf.array(np.ones((3, 300), np.float32))

    @wf.jit
    def step(x: wf.Array) -> wf.Array:
        state[...] = state * 2 + x
        more[...] = more + state
        return wf.scan(lambda c, row: (c + wf.tanh(row), row.sum()), wf.zeros(300), state)[1]

    out: list[Any] = []
    return lambda: out.append(step(x)), lambda: [state.numpy(), more.numpy(), *[o.numpy() for o in out]]


def walked() -> tuple[Callable[[], Any], Callable[[], list[np.ndarray]]]:
    x = wf.array(np.arange(6000, dtype=np.float32)[::-1].reshape(20, 300).copy())
    f = wf.jit(lambda x, s: wf.tanh(wf.sort(x * s, axis=1)).sum(axis=0))
    out: list[Any] = []
    return lambda: out.append(f(x, 0.5)), lambda: [o.numpy() for o in out]


def looked() -> tuple[Callable[[], Any], Callable[[], list[np.ndarray]]]:
    x = wf.array(np.ones((200, 300), np.float32))
    out: list[Any] = []

    def turn() -> None:
        out.append((wf.exp(x) / 2).sum(axis=0))
        wf.eval(out[-1])

    return turn, lambda: [o.numpy() for o in out]


@pytest.mark.parametrize("program", [plain, stateful, walked, looked])
def test_a_run_that_finds_no_memory_is_run_on_the_cpu(card: Card, program: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    """From whichever allocation on there is none: with the memory for some turns, then without."""
    device, driver = card
    with wf.device("cpu"):
        turn, results = program()
        for _ in range(4):
            turn()
        want = results()
    fell = 0
    monkeypatch.setattr(CONTEXT, "compile_threshold", 0)
    for after in range(14):
        with monkeypatch.context() as patch:
            turn, results = program()
            fails(driver, patch, after)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                for _ in range(4):
                    turn()
            said = [w for w in said if "'auto' placed" in str(w.message)]
            assert len(said) <= 1 and all(os.path.basename(w.filename) == os.path.basename(__file__) for w in said)
            fell += len(said)
        for got, right in zip(results(), want, strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-5)
        del turn, results
        execute.PROGRAMS = BoundedCache(64e6)  # looks know by the graph that it fell
        device.memories.give_back()
    assert fell >= 5 and "launch" in driver.log


def test_what_was_written_over_is_not_run_again(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run in NumPy and on the card, in the memory of a state, which finds no memory in the middle: only an error is left."""
    _, driver = card
    seen = set()
    for after in range(14):
        state = wf.array(np.arange(900, dtype=np.float32)[::-1].reshape(3, 300).copy())

        @wf.jit
        def step(state: wf.Array = state) -> wf.Array:
            state[...] = state * 2 + 1
            return wf.tanh(wf.sort(wf.sin(state), axis=1)).sum(axis=0)

        for _ in range(3):
            step()
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fails(driver, patch, after)
            driver.synchronise()
            get_device("gpu").memories.give_back()  # type: ignore[attr-defined]
            try:
                step()
                seen.add(state.device)
            except MemoryError as error:
                seen.add(type(error).__name__)
    assert seen == {"cpu", "gpu", "MemoryError"}


def test_the_reason_is_told_once_and_stays(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    _, driver = card
    f = wf.jit(lambda x: wf.tanh(x) * 2)
    x = wf.array(np.ones((100, 1000), np.float32))
    with monkeypatch.context() as patch:
        fails(driver, patch, 0)
        with pytest.warns(RuntimeWarning, match=FELL):
            assert f(x).device == "cpu"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [f(x).device for _ in range(3)] == ["cpu"] * 3 and x.device == "cpu"
        g = wf.jit(lambda x: wf.tanh(x) * 3)
        assert g(x).device == "gpu"  # another program


def test_by_name_it_raises(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    _, driver = card
    assert CONTEXT.placement is not None
    with wf.device("gpu"):
        x = wf.array(np.ones((100, 1000), np.float32))
        fails(driver, monkeypatch, 0, None)
        with pytest.raises(MemoryError, match="a stub of a card has no .* left"):
            wf.jit(lambda x: wf.tanh(x) * 2)(x)
        message = r"test_out_of_memory.py:\d+.*a stub of a card has no .* left.*the largest result here"
        with pytest.raises(MemoryError, match=message):
            wf.eval(wf.exp(x) * 2)
