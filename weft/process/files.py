"""Atomic writes of files, and reads that accept regular files only.

A write goes to a new file in the same folder, is flushed to disk, and replaces the old file by a rename: readers see the old
or the new content, even if several processes write. The new file has a random name, so that no link can be planted under it,
and is locked while it is written. An unlocked one was left by a killed process and is removed.
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

from weft.errors import DataError, short
from weft.process.name_errors import suggest

_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW
_KINDS = {
    stat.S_IFDIR: "a folder", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket", stat.S_IFLNK: "a link that leads nowhere",
}


def kind(mode: int) -> str:
    """Describe a file that is not a regular one."""
    return _KINDS.get(stat.S_IFMT(mode), "no regular file")


def read(path: str | os.PathLike, what: str) -> bytes:
    """Return the content of a file. Raise DataError, with the name ``what``, if it does not exist or is no regular file."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)  # O_NONBLOCK: do not wait for a pipe
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(f"no {what} at {os.fspath(path)}{_suggest_file(path)}") from None
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


def _suggest_file(path: Any) -> str:
    """Return a hint at the file or folder that a path which does not exist may mean."""
    folder, name = os.path.split(os.fsdecode(path))
    if "://" in folder:
        return ": it is an address, download the file first"
    if not os.path.isdir(folder or "."):
        return f": there is no folder {folder!r}"
    try:
        names = os.listdir(folder or ".")
    except OSError:
        return ""
    stem = suggest(os.path.splitext(name)[0], [os.path.splitext(other)[0] for other in names])
    alike = [other for other in names if os.path.splitext(other)[0] == stem]  # in several formats
    return f". Did you mean {(suggest(name, alike) or alike[0])!r}?" if stem else ""


def user_cache_folder() -> Path:
    """Return weft's cache folder: in ``$XDG_CACHE_HOME`` or ``~/.cache``; on macOS in ``~/Library/Caches``."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "weft"
    named = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(named) if named else Path.home() / ".cache") / "weft"


def target(path: str | os.PathLike, what: str) -> Path:
    """Return the path to write to: ``path`` with links resolved. ``what`` begins the error messages.

    Raise DataError if the path exists and is no regular file, FileNotFoundError if the folder does not exist, PermissionError if
    the file or the folder is read-only, TypeError or ValueError if it is no path.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{what}: the path must be a str or a path, not {short(path)}")
    if not (name := os.fspath(path)) or "\0" in name:
        raise ValueError(f"{what}: the path is empty" if not name else f"{what}: the path {name!r} has a null character")
    real_path = Path(os.path.realpath(path))
    try:
        mode = os.lstat(real_path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        if not real_path.parent.is_dir():
            raise FileNotFoundError(
                f"{what}: there is no folder {str(real_path.parent)!r} for {real_path.name!r}; make it first, as by os.makedirs"
            ) from None
    else:
        if not stat.S_ISREG(mode):
            raise DataError(f"{what}: {os.fspath(path)!r} is {kind(mode)}; only a regular file is written over")
        if not os.access(real_path, os.W_OK):
            raise PermissionError(f"{what}: {os.fspath(path)!r} is read-only")
    if not os.access(real_path.parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{what}: {os.fspath(path)!r} cannot be written: its folder is read-only")
    return real_path


def write_atomically(path: str | os.PathLike, content: bytes, what: str = "save") -> None:
    """Write a file atomically; it keeps the old file's mode. If an error is raised, see :func:`target`, it is unchanged."""
    place = target(path, what)
    clear(place)
    handle, fresh = _fresh(place)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
            os.replace(fresh, place)  # while the handle still holds the lock
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(fresh)
        raise
    sync_folder(place.parent)


def clear(place: Path) -> None:
    """Remove files that killed writers of this file left behind."""
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
    """Create a locked file beside ``place``, with the mode of the existing file or the user's default."""
    try:
        before: os.stat_result | None = os.stat(place)
    except FileNotFoundError:
        before = None
    while True:
        fresh = place.with_name(f"{_stem(place)}.{secrets.token_hex(8)}.part")
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o666 if before is None else 0o600)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
            if before is not None:
                _copy_ownership(handle, before)
            if os.fstat(handle).st_nlink:  # 0 if another process removed it before it was locked
                return handle, fresh
        except BaseException:
            os.close(handle)
            os.unlink(fresh)
            raise
        os.close(handle)


def _copy_ownership(handle: int, before: os.stat_result) -> None:
    """Apply owner, group and mode of another file; if its group cannot be set, the group gets no more rights than others."""
    mode, now = stat.S_IMODE(before.st_mode) & 0o777, os.fstat(handle)
    with suppress(PermissionError):
        if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
            os.fchown(handle, before.st_uid if os.geteuid() == 0 else -1, before.st_gid)
    if os.fstat(handle).st_gid != before.st_gid:
        mode &= ~0o070 | (mode & 0o007) << 3
    os.fchmod(handle, mode)


def _stem(place: Path) -> str:
    """Return the beginning of temporary names; a hash for long names, since a name has at most 255 bytes."""
    name = place.name
    return name if len(os.fsencode(name)) <= 220 else hashlib.sha256(os.fsencode(name)).hexdigest()


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk if the system supports it."""
    with suppress(OSError):  # some network file systems cannot
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def identity(handle: Any) -> tuple[int, int]:
    """Return device and inode, which identify a file that is given by path or handle."""
    info = os.stat(handle)
    return info.st_dev, info.st_ino
