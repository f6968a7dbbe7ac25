"""When small work is computed at once."""

from __future__ import annotations

from weft.runtime import execute
from weft.runtime.context import LOCAL


def wanted() -> bool:
    """Whether anything may be computed at once here, if the device can. Asking that loads the device."""
    return LOCAL.small > 0


def able() -> bool:
    """Whether anything is computed at once here: it may be, and the device can."""
    return wanted() and execute.computes_at_once()


def possible() -> bool:
    """Whether anything may run without being compiled: with kernels that flush denormals, or that a profile times, it may not."""
    return not LOCAL.flush and LOCAL.watch is None and LOCAL.device is None
