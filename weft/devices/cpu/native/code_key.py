"""Cache keys of object code: a digest of its text and everything else it depends on."""

from __future__ import annotations

import hashlib
import os
import time
from functools import lru_cache
from pathlib import Path

from weft.devices.cpu.native.host_cpu import architecture, host, system

ABI = "weft-cpu-1"  # arguments as an array of 8-byte slots; weft_parallel; weft_counters


@lru_cache(maxsize=1)
def identity() -> str:
    """Return all that object code depends on besides its own text: CPU, LLVM, ABI and weft's code generator."""
    import llvmlite

    libraries = sorted((Path(llvmlite.__file__).parent / "binding").glob("*llvmlite*"))
    stamp = " ".join(f"{p.name} {p.stat().st_size}" for p in libraries)  # identifies the LLVM it bundles
    return "\n".join([ABI, cpu_identity(), f"llvmlite {llvmlite.__version__} {stamp}", source_hash(), ""])


def name_of(text: str) -> str:
    """Return the name under which an object is cached in memory and on disk."""
    return hashlib.sha256(identity().encode() + text.encode()).hexdigest()


@lru_cache(maxsize=1)
def cpu_identity() -> str:
    """Return a text with the CPU's features and cache sizes, on Linux without loading LLVM."""
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
    if len(lines) <= 3:  # not Linux: LLVM detects the features
        lines.append(repr(host()))
    return "\n".join(lines)


def cpu_model() -> str:
    """Return the CPU's model name. It is never used to choose code."""
    for line in cpu_identity().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    import platform

    return platform.processor() or architecture()


@lru_cache(maxsize=1)
def source_hash() -> str:
    """Return a digest of weft's source files that determine a kernel's object code."""
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(os.fsencode(path.relative_to(_PACKAGE)) + b"\0" + path.read_bytes())
    return digest.hexdigest()


def sources_unchanged() -> bool:
    """Return whether the files that :func:`source_hash` reads are unchanged since this process imported them.

    If weft is edited meanwhile, code from the old files must not be stored under the new files' digest. The check runs at most
    once a second: it takes a millisecond, and a first call may write fifty kernels.
    """
    return _unchanged_since(_START_TIME, int(time.monotonic()))


@lru_cache(maxsize=1)
def _unchanged_since(start: float, second: int) -> bool:
    return not any(start < path.stat().st_mtime <= time.time() for path in _sources())


@lru_cache(maxsize=1)
def _sources() -> list[Path]:
    files = [_PACKAGE / name for name in ("dtypes/formats.py", "dtypes/rounding.py", "graph/primitives/philox.py")]
    for folder in (_PACKAGE / "kernel", _PACKAGE / "devices" / "cpu"):
        files += sorted(folder.rglob("*.py"))
    return files


_PACKAGE = Path(__file__).resolve().parents[3]
_START_TIME = time.time()
