"""Which device programs run on: ``set_device`` and ``with device(...)``.

A program runs on the device that its thread uses when it is looked at or called. What it reads that lies elsewhere is moved
there first: the array holds the copy from then on, and lets go of what it held, also where somebody had put it there. So weights
follow the first step that uses them, nobody moves them, and what is written has one place. To keep both would take the memory
twice, and every write would have to reach, or forget, the other.

With "auto" each program is placed by what it would take on each device, see ``weft/runtime/auto_device.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.devices import get_device
from weft.placement.figures import figures
from weft.runtime.context import LOCAL
from weft.transforms.tree import Structure


def set_device(name: str) -> None:
    """Run everything on a device from here on: in this thread, and in threads that are made later.

    Without it programs run on ``$WEFT_DEVICE``, and without that on the CPU. Arrays that a program reads are moved to where it
    runs, and stay there until a program on another device reads them; ``x.numpy()`` and ``float(x)`` move nothing.

    Parameters
    ----------
    name : str
        "cpu"; "gpu", of several cards the next is "gpu:1"; "gpu-sim", which interprets the code for a GPU over the memory of the
        host, slowly, and checks every access (these need ``pip install weft[gpu]``); or "auto": each program runs where it takes
        least, by the figures of what is here (``$WEFT_PROFILE``, or measured once), copies of its arrays included. Where nothing
        but a CPU is, that is the CPU.

    Raises
    ------
    ValueError
        No such device.
    DeviceError
        It cannot be used here: the sentence says what is missing.
    DataError
        With "auto": ``$WEFT_PROFILE`` names a file that holds something else.

    Examples
    --------
    >>> import weft as wf
    >>> wf.set_device("cpu")
    >>> wf.ones(3).device
    'cpu'
    """
    type(LOCAL).chosen = _found(name)
    _use(type(LOCAL).chosen)
    Structure.count += 1  # jitted functions look again at what they are called in


@contextmanager
def device(name: str) -> Iterator[None]:
    """Run what is looked at or called inside on a device, in this thread.

    What was asked for before and not looked at yet runs where it is looked at.

    Parameters
    ----------
    name : str
        As :func:`set_device` takes it.

    Returns
    -------
    context manager

    Raises
    ------
    ValueError
        No such device.
    DeviceError
        It cannot be used here: the sentence says what is missing.
    DataError
        With "auto": as :func:`set_device`.

    Examples
    --------
    >>> import weft as wf
    >>> with wf.device("cpu"):
    ...     print(float(wf.ones(3).sum()))
    3.0
    """
    before = LOCAL.place
    _use(_found(name))
    Structure.count += 1
    try:
        yield
    finally:
        _use(before)
        Structure.count += 1


def _found(name: str) -> Any:
    """How ``LOCAL`` says it; an error where the device cannot be used."""
    if name == "auto":
        return figures()
    found = get_device(name).name
    return None if found == "cpu" else found


def _use(place: Any) -> None:
    LOCAL.place = place
    LOCAL.device = place if isinstance(place, str) else None
