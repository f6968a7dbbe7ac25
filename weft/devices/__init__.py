"""Buffers, threads, compiled code: how a Program runs. Backends are found by name, the CPU's is always there; ``cuda`` has
those for GPUs.

``base`` is all that is asked of a device. ``steps`` walks a Program for one that has no walker of its own, ``cache`` keeps
object code on disk, ``warm``, ``small`` and ``faults`` are the words in which devices and the layers above speak of warm calls,
small work and wrong indices.

A device is one folder. It imports from here, from ``schedule.program``, ``kernel`` and ``formats``.
"""

from __future__ import annotations

from functools import cache

from weft.devices.base import Device, Settling
from weft.devices.names import named, number_of, why_not
from weft.errors import DeviceError


@cache
def get_device(name: str = "cpu") -> Device:
    """A device by its name.

    Parameters
    ----------
    name : str
        "cpu", "gpu-sim" (the code for a GPU, interpreted over the host's memory) or "gpu"; of several cards the next is "gpu:1".

    Returns
    -------
    Device

    Raises
    ------
    ValueError
        No such device.
    DeviceError
        It cannot be used here: the sentence says what is missing.

    Examples
    --------
    >>> from weft.devices import get_device
    >>> get_device("cpu").name
    'cpu'
    """
    if name == "cpu":
        from weft.devices.cpu import DEVICE

        return DEVICE
    if named(name) != name:
        return get_device(named(name))
    missing = why_not(name)
    if missing:
        raise DeviceError(f"device {name!r}: {missing}")
    if name != "gpu-sim":
        from weft.devices.cuda.device import opened

        return opened(name, number_of(name))
    from weft.devices.cuda.simulated import SimulatedDevice

    return SimulatedDevice()


def settle() -> None:
    """Wait until all compiled code is as good as it gets, for those who measure.

    What is compiled for the first time is compiled quickly; what runs often gets better code, of the same bits, while the
    program goes on. This asks for better code of all that is in memory, and waits for it.

    Examples
    --------
    >>> import weft as wf
    >>> from weft.devices import settle
    >>> f = wf.jit(lambda x: wf.tanh(x) @ x)
    >>> _ = f(wf.ones((5, 5)))  # compiles
    >>> settle()  # doctest: +SKIP
    """
    device = get_device()
    if isinstance(device, Settling):
        device.settle()


def counters() -> dict[str, int]:
    """What was counted since the process began.

    ``kernels`` (entries, counted in the emitted code), ``entries`` (native calls), ``parallel_jobs``, ``inline_jobs``,
    ``sized_calls`` and ``numpy_calls`` (operations that ran without a kernel compiled for them: at once, or in a program seen
    for the first times), ``compiles``, ``cache_hits``, ``loads``, ``improved`` (kernels that got better code while others ran),
    ``allocator_misses``, ``allocator_bytes``.

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
    """Use this many threads, the calling one included. Results do not depend on it.

    Parameters
    ----------
    count : int
        From 1 to 256.

    Raises
    ------
    TypeError, ValueError
        No int; out of range.

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
    """The number of threads a kernel may use: ``$WEFT_THREADS``, else the CPUs this process may run on.

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
