"""NVIDIA's compute-sanitizer on small programs: invalid accesses, races, reads of uninitialised memory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpu import together
from benchmarks.gpu.setting import Rows, Setting

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
PLACES = ("/usr/local/cuda/bin", "/opt/cuda/bin")


def sanitizer() -> str | None:
    """Return the path of compute-sanitizer, None if it is not installed."""
    return shutil.which("compute-sanitizer", path=os.pathsep.join([os.environ.get("PATH", ""), *PLACES]))


def rows(setting: Setting) -> Rows:
    """Yield a row for each of its tools, with the quick primitives and scatters."""
    tool = sanitizer()
    if tool is None:
        setting.notes.append("compute-sanitizer is not installed (it comes with the CUDA toolkit): it was not run")
        return
    if getattr(setting.card, "driver", None) is None:
        setting.notes.append("compute-sanitizer needs a card, gpu-sim is none: it was not run")
        return
    for name in TOOLS:
        for step in ("primitives", "scatters"):
            yield f"{name} {step}", lambda name=name, step=step: _row(setting, tool, name, step)  # type: ignore[misc]


def _row(setting: Setting, tool: str, name: str, step: str) -> dict[str, Any]:
    limit = max(5.0, min(120.0, setting.left))
    with tempfile.TemporaryDirectory() as folder:
        child = [sys.executable, "-m", "benchmarks.gpu", step, "--device", setting.device, "--out", folder,
                 "--seconds", f"{0.7 * limit:.1f}", "--quick"]
        begin = [tool, "--tool", name, "--error-exitcode", "9", "--target-processes", "all"]
        try:
            result = subprocess.run(
                [*begin, *child], capture_output=True, text=True, timeout=limit, check=False, env=together.environment()
            )
        except subprocess.TimeoutExpired:
            return {"cut": f"not done in {limit:.0f} s"}
        ran = (Path(folder) / f"{step}.json").exists()
    output = result.stdout + result.stderr
    counts = re.findall(r"ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard", output)
    count = sum([int(a or b) for a, b in counts])
    right = bool(counts) and not count and ran
    row: dict[str, Any] = {"errors": count if counts else None, "right": right, "exit status": result.returncode}
    return row if right else {**row, "log": output[-20_000:], "last words": (output.strip().splitlines() or [""])[-1][:300]}
