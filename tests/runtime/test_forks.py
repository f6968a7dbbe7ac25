"""Forks while threads compile and run; ``tests/soak/forks.py`` does more of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "soak" / "forks.py"


def test_every_child_compiles_and_computes() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "4"], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("forks: 4 children compiled and computed, ")
    assert int(done.stdout.split()[6]) > 0  # forked while a thread compiled
