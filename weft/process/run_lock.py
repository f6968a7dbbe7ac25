"""A lock that allows one run at a time: a file that names its owner.

The system releases the lock when the process ends, however it ends, so the lock of a killed run is taken over. If the file
system has no locks, or a forked child outlives the run, the content decides: process, host and time.
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
from weft.process.signals import defer_signals


@contextmanager
def hold_run_lock(lock: Path, function: str, what: str, instead: str) -> Iterator[None]:
    """Hold the lock inside a ``with`` block. ``function``, ``what`` (the lock's purpose) and ``instead`` (an alternative) are for
    the error message. Raise DataError if another run holds the lock or its path is not a regular file.
    """
    with defer_signals():
        mine = _acquire(lock, function, what, instead)
    try:
        yield
    finally:
        with defer_signals():
            with suppress(OSError):
                if files.identity(lock) == files.identity(mine.fileno()):
                    os.unlink(lock)
            mine.close()


def _acquire(lock: Path, function: str, what: str, instead: str) -> IO[str]:
    """Return the lock's file, locked and signed."""
    while True:
        file = _open_lock(lock)
        if file is None:
            raise DataError(f"{function}: the lock of {what}, {lock.name!r}, is no regular file: remove it")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except BlockingIOError:
            free = False
        except OSError:  # a file system without locks
            free = not _read_signature(file)
        holder = {} if free else _read_signature(file)
        if holder and _is_dead(holder):
            with suppress(OSError):
                if files.identity(lock) == files.identity(file.fileno()):
                    os.unlink(lock)  # a child of the dead run still locks this file: make a new one
        elif not free:
            file.close()
            raise DataError(
                f"{function}: {what} is in use by another run{_describe_holder(holder)}: end it, or {instead}. "
                f"If that run has ended, remove {str(lock)!r}"
            )
        else:
            with suppress(FileNotFoundError):
                if files.identity(lock) == files.identity(file.fileno()):  # False if its previous owner has just removed it
                    file.truncate(0)
                    json.dump(_signature(), file)
                    file.flush()
                    return file
        file.close()


def _open_lock(lock: Path) -> IO[str] | None:
    """Open the lock's file; return None if the path is not a regular file."""
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
    return {"pid": os.getpid(), **_process_namespace(), "since": datetime.now().astimezone().isoformat(timespec="seconds")}


def _process_namespace() -> dict[str, str]:
    """Return what a process number refers to: this host and, on Linux, its process namespace."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return {"host": socket.gethostname(), "space": space}


def _read_signature(file: IO[str]) -> dict[str, Any]:
    """Return the signature in the lock, or an empty dict if it cannot be read."""
    try:
        file.seek(0)
        holder = json.loads(file.read(4096))
        texts = [holder[key] for key in ("host", "space", "since")]
        fine = type(holder["pid"]) is int and holder["pid"] > 0 and all(isinstance(text, str) for text in texts)
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}
    finally:
        file.seek(0)
    return holder if fine else {}


def _is_dead(holder: dict[str, Any]) -> bool:
    """Return whether the process is known to have ended."""
    if {k: holder[k] for k in ("host", "space")} != _process_namespace():
        return False
    try:
        os.kill(holder["pid"], 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    return False


def _describe_holder(holder: dict[str, Any]) -> str:
    """Describe the owner for the error message."""
    if not holder:
        return ""
    mine = holder["pid"] == os.getpid() and not _is_dead(holder) and _process_namespace()["space"] == holder["space"]
    who = "this process" if mine else f"process {holder['pid']} on {holder['host'][:100]!r}"
    return f" ({who} has it since {holder['since'][:40]})"
