"""Files: whole or not at all, with their modes, through no planted link, and never in the place of what is no file."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from weft.errors import DataError
from weft.process import files
from weft.process.files import read, write_atomically

ROOT = Path(__file__).parents[1]


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


@pytest.fixture
def mask() -> object:
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o604, 0o777, 0o200])
def test_a_mode_stays_and_new_files_get_the_masks(tmp_path: Path, mask: object, mode: int) -> None:
    path = tmp_path / "w"
    write_atomically(path, b"one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(mode)
    write_atomically(path, b"two")
    assert stat.S_IMODE(path.stat().st_mode) == mode and names(tmp_path) == ["w"]
    path.chmod(0o600)
    assert read(path, "file") == b"two"


def test_the_fresh_file_is_never_more_open_than_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, seen = tmp_path / "w", []
    path.write_bytes(b"secret")
    path.chmod(0o600)
    real = os.open

    def opened(name: object, flags: int, mode: int = 0o777, **more: object) -> int:
        handle = real(name, flags, mode, **more)  # type: ignore[arg-type]
        if flags & os.O_CREAT:
            seen.append((stat.S_IMODE(os.fstat(handle).st_mode), bool(flags & os.O_EXCL)))
        return handle

    monkeypatch.setattr(os, "open", opened)
    write_atomically(path, b"more")
    assert seen == [(0o600, True)]


def test_a_group_that_cannot_be_kept_gets_no_more_than_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w"
    path.write_bytes(b"")
    path.chmod(0o664)
    other = os.stat_result((0o100664, 0, 0, 1, os.geteuid(), os.getegid() + 1, *[0] * 4))

    def refuse(*args: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    with open(path, "r+b") as f:
        files._copy_ownership(f.fileno(), other)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


WRITERS: dict[str, Callable[[Path], object]] = {
    "function": lambda path: write_atomically(path, b"x"),
    "save": lambda path: wf.io.save(path, {"w": wf.ones(2)}),
    "module": lambda path: wf.nn.Linear(2, 3).save(path),
    "checkpoint": lambda path: fit(checkpoint=path, resume=False),
    "best weights": lambda path: fit(callbacks=[wf.train.BestWeights(path=path)]),
}


def fit(**more: object) -> object:
    x = np.ones((4, 2), "float32")
    return wf.train.fit(wf.nn.Linear(2, 3), x, np.zeros(4, "int32"), epochs=1, show=False, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_no_regular_file_is_left_alone(tmp_path: Path, writer: str) -> None:
    write = WRITERS[writer]
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    os.symlink(tmp_path / "pipe", tmp_path / "link")
    os.symlink(tmp_path / "round", tmp_path / "round")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
    places = {
        "pipe": "a pipe", "folder": "a folder", "link": "a pipe", "socket": "a socket", "round": "a link",
        "/dev/null": "a device",
    }
    before = names(tmp_path)
    for name, what in places.items():
        mode = os.lstat(tmp_path / name).st_mode
        with pytest.raises(DataError, match=f"{name}' is {what}"):
            write(tmp_path / name)
        assert os.lstat(tmp_path / name).st_mode == mode
    with pytest.raises(FileNotFoundError, match="no folder .*missing.* for 'w'"):
        write(tmp_path / "missing" / "w")
    with pytest.raises((FileNotFoundError, NotADirectoryError)):
        write(tmp_path / "pipe" / "w")
    assert names(tmp_path) == before


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
    for name in ("pipe", "folder", "socket", "/dev/zero", "nothing", "nothing/w", "pipe/w"):
        for call in (lambda p: wf.io.load(p), lambda p: wf.nn.Linear(2, 3).load(p), lambda p: wf.train.checkpoint.load(p)):
            with pytest.raises(DataError, match=f"no (weight file|checkpoint) at .*{name}"):
                call(tmp_path / name)


def test_read_only_files_and_folders_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w"
    path.write_bytes(b"old")
    for place, message in ((path, "w' is read-only"), (tmp_path, "its folder is read-only")):
        # root may write everywhere: the system's answer is what others get
        monkeypatch.setattr(os, "access", lambda p, how, place=place: not (Path(p) == place and how & os.W_OK))
        with pytest.raises(PermissionError, match=message):
            write_atomically(path, b"new")
    assert path.read_bytes() == b"old" and names(tmp_path) == ["w"]


def test_links_are_followed_to_files_and_stay(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "w").write_bytes(b"old")
    os.symlink("real/w", tmp_path / "link")
    os.symlink("real/fresh", tmp_path / "ahead")
    write_atomically(tmp_path / "link", b"new")
    write_atomically(tmp_path / "ahead", b"made")
    assert (tmp_path / "real" / "w").read_bytes() == b"new" and (tmp_path / "real" / "fresh").read_bytes() == b"made"
    assert (tmp_path / "link").is_symlink() and (tmp_path / "ahead").is_symlink() and names(tmp_path) == ["ahead", "link", "real"]


def test_planted_links_are_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the name could be guessed."""
    victim, path = tmp_path / "victim", tmp_path / "w"
    victim.write_bytes(b"mine")
    guessed = iter(["0" * 16, "1" * 16])
    monkeypatch.setattr(files.secrets, "token_hex", lambda n: next(guessed))
    for name in ("w.part", f"w.{'0' * 16}.part"):
        os.symlink(victim, tmp_path / name)
    with pytest.raises(FileExistsError):
        write_atomically(path, b"new")
    assert victim.read_bytes() == b"mine" and not path.exists()
    write_atomically(path, b"new")
    assert victim.read_bytes() == b"mine" and path.read_bytes() == b"new"


@pytest.mark.parametrize("step", ["fsync", "replace", "fchmod"])
def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "w"
    write_atomically(path, b"old")

    def fail(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new")
    monkeypatch.undo()
    assert path.read_bytes() == b"old" and names(tmp_path) == ["w"]


def test_what_a_killed_writer_left_goes_and_what_a_living_one_writes_stays(tmp_path: Path) -> None:
    path = tmp_path / "w"
    (tmp_path / f"w.{'a' * 16}.part").write_bytes(b"left")
    for name in (f"w.{'a' * 15}.part", f"w2.{'a' * 16}.part", f"w.{'g' * 16}.part", "w.part"):
        (tmp_path / name).write_bytes(b"somebody else's")
    handle, fresh = files._fresh(path)
    write_atomically(path, b"new")
    assert fresh.exists() and not (tmp_path / f"w.{'a' * 16}.part").exists() and len(names(tmp_path)) == 6
    os.close(handle)
    write_atomically(path, b"newer")
    assert not fresh.exists() and len(names(tmp_path)) == 5


def test_long_names(tmp_path: Path) -> None:
    for size in (219, 221, 255):
        path = tmp_path / ("n" * size)
        write_atomically(path, b"new")
        handle, fresh = files._fresh(path)
        os.close(handle)
        write_atomically(path, b"newer")
        assert path.read_bytes() == b"newer" and not fresh.exists()


_WRITER = """
import sys
from weft.process.files import write_atomically
for k in range(int(sys.argv[3])):
    write_atomically(sys.argv[1], (sys.argv[2] * 50_000).encode())
"""


def test_several_writers_and_a_reader(tmp_path: Path) -> None:
    """Processes and threads at once: whoever looks sees one writer's file, whole."""
    path = tmp_path / "w"
    write_atomically(path, b"z" * 50_000)
    children = [subprocess.Popen([sys.executable, "-c", _WRITER, str(path), c, "60"], cwd=ROOT) for c in "ab"]
    failed: list[BaseException] = []

    def write(letter: bytes) -> None:
        try:
            for _ in range(30):
                write_atomically(path, letter * 50_000)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(c,)) for c in (b"c", b"d")]
    for t in threads:
        t.start()
    seen = set()
    while any(c.poll() is None for c in children) or any(t.is_alive() for t in threads):
        content = path.read_bytes()
        assert len(content) == 50_000 and len(set(content)) == 1
        seen.add(content[:1])
    assert [c.wait() for c in children] == [0, 0] and not failed and len(seen) > 1 and names(tmp_path) == ["w"]
