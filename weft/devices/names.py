"""The names of devices: which there are, which can be used in this process, and why one cannot."""

from __future__ import annotations

from typing import Any

NAMES = ("cpu", "gpu-sim", "gpu")


def named(name: Any) -> str:
    """A name that is a device's, whether it can be used here or not."""
    if name in NAMES:
        return name
    hint = ""
    if name == "auto":
        hint = "; 'auto' is for wf.set_device, an array lies on one of these"
    elif isinstance(name, str) and name.startswith("cuda"):
        hint = "; what others call 'cuda' is 'gpu' here"
    raise ValueError(f"no device {name!r}; there are {', '.join(map(repr, NAMES[:-1]))} and {NAMES[-1]!r}{hint}")


def why_not(name: str) -> str | None:
    """Why a device cannot be used here, in a sentence; None where it can. The device is not loaded for that."""
    if named(name) == "cpu":
        return None
    from weft.devices.cuda.cards import no_card, no_triton

    missing = (no_card() if name == "gpu" else None) or no_triton()
    if missing is None and name == "gpu":
        return "this build of weft makes code for the card and does not launch it yet; use 'gpu-sim'"
    return missing


def usable() -> tuple[str, ...]:
    """The names of the devices that can be used in this process."""
    return tuple([name for name in NAMES if why_not(name) is None])
