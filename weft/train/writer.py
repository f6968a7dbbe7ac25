"""One run at a time writes a checkpoint: a lock beside the file, which says who holds it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from weft.process import files
from weft.process.run_lock import only_one


@contextmanager
def only_writer(path: str | os.PathLike | None) -> Iterator[None]:
    """While it lasts no other run gets the checkpoint at ``path``; None is no checkpoint.

    Raises
    ------
    DataError
        when another run has it, or the lock's name is taken by something else.
    OSError
        when no file can be written there.
    """
    if path is None:
        yield
        return
    place = files.target(path, "fit: checkpoint")
    lock = place.with_name(place.name + ".lock")
    with only_one(lock, "fit", f"the checkpoint {os.fspath(path)!r}", "give this run a file of its own"):
        yield
