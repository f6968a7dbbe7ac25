"""``weft bench gpu`` and its processes: they end with it, one run at a time works in a folder, what failed is tried again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import record
from tests.cuda.bench_running import LAUNCH, STUB, bench, over_the_stub, step
from weft.tools.cli import main

pytest.importorskip("triton")

ENDS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}


def started(folder: Path, rows: str, *more: str) -> subprocess.Popen[str]:
    """The command in a process of its own, in the middle of its first step: it has begun a row, and is working on another."""
    with pytest.MonkeyPatch.context() as patch:
        over_the_stub(patch, rows)
        code = (
            "import signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); "  # ignored under nohup
            "from benchmarks.gpu import command; command.why_not = lambda name: None; "
            f"command._PACKING = 0.3; command.CHILD = {STUB!r}; from weft.tools.cli import main; "
            f"sys.exit(main({['bench', 'gpu', *LAUNCH, str(folder), *more]!r}))"
        )
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    wait_for(lambda: (found := record.read(folder, "launch")) is not None and found["rows"] and found["doing"] is not None)
    return process


def wait_for(condition: Callable[[], Any], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not condition():
        time.sleep(0.05)


def working(folder: Path) -> list[int]:
    """The processes that work for a folder: those of steps, and what these have started."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and str(folder) in _words(name)]


def _words(pid: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def wait_until_nobody_works(folder: Path) -> None:
    wait_for(lambda: not working(folder), 30)
    assert working(folder) == []


@pytest.mark.drawn(2)
@pytest.mark.parametrize("number", ENDS, ids=lambda n: n.name)
def test_nothing_outlives_the_command(number: signal.Signals, tmp_path: Path) -> None:
    """However it ends, in the middle of a row: also what a row has started ends, and the run can go on."""
    process = started(tmp_path, "STARTS")
    wait_for(lambda: len(working(tmp_path)) >= 2)
    assert len(working(tmp_path)) >= 2  # the step's process, and what a row of it has started
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == ENDS[number]
    assert number == signal.SIGKILL or f"interrupted; `--resume --out {tmp_path}`" in out
    wait_until_nobody_works(tmp_path)
    found, before = step(tmp_path, "launch"), (tmp_path / "launch.json").read_bytes()
    assert found["status"] == "running" and "one" in found["rows"] and found["doing"] is not None
    time.sleep(1.0)
    assert (tmp_path / "launch.json").read_bytes() == before  # nobody works on
    with pytest.MonkeyPatch.context() as patch:
        over_the_stub(patch, "SLOW")
        assert bench(tmp_path, "--only", "launch", "--resume") == 0
    assert list(step(tmp_path, "launch")["rows"]) == ["one", "two", "three", "four"]
    assert not (tmp_path / ".lock").exists()


def test_one_run_at_a_time_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    process = started(tmp_path, "SLOW")
    over_the_stub(monkeypatch, "ALL")
    try:
        for more in ((), ("--resume",), ("--resume", "--quick"), ("--only", "attention")):
            assert bench(tmp_path, *more) == 1
            said = capsys.readouterr()
            assert f"weft: bench gpu: the folder '{tmp_path}' is in use by another run" in said.err and not said.out
            assert f"(process {process.pid} on " in said.err and "name another by --out" in said.err
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert bench(tmp_path, "--only", "launch", "--resume") == 0


def test_what_failed_is_tried_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """Rows without figures, however they came to that; those that are there stay, and why others failed stays in the file."""
    over_the_stub(monkeypatch, "FAULTS")
    assert bench(tmp_path, "--only", "launch") == 1
    before = step(tmp_path, "launch")
    over_the_stub(monkeypatch, "MENDED")
    assert bench(tmp_path, "--only", "launch", "--resume") == 0
    after = step(tmp_path, "launch")
    assert after["rows"].keys() == before["rows"].keys() and all(row["right"] for row in after["rows"].values())
    for name in ("first", "last"):
        assert after["rows"][name] == before["rows"][name]
    assert [row["name"] for row in after["failed before"]] == ["raises", "dies", "loses"]
    assert all(row["error"] for row in after["failed before"])
    capsys.readouterr()
    assert bench(tmp_path, "--only", "launch", "--resume") == 0
    out = capsys.readouterr().out
    assert "launch: done before" in out and "tries once more" not in out


def test_what_fails_again_is_said_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    over_the_stub(monkeypatch, "FAULTS")
    for _ in range(2):
        assert bench(tmp_path, "--only", "launch", *["--resume"] * tmp_path.joinpath("launch.json").exists()) == 1
        out = capsys.readouterr().out
        assert "no figures: raises (ValueError: what is wrong), dies (its process died of SIGSEGV" in out
    assert len(step(tmp_path, "launch")["failed before"]) == 3


@pytest.mark.parametrize(("place", "more", "says"), [
    ("none", ("--resume",), "bench gpu: --resume: there is no folder '{}' to go on with; name the folder by --out"),
    ("file", (), "bench gpu: --out: results cannot be written to '{}': File exists"),
    ("file/in", (), "bench gpu: --out: results cannot be written to '{}': Not a directory"),
    ("/proc/weft-bench", (), "bench gpu: --out: results cannot be written to '{}': No such file or directory"),
])
def test_folders_that_are_none(
    place: str, more: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys,
) -> None:
    over_the_stub(monkeypatch, "ALL")
    (tmp_path / "file").write_text("x")
    folder = tmp_path / place
    assert main(["bench", "gpu", "--out", str(folder), *more]) == 1
    said = capsys.readouterr()
    assert said.err == f"weft: {says.format(folder)}\n" and not said.out and sorted(os.listdir(tmp_path)) == ["file"]


@pytest.mark.parametrize(("only", "says"), [("launch", "1 step on gpu"), ("launch,attention", "2 steps on gpu")])
def test_steps_are_counted(only: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    over_the_stub(monkeypatch, "ALL")
    assert bench(tmp_path, "--only", only, "--minutes", "1") == 0
    assert capsys.readouterr().out.startswith(f"{says} in 1 minute; results: {tmp_path}\n")


def test_the_first_step_says_what_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    """Part by part, while it goes on; where a part dies the next one is tried, and where a vital one does not work nothing is."""
    over_the_stub(monkeypatch, "PARTS")
    assert bench(tmp_path / "a", "--only", "basics,launch", "--zip", str(tmp_path / "a.zip")) == 1
    lines = capfd.readouterr().out.splitlines()
    told = [line.split()[:2] for line in lines if line.startswith(("works", "BROKEN"))]
    assert told == [["works", "driver"], ["BROKEN", "graphs"], ["BROKEN", "memory"], ["works", "threads"]]
    assert "Parts that work: 2; broken: graphs, memory." in lines and any("its process died of SIGSEGV" in line for line in lines)
    assert step(tmp_path / "a", "launch")["rows"]  # which was begun: what is broken is not vital
    with zipfile.ZipFile(tmp_path / "a.zip") as found:
        assert {"basics.json", "launch.json"} <= set(found.namelist())
        assert json.loads(found.read("basics.json"))["status"] == "done"
    over_the_stub(monkeypatch, "VITAL")
    assert bench(tmp_path / "b", "--only", "basics,launch") == 1
    out = capfd.readouterr().out
    assert "BROKEN  copies" in out and "never" not in out and "The other steps need it" in out
    assert record.read(tmp_path / "b", "launch") is None
    over_the_stub(monkeypatch, "VITAL_DIES")
    assert bench(tmp_path / "c", "--only", "basics,launch") == 1
    assert "BROKEN  launch" in capfd.readouterr().out and record.read(tmp_path / "c", "launch") is None


def test_what_was_measured_is_packed_while_a_row_goes_on(tmp_path: Path) -> None:
    """A machine that ends the command without a word gives the file back all the same."""
    file = tmp_path / "all.zip"

    def packed() -> list[str]:
        if not file.exists():
            return []
        with zipfile.ZipFile(file) as found:
            names = found.namelist()
            return [r["name"] for r in json.loads(found.read("launch.json"))["rows"]] if "launch.json" in names else []

    process = started(tmp_path / "out", "SLOW_PACKED", "--zip", str(file))
    end = time.monotonic() + 60
    while time.monotonic() < end and not packed():
        time.sleep(0.05)
    process.kill()
    process.communicate(timeout=60)
    assert packed() == ["one"]
    wait_until_nobody_works(tmp_path / "out")
