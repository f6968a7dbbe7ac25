"""One run at a time writes a checkpoint, and what dead runs left is taken over."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import weft as wf
from tests.train.making import Broken, data, net
from weft.errors import DataError
from weft.process import run_lock as locks_of
from weft.train.checkpoint import lock_checkpoint

ROOT = Path(__file__).parents[2]

_HOLD = """
import os, sys, time
from weft.train.checkpoint import lock_checkpoint
with lock_checkpoint(sys.argv[1]):
    if len(sys.argv) > 2 and os.fork() == 0:
        time.sleep(600)
    print("holds", flush=True)
    time.sleep(600)
"""


def holding(path: Path, *more: str) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(path), *more], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )
    assert child.stdout is not None and child.stdout.readline() == "holds\n"
    return child


def fit(path: Path, **more: Any) -> Any:
    x, y = data()
    return wf.train.fit(net(), x, y, epochs=1, checkpoint=path, show=False, **{"resume": True, **more})


def test_a_second_run_is_refused_and_told_whose_it_is(tmp_path: Path) -> None:
    path = tmp_path / "run"
    child = holding(path)
    try:
        for resume in (True, False, None):
            owner = rf"\(process {child.pid} on '.*' has it since 20..-"
            with pytest.raises(DataError, match=rf"run' is in use by another run.* {owner}"):
                fit(path, resume=resume)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["run.lock"]
        os.symlink(path, tmp_path / "link")
        with pytest.raises(DataError, match="in use by another run"):  # the same file by another name
            fit(tmp_path / "link")
        os.unlink(tmp_path / "link")
    finally:
        child.kill()
        child.wait()
    assert len(fit(path).epochs) == 1  # its lock is still there, and nobody's
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run"]


def test_two_runs_of_one_process(tmp_path: Path) -> None:
    path = tmp_path / "run"

    class Second:
        def on_epoch(self, state: Any) -> None:
            fit(path)

    with pytest.raises(DataError, match=r"in use by another run.* \(this process has it since"):
        fit(path, callbacks=[Second()])
    with pytest.raises(Broken):
        with lock_checkpoint(path):
            raise Broken
    fit(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run"]


def test_a_child_that_outlived_its_run_does_not_keep_it(tmp_path: Path) -> None:
    path = tmp_path / "run"
    parent = holding(path, "fork")
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    try:
        with lock_checkpoint(path):
            with pytest.raises(DataError, match="this process"):
                fit(path)
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
    assert not list(tmp_path.iterdir())


GARBAGE = ["", "{", "[]", "3", '{"pid": 1}', '{"pid": "1", "host": "h", "space": "", "since": ""}', "[" * 4000, "\0" * 5000]


@pytest.mark.parametrize("locks", [True, False])
def test_what_stands_in_a_lock_nobody_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locks: bool) -> None:
    """Also where the folder has no locks: then only what is signed by a living process, or on another host, counts."""
    if not locks:
        def refuse(handle: Any, flags: int) -> None:
            raise OSError(45, "not supported")

        monkeypatch.setattr(locks_of.fcntl, "flock", refuse)
    lock, mine = tmp_path / "run.lock", {**locks_of._process_namespace(), "since": "long ago"}
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    dead = [json.dumps({"pid": pid, **mine}) for pid in (child.pid, 1 << 40, 1 << 80)]
    for text in [*GARBAGE, *dead]:
        lock.write_text(text)
        with lock_checkpoint(tmp_path / "run"):
            assert json.loads(lock.read_text())["pid"] == os.getpid()
        assert not lock.exists()
    for pid, more in ((os.getppid(), {}), (child.pid, {"host": "elsewhere"}), (child.pid, {"space": "pid:[1]"})):
        lock.write_text(json.dumps({"pid": pid, **mine, **more}))
        if locks:
            with lock_checkpoint(tmp_path / "run"):
                pass
        else:
            with pytest.raises(DataError, match=f"{pid} on .*remove '.*run.lock'"):
                with lock_checkpoint(tmp_path / "run"):
                    pass
            lock.unlink()


def test_a_lock_that_is_no_file(tmp_path: Path) -> None:
    lock, victim = tmp_path / "run.lock", tmp_path / "victim"
    victim.write_text("mine")

    def refused() -> None:
        with pytest.raises(DataError, match="'run.lock', is no regular file"):
            fit(tmp_path / "run")

    os.symlink(victim, lock)
    refused()
    lock.unlink()
    os.mkfifo(lock)
    refused()
    lock.unlink()
    lock.mkdir()
    refused()
    lock.rmdir()
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(lock))
        refused()
    assert victim.read_text() == "mine"


def test_a_lock_is_nobody_elses_when_it_was_replaced(tmp_path: Path) -> None:
    """Who finds another's lock in the place of its own leaves it there."""
    lock = tmp_path / "run.lock"
    with lock_checkpoint(tmp_path / "run"):
        lock.unlink()
        lock.write_text("another's")
    assert lock.read_text() == "another's"
