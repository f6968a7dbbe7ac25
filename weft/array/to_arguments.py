"""Where an array is to go, as PyTorch's users say it: a device, a dtype, both, or another array that has both."""

from __future__ import annotations

from typing import Any

from weft.devices.names import NAMES, named
from weft.dtypes.formats import EVERY
from weft.dtypes.parse import spelled
from weft.errors import DTypeError
from weft.graph.node import Node


def asked(function: str, target: Any, dtype: Any, device: Any) -> tuple[str | None, Any]:
    """(device, dtype) of PyTorch's arguments; None for what stays as it is.

    Raises
    ------
    TypeError
        Nothing is asked for, or something twice.
    DTypeError, ValueError
        The target is neither a device nor a dtype; no such device.
    """
    if isinstance(dtype, bool):  # x.to(target, non_blocking)
        dtype = None
    if target is None and dtype is None and device is None:
        raise TypeError(f"{function}: tell a device, a dtype, both or an array: x.to('gpu'), x.to('gpu', 'float16'), x.to(y)")
    if target is not None:
        there, wanted = _meant(function, target)
        if there is not None and device is not None:
            raise TypeError(f"{function}: the device is told twice, as {target!r} and as device={device!r}")
        if wanted is not None and dtype is not None:
            raise TypeError(f"{function}: the dtype is told twice, as {target!r} and as {dtype!r}")
        device, dtype = device if there is None else there, dtype if wanted is None else wanted
    return (None if device is None else _device(function, device)), dtype


def _meant(function: str, target: Any) -> tuple[Any, Any]:
    """(device, dtype) of a target, which may be any of them or an array."""
    if isinstance(getattr(target, "node", None), Node):
        return target.device, target.node.dtype
    if _is_device(target):
        return target, None
    try:
        return None, spelled(target)
    except DTypeError:
        names = ", ".join(map(repr, NAMES))
        raise DTypeError(
            f"{function}: target: {target!r} is neither a device nor a dtype; devices are {names}, 'gpu:1' and so on, dtypes "
            f"{', '.join(EVERY)}"
        ) from None


def _is_device(target: Any) -> bool:
    """Whether it looks like one: a device's name, or what PyTorch has for it."""
    return str(target).partition(":")[0] in (*NAMES, "cuda") and (isinstance(target, str) or type(target).__name__ == "device")


def _device(function: str, device: Any) -> str:
    try:
        return named(str(device).replace("cuda", "gpu", 1) if _is_device(device) else device)
    except ValueError as error:
        raise ValueError(f"{function}: {error}") from None
