"""Under which name code is kept: all that it depends on besides its own text."""

from __future__ import annotations

import hashlib
import os
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from weft.devices.cpu.native.host_cpu import architecture, host, system

ABI = "weft-cpu-1"  # arguments as an array of 8-byte slots; weft_parallel; weft_counters


@lru_cache(maxsize=1)
def identity() -> str:
    """All that code depends on besides its own text: CPU, LLVM, ABI, and the code that wrote it."""
    import llvmlite

    libraries = sorted((Path(llvmlite.__file__).parent / "binding").glob("*llvmlite*"))
    stamp = " ".join(f"{p.name} {p.stat().st_size}" for p in libraries)  # which LLVM it carries
    return "\n".join([ABI, cpu_identity(), f"llvmlite {llvmlite.__version__} {stamp}", source_hash(), ""])


@lru_cache(maxsize=1)
def _identified() -> Any:
    return hashlib.sha256(identity().encode())


def name_of(text: str) -> str:
    """Under which name an object is kept, in memory and on disk."""
    digest = _identified().copy()
    digest.update(text.encode())
    return digest.hexdigest()


@lru_cache(maxsize=1)
def cpu_identity() -> str:
    """The CPU's exact features and cache sizes, without asking LLVM."""
    lines = [system(), architecture()]
    try:
        wanted = ("model name", "flags", "Features", "CPU part", "CPU implementer")
        text = Path("/proc/cpuinfo").read_text().split("\n\n")[0]
        lines += [line for line in text.splitlines() if line.split(":")[0].strip() in wanted]
        for size in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")):
            lines.append(size.read_text().strip())
    except OSError:
        import platform

        lines.append(platform.processor())
    if len(lines) <= 3:  # not Linux: ask LLVM
        lines.append(repr(host()))
    return "\n".join(lines)


def cpu_model() -> str:
    """The name the CPU gives itself; never used to choose code."""
    for line in cpu_identity().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    import platform

    return platform.processor() or architecture()


@lru_cache(maxsize=1)
def source_hash() -> str:
    """A digest of weft's own code that decides what a kernel's object code looks like."""
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(os.fsencode(path.relative_to(_PACKAGE)) + b"\0" + path.read_bytes())
    return digest.hexdigest()


def sources_unchanged() -> bool:
    """Whether the files that :func:`source_hash` reads are still those this process imported.

    While somebody edits weft, old code in memory must not be kept under the new files' name. Looked at once a second: all
    files take a millisecond, and a first call may write fifty kernels.
    """
    return _unchanged_since(_STARTED, int(time.monotonic()))


@lru_cache(maxsize=1)
def _unchanged_since(start: float, second: int) -> bool:
    return not any(start < path.stat().st_mtime <= time.time() for path in _sources())


@lru_cache(maxsize=1)
def _sources() -> list[Path]:
    files = [_PACKAGE / "dtypes" / "formats.py", _PACKAGE / "graph" / "primitives" / "philox.py"]
    for folder in (_PACKAGE / "kernel", _PACKAGE / "devices" / "cpu"):
        files += sorted(folder.rglob("*.py"))
    return files


_PACKAGE = Path(__file__).resolve().parents[3]
_STARTED = time.time()
