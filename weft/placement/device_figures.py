"""The performance figures of a device, measured once and stored beside the compiled kernels, or read from a file.

``$WEFT_PROFILE`` names a file that is read instead of measuring. It holds the CPU's figures alone, or ``{"devices": {"cpu":
{...}, "gpu": {...}}}``. With it, placement can be inspected and tested on a machine with one device.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from math import exp, inf, log
from pathlib import Path
from typing import Any

from weft.devices.base import Device, Measuring
from weft.errors import DataError, DeviceError, warn

_OLD = 3600.0  # seconds after which the CPU is measured again
MEASURED_DEVICES = ("gpu",)  # measured without a profile; gpu-sim takes part only if a profile names it
Curve = tuple[tuple[float, float], ...]  # (size, rate), ascending by size


@dataclass(frozen=True)
class Machine:
    """The performance figures of one device.

    Attributes
    ----------
    name : of the processor
    threads : of the host that weft uses
    flops : float32 operations per second, fused multiply-adds on the whole device
    bandwidth : (bytes, bytes per second) pairs of copies with a working set of that size, ascending
    call, launch, replay : seconds before a program's first kernel, seconds of a launch, seconds of a prepared launch in a loop
    products : (format, ((operations, operations per second), ...)) pairs: rates of products by size; without them ``flops``
    counts
    link : (seconds, bytes per second) of a transfer from or to the host's memory; None if the device uses the host's memory
    bfloat16_flops : operations per second on bfloat16 of a CPU that multiplies it; 0 of one that does not, and if not measured
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
    bfloat16_flops: float = 0.0

    def bandwidth_at(self, size: float) -> float:
        """Return the bytes per second for a working set; never less than for a larger one."""
        k = bisect_left([s for s, _ in self.bandwidth], size)
        return max(b for _, b in self.bandwidth[min(k, len(self.bandwidth) - 1):])

    @property
    def memory(self) -> float:
        """Return the bytes per second of memory far larger than the caches."""
        return self.bandwidth[-1][1]

    def product_rate(self, format_: str, flops: float) -> float:
        """Return the operations per second of a product of ``flops`` operations, interpolated between measurements."""
        curve = dict(self.products).get(format_)
        return self.flops if not curve else _interpolate(curve, flops)


def _interpolate(curve: Sequence[tuple[float, float]], size: float) -> float:
    """Interpolate linearly in logarithms of size and rate; constant outside the curve."""
    k = bisect_left([s for s, _ in curve], size)
    if k in (0, len(curve)):
        return curve[min(k, len(curve) - 1)][1]
    (s0, r0), (s1, r1) = curve[k - 1], curve[k]
    return exp(log(r0) + (log(r1) - log(r0)) * (log(size) - log(s0)) / (log(s1) - log(s0)))


_MACHINES: dict[tuple[str, int], Machine] = {}


def machine(name: str = "cpu") -> Machine:
    """Return a device's figures for the present number of threads.

    Figures are stored in the cache folder, or in the file that ``$WEFT_PROFILE`` names; the file is written with the figures of
    all present devices if it does not exist. A GPU is measured once. The CPU is measured again after an hour and the best figures
    are kept: a busy machine shows less than its capability.

    Raises
    ------
    DataError
        ``$WEFT_PROFILE`` names a file that does not hold such figures, or none of this device.
    """
    pinned = os.environ.get("WEFT_PROFILE")
    if machines := profiled_devices():
        if name not in machines:
            raise DataError(f"WEFT_PROFILE: {pinned} says nothing about {name!r}, only about {', '.join(map(repr, machines))}")
        return machines[name]
    result = _figures_of(name)
    if pinned:
        figures = {each: asdict(_figures_of(each)) for each in ("cpu", *measured_devices())}
        Path(pinned).write_text(json.dumps({"devices": figures} if len(figures) > 1 else figures["cpu"], indent=1) + "\n")
    return result


def _figures_of(name: str) -> Machine:
    from weft.devices import get_device

    device = get_device(name)
    key = name, device.threads
    if key not in _MACHINES:
        _MACHINES[key] = _recall_or_measure(device, device.threads)
    return _MACHINES[key]


def measured_devices() -> list[str]:
    """Return the devices besides the CPU that are measured and usable."""
    from weft.devices.names import why_not

    return [name for name in MEASURED_DEVICES if why_not(name) is None and can_open(name)]


@cache
def can_open(name: str) -> bool:
    """Return whether a device that is present can be opened: a card may be broken, full or in exclusive use."""
    from weft.devices import get_device

    try:
        get_device(name)
    except DeviceError as error:
        warn(f"'auto' skips a device that cannot be opened: {error}")
        return False
    return True


def profiled_devices() -> dict[str, Machine]:
    """Return the devices that ``$WEFT_PROFILE`` describes; an empty dict without a profile."""
    pinned = os.environ.get("WEFT_PROFILE")
    return pinned_machines(pinned) if pinned and Path(pinned).exists() else {}


def _recall_or_measure(device: Device, threads: int) -> Machine:
    """Return figures from the device's stored note, or measure and store them."""
    if not isinstance(device, Measuring):
        raise RuntimeError(f"the device {device.name} cannot be measured: name a file with its figures in $WEFT_PROFILE")
    key = f"{device.identity} {threads} {[field.name for field in fields(Machine)]}"  # older notes lack some figures
    name = "machine-" + hashlib.sha256(key.encode()).hexdigest()[:32]
    note = device.recall(name) or {}
    old, measured_at = _decode(note.get("machine")), note.get("measured")
    if old is not None and (old.link is not None or isinstance(measured_at, float) and time.time() - measured_at < _OLD):
        return old
    raw = device.measure()
    bandwidth = tuple((int(s), float(b)) for s, b in raw["bandwidth"])
    optional = ("call", "launch", "replay", "products", "link", "bfloat16_flops")  # the CPU has the last one at most
    figures = Machine(device.processor, threads, raw["flops"], bandwidth, **{key: raw[key] for key in optional if key in raw})
    if old is not None and [s for s, _ in old.bandwidth] == [s for s, _ in figures.bandwidth]:
        best = tuple((s, max(a, b)) for (s, a), (_, b) in zip(old.bandwidth, figures.bandwidth, strict=True))
        narrow = max(old.bfloat16_flops, figures.bfloat16_flops)
        figures = replace(figures, flops=max(old.flops, figures.flops), bandwidth=best, bfloat16_flops=narrow)
    device.remember(name, {"machine": asdict(figures), "measured": time.time()})
    return figures


def _decode(meta: Any) -> Machine | None:
    """Return figures parsed from JSON; None if a field is missing, not a number or not in order."""
    try:
        bandwidth = tuple([(int(size), rate) for size, rate in _parse_curve(meta["bandwidth"])])
        call, launch, replay = [float(meta.get(key, getattr(Machine, key))) for key in ("call", "launch", "replay")]
        products = tuple([(str(name), _parse_curve(curve)) for name, curve in meta.get("products", ())])
        link = None if meta.get("link") is None else (float(meta["link"][0]), float(meta["link"][1]))
        figures = Machine(
            str(meta["name"]), int(meta["threads"]), float(meta["flops"]), bandwidth, call, launch, replay, products, link,
            float(meta.get("bfloat16_flops", 0.0)),
        )
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
        return None
    may_be_zero = (figures.call, figures.launch, figures.replay, figures.bfloat16_flops, *(figures.link or ())[:1])
    rates = (figures.flops, *(figures.link or ())[1:])
    return figures if all([0 <= s < inf for s in may_be_zero]) and all([0 < r < inf for r in rates]) else None


def _parse_curve(pairs: Any) -> Curve:
    curve = tuple([(float(size), float(rate)) for size, rate in pairs])
    if not curve or list(curve) != sorted(curve) or not all([0 < size < inf and 0 < rate < inf for size, rate in curve]):
        raise ValueError("sizes must grow, rates be positive")
    return curve


_REQUIRED_FIELDS: dict[str, Any] = {"name": "", "threads": 1, "flops": 1.0, "bandwidth": [[1, 1.0]]}


def _describe_fault(name: str, meta: Any) -> str:
    """Return why these are not a device's figures."""
    if not isinstance(meta, dict):
        return f"{name!r} is no JSON object with figures"
    missing = [key for key in _REQUIRED_FIELDS if key not in meta]
    if missing:
        return f"{name!r} has no {' and no '.join(missing)}"
    wrong = [key for key in meta if _decode({**_REQUIRED_FIELDS, key: meta[key]}) is None]
    return f"{name!r} has {wrong[0]} = {json.dumps(meta[wrong[0]])[:100]}"


def pinned_machines(path: str) -> dict[str, Machine]:
    """Return the figures in a file, by device.

    Raises
    ------
    DataError
        The file cannot be read, or does not hold such figures.
    """
    try:
        content = json.loads(Path(path).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"WEFT_PROFILE: {path} cannot be read: {error}") from None
    devices = content.get("devices") if isinstance(content, dict) else None
    described = devices if isinstance(devices, dict) else {"cpu": content}
    decoded = {name: _decode(meta) for name, meta in described.items()}
    valid = {name: machine for name, machine in decoded.items() if machine is not None}
    if len(valid) < len(decoded) or "cpu" not in valid:
        faults = [_describe_fault(name, meta) for name, meta in described.items() if name not in valid]
        raise DataError(
            f"WEFT_PROFILE: {path}: {faults[0] if faults else 'the figures of the CPU are missing'}; the file must hold a JSON "
            "object with name, threads, flops and bandwidth ([[bytes, bytes a second], ...] by size), or "
            '{"devices": {"cpu": such an object, "gpu": another}}; remove it and it is measured and written'
        )
    return valid
