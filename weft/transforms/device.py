"""Which device programs run on: ``set_device`` and ``with device(...)``.

A program runs on the device that its thread uses when it is looked at or called. What it reads that lies elsewhere is copied
there first, once: the array holds the copy from then on. So weights follow the first step that uses them, and nobody moves them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from weft.cell import LOCAL
from weft.devices import get_device
from weft.transforms.tree import Structure


def set_device(name: str) -> None:
    """Run everything on a device from here on: in this thread, and in threads that are made later.

    Without it programs run on ``$WEFT_DEVICE``, and without that on the CPU.

    Parameters
    ----------
    name : str
        "cpu"; "gpu-sim", which interprets the code for a GPU over the memory of the host, slowly, and checks every access
        (``pip install weft[gpu]``); or "gpu".

    Raises
    ------
    ValueError
        No such device.
    RuntimeError
        It cannot be used here: the sentence says what is missing.

    Examples
    --------
    >>> import weft as wf
    >>> wf.set_device("cpu")
    >>> wf.ones(3).device
    'cpu'
    """
    chosen = _found(name)
    type(LOCAL).chosen = LOCAL.device = chosen
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
    RuntimeError
        It cannot be used here: the sentence says what is missing.

    Examples
    --------
    >>> import weft as wf
    >>> with wf.device("cpu"):
    ...     print(float(wf.ones(3).sum()))
    3.0
    """
    before = LOCAL.device
    LOCAL.device = _found(name)
    Structure.count += 1
    try:
        yield
    finally:
        LOCAL.device = before
        Structure.count += 1


def _found(name: str) -> str | None:
    """How ``LOCAL`` says it; an error where the device cannot be used."""
    get_device(name)
    return None if name == "cpu" else name
