"""The figures of all devices on which this process may place programs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.devices import get_device
from weft.devices.base import HasOwnMemory
from weft.devices.names import usable
from weft.placement.device_figures import Machine, can_open, machine, measured_devices, pinned_machines


@dataclass(frozen=True, eq=False)
class PlacementFigures:
    """Figures by which programs are placed. The object stays the same until something changes, so decisions can be cached by it.

    machines: by the device's name, the CPU first.
    least: a lower bound in seconds of any program on another device than the CPU, without transfers.
    """

    machines: Mapping[str, Machine]
    least_seconds: float


_FIGURES: dict[Any, PlacementFigures | None] = {}


def figures() -> PlacementFigures | None:
    """Return the figures of the CPU and of every other usable device; None if there is no other device.

    With ``$WEFT_PROFILE`` they are those of its file, for devices that are present. Otherwise a GPU is measured once and its
    figures are stored in the cache folder.

    Raises
    ------
    DataError
        ``$WEFT_PROFILE`` names a file that does not hold such figures.
    """
    pinned = os.environ.get("WEFT_PROFILE")
    if pinned and Path(pinned).exists():
        state = os.stat(pinned)
        key: Any = (pinned, state.st_mtime_ns, state.st_size)
        if key not in _FIGURES:
            described = pinned_machines(pinned)
            _FIGURES[key] = _collect_figures({name: described[name] for name in usable() if name in described and can_open(name)})
        return _FIGURES[key]
    measured = measured_devices()
    key = (*measured, get_device().threads)
    if key not in _FIGURES:
        _FIGURES[key] = _collect_figures({name: machine(name) for name in ("cpu", *measured)}) if measured else None
    return _FIGURES[key]


def rooms(machines: Iterable[str]) -> dict[str, int]:
    """Return the free bytes of each named device that has memory of its own. All devices must be present."""
    devices = [(name, get_device(name)) for name in machines]
    return {name: device.free_bytes() for name, device in devices if isinstance(device, HasOwnMemory)}


def _collect_figures(machines: Mapping[str, Machine]) -> PlacementFigures | None:
    """Return the figures of these devices after opening them; None if there is only the CPU."""
    other_machines = [m for name, m in machines.items() if name != "cpu"]
    if not other_machines:
        return None
    for name in machines:
        get_device(name)  # opens the device
    return PlacementFigures({"cpu": machines["cpu"], **machines}, min([m.call + m.launch for m in other_machines]))
