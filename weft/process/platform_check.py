"""Refuse interpreters and platforms on which weft cannot work, when weft is imported."""

from __future__ import annotations

import os
import sys


def find_obstacle() -> str | None:
    """Return why weft cannot work with this interpreter, and what to do; None if it can."""
    if sys.version_info < (3, 11):  # noqa: UP036  # a checkout is imported by any Python
        return f"weft needs Python 3.11 or newer, and this is Python {'.'.join(map(str, sys.version_info[:3]))}"
    if sys.version_info >= (3, 15):
        version = ".".join(map(str, sys.version_info[:3]))
        return f"weft supports Python 3.11 to 3.14, as jit reads bytecode, which each version changes; this is Python {version}"
    if sys.implementation.name != "cpython":
        return f"weft needs CPython, whose C functions its native code calls, and this is {sys.implementation.name}"
    if sys.platform not in ("linux", "darwin"):
        hint = ": install it in the Windows Subsystem for Linux (WSL)" if sys.platform in ("win32", "cygwin") else ""
        return f"weft runs on Linux and macOS, and this is {sys.platform}{hint}"
    if sys.maxsize < 2**32:
        return "weft needs a 64-bit Python, and this one has 32 bits: install a 64-bit Python"
    machine = os.uname().machine
    if machine.lower() not in ("x86_64", "amd64", "aarch64", "arm64"):
        return f"weft generates code for x86-64 and 64-bit ARM, and this machine is {machine}"
    return None


def refuse_platform() -> None:
    """Raise ImportError if weft cannot work here."""
    obstacle = find_obstacle()
    if obstacle is not None:
        raise ImportError(obstacle)
