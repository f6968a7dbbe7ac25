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
    from weft.devices.cuda.cards import no_bindings, no_card, no_triton

    return no_triton() if name == "gpu-sim" else no_card() or no_triton() or no_bindings()


def usable() -> tuple[str, ...]:
    """The names of the devices that can be used in this process."""
    return tuple([name for name in NAMES if why_not(name) is None])
