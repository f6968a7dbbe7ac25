"""Find the rank of this host that ends first: the launcher of MPI ends the others after it, and may name one of those."""

from __future__ import annotations

import os
import select
import threading
from pathlib import Path

from weft.dist.report import read_reports

_POLL_MS = 100


class FirstEnd:
    """A thread that waits for the first rank that ends, by the reports of a job (Linux).

    ranks : those that had ended when the thread noticed it; empty before, and on other systems
    """

    def __init__(self, folder: Path) -> None:
        self.ranks: set[int] = set()
        self._folder = folder
        self._ranks: dict[int, int] = {}  # by file descriptor
        self._to_stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="weft first end", daemon=True)
        if hasattr(os, "pidfd_open"):
            self._poll = select.poll()
            self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._to_stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        for descriptor in self._ranks:
            os.close(descriptor)

    def _watch(self) -> None:
        try:
            while not self.ranks and not self._to_stop.is_set():
                self._open_new_ranks()
                self.ranks |= {self._ranks[descriptor] for descriptor, _ in self._poll.poll(_POLL_MS)}
        except OSError:  # a system without such descriptors
            self.ranks = set()

    def _open_new_ranks(self) -> None:
        for rank, (pid, _) in read_reports(self._folder).items():
            if rank not in self._ranks.values():
                try:
                    descriptor = os.pidfd_open(pid)
                except ProcessLookupError:
                    self.ranks.add(rank)
                    continue
                self._ranks[descriptor] = rank
                self._poll.register(descriptor, select.POLLIN)
