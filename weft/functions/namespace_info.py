"""What the array API's programs ask before they begin: dtypes, devices, and what a library can do."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.devices.names import named, usable
from weft.dtypes.api import int64, isdtype
from weft.dtypes.formats import DEFAULT, EVERY
from weft.errors import DTypeError
from weft.runtime import execute

_STANDARD = tuple(f for f in EVERY.values() if not f.narrow)  # those that the standard names


def __array_namespace_info__() -> Info:  # noqa: N807  the standard's name
    """What the array API asks of a library before it is used.

    Returns
    -------
    Info

    Examples
    --------
    >>> import weft as wf
    >>> wf.__array_namespace_info__().default_device()
    'cpu'
    """
    return Info()


class Info:
    """The answers."""

    def capabilities(self) -> dict[str, Any]:
        """What the library can do: masks as indices, shapes that depend on contents, and how many dimensions there may be."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Where arrays are made: the device in use."""
        return execute.device().name

    def devices(self) -> tuple[str, ...]:
        """All devices that can be used here."""
        return usable()

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """The dtypes of what is made without one."""
        _known("default_dtypes", device)
        whole = int64.dtype
        real, pair = DEFAULT.real.numpy, DEFAULT.complex.numpy
        return {"real floating": real, "complex floating": pair, "integral": whole, "indexing": whole}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype]:
        """The standard's dtypes by name, all or those of a kind (as in ``isdtype``)."""
        _known("dtypes", device)
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not all(k is None or isinstance(k, str) for k in kinds):
            raise DTypeError(f"dtypes: kind={kind!r} must be the name of a kind, or a tuple of such")
        return {f.name: f.numpy for f in _STANDARD if kind is None or isdtype(f.numpy, kind)}


def _known(function: str, device: Any) -> None:
    """Refuse a device that there is not; all have the same dtypes."""
    try:
        named("cpu" if device is None else device)
    except ValueError as error:
        raise ValueError(f"{function}: {error}") from None
