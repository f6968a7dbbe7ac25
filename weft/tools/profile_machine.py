"""What this machine can do: peak arithmetic and memory bandwidth, measured and kept beside the compiled kernels."""

from __future__ import annotations

import hashlib
import json
import os
import time
from bisect import bisect_left
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from weft.devices.base import Device, Measuring
from weft.errors import DataError

_OLD = 3600.0  # seconds


@dataclass(frozen=True)
class Machine:
    """Attributes
    ----------
    name : of the processor
    threads : that weft uses
    flops : float32 operations a second, fused multiply-adds on all threads
    bandwidth : (bytes, bytes a second) pairs: copying a working set of so many bytes, by size
    """

    name: str
    threads: int
    flops: float
    bandwidth: tuple[tuple[int, float], ...]

    def bandwidth_at(self, size: float) -> float:
        """Bytes a second for a working set; never less than for a larger one."""
        k = bisect_left([s for s, _ in self.bandwidth], size)
        return max(b for _, b in self.bandwidth[min(k, len(self.bandwidth) - 1):])

    @property
    def memory(self) -> float:
        """Bytes a second of memory far larger than the caches."""
        return self.bandwidth[-1][1]


_KNOWN: dict[int, Machine] = {}


def machine() -> Machine:
    """This machine with the present number of threads.

    Figures are kept in the cache folder (or in the file that ``$WEFT_PROFILE`` names, which is then never measured again).
    They are measured anew when they are an hour old, and the best stays: a busy machine shows less than it can.

    Raises
    ------
    DataError
        where ``$WEFT_PROFILE`` names a file that holds something else.
    """
    from weft.devices import get_device

    device = get_device()
    threads = device.threads
    pinned = os.environ.get("WEFT_PROFILE")
    if pinned and Path(pinned).exists():
        return _pinned(pinned)
    found = _KNOWN.get(threads)
    if found is None:
        found = _KNOWN[threads] = _measured(device, threads)
    if pinned:
        Path(pinned).write_text(json.dumps(asdict(found), indent=1) + "\n")
    return found


def _measured(device: Device, threads: int) -> Machine:
    """From the device's notes, or measured and noted there."""
    if not isinstance(device, Measuring):
        raise RuntimeError(f"the device {device.name} cannot say what it can do: name a file with its figures in $WEFT_PROFILE")
    name = "machine-" + hashlib.sha256(f"{device.identity} {threads}".encode()).hexdigest()[:32]
    note = device.recall(name) or {}
    before, measured = _decoded(note.get("machine")), note.get("measured")
    if before is not None and isinstance(measured, float) and time.time() - measured < _OLD:
        return before
    m = device.measure()
    found = Machine(device.processor, threads, m["flops"], tuple((int(s), float(b)) for s, b in m["bandwidth"]))
    if before is not None and [s for s, _ in before.bandwidth] == [s for s, _ in found.bandwidth]:
        best = tuple((s, max(a, b)) for (s, a), (_, b) in zip(before.bandwidth, found.bandwidth, strict=True))
        found = Machine(found.name, threads, max(before.flops, found.flops), best)
    device.remember(name, {"machine": asdict(found), "measured": time.time()})
    return found


def _decoded(meta: Any) -> Machine | None:
    try:
        bandwidth = tuple((int(s), float(b)) for s, b in meta["bandwidth"])
        found = Machine(str(meta["name"]), int(meta["threads"]), float(meta["flops"]), bandwidth)
    except (LookupError, TypeError, ValueError, OverflowError):
        return None
    fine = found.flops > 0 and bandwidth and all(b > 0 for _, b in bandwidth) and list(bandwidth) == sorted(bandwidth)
    return found if fine else None


def _pinned(path: str) -> Machine:
    try:
        found = _decoded(json.loads(Path(path).read_text()))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"WEFT_PROFILE: {path} cannot be read: {error}") from None
    if found is None:
        raise DataError(
            f"WEFT_PROFILE: {path} must hold a JSON object with name, threads, flops and bandwidth ([[bytes, bytes a second], "
            "...] by size); remove it and it is measured and written"
        )
    return found
