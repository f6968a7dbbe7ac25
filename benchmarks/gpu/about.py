"""The environment of a measurement: machine, card, driver, versions, and environment variables."""

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
_PREFIXES = ("WEFT_", "CUDA_", "TRITON_", "NVIDIA_")  # of the environment variables that are recorded
_QUERY = "name,driver_version,memory.total,clocks.sm,clocks.mem,clocks.max.sm,power.limit,temperature.gpu,pstate"


def about(device: str) -> dict[str, Any]:
    """Return the environment for a step's file. Opens the device."""
    import weft as wf
    from weft.devices import get_device
    from weft.devices.cuda.cards import cards

    host = get_device("cpu").describe()
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device, **{f"device {key}": value for key, value in _describe_device(device).items()},
        "cards": cards(), "nvidia-smi": _query_nvidia_smi(),
        "processor": host["model"], "threads": wf.get_num_threads(), "system": platform.platform(),
        "python": sys.version.split()[0],
        "versions": versions(),
        "environment": {key: os.environ[key] for key in sorted(os.environ) if key.startswith(_PREFIXES)},
    }


def versions() -> dict[str, str]:
    """Return the versions of those of ``PACKAGES`` that are installed."""
    return {name: version for name in PACKAGES if (version := _version(name))}


def _describe_device(device: str) -> dict[str, Any]:
    from weft.devices import get_device

    entries = get_device(device).describe()
    return {key: v if isinstance(v, (int, float, str)) else str(v) for key, v in entries.items() if key != "device"}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        if name != "weft":
            return None
        import weft

        return weft.__version__


def _query_nvidia_smi() -> list[str]:
    """Return the cards and their clocks as lines of nvidia-smi's output, [] if the tool is missing or fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        command = [tool, f"--query-gpu={_QUERY}", "--format=csv"]
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return result.stdout.strip().splitlines()
