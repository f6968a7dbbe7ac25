"""Kernels of random programs, and of the fuzzer's matrix of reductions, maps, products and convolutions, on gpu-sim.

Each in memory of its own, and once for each pair of an input and an output that may be one piece of memory.
"""

from __future__ import annotations

import pytest

from tests.cuda.on_device import check_program
from tests.fuzz import paths
from tests.fuzz.families import grown
from tests.fuzz.levels import COMPILED, tier
from tests.fuzz.program import Program
from weft.devices import get_device

pytest.importorskip("triton")

COUNTS = {"expression": 80, "derivative": 50}
PARTS = 8  # the matrix in so many tests; a third of its pairs of monoid and dtype
CASES = [c for k, c in enumerate(paths.cases()) if not c[1] or k % 3 == 0]


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
def test_ways_of_writing_code(part: int) -> None:
    check([paths.program(*case, seed=0) for case in CASES[part::PARTS]])
