"""Kernels of random programs, and of the fuzzer's matrix of reductions, maps, products and convolutions, on gpu-sim.

Each in memory of its own, and once for each pair of an input and an output that may be one piece of memory.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.cuda.on_device import check_program
from tests.fuzz import paths
from tests.fuzz.families import grown
from tests.fuzz.levels import COMPILED, tier
from tests.fuzz.program import Program
from weft.devices import get_device

pytest.importorskip("triton")

COUNTS = {"expression": 80, "derivative": 50}
PARTS, DRAWN = 4, 30  # so many tests of so many cases of the matrix, which are drawn
CASES = list(paths.cases())


def check(programs: list[Program]) -> None:
    device = get_device("gpu-sim")
    with tier(*COMPILED):
        kernels = sum(check_program(device, program) for program in programs)
    assert kernels > len(programs) // 2


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("family", COUNTS)
def test_random_programs(family: str, part: int) -> None:
    check([grown(seed, family) for seed in range(part, COUNTS[family], 5)])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("part", range(PARTS))
def test_ways_of_writing_code(part: int, some: Any) -> None:
    check([paths.program(*case, seed=0) for case in some(CASES[part::PARTS], DRAWN)])
