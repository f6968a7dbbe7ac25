"""One run at a time: a lock, which is a file that says who holds it.

The system lets go of the lock when the process ends, however it ends, so what a killed run left is taken over. Where a folder
has no locks, or a child that the run forked has outlived it, what is written in the lock decides: process, host and since when.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from weft.errors import DataError
from weft.process import files
from weft.process.signals import uninterrupted


@contextmanager
def only_one(lock: Path, function: str, what: str, instead: str) -> Iterator[None]:
    """While it lasts no other run gets this lock. The texts are for the message: who asks, what the lock is for, what else one
    can do.

    Raises
    ------
    DataError
        when another run has it, or the lock's name is taken by something else.
    OSError
        when no file can be written there.
    """
    with uninterrupted():
        mine = _taken(lock, function, what, instead)
    try:
        yield
    finally:
        with uninterrupted():
            with suppress(OSError):
                if files.identity(lock) == files.identity(mine.fileno()):
                    os.unlink(lock)
            mine.close()


def _taken(lock: Path, function: str, what: str, instead: str) -> IO[str]:
    """The lock's file, held and signed."""
    while True:
        found = _opened(lock)
        if found is None:
            raise DataError(f"{function}: the lock of {what}, {lock.name!r}, is no regular file: remove it")
        try:
            fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except BlockingIOError:
            free = False
        except OSError:  # no locks in this folder
            free = not _holder(found)
        holder = {} if free else _holder(found)
        if holder and _is_dead(holder):
            with suppress(OSError):
                if files.identity(lock) == files.identity(found.fileno()):
                    os.unlink(lock)  # others cannot lock this file, so there must be another
        elif not free:
            found.close()
            raise DataError(
                f"{function}: {what} is another run's while that lasts{_told(holder)}: end it, or {instead}. If that run is "
                f"gone, remove {str(lock)!r}"
            )
        else:
            with suppress(FileNotFoundError):
                if files.identity(lock) == files.identity(found.fileno()):  # not removed meanwhile by who had it
                    found.truncate(0)
                    json.dump(_signature(), found)
                    found.flush()
                    return found
        found.close()


def _opened(lock: Path) -> IO[str] | None:
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    except OSError:
        if os.path.lexists(lock) and not (lock.is_file() and not lock.is_symlink()):
            return None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    return os.fdopen(handle, "r+", encoding="utf-8", errors="replace")


def _signature() -> dict[str, Any]:
    return {"pid": os.getpid(), **_here(), "since": datetime.now().astimezone().isoformat(timespec="seconds")}


def _here() -> dict[str, str]:
    """Where a process number means a process: this host, and on Linux this space of process numbers."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return {"host": socket.gethostname(), "space": space}


def _holder(found: IO[str]) -> dict[str, Any]:
    """Who signed the lock; empty where that cannot be read."""
    try:
        found.seek(0)
        holder = json.loads(found.read(4096))
        texts = [holder[key] for key in ("host", "space", "since")]
        fine = type(holder["pid"]) is int and holder["pid"] > 0 and all(isinstance(text, str) for text in texts)
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}
    finally:
        found.seek(0)
    return holder if fine else {}


def _is_dead(holder: dict[str, Any]) -> bool:
    """Whether it is known that the process has ended."""
    if {k: holder[k] for k in ("host", "space")} != _here():
        return False
    try:
        os.kill(holder["pid"], 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    return False


def _told(holder: dict[str, Any]) -> str:
    if not holder:
        return ""
    mine = holder["pid"] == os.getpid() and not _is_dead(holder) and _here()["space"] == holder["space"]
    who = "this process" if mine else f"process {holder['pid']} on {holder['host'][:100]!r}"
    return f" ({who} has it since {holder['since'][:40]})"
