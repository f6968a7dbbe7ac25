"""Files: written whole or not at all, and read only where they are files.

A write goes to a fresh file in the same folder, is brought to the disk, and takes the place of the old one by a rename: whoever
looks sees the old file or the new one, also while several processes write. The fresh file has a random name, which nobody could
plant a link under, and is locked while it is written: one that is not locked was left by a process that was killed, and goes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft.errors import DataError

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW
_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a link that leads nowhere",
}


def kind(mode: int) -> str:
    """What a file that is no regular one is, in words."""
    return _KINDS.get(stat.S_IFMT(mode), "no regular file")


def read(path: str | os.PathLike, what: str) -> bytes:
    """A file's content.

    Raises
    ------
    DataError
        when there is none, or it is no regular file; ``what`` says what is missing.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)  # a pipe is not waited for
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"no {what} at {os.fspath(path)}") from None
    except OSError as error:  # a socket
        if os.path.exists(path) and not os.path.isfile(path):
            raise DataError(f"no {what} at {os.fspath(path)}: it is {kind(os.stat(path).st_mode)}") from error
        raise
    try:
        mode = os.fstat(handle).st_mode
        if not stat.S_ISREG(mode):
            raise DataError(f"no {what} at {os.fspath(path)}: it is {kind(mode)}")
        with os.fdopen(os.dup(handle), "rb") as file:
            return file.read()
    finally:
        os.close(handle)


def user_cache_folder() -> Path:
    """Return weft's folder among the user's caches: in ``$XDG_CACHE_HOME`` or ``~/.cache``; on macOS in ``~/Library/Caches``."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "weft"
    named = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(named) if named else Path.home() / ".cache") / "weft"


def target(path: str | os.PathLike, what: str) -> Path:
    """Where a file at ``path`` is written: a link's other end. ``what`` begins the message where it cannot be.

    Raises
    ------
    DataError
        when something is there that is no regular file.
    FileNotFoundError, PermissionError
        when its folder does not exist; when file or folder are read-only.
    """
    found = Path(os.path.realpath(path))
    try:
        mode = os.lstat(found).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if not found.parent.is_dir():
            raise FileNotFoundError(
                f"{what}: there is no folder {str(found.parent)!r} for {found.name!r}; make it first, as by os.makedirs"
            ) from None
    else:
        if not stat.S_ISREG(mode):
            raise DataError(f"{what}: {os.fspath(path)!r} is {kind(mode)}; only a regular file is written over")
        if not os.access(found, os.W_OK):
            raise PermissionError(f"{what}: {os.fspath(path)!r} is read-only")
    if not os.access(found.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{what}: {os.fspath(path)!r} cannot be written: its folder is read-only")
    return found


def write_whole(path: str | os.PathLike, content: bytes, what: str = "save") -> None:
    """Write a file so that at every moment there is the old one or the new one, whole. The old one's mode stays.

    Raises
    ------
    DataError, OSError
        see :func:`target`; then the old file is as it was.
    """
    place = target(path, what)
    clear(place)
    handle, fresh = _fresh(place)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
            os.replace(fresh, place)  # before its lock ends with the handle
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        raise
    sync_folder(place.parent)


def clear(place: Path) -> None:
    """Remove what writers of this file left that were killed."""
    left = re.compile(re.escape(_stem(place)) + r"\.[0-9a-f]{16}\.part")
    for name in os.listdir(place.parent):
        if left.fullmatch(name):
            with suppress(OSError):
                _remove_abandoned(place.parent / name)


def _remove_abandoned(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _FLAGS)
    try:
        info = os.fstat(handle)
        if stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
    finally:
        os.close(handle)


def _fresh(place: Path) -> tuple[int, Path]:
    """A new file beside ``place``, locked, with the mode that the file there has, or what the user's mask leaves."""
    try:
        before: os.stat_result | None = os.stat(place)
    except FileNotFoundError:
        before = None
    while True:
        fresh = place.with_name(f"{_stem(place)}.{secrets.token_hex(8)}.part")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o666 if before is None else 0o600)
        try:
            with suppress(OSError):  # a folder without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            if before is not None:
                _take_over(handle, before)
            if os.fstat(handle).st_nlink:  # nobody cleared it away before it was locked
                return handle, fresh
        except BaseException:
            os.close(handle)
            os.unlink(fresh)
            raise
        os.close(handle)


def _take_over(handle: int, before: os.stat_result) -> None:
    """Owner, group and mode of another file; without its group, the group gets no more than everybody."""
    mode, now = stat.S_IMODE(before.st_mode) & 0o777, os.fstat(handle)
    with suppress(PermissionError):
        if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
            os.fchown(handle, before.st_uid if os.geteuid() == 0 else -1, before.st_gid)
    if os.fstat(handle).st_gid != before.st_gid:
        mode &= ~0o070 | (mode & 0o007) << 3
    os.fchmod(handle, mode)


def _stem(place: Path) -> str:
    """How names of fresh files begin; a name may have 255 bytes."""
    name = place.name
    return name if len(os.fsencode(name)) <= 220 else hashlib.sha256(os.fsencode(name)).hexdigest()


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system can."""
    with suppress(OSError):  # some network folders cannot
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def identity(handle: Any) -> tuple[int, int]:
    """What tells a file, given by path or handle, from every other."""
    info = os.stat(handle)
    return info.st_dev, info.st_ino
