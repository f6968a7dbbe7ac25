"""The arguments of PyTorch's ``x.to(...)``: a device, a dtype, both, or an array that has both."""

from __future__ import annotations

from typing import Any

from weft.devices.names import NAMES, named
from weft.dtypes.formats import EVERY
from weft.dtypes.parse import parse_dtype
from weft.errors import DTypeError
from weft.graph.node import Node


def asked(function: str, target: Any, dtype: Any, device: Any) -> tuple[str | None, Any]:
    """Return (device, dtype) for PyTorch's arguments; None for what stays unchanged.

    Raises
    ------
    TypeError
        No argument is given, or one is given twice.
    DTypeError, ValueError
        The target is neither a device nor a dtype; there is no such device.
    """
    if isinstance(dtype, bool):  # x.to(target, non_blocking)
        dtype = None
    if target is None and dtype is None and device is None:
        raise TypeError(f"{function}: give a device, a dtype, both or an array: x.to('gpu'), x.to('gpu', 'float16'), x.to(y)")
    if target is not None:
        target_device, target_dtype = _interpret_target(function, target)
        if target_device is not None and device is not None:
            raise TypeError(f"{function}: the device is given twice, as {target!r} and as device={device!r}")
        if target_dtype is not None and dtype is not None:
            raise TypeError(f"{function}: the dtype is given twice, as {target!r} and as {dtype!r}")
        device, dtype = device if target_device is None else target_device, dtype if target_dtype is None else target_dtype
    return (None if device is None else _device_name(function, device)), dtype


def _interpret_target(function: str, target: Any) -> tuple[Any, Any]:
    """Return (device, dtype) of a target: a device, a dtype, or an array."""
    if isinstance(getattr(target, "node", None), Node):
        return target.device, target.node.dtype
    if _is_device(target):
        return target, None
    try:
        return None, parse_dtype(target)
    except DTypeError:
        names = ", ".join(map(repr, NAMES))
        raise DTypeError(
            f"{function}: target: {target!r} is neither a device nor a dtype; devices are {names}, 'gpu:1' and so on, dtypes "
            f"{', '.join(EVERY)}"
        ) from None


def _is_device(target: Any) -> bool:
    """Return whether a target looks like a device: a name, or a ``torch.device``."""
    return str(target).partition(":")[0] in (*NAMES, "cuda") and (isinstance(target, str) or type(target).__name__ == "device")


def _device_name(function: str, device: Any) -> str:
    try:
        return named(str(device).replace("cuda", "gpu", 1) if _is_device(device) else device)
    except ValueError as error:
        raise ValueError(f"{function}: {error}") from None
