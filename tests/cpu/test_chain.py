"""Chains of products in compiled code against evaluate: between pages that may not be touched, and for older processors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from harness import isas

from tests.fuzz.native import native, native_for, run, same
from tests.kernel.evaluate import evaluate
from tests.kernel.verify import verify
from weft.dtypes.formats import FROM_NUMPY
from weft.graph.node import Graph, Node
from weft.graph.primitives import TABLE, bind, input_leaf
from weft.kernel.ir import Chain
from weft.schedule.build import build
from weft.schedule.program import calls

EXTENTS = (1, 2, 5, 15, 16, 17, 33, 63, 64, 65, 100, 129)
WIDTHS = (1, 3, 8, 16, 20, 33)
BOUND = {2: 2e-2, 4: 1e-5, 8: 1e-13}
WAYS = {"chain", *(f"chain {way}" for way in (
    "softmax", "across", "skips", "packs", "last rows", "last columns", "panels", "splits", "turns"
))}
MET: set[str] = set()


def graph(r: np.random.Generator, dtype: Any) -> tuple[Graph, list[np.ndarray]]:
    """A random attention with its sums, or a gradient with all of its results, of plain arrays or of views of one array."""
    def number(n: int) -> int:
        return int(r.integers(1, n + 1))

    batch, times = (number(2), number(2)), number(3)
    length, keys = (int(r.choice(EXTENTS)) for _ in range(2))
    width, out = (int(r.choice(WIDTHS)) for _ in range(2))
    lead, shared = (*batch, times), (*batch, 1)
    shapes = [(*lead, length, width), (*shared, keys, width), (*shared, keys, out)]
    causal, gradient, moved = (bool(r.random() < 0.5) for _ in range(3))
    inputs: list[Node] = []
    arrays: list[np.ndarray] = []

    def given(shape: tuple[int, ...], kind: Any = dtype, low: float = -1.0, view: bool = False) -> Node:
        inner = (shape[3], shape[0], shape[2] + 1, shape[1], shape[4]) if view else shape
        arrays.append(r.random(inner) < 0.7 if kind is bool else r.uniform(low, 1, inner).astype(kind))
        inputs.append(input_leaf(inner, FROM_NUMPY[arrays[-1].dtype]))
        if not view:
            return inputs[-1]
        turned = bind(TABLE["permute"], inputs[-1], axes=(1, 3, 2, 0, 4))
        return bind(TABLE["slice"], turned, start=(0, 0, 1, 0, 0), step=(1,) * 5, shape=shape)

    wide = np.dtype(np.float32) if np.dtype(dtype).itemsize == 2 else np.dtype(dtype)
    nodes = [given(s, view=moved) for s in shapes]
    if gradient:
        nodes += [given((*lead, length, out)), given((*lead, length), wide, 0.5), given((*lead, length), wide)]
    if r.random() < 0.4:
        nodes.append(given((1, batch[1], 1, *((length, keys) if r.random() < 0.5 else (1, keys))), bool))
    if r.random() < 0.3:
        nodes.append(given((1, 1, times, length, keys), np.float32))
    keep = None
    if r.random() < 0.3:
        keep = 0.8
        for number_ in (r.integers(1 << 40), 3):
            arrays.append(np.array(number_, np.uint64))
            inputs.append(input_leaf((), FROM_NUMPY[arrays[-1].dtype]))
            nodes.append(inputs[-1])
    op = TABLE["attention_gradient" if gradient else "attention"]
    results = ("query", "key", "value") if gradient else ("out", "lse")
    results = tuple(x for x in results if r.random() < 0.8) or results
    made = [bind(op, *nodes, result=x, scale=0.4, causal=causal, keep=keep) for x in results]
    return Graph(inputs, made), arrays


@pytest.mark.drawn(6)
@pytest.mark.parametrize("processor", list(isas()))
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name)
def test_random_chains(dtype: Any, processor: str) -> None:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print("seed", seed)
    r = np.random.default_rng(seed)
    if processor == "sse" and dtype is np.float16:
        return  # calls functions of the compiler's own library there, which the engine of the tests does not have
    for turn in range(6 if processor == "host" else 2):
        made, arrays = graph(r, dtype)
        (call,) = calls(build(made))
        (stage,) = call.kernel.phases[0].stages
        assert isinstance(stage, Chain)
        verify(call.kernel)
        program = build(made)
        slots = [program.slots[a] for a in call.args[: len(call.kernel.inputs)]]
        slots = [program.slots[s.of] if s.kind == "alias" else s for s in slots]
        given = [np.ascontiguousarray(arrays[s.position]) for s in slots]
        given = [a.reshape(b.shape) for a, b in zip(given, call.kernel.inputs, strict=True)]
        want, _ = evaluate(call.kernel, given)
        compiled = native(call.kernel) if processor == "host" else native_for(call.kernel, processor)
        MET.update(compiled.generated.paths)
        got = run(call.kernel, given, behind=turn % 2 == 0, compiled=compiled)
        for x, y in zip(got, want, strict=True):
            bound = BOUND[x.dtype.itemsize] * max(1.0, float(np.abs(y.astype(np.float64)).max(initial=0)))
            np.testing.assert_allclose(x.astype(np.float64), y.astype(np.float64), rtol=0, atol=bound)
        if turn == 0:
            assert all(map(same, got, run(call.kernel, given, compiled=compiled)))


def test_every_way_was_taken() -> None:
    r = np.random.default_rng(1)
    while not MET >= WAYS:
        for call in calls(build(graph(r, [np.float32, np.float16][r.integers(2)])[0])):
            MET.update(native(call.kernel).generated.paths)
