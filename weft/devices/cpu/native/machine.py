"""What kind of machine this is."""

from __future__ import annotations

import platform
from functools import cache


@cache
def x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


def has_threads() -> bool:
    """The pool sleeps in futexes, so it is Linux only; elsewhere chunks run inline."""
    return platform.system() == "Linux" and platform.machine().lower() in ("x86_64", "aarch64")
