"""Samples of every primitive on gpu-sim, and its derivatives, against the NumPy references."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from tests import oracle
from tests.cuda.samples import PRIMITIVES, Case, derivatives, values
from weft.devices import get_device
from weft.graph.interpret import interpret
from weft.schedule.build import build

pytest.importorskip("triton")


def check(cases: Iterable[Case], device: Any = None) -> int:
    """Compare every case; how many there were."""
    device = device or get_device("gpu-sim")
    count = 0
    for graph, arrays in cases:
        with np.errstate(all="ignore"):
            expected = interpret(graph, arrays)
        cancels = any(node.op.name == "attention_gradient" for node in graph.order)
        run = device.compile(build(graph, device.target))
        got = run([device.upload(a) for a in arrays])
        for buffer, want, node in zip(got, expected, graph.outputs, strict=True):
            result = device.download(buffer, node.shape, node.dtype)
            scale, ulps = None, 16
            if cancels:  # gradients of attention are differences of weighted sums of values: their size counts, too
                numbers = [np.asarray(a, np.float64) for a in (*arrays, want) if oracle.is_float(np.asarray(a).dtype)]
                scale, ulps = max(float(np.max(np.abs(a), initial=0, where=np.isfinite(a))) for a in numbers), 4
            oracle.assert_close(result, want, node.dtype, terms=64, ulps=ulps, scale=scale, message=repr(graph))
        count += 1
    return count


@pytest.mark.parametrize("op", PRIMITIVES, ids=lambda op: op.name)
def test_values(op, rng: np.random.Generator, some: Any) -> None:
    assert check(values(op, rng, lambda formats: some(formats, 4)))


def test_derivatives(rng: np.random.Generator) -> None:
    assert sum(check(derivatives(op, rng)) for op in PRIMITIVES) > 400


def test_random_words_are_the_cpus(rng: np.random.Generator) -> None:
    """Bits and uniform numbers are equal on every device."""
    import weft as wf

    def drawn() -> list[np.ndarray]:
        wf.random.seed(7)
        return [wf.random.uniform(size=(3, 50)).numpy(), wf.random.randint(0, 1000, (77,)).numpy(),
                wf.random.permutation(40).numpy()]

    here = drawn()
    with wf.device("gpu-sim"):
        there = drawn()
    for a, b in zip(here, there, strict=True):
        np.testing.assert_array_equal(a, b)
