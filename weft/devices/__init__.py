"""Devices: they compile Programs, run them and own buffers. ``cpu`` is always available, ``cuda`` holds the GPU devices.

``base`` defines the interface of a device, ``native_protocols`` that of its native functions for warm calls and small eager
operations. ``steps`` executes the steps of a Program for a device without a native walker, ``cache`` stores object code on disk,
``faults`` holds the exceptions that runs raise.

Each device is one folder. It imports from here, from ``schedule.program``, ``kernel`` and ``formats``.
"""

from __future__ import annotations

from functools import cache

from weft.devices.base import Device
from weft.devices.names import canonical_name, device_number, why_not
from weft.errors import DeviceError


@cache
def get_device(name: str = "cpu") -> Device:
    """Return a device by its name.

    Parameters
    ----------
    name : str
        "cpu", "gpu-sim" (GPU code interpreted in the host's memory) or "gpu". Further GPUs are "gpu:1", "gpu:2" and so on.

    Returns
    -------
    Device

    Raises
    ------
    ValueError
        If no device has this name.
    DeviceError
        If the device cannot be used in this process. The message says what is missing.

    Examples
    --------
    >>> from weft.devices import get_device
    >>> get_device("cpu").name
    'cpu'
    """
    if name == "cpu":
        from weft.devices.cpu import DEVICE

        return DEVICE
    if canonical_name(name) != name:
        return get_device(canonical_name(name))
    missing = why_not(name)
    if missing:
        raise DeviceError(f"device {name!r}: {missing}")
    if name != "gpu-sim":
        from weft.devices.cuda.device import open_device

        return open_device(name, device_number(name))
    from weft.devices.cuda.simulator import SimulatedDevice

    return SimulatedDevice()


def settle() -> None:
    """Do nothing: kernels are compiled once, at the highest optimisation level. Programs may still call it.

    Examples
    --------
    >>> from weft.devices import settle
    >>> settle()
    """


def counters() -> dict[str, int]:
    """Return the CPU device's counters since the process started.

    ``kernels`` (kernel entries, counted in emitted code), ``entries`` (native calls), ``parallel_jobs``, ``inline_jobs``,
    ``sized_calls`` and ``numpy_calls`` (operations executed without a kernel of their own: eagerly, or in a program that has run
    too rarely to be compiled), ``compiles``, ``cache_hits``, ``loads``, ``allocator_misses``, ``allocator_bytes``.

    Returns
    -------
    dict of str to int

    Examples
    --------
    >>> from weft.devices import counters
    >>> before = counters()["kernels"]
    >>> counters()["kernels"] - before
    0
    """
    return get_device().counters()


def set_num_threads(count: int) -> None:
    """Set the number of threads, including the calling thread. Results do not depend on it.

    Parameters
    ----------
    count : int
        From 1 to 256.

    Raises
    ------
    TypeError, ValueError
        If ``count`` is not an int, or out of range.

    Examples
    --------
    >>> from weft.devices import get_num_threads, set_num_threads
    >>> before = get_num_threads()
    >>> set_num_threads(1)
    >>> get_num_threads()
    1
    >>> set_num_threads(before)
    """
    get_device().set_threads(count)


def get_num_threads() -> int:
    """Return the number of threads a kernel may use. The default is ``$WEFT_THREADS``, else the CPUs available to the process.

    Returns
    -------
    int

    Examples
    --------
    >>> from weft.devices import get_num_threads
    >>> get_num_threads() >= 1
    True
    """
    return get_device().threads
