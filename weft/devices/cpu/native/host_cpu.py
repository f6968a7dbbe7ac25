"""The host: operating system, architecture and CPU features."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from weft.process.signals import defer_signals


def system() -> str:
    """Return ``platform.system()``, without the slow import of ``platform``."""
    return os.uname().sysname if hasattr(os, "uname") else "Windows"


def architecture() -> str:
    """Return ``x86_64``, ``aarch64``, ``arm64`` and so on."""
    return os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "")


@cache
def x86() -> bool:
    return architecture().lower() in ("x86_64", "amd64")


@cache
def host() -> Any:
    """Return the CPU's ISA for the code generator. The first call queries LLVM, which must not be interrupted."""
    with defer_signals():
        from weft.devices.cpu.emit.isa import host_isa

        return host_isa()


def has_threads() -> bool:
    """Return whether the thread pool is supported. It uses futexes, so only on Linux; elsewhere chunks run inline."""
    return system() == "Linux" and architecture().lower() in ("x86_64", "aarch64")
