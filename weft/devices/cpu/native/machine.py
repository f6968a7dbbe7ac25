"""What kind of machine this is."""

from __future__ import annotations

import platform
from functools import cache
from typing import Any

from weft.signals import uninterrupted


@cache
def x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


@cache
def host() -> Any:
    """What the code generator must know of this CPU; the first time LLVM is asked, which is not to be interrupted."""
    with uninterrupted():
        from weft.devices.cpu.emit.isa import host_isa

        return host_isa()


def has_threads() -> bool:
    """The pool sleeps in futexes, so it is Linux only; elsewhere chunks run inline."""
    return platform.system() == "Linux" and platform.machine().lower() in ("x86_64", "aarch64")
