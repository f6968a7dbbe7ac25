"""Runs of ``weft bench gpu`` over the stub, and what they left."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import command
from weft.tools.cli import main

LAUNCH = ("--only", "launch", "--out")
STUB = (sys.executable, "-m", "tests.cuda.bench_on_stub")
ROOT = Path(__file__).parents[2]


def over_the_stub(patch: pytest.MonkeyPatch, rows: str = "") -> None:
    """The device "gpu" is there, and is the stub; its steps have these rows."""
    patch.setattr(command, "why_not", lambda name: None)
    patch.setattr(command, "CHILD", STUB)
    patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    patch.setenv("BENCH_ROWS", f"tests.cuda.bench_rows:{rows}" if rows else "")


def bench(folder: Path, *more: str, device: str = "gpu") -> int:
    return main(["bench", "gpu", "--device", device, "--out", str(folder), *more])


def step(folder: Path, name: str) -> dict[str, Any]:
    found = json.loads((folder / f"{name}.json").read_text())
    return {**found, "rows": {row["name"]: row for row in found["rows"]}}
