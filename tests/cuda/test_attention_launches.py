"""Attention on a GPU: its launches, what they compile to, and their numbers in Triton's interpreter, over several tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.cuda.resources import usage
from weft.devices.cuda import adapter
from weft.devices.cuda.arguments import Launch
from weft.devices.cuda.generate import generate
from weft.devices.cuda.target import GPU
from weft.nn import attention as module
from weft.schedule.build import build
from weft.schedule.program import calls
from weft.transforms.jit import jit

pytest.importorskip("triton")

F = wf.nn.scaled_dot_product_attention
CARDS = (80, 90, 100)
SHARED = {80: 163 << 10, 86: 99 << 10, 90: 227 << 10, 100: 227 << 10}  # bytes that a block may have


@pytest.fixture(autouse=True)
def chained() -> Iterator[None]:
    before, module.MAX_STORED_SCORES = module.MAX_STORED_SCORES, -1
    yield
    module.MAX_STORED_SCORES = before


def both(**options: Any) -> Any:
    def f(q: Any, k: Any, v: Any, g: Any, *mask: Any) -> Any:
        def loss(q: Any, k: Any, v: Any) -> Any:
            return (F(q, k, v, *mask, **options) * g).sum()

        return F(q, k, v, *mask, **options), *wf.grad(loss, argnums=(0, 1, 2))(q, k, v)

    return f


def launches(f: Any, *arguments: Any) -> list[Launch]:
    program = build(jit(f).trace(*arguments).graph, GPU)
    return [launch for call in calls(program) for launch in generate(call.kernel).launches if "tl.dot" in launch.text]


def zeros(length: int, width: int, dtype: str, heads: int = 4) -> list[Any]:
    return [wf.zeros((heads, length, width), dtype=dtype) for _ in range(4)]


def test_launches() -> None:
    """One forward; the gradient is one for queries and one for keys and values. Sizes are arguments."""
    found = [launches(both(is_causal=True), *zeros(length, 64, "bfloat16")) for length in (1024, 2048)]
    assert [len(x) for x in found] == [3, 3]
    assert [x.text for x in found[0]] == [x.text for x in found[1]]
    assert [x.text.count("tl.dot") for x in found[0]] == [2, 3, 4]
    assert all("float64" not in x.text for x in found[0])


@pytest.mark.drawn(5)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("options", [{}, {"is_causal": True, "enable_gqa": True}, {"mask": True}, {"dropout_p": 0.25}], ids=str)
def test_on_gpu_sim(options: dict[str, Any], dtype: str, rng: np.random.Generator) -> None:
    """As on the CPU, within roundings."""
    options = dict(options)
    heads = 2 if "enable_gqa" in options else 1
    mask = [rng.random((1, 70, 130)) < 0.7] if options.pop("mask", False) else []
    shapes = [(heads, 70, 20), (1, 130, 20), (1, 130, 36), (heads, 70, 36)]
    arrays = [rng.normal(size=s).astype("f") for s in shapes]
    results = []
    for device in ("cpu", "gpu-sim"):
        with wf.device(device):
            wf.random.seed(3)
            given = [wf.array(a).astype(dtype) for a in arrays] + [wf.array(m) for m in mask]
            results.append([x.astype("float64").numpy() for x in wf.jit(both(**options))(*given)])
    bound = {"float32": 2e-6, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    for here, there in zip(*results, strict=True):
        assert np.abs(here).max() > 0.1
        assert np.abs(here - there).max() <= bound * np.abs(here).max()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_block_has_what_every_card_has(dtype: str) -> None:
    """At the largest width, where most lies in a block's own memory."""
    for launch in launches(both(), *zeros(1024, 128, dtype)):
        assert adapter.compile_launch(launch, 86).shared <= SHARED[86], launch.text


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("capability", "width"), [*[(c, 64) for c in CARDS], (90, 128)])
def test_compiles(capability: int, width: int, dtype: str) -> None:
    """Nothing is spilled, what a block has is its own, and narrow formats go to tensor cores."""
    for launch in launches(both(is_causal=True), *zeros(1024, width, dtype)):
        code = adapter.compile_launch(launch, capability)
        used = usage(code)
        assert used.stack == 0 and code.scratch == 0, (launch.text, used)
        assert used.registers * 32 * code.warps <= 65536 and code.shared <= SHARED[capability]
        assert ("mma" if dtype == "bfloat16" else "fma.rn.f32") in code.assembly


@pytest.mark.parametrize("options", [{}, {"is_causal": True, "enable_gqa": True}, {"mask": True}, {"dropout_p": 0.25}], ids=str)
def test_width_128_goes_to_tensor_cores_of_64_rows(options: dict[str, Any]) -> None:
    """With enough programs for a card; and cards of 8.0, with shorter instructions and as many registers, spill nothing."""
    options = dict(options)
    mask = [wf.ones((1024, 1024), dtype="bool")] if options.pop("mask", False) else []
    found = launches(both(**options), *zeros(1024, 128, "bfloat16", heads=32), *mask)
    assert len(found) >= 3
    for launch in found:
        new, old = (adapter.compile_launch(launch, capability) for capability in (90, 80))
        assert "wgmma" in new.assembly and "mma.sync" not in new.assembly, launch.text
        assert usage(new).stack == usage(old).stack == 0, launch.text
        assert old.shared <= SHARED[86]


def test_tiles_of_few_programs_are_smaller() -> None:
    """Tiles of 128 rows would leave processors of a large card without work."""
    rows = [launches(F, *zeros(1024, 128, "bfloat16", heads)[:3])[0].grid[0] for heads in (4, 16, 17)]
    assert rows == [64, 256, 136]
