"""Damaged and forged files against every reader; ``tests/soak/readers.py`` does the same for longer."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.soak import readers

TIMES = {"weights": 400, "checkpoints": 40, "idx": 600, "cache": 600}


@pytest.mark.parametrize("name", readers.READERS)
def test_every_reader_reads_or_refuses(name: str, tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # shown where it fails; the script repeats it
    out = readers.READERS[name](random.Random(seed), TIMES[name], tmp_path)
    assert out.refused > TIMES[name] // 3 and (out.read or name == "checkpoints")
