"""What kind of machine this is."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from weft.process.signals import uninterrupted


def system() -> str:
    """As ``platform`` says it, without importing that, which takes longer than all that is asked."""
    return os.uname().sysname if hasattr(os, "uname") else "Windows"


def architecture() -> str:
    """``x86_64``, ``aarch64``, ``arm64`` and so on."""
    return os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")


@cache
def x86() -> bool:
    return architecture().lower() in ("x86_64", "amd64")


@cache
def host() -> Any:
    """What the code generator must know of this CPU; the first time LLVM is asked, which is not to be interrupted."""
    with uninterrupted():
        from weft.devices.cpu.emit.isa import host_isa

        return host_isa()


def has_threads() -> bool:
    """The pool sleeps in futexes, so it is Linux only; elsewhere chunks run inline."""
    return system() == "Linux" and architecture().lower() in ("x86_64", "aarch64")
