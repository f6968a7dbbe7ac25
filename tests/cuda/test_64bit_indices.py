"""Indices of 64 bits, as buffers of more than 2**31 elements need them: the same texts, made to think that few are many."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.samples import derivatives, values
from tests.cuda.test_primitives import check
from weft.devices.cuda import tile_expressions as printed
from weft.devices.cuda.simulator import SimulatedDevice
from weft.graph.primitives import TABLE

pytest.importorskip("triton")

NAMES = (
    "add", "reduce_sum", "argmax", "cumulative_sum", "dot_general", "conv_general", "gather", "scatter", "slice", "pad", "concat",
    "reduce_window", "in_bounds",
)


@pytest.mark.drawn(5)
@pytest.mark.parametrize("name", NAMES)
def test_wide_indices(name: str, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed, "LIMIT", 4)
    device = SimulatedDevice()  # which has printed nothing yet
    assert check(values(TABLE[name], rng), device)
    check(derivatives(TABLE[name], rng), device)
    texts = [launch.text for kernel, _ in device._printed_kernels.newest.values() for launch in kernel.launches]
    assert sum("tl.int64" in text for text in texts) > len(texts) // 2
