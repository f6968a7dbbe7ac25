"""Device names: parse them, and find out which devices are usable in this process."""

from __future__ import annotations

import re
from typing import Any

NAMES = ("cpu", "gpu-sim", "gpu")
_CARD = re.compile(r"gpu:(0|[1-9][0-9]{0,2})")


def canonical_name(name: Any) -> str:
    """Return the canonical name of a device, usable or not: "cpu" for "cpu:0", "gpu" for "gpu:0"."""
    if name in NAMES:
        return name
    if name == "cpu:0":
        return "cpu"
    if isinstance(name, str) and _CARD.fullmatch(name):
        return "gpu" if name == "gpu:0" else name
    hint = ""
    if name == "auto":
        hint = "; 'auto' is for wf.set_device, an array lies on one of these"
    elif isinstance(name, str) and name.startswith("cuda"):
        hint = "; what others call 'cuda' is 'gpu' here"
    choices = f"{', '.join(map(repr, NAMES[:-1]))} and {NAMES[-1]!r} (further cards: 'gpu:1', ...)"
    raise ValueError(f"no device {name!r}; there are {choices}{hint}")


def why_not(name: str) -> str | None:
    """Return a sentence why a device cannot be used here, or None if it can. Does not load the device."""
    name = canonical_name(name)
    if name == "cpu":
        return None
    from weft.devices.cuda.cards import no_bindings, no_triton, why_no_card

    return no_triton() if name == "gpu-sim" else why_no_card(number=device_number(name)) or no_triton() or no_bindings()


def device_number(name: str) -> int:
    """Return the number of the GPU in a device name."""
    return int(name.partition(":")[2] or 0)


def usable() -> tuple[str, ...]:
    """Return the names of the devices that can be used in this process."""
    from weft.devices.cuda.cards import cards

    more = [f"gpu:{k}" for k in range(1, len(cards()))]
    return tuple([name for name in (*NAMES, *more) if why_not(name) is None])
