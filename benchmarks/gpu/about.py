"""Where something was measured: machine, card, driver, versions, and what in the environment matters."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

PACKAGES = (
    "weft", "numpy", "ml_dtypes", "llvmlite", "triton", "cuda-bindings", "cuda-core", "torch",
    "nvidia-cudnn-cu13", "nvidia-cublas",
)
OURS = ("WEFT_", "CUDA_", "TRITON_", "NVIDIA_")  # what matters of the environment
ASKED = "name,driver_version,memory.total,clocks.sm,clocks.mem,clocks.max.sm,power.limit,temperature.gpu,pstate"


def about(device: str) -> dict[str, Any]:
    """For a step's file; the device is opened."""
    import weft as wf
    from weft.devices import get_device
    from weft.devices.cuda.cards import cards

    host = get_device("cpu").describe()
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device, **{f"device {key}": value for key, value in _described(device).items()},
        "cards": cards(), "nvidia-smi": _smi(),
        "processor": host["model"], "threads": wf.get_num_threads(), "system": platform.platform(),
        "python": sys.version.split()[0],
        "versions": versions(),
        "environment": {key: os.environ[key] for key in sorted(os.environ) if key.startswith(OURS)},
    }


def versions() -> dict[str, str]:
    """Of the packages that matter and are installed."""
    return {name: version for name in PACKAGES if (version := _version(name))}


def _described(device: str) -> dict[str, Any]:
    from weft.devices import get_device

    found = get_device(device).describe()
    return {key: value if isinstance(value, (int, float, str)) else str(value) for key, value in found.items() if key != "device"}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        if name != "weft":
            return None
        import weft

        return weft.__version__


def _smi() -> list[str]:
    """What NVIDIA's tool says of the cards and their clocks; nothing where there is none."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        asked = [tool, f"--query-gpu={ASKED}", "--format=csv"]
        said = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return said.stdout.strip().splitlines()
