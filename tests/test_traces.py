"""Everyday training loops are traced and compiled as often as is necessary, and no oftener: ``benchmarks/traces.py`` has them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def traces() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        yield importlib.import_module("traces")


def test_everyday_loops(traces: Any) -> None:
    found = {loop.name: tuple(traces.counts(loop)) for loop in traces.LOOPS}
    assert found == {loop.name: (loop.traces, loop.programs) for loop in traces.LOOPS}
    assert len(found) >= 20


@pytest.mark.parametrize("steps", [6, 25])
def test_counts_do_not_grow_with_the_steps(traces: Any, steps: int) -> None:
    growing = {loop.name for loop in traces.LOOPS if traces.counts(loop, steps).traces > loop.traces}
    assert not growing
