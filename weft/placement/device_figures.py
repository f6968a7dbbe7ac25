"""What a device can do, in figures: measured once and kept beside the compiled kernels, or read from a file.

``$WEFT_PROFILE`` names a file that is read in place of measuring. It holds one device's figures, those of the CPU, or
``{"devices": {"cpu": {...}, "gpu": {...}}}``: so decisions between devices can be seen, and tested, where there is only one.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from math import exp, inf, log
from pathlib import Path
from typing import Any

from weft.devices.base import Device, Measuring
from weft.errors import DataError, DeviceError, warn

_OLD = 3600.0  # seconds
MEASURED = ("gpu",)  # which are asked for without a profile; gpu-sim is for those who name it there
Curve = tuple[tuple[float, float], ...]  # (size, rate) by size


@dataclass(frozen=True)
class Machine:
    """Attributes
    ----------
    name : of the processor
    threads : of the host that weft uses
    flops : float32 operations a second, fused multiply-adds on all of it
    bandwidth : (bytes, bytes a second) pairs: copying a working set of so many bytes, by size
    call, launch, replay : seconds that a program takes before its first kernel, that a kernel takes to be started, and the same
        in a loop, where all is prepared
    products : (format, ((operations, operations a second), ...)) pairs: what products reach, by their size; ``flops`` otherwise
    link : (seconds, bytes a second) of a copy from the host's memory or to it; None where that is the device's own
    """

    name: str
    threads: int
    flops: float
    bandwidth: tuple[tuple[int, float], ...]
    call: float = 3e-7
    launch: float = 1e-7
    replay: float = 1e-7
    products: tuple[tuple[str, Curve], ...] = ()
    link: tuple[float, float] | None = None

    def bandwidth_at(self, size: float) -> float:
        """Bytes a second for a working set; never less than for a larger one."""
        k = bisect_left([s for s, _ in self.bandwidth], size)
        return max(b for _, b in self.bandwidth[min(k, len(self.bandwidth) - 1):])

    @property
    def memory(self) -> float:
        """Bytes a second of memory far larger than the caches."""
        return self.bandwidth[-1][1]

    def product_rate(self, format_: str, flops: float) -> float:
        """Operations a second of a product of so many, between what was measured on a straight line of logarithms."""
        curve = dict(self.products).get(format_)
        return self.flops if not curve else _between(curve, flops)


def _between(curve: Sequence[tuple[float, float]], size: float) -> float:
    k = bisect_left([s for s, _ in curve], size)
    if k in (0, len(curve)):
        return curve[min(k, len(curve) - 1)][1]
    (s0, r0), (s1, r1) = curve[k - 1], curve[k]
    return exp(log(r0) + (log(r1) - log(r0)) * (log(size) - log(s0)) / (log(s1) - log(s0)))


_KNOWN: dict[tuple[str, int], Machine] = {}


def machine(name: str = "cpu") -> Machine:
    """What a device can do with the present number of threads.

    Figures are kept in the cache folder, or in the file that ``$WEFT_PROFILE`` names, which is made with those of all devices
    that are here. A GPU is measured once. The CPU's are measured anew when they are an hour old, and the best stays: a busy
    machine shows less than it can.

    Raises
    ------
    DataError
        where ``$WEFT_PROFILE`` names a file that holds something else, or nothing about this device.
    """
    pinned = os.environ.get("WEFT_PROFILE")
    if pinned and Path(pinned).exists():
        found = pinned_machines(pinned)
        if name not in found:
            raise DataError(f"WEFT_PROFILE: {pinned} says nothing about {name!r}, only about {', '.join(map(repr, found))}")
        return found[name]
    asked = _of(name)
    if pinned:
        every = {each: asdict(_of(each)) for each in ("cpu", *measured_here())}
        Path(pinned).write_text(json.dumps({"devices": every} if len(every) > 1 else every["cpu"], indent=1) + "\n")
    return asked


def _of(name: str) -> Machine:
    from weft.devices import get_device

    device = get_device(name)
    key = name, device.threads
    if key not in _KNOWN:
        _KNOWN[key] = _measured(device, device.threads)
    return _KNOWN[key]


def measured_here() -> list[str]:
    """The devices beside the CPU that are measured, and can be used."""
    from weft.devices.names import why_not

    return [name for name in MEASURED if why_not(name) is None and opens(name)]


@cache
def opens(name: str) -> bool:
    """Whether a device that seems to be here can be used: a card may be broken, full, or somebody's alone."""
    from weft.devices import get_device

    try:
        get_device(name)
    except DeviceError as error:
        warn(f"'auto' does without it: {error}")
        return False
    return True


def compared() -> dict[str, Machine]:
    """The devices that programs may be placed on: those that ``$WEFT_PROFILE`` describes, else none but the CPU is known."""
    pinned = os.environ.get("WEFT_PROFILE")
    return pinned_machines(pinned) if pinned and Path(pinned).exists() else {}


def _measured(device: Device, threads: int) -> Machine:
    """From the device's notes, or measured and noted there."""
    if not isinstance(device, Measuring):
        raise RuntimeError(f"the device {device.name} cannot say what it can do: name a file with its figures in $WEFT_PROFILE")
    name = "machine-" + hashlib.sha256(f"{device.identity} {threads}".encode()).hexdigest()[:32]
    note = device.recall(name) or {}
    before, measured = _decoded(note.get("machine")), note.get("measured")
    if before is not None and (before.link is not None or isinstance(measured, float) and time.time() - measured < _OLD):
        return before
    m = device.measure()
    bandwidth = tuple((int(s), float(b)) for s, b in m["bandwidth"])
    more = {key: m[key] for key in ("call", "launch", "replay", "products", "link") if key in m}  # a GPU's; the CPU's are given
    found = Machine(device.processor, threads, m["flops"], bandwidth, **more)
    if before is not None and [s for s, _ in before.bandwidth] == [s for s, _ in found.bandwidth]:
        best = tuple((s, max(a, b)) for (s, a), (_, b) in zip(before.bandwidth, found.bandwidth, strict=True))
        found = replace(found, flops=max(before.flops, found.flops), bandwidth=best)
    device.remember(name, {"machine": asdict(found), "measured": time.time()})
    return found


def _decoded(meta: Any) -> Machine | None:
    """Figures from JSON; None where something is missing, no number or not in order."""
    try:
        bandwidth = tuple([(int(size), rate) for size, rate in _curve(meta["bandwidth"])])
        call, launch, replay = [float(meta.get(key, getattr(Machine, key))) for key in ("call", "launch", "replay")]
        products = tuple([(str(name), _curve(curve)) for name, curve in meta.get("products", ())])
        link = None if meta.get("link") is None else (float(meta["link"][0]), float(meta["link"][1]))
        found = Machine(
            str(meta["name"]), int(meta["threads"]), float(meta["flops"]), bandwidth, call, launch, replay, products, link,
        )
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
        return None
    seconds = (found.call, found.launch, found.replay, *(found.link or ())[:1])
    rates = (found.flops, *(found.link or ())[1:])
    return found if all([0 <= s < inf for s in seconds]) and all([0 < r < inf for r in rates]) else None


def _curve(pairs: Any) -> Curve:
    found = tuple([(float(size), float(rate)) for size, rate in pairs])
    if not found or list(found) != sorted(found) or not all([0 < size < inf and 0 < rate < inf for size, rate in found]):
        raise ValueError("sizes must grow, rates be positive")
    return found


_NEEDED: dict[str, Any] = {"name": "", "threads": 1, "flops": 1.0, "bandwidth": [[1, 1.0]]}


def _fault(name: str, meta: Any) -> str:
    """Why these are no figures of a device."""
    if not isinstance(meta, dict):
        return f"{name!r} is no JSON object with figures"
    missing = [key for key in _NEEDED if key not in meta]
    if missing:
        return f"{name!r} has no {' and no '.join(missing)}"
    wrong = [key for key in meta if _decoded({**_NEEDED, key: meta[key]}) is None]
    return f"{name!r} has {wrong[0]} = {json.dumps(meta[wrong[0]])[:100]}"


def pinned_machines(path: str) -> dict[str, Machine]:
    """The figures that a file holds, by device.

    Raises
    ------
    DataError
        it cannot be read, or holds something else.
    """
    try:
        given = json.loads(Path(path).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"WEFT_PROFILE: {path} cannot be read: {error}") from None
    devices = given.get("devices") if isinstance(given, dict) else None
    described = devices if isinstance(devices, dict) else {"cpu": given}
    found = {name: _decoded(meta) for name, meta in described.items()}
    good = {name: machine for name, machine in found.items() if machine is not None}
    if len(good) < len(found) or "cpu" not in good:
        faults = [_fault(name, meta) for name, meta in described.items() if name not in good]
        raise DataError(
            f"WEFT_PROFILE: {path}: {faults[0] if faults else 'the figures of the CPU are missing'}; the file must hold a JSON "
            "object with name, threads, flops and bandwidth ([[bytes, bytes a second], ...] by size), or "
            '{"devices": {"cpu": such an object, "gpu": another}}; remove it and it is measured and written'
        )
    return good
