"""When small work is computed immediately."""

from __future__ import annotations

from weft.runtime import execute
from weft.runtime.context import LOCAL


def wanted() -> bool:
    """Return whether eager work is enabled here. Whether the device supports it is not checked, since that loads the device."""
    return LOCAL.small > 0


def able() -> bool:
    """Return whether eager work is enabled here and the device supports it."""
    return wanted() and execute.computes_at_once()


def possible() -> bool:
    """Return whether work may run uncompiled: not if denormals are flushed, a profile times kernels, or another device is in
    use."""
    return not LOCAL.flush and LOCAL.watch is None and LOCAL.device is None
