"""Random programs of 1 to 4 ranks: see ``programs.py``."""

from __future__ import annotations

import random
import re

import pytest

from tests.dist.jobs import HERE, run_job

pytestmark = pytest.mark.xdist_group("jobs")
SEED = random.randrange(10**6)


def test_programs_of_one_to_four_ranks() -> None:
    print("seed", SEED)
    hashes = {}
    for ranks, values, gradients in ((1, 1, 1), (2, 5, 4), (3, 3, 3), (4, 2, 1)):
        result = run_job(ranks, HERE / "programs.py", SEED, values, gradients)
        assert result.code == 0 and "[0] all checked" in result.text, result.text
        hashes[ranks] = re.findall(r"\[0\] hash (\w+)", result.text)
    assert len(hashes[1]) == 1 and hashes[1] == hashes[2] == hashes[4], hashes
