"""What a run raises when a kernel found an index out of range: which one, as numbers; the array layer knows the user's line."""

from __future__ import annotations


class IndexFault(IndexError):
    """args: the number of the site among those of the Program (see ``schedule/checks.py``), and the index as it was counted."""

    @property
    def site(self) -> int:
        return int(self.args[0])

    @property
    def index(self) -> int:
        return int(self.args[1])
