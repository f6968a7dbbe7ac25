"""Texts for GPUs, printed without Triton: what is in them and what is not; and what is said where a card or Triton is missing."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import weft as wf
from weft.devices import get_device
from weft.devices.cuda import cards
from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.generate import generate
from weft.devices.cuda.library import _SOURCES
from weft.devices.cuda.target import GPU
from weft.graph.primitives import philox
from weft.schedule.build import build
from weft.schedule.program import calls
from weft.tools import cli
from weft.transforms.jit import jit


def launches(f: Any, *arguments: Any) -> list[Launch]:
    """What a function becomes."""
    program = build(jit(f).trace(*arguments).graph, GPU)
    return [launch for call in calls(program) for launch in generate(call.kernel).launches]


def softmax(x: wf.Array) -> wf.Array:
    e = wf.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def standardised(x: wf.Array) -> wf.Array:
    return (x - x.mean()) / wf.sqrt(x.var() + 1e-5)


@pytest.mark.parametrize(("f", "shape", "count"), [
    (softmax, (37, 1000), 1),
    (lambda x: wf.nn.gelu(x * 2 + 1), (128, 32), 1),
    (lambda x: wf.tanh(x @ x + x[0]), (64, 64), 1),  # the product's bias and activation on its tile
    (lambda x: (x - x.mean(axis=1, keepdims=True)).sum(axis=1), (128, 32), 1),
    (lambda x: x.sum(), (4, 10), 1),
    (lambda x: x / x.sum(), (128, 32), 1),  # a program can own 8,192 elements
    (standardised, (64, 64), 1),
    (lambda x: x / x.sum(), (128, 320), 3),  # pieces and their sums, the quotients
    (lambda x: x.sum(axis=1), (2, 100_000), 3),  # few long rows: pieces of them, their sums, the store
    (lambda x: x.sum(axis=0), (5000, 40), 3),  # and few long columns
    (lambda x: x.sum(axis=0), (2000, 40), 1),
], ids="softmax gelu product rows sum share standardised large-share long-rows long-columns columns".split())
def test_launches(f: Any, shape: tuple[int, ...], count: int) -> None:
    assert len(launches(f, wf.zeros(shape))) == count


def test_numbers_of_a_finished_kernel_are_arguments() -> None:
    """Sizes, strides and constants are not in the text, so that other sizes compile nothing."""
    shapes = [(rows, columns) for rows in (300, 451, 999) for columns in (1037, 1100, 2040)]
    found = [launches(lambda x: wf.tanh(x * 0.37) + x[:1], wf.zeros(s)) for s in shapes]
    assert {len(f) for f in found} == {1} and len({f[0].text for f in found}) == 1
    (launch,), (other,) = found[0], found[-1]
    assert "0.37" not in launch.text and "1037" not in launch.text
    numbers = {a.value for a in launch.arguments if a.kind == "number"}
    assert {300 * 1037, 1037} & numbers and {a.value for a in other.arguments} != {a.value for a in launch.arguments}
    aligned = {a.value: a.divisibility for a in other.arguments if a.kind == "number"}
    assert aligned[2040] == 8


def test_a_text_is_the_same_each_time() -> None:
    f, x = standardised, wf.zeros((300, 700))
    first, again = launches(f, x), launches(f, x)
    assert [(a.text, a.signature, a.grid) for a in first] == [(b.text, b.signature, b.grid) for b in again]


def test_nothing_is_written_after_a_wrong_index() -> None:
    def put(x: wf.Array, at: wf.Array) -> wf.Array:
        x = x.copy()
        x[at] = 1
        return x

    found = launches(put, wf.zeros((5, 3)), wf.zeros(4, dtype="int64"))
    checks = next(k for k, launch in enumerate(found) if launch.checks)
    assert len(found) > checks + 1
    assert all(launch.stops and "if tl.load(faults) != 0:" in launch.text for launch in found[checks + 1:])
    assert not any(launch.stops for launch in found[: checks + 1])


def test_random_words_have_the_numbers_of_the_reference() -> None:
    for number in (*philox.MULTIPLIERS, *philox.WEYL):
        assert str(number) in _SOURCES["philox"]
    assert f"static_range({philox.ROUNDS})" in _SOURCES["philox"]


def test_nothing_of_a_gpu_is_imported_unasked() -> None:
    code = (
        "import sys, weft as wf; float(wf.ones(3).sum()); wf.jit(lambda x: x + 1)(wf.ones(3)); "
        "assert not [m for m in sys.modules if m.startswith(('triton', 'cuda', 'weft.devices.cuda'))], sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- what is said where something is missing


class _Driver:
    """As much of NVIDIA's driver as is asked."""

    def __init__(self, starts: int = 0, cards: int = 1, capability: tuple[int, int] = (9, 0), version: int = 12040) -> None:
        self.starts, self.cards, self.capability, self.version = starts, cards, capability, version

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802
        version._obj.value = self.version
        return 0

    def cuInit(self, flags: int) -> int:  # noqa: N802
        return self.starts

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        count._obj.value = self.cards
        return 0

    def cuDeviceGetAttribute(self, value: Any, attribute: int, number: int) -> int:  # noqa: N802
        value._obj.value = self.capability[attribute == 76]
        return 0

    def cuDeviceGetName(self, name: Any, size: int, number: int) -> int:  # noqa: N802
        name.value = f"Card {number}".encode()
        return 0

    def cuDeviceTotalMem_v2(self, nbytes: Any, number: int) -> int:  # noqa: N802
        nbytes._obj.value = (number + 1) * 24 << 30
        return 0


def _no_library(name: str) -> Any:
    raise OSError(name)


@pytest.mark.parametrize(("load", "said"), [
    (_no_library, "no NVIDIA driver"),
    (lambda name: _Driver(starts=999), r"does not start \(cuInit returns 999\)"),
    (lambda name: _Driver(cards=0), "sees no card"),
    (lambda name: _Driver(capability=(7, 5)), r"compute capability 7.5, and weft needs 8.0"),
    (lambda name: _Driver(version=11080), "driver is for CUDA 11.8, and weft needs one for 12.0 or later: update it"),
])
def test_a_missing_card_is_said_in_one_sentence(load: Any, said: str) -> None:
    import re

    found = cards.why_no_card(load)
    assert found is not None and re.search(said, found) and "\n" not in found


def test_the_second_of_one_card() -> None:
    assert cards.why_no_card(lambda name: _Driver(cards=2), number=1) is None
    assert "sees 1 card, counted from gpu:0" in str(cards.why_no_card(lambda name: _Driver(), number=1))


def test_a_card_that_serves() -> None:
    assert cards.why_no_card(lambda name: _Driver()) is None
    assert cards.why_no_card(lambda name: _Driver(capability=(8, 0))) is None


def test_info_names_the_cards(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def load(name: str) -> Any:
        return _Driver(cards=2)

    monkeypatch.setattr(cards.cards, "__defaults__", (load,))
    monkeypatch.setattr(cards.why_no_card, "__defaults__", (load, 0))
    for part in ("no_triton", "no_bindings"):
        monkeypatch.setattr(cards, part, lambda: None)
    monkeypatch.setenv("COLUMNS", "200")
    assert cli.main(["info"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "gpu ready" in lines
    for number, memory in ((0, "24.0"), (1, "48.0")):
        assert f"gpu:{number} Card {number}, {memory} GiB, compute capability 9.0, driver for CUDA 12.4" in lines


def test_without_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "importlib", SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: None)))
    get_device.cache_clear()
    try:
        with pytest.raises(RuntimeError, match=r"'gpu-sim': Triton is not installed.*pip install 'weft-array\[gpu\]'"):
            wf.set_device("gpu-sim")
        with pytest.raises(RuntimeError, match="device 'gpu': "), wf.device("gpu"):
            pass
        assert wf.ones(3).device == "cpu"
    finally:
        get_device.cache_clear()
    with pytest.raises(ValueError, match="no device 'tpu'; there are 'cpu', 'gpu-sim' and 'gpu'"):
        get_device("tpu")
