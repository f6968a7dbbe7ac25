"""What a run raises when a kernel found an index out of range: which one, as numbers; the array layer knows the user's line."""

from __future__ import annotations


class IndexFault(IndexError):
    """args: the number of the site in the Program (see ``schedule/index_checks.py``), and the index as it was counted."""

    @property
    def site(self) -> int:
        return int(self.args[0])

    @property
    def index(self) -> int:
        return int(self.args[1])


class Elsewhere(IndexFault):
    """Memory of another device was asked for its address in the host's memory. A native call that meets it gives up, as it does
    where an index is wrong, and has changed nothing; then Python copies what lies elsewhere and calls again."""


class OutOfRoom(MemoryError):
    """A device has no memory left for a run. Nothing has changed: it can be run elsewhere."""
