"""Object code on disk: a private folder of entries that are verified before they are used.

An entry is code that will be executed, so nothing is taken on trust: the folder and the file must belong to
this user and be writable by nobody else, links are not followed, and a checksum inside the entry covers all of
it. Whatever fails is a miss: the entry is built anew, and whoever finds the content of an entry unusable may treat it as a
miss too. Files appear by an atomic rename, so two processes may fill one folder. A folder that cannot be written costs one
warning, never the run.
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
LARGEST = 256 << 20  # bytes of an entry
_DAY = 86400.0


class Entry(NamedTuple):
    """What is known of one compiled kernel besides its code."""

    meta: dict[str, Any]
    code: bytes


def default_folder() -> Path:
    """``$WEFT_CACHE``, else weft's place in the user's cache folder."""
    named = os.environ.get("WEFT_CACHE")
    if named:
        return Path(named)
    return user_cache_folder() / "objects"


def encode(entry: Entry) -> bytes:
    meta = json.dumps(entry.meta, sort_keys=True).encode()
    body = len(meta).to_bytes(8, "little") + meta + entry.code
    return MAGIC + hashlib.sha256(body).digest() + body


def decode(data: bytes) -> Entry | None:
    """The entry, or None when a single byte is not as it was written."""
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
    """Entries by name (a hex digest) in one folder.

    Parameters
    ----------
    folder : where entries lie; made on the first write, readable by this user only.
    limit : bytes; when a write finds more, the entries not used for longest go.
    """

    def __init__(self, folder: Path | None = None, limit: int = 512 << 20) -> None:
        self.folder = folder if folder is not None else default_folder()
        self.limit = limit
        self.writable = True
        self._checked: bool | None = None
        self._writes = 0

    def read(self, name: str) -> Entry | None:
        """The entry called ``name``, or None if there is none that can be trusted."""
        if not self._private():
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

    def write(self, name: str, meta: dict[str, Any], code: bytes) -> bool:
        """Keep an entry; True if it is on disk now."""
        if not self.writable:
            return False
        try:
            _make_private(self.folder)
            self._checked = None
            if not self._private():
                return False
            path = self.folder / (name + SUFFIX)
            if path.is_dir() and not path.is_symlink():
                return False  # not ours to remove, and of no harm to other entries
            _write_atomic(path, encode(Entry({**meta, "name": name}, code)))
        except OSError as error:
            self.writable = False
            _warn(f"weft cannot keep compiled code in {self.folder} ({error.strerror or error}); this run compiles for "
                  "itself only. Set WEFT_CACHE to a folder that can be written.")
            return False
        if self._writes % 64 == 0:
            self.prune()
        self._writes += 1
        return True

    def size(self) -> tuple[int, int]:
        """(entries, bytes)."""
        files = self._files()
        return len(files), sum(size for _, size, _ in files)

    def prune(self) -> int:
        """Remove the entries not used for longest until four fifths of the limit are left; returns how many."""
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

    def _private(self) -> bool:
        """Whether the folder exists, is ours and closed to other writers; a folder that is not is never used."""
        if self._checked is None:
            try:
                info = os.stat(self.folder)
            except OSError:
                return False
            self._checked = stat.S_ISDIR(info.st_mode) and _ours(info)
            if not self._checked:
                self.writable = False
                _warn(f"weft does not use {self.folder} for compiled code: it is no folder, or other users may write there. "
                      "Close it (chmod 700) or set WEFT_CACHE to a private folder.")
        return self._checked

    def _files(self) -> list[tuple[float, int, Path]]:
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
        """What a process left that was stopped while it wrote."""
        try:
            return [p for p in self.folder.glob(".new-*") if time.time() - p.stat().st_mtime > 3600]
        except OSError:
            return []


def _make_private(folder: Path) -> None:
    """Make a folder and its missing parents, each for this user only: ``mkdir(parents=True)`` leaves parents to the umask."""
    if not folder.is_dir():
        if folder.parent != folder:
            _make_private(folder.parent)
        folder.mkdir(exist_ok=True, mode=0o700)


def _ours(info: os.stat_result) -> bool:
    if not hasattr(os, "geteuid"):  # Windows: the user's cache folder is private by its access list
        return True
    return info.st_uid == os.geteuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read_private(path: Path) -> bytes | None:
    """The file's bytes if it is a plain file that only this user can write. Checked on the open file: no race."""
    flags = ("O_NOFOLLOW", "O_CLOEXEC", "O_NOCTTY", "O_NONBLOCK")  # the last: a pipe is not waited for
    try:
        handle = os.open(path, os.O_RDONLY | sum(getattr(os, name, 0) for name in flags))
    except OSError:
        return None
    try:
        info = os.fstat(handle)
        if not stat.S_ISREG(info.st_mode) or not _ours(info) or info.st_size > LARGEST:
            return None
        with os.fdopen(os.dup(handle), "rb") as file:
            return file.read(info.st_size)  # read() allocates what it is asked for before it reads
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
    """Used today: pruning goes by this. At most one write an entry and day."""
    try:
        if time.time() - os.stat(path).st_mtime > _DAY:
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
