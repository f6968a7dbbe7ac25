"""Training from files: each rank reads its own rows, and the results are those of arrays in memory."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tests.dist.jobs import HERE, run_job

pytestmark = pytest.mark.xdist_group("jobs")
SEED = random.randrange(10**6)


def test_each_rank_reads_its_rows(tmp_path: Path) -> None:
    print("seed", SEED)
    outputs = [run_job(ranks, HERE / "reading.py", tmp_path, SEED, 4) for ranks in (1, 2, 3)]
    hashes = [re.findall(r"\[0\] hash (.*)", job.text) for job in outputs]
    assert len(hashes[0]) == 4 and hashes[0] == hashes[1] == hashes[2], [job.text for job in outputs]
    assert all(job.code == 0 for job in outputs)
