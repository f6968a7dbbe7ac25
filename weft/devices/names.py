"""The names of devices: which there are, which can be used in this process, and why one cannot."""

from __future__ import annotations

import re
from typing import Any

NAMES = ("cpu", "gpu-sim", "gpu")
_CARD = re.compile(r"gpu:(0|[1-9][0-9]{0,2})")


def named(name: Any) -> str:
    """The name of a device, whether it can be used here or not: "gpu" is also called "gpu:0", further cards "gpu:1" and so on;
    the CPU is "cpu:0" too."""
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
    known = f"{', '.join(map(repr, NAMES[:-1]))} and {NAMES[-1]!r} (further cards: 'gpu:1', ...)"
    raise ValueError(f"no device {name!r}; there are {known}{hint}")


def why_not(name: str) -> str | None:
    """Why a device cannot be used here, in a sentence; None where it can. The device is not loaded for that."""
    name = named(name)
    if name == "cpu":
        return None
    from weft.devices.cuda.cards import no_bindings, no_card, no_triton

    return no_triton() if name == "gpu-sim" else no_card(number=number_of(name)) or no_triton() or no_bindings()


def number_of(name: str) -> int:
    """Of a card."""
    return int(name.partition(":")[2] or 0)


def usable() -> tuple[str, ...]:
    """The names of the devices that can be used in this process."""
    from weft.devices.cuda.cards import cards

    more = [f"gpu:{k}" for k in range(1, len(cards()))]
    return tuple([name for name in (*NAMES, *more) if why_not(name) is None])
