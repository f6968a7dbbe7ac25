"""Object code on disk: a private folder of entries that are verified before use.

Entries are executed, so the folder and the file must belong to this user and be writable by no other user, links are not
followed, and a checksum covers the whole entry. An entry that fails a check is a cache miss and is rebuilt; callers may also
treat an entry with unusable content as a miss. Files are created by atomic rename, so several processes may share a folder.
A folder that cannot be written causes one warning, never an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from weft.process.files import user_cache_folder

MAGIC = b"weft-object-1\n"
SUFFIX = ".weft"
MAX_ENTRY_BYTES = 256 << 20  # bytes of an entry
_DAY_S = 86400.0


class Entry(NamedTuple):
    """The metadata and the object code of one compiled kernel."""

    meta: dict[str, Any]
    code: bytes


def default_folder() -> Path:
    """Return ``$WEFT_CACHE``, else weft's folder in the user's cache folder."""
    setting = os.environ.get("WEFT_CACHE")
    return Path(setting) if setting else user_cache_folder() / "objects"


def encode(entry: Entry) -> bytes:
    """Return an entry as the bytes of its file, with a checksum."""
    meta = json.dumps(entry.meta, sort_keys=True).encode()
    body = len(meta).to_bytes(8, "little") + meta + entry.code
    return MAGIC + hashlib.sha256(body).digest() + body


def decode(data: bytes) -> Entry | None:
    """Return the entry, or None if the checksum or the format is wrong."""
    start = len(MAGIC) + 32
    body = memoryview(data)[start:]
    if data[: len(MAGIC)] != MAGIC or len(body) < 8 or hashlib.sha256(body).digest() != data[len(MAGIC) : start]:
        return None
    size = int.from_bytes(body[:8], "little")
    if size > len(body) - 8:
        return None
    try:
        meta = json.loads(bytes(body[8 : 8 + size]))
    except (ValueError, RecursionError):
        return None
    return Entry(meta, bytes(body[8 + size :])) if isinstance(meta, dict) else None


class Cache:
    """A folder of entries, by name (a hex digest).

    Parameters
    ----------
    folder : created on the first write, accessible to this user only.
    limit : size of the folder in bytes. Every 64th write checks it and removes the least recently used entries.
    """

    def __init__(self, folder: Path | None = None, limit: int = 512 << 20) -> None:
        self.folder = folder if folder is not None else default_folder()
        self.limit = limit
        self.writable = True
        self._is_checked: bool | None = None
        self._writes = 0

    def read(self, name: str) -> Entry | None:
        """Return the entry called ``name``, or None if it is missing or fails a check."""
        if not self._is_private():
            return None
        path = self.folder / (name + SUFFIX)
        try:
            data = _read_private(path)
            entry = decode(data) if data is not None else None
        except (OSError, MemoryError):
            return None
        if entry is None or entry.meta.get("name") != name:
            return None
        _touch(path)
        return entry

    def contains(self, name: str) -> bool:
        """Return whether there is an entry called ``name``. Its content is not checked."""
        return (self.folder / (name + SUFFIX)).exists()

    def write(self, name: str, meta: dict[str, Any], code: bytes) -> bool:
        """Store an entry. Return whether it is on disk."""
        if not self.writable:
            return False
        try:
            _make_private(self.folder)
            self._is_checked = None
            if not self._is_private():
                return False
            path = self.folder / (name + SUFFIX)
            if path.is_dir() and not path.is_symlink():
                return False  # the directory is not weft's and does not affect other entries
            _write_atomic(path, encode(Entry({**meta, "name": name}, code)))
        except OSError as error:
            self.writable = False
            _warn(f"weft cannot keep compiled code in {self.folder} ({error.strerror or error}); so other "
                  "processes compile it again. Set WEFT_CACHE to a folder that can be written.")
            return False
        if self._writes % 64 == 0:
            self.prune()
        self._writes += 1
        return True

    def size(self) -> tuple[int, int]:
        """Return the number of entries and their total bytes."""
        files = self._files()
        return len(files), sum(size for _, size, _ in files)

    def prune(self) -> int:
        """If the limit is exceeded, remove the least recently used entries down to 4/5 of it. Return the number removed."""
        removed = 0
        files = sorted(self._files(), reverse=True)
        total = sum(size for _, size, _ in files)
        for temporary in self._temporaries():
            _remove(temporary)
        if total <= self.limit:
            return 0
        while files and total > self.limit * 4 // 5:
            _, size, path = files.pop()
            _remove(path)
            total -= size
            removed += 1
        return removed

    def _is_private(self) -> bool:
        """Return whether the folder exists, belongs to this user and is not writable by others. Warn if it is unsafe."""
        if self._is_checked is None:
            try:
                info = os.stat(self.folder)
            except OSError:
                return False
            self._is_checked = stat.S_ISDIR(info.st_mode) and _is_owned_and_closed(info)
            if not self._is_checked:
                self.writable = False
                _warn(f"weft does not use {self.folder} for compiled code: it is no folder, or other users may write there. "
                      "Close it (chmod 700) or set WEFT_CACHE to a private folder.")
        return self._is_checked

    def _files(self) -> list[tuple[float, int, Path]]:
        """Return (modification time, bytes, path) of each entry."""
        out = []
        try:
            with os.scandir(self.folder) as entries:
                for item in entries:
                    if item.name.endswith(SUFFIX):
                        info = item.stat(follow_symlinks=False)
                        out.append((info.st_mtime, info.st_size, Path(item.path)))
        except OSError:
            pass
        return out

    def _temporaries(self) -> list[Path]:
        """Return temporary files older than an hour, left by processes that were killed while writing."""
        try:
            return [p for p in self.folder.glob(".new-*") if time.time() - p.stat().st_mtime > 3600]
        except OSError:
            return []


def _make_private(folder: Path) -> None:
    """Create a folder and its missing parents with mode 700: ``mkdir(parents=True)`` applies the umask to parents."""
    if not folder.is_dir():
        if folder.parent != folder:
            _make_private(folder.parent)
        folder.mkdir(exist_ok=True, mode=0o700)


def _is_owned_and_closed(info: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):  # Windows: the user's cache folder is private by its access list
        return True
    return info.st_uid == os.geteuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read_private(path: Path) -> bytes | None:
    """Return the bytes of a regular file that only this user can write, else None. Checks the open file, to avoid a race."""
    flags = ("O_NOFOLLOW", "O_CLOEXEC", "O_NOCTTY", "O_NONBLOCK")  # O_NONBLOCK: do not block on a pipe
    try:
        handle = os.open(path, os.O_RDONLY | sum(getattr(os, name, 0) for name in flags))
    except OSError:
        return None
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or not _is_owned_and_closed(info) or info.st_size > MAX_ENTRY_BYTES:
            return None
        with os.fdopen(os.dup(handle), "rb") as file:
            return file.read(info.st_size)  # read() allocates its argument in advance
    finally:
        os.close(handle)


def _write_atomic(path: Path, data: bytes) -> None:
    temporary = path.parent / f".new-{os.getpid()}-{os.urandom(8).hex()}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        _remove(temporary)
        raise


def _touch(path: Path) -> None:
    """Update the modification time, by which pruning orders entries, at most once a day."""
    try:
        if time.time() - os.stat(path).st_mtime > _DAY_S:
            os.utime(path)
    except OSError:
        pass


def _remove(path: Path) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=4)
