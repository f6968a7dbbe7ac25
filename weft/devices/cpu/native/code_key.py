"""Cache keys of object code: a digest of its text and everything else it depends on."""

from __future__ import annotations

import hashlib
import os
import time
from functools import lru_cache
from pathlib import Path

from weft.devices.cpu.native.host_cpu import architecture, host, system

CODE_SOURCES = ("dtypes/formats.py", "dtypes/rounding.py", "graph/primitives/philox.py", "kernel", "devices/cpu")
PROGRAM_SOURCES = ("dtypes", "functions/elementwise", "graph", "kernel", "schedule", "runtime/program_files.py")
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


def program_name(digest: str) -> str:
    """Return the name under which a Program is stored on disk. digest : of its graph and target"""
    return hashlib.sha256(f"program {source_hash(PROGRAM_SOURCES)} {digest}".encode()).hexdigest()


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


@lru_cache(maxsize=2)
def source_hash(places: tuple[str, ...] = CODE_SOURCES) -> str:
    """Return a digest of weft's source files that determine a kernel's object code, or a Program."""
    digest = hashlib.sha256()
    for path in _sources(places):
        digest.update(os.fsencode(path.relative_to(_PACKAGE)) + b"\0" + path.read_bytes())
    return digest.hexdigest()


def sources_unchanged(places: tuple[str, ...] = CODE_SOURCES) -> bool:
    """Return whether the files that :func:`source_hash` reads are unchanged since this process imported them.

    If weft is edited meanwhile, code from the old files must not be stored under the new files' digest. The check runs at most
    once a second: it takes a millisecond, and a first call may write fifty kernels.
    """
    return _unchanged_since(_START_TIME, int(time.monotonic()), places)


@lru_cache(maxsize=2)
def _unchanged_since(start: float, second: int, places: tuple[str, ...]) -> bool:
    return not any(start < path.stat().st_mtime <= time.time() for path in _sources(places))


@lru_cache(maxsize=2)
def _sources(places: tuple[str, ...] = CODE_SOURCES) -> list[Path]:
    files: list[Path] = []
    for place in places:
        files += sorted((_PACKAGE / place).rglob("*.py")) if not place.endswith(".py") else [_PACKAGE / place]
    return files


_PACKAGE = Path(__file__).resolve().parents[3]
_START_TIME = time.time()
