"""The figures of all devices that programs may be placed on in this process: those that are there, and described."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.devices import get_device
from weft.devices.base import Limited
from weft.devices.names import usable
from weft.placement.device_figures import Machine, machine, measured_here, opens, pinned_machines


@dataclass(frozen=True, eq=False)
class Figures:
    """By which programs are placed. One object as long as nothing changes, so that who decided by it knows that it still holds.

    machines : by the device's name, the CPU's first
    least : seconds that any program takes at least on the others, wherever its arrays lie
    """

    machines: Mapping[str, Machine]
    least: float


_KNOWN: dict[Any, Figures | None] = {}


def figures() -> Figures | None:
    """The figures of the CPU and of what else can be used here; None where there is nothing else.

    With ``$WEFT_PROFILE`` they are those of its file, of devices that are here; without it a GPU is measured, and noted in the
    cache folder.

    Raises
    ------
    DataError
        ``$WEFT_PROFILE`` names a file that holds something else.
    """
    pinned = os.environ.get("WEFT_PROFILE")
    if pinned and Path(pinned).exists():
        state = os.stat(pinned)
        key: Any = (pinned, state.st_mtime_ns, state.st_size)
        if key not in _KNOWN:
            described = pinned_machines(pinned)
            _KNOWN[key] = _of({name: described[name] for name in usable() if name in described and opens(name)})
        return _KNOWN[key]
    there = measured_here()
    key = (*there, get_device().threads)
    if key not in _KNOWN:
        _KNOWN[key] = _of({name: machine(name) for name in ("cpu", *there)}) if there else None
    return _KNOWN[key]


def rooms(machines: Iterable[str]) -> dict[str, int]:
    """Bytes that are left on each of these devices that has memory of its own; all of them are here."""
    there = [(name, get_device(name)) for name in machines]
    return {name: device.room() for name, device in there if isinstance(device, Limited)}


def _of(machines: Mapping[str, Machine]) -> Figures | None:
    others = [m for name, m in machines.items() if name != "cpu"]
    if not others:
        return None
    for name in machines:
        get_device(name)  # from now on its memory is known
    return Figures({"cpu": machines["cpu"], **machines}, min([m.call + m.launch for m in others]))
