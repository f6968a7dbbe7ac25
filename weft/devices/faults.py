"""Exceptions that runs raise. They carry numbers only; the array layer adds the user's source line."""

from __future__ import annotations


class IndexFault(IndexError):
    """A kernel found an index out of range. ``args``: number of the site (see ``schedule/index_checks.py``) and the index."""

    @property
    def site(self) -> int:
        return int(self.args[0])

    @property
    def index(self) -> int:
        return int(self.args[1])


class ForeignBuffer(IndexFault):
    """A buffer of another device has no host address.

    A native call that raises it has changed nothing; Python then moves the buffers to the host and repeats the call.
    """


class OutOfDeviceMemory(MemoryError):
    """A device has no memory for a run. Nothing has changed: the program can run on another device."""
