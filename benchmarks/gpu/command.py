"""``weft bench gpu``: gives each step its share of the time and a process, prints what it found, and says what was cut."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu import record, together
from benchmarks.gpu.__main__ import LOST
from benchmarks.gpu.needed import missing_packages
from benchmarks.gpu.pack import Pack
from benchmarks.gpu.steps import NAMES, STEPS, Step, broken
from benchmarks.gpu.tables import table
from weft.devices.names import named, why_not
from weft.errors import DeviceError
from weft.process.run_lock import only_one

FOLDER = "weft-bench-gpu"
CHILD = (sys.executable, "-m", "benchmarks.gpu")
_DAY = 24 * 60
_GRACE = 0.25  # of a step's share, in which its last row may end by itself
_LEAST_GRACE = 10.0  # seconds
_WORTH = 0.5  # seconds, below which a step is not begun
_PACKING = 5.0  # seconds after which a running step's results are packed again
_AGAIN = 20  # processes a step, where rows end them


def gpu(arguments: argparse.Namespace) -> int:
    """Run the steps; returns 0 where all was measured and right.

    Raises
    ------
    DeviceError
        There is no such device.
    ImportError
        Packages are missing; all are named.
    ValueError
        Arguments that do not fit, results of another run in the folder, or another run that is at work there.
    OSError
        Nothing can be written to the folder.
    """
    device = named(arguments.device or "gpu")
    if device == "cpu":
        raise ValueError("bench gpu: --device is gpu, gpu:1 or gpu-sim; on the CPU there is `weft bench convnets`")
    missing = why_not(device)
    if missing:
        raise DeviceError(f"device {device!r}: {missing}")
    packages = missing_packages()
    if packages:
        raise ImportError(packages)
    steps = _chosen(arguments.only)
    minutes = arguments.minutes
    if not 0 < minutes <= _DAY:
        raise ValueError(f"bench gpu: --minutes must be more than 0 and at most {_DAY}, a day, not {minutes:g}")
    folder = _folder(arguments)
    alone = only_one(folder / ".lock", "bench gpu", f"the folder {str(folder)!r}", "name another by --out")
    with together.ended_like_ctrl_c(), alone:
        steps, known = _to_do(folder, steps, arguments)
        end = time.monotonic() + 60 * minutes
        count = "1 step" if len(steps) == 1 else f"{len(steps)} steps"
        print(f"{count} on {device} in {minutes:g} minute{'' if minutes == 1 else 's'}; results: {folder}", flush=True)
        results = [*known]
        pack = Pack(folder, arguments.zip)
        try:
            _all(steps, device, folder, end, arguments.quick, results, pack)
        except KeyboardInterrupt as interrupted:
            print(f"\ninterrupted; `--resume --out {folder}` goes on behind the last row")
            return 128 + (interrupted.args[0] if interrupted.args else signal.SIGINT)
        finally:
            pack.write()
        return _told(results, folder)


def _folder(arguments: argparse.Namespace) -> Path:
    """Where results go; made, and seen to take files."""
    folder = Path(arguments.out or FOLDER)
    if arguments.resume and not folder.is_dir():
        raise ValueError(f"bench gpu: --resume: there is no folder {str(folder)!r} to go on with; name the folder by --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise OSError(f"bench gpu: --out: results cannot be written to {str(folder)!r}: {error.strerror}") from None
    return folder


def _all(
    steps: Sequence[Step], device: str, folder: Path, end: float, quick: bool, results: list[dict[str, Any]], pack: Pack,
) -> None:
    """Run them one after the other, and print what each found. end : of ``time.monotonic``; results : what is known, grows"""
    said: set[str] = set()
    for k, step in enumerate(steps):
        left = max(0.0, end - time.monotonic())
        share = left * step.weight / sum([s.weight for s in steps[k:]])
        if step.spoken:
            share = min(left, step.weight)
        print(f"\n{step.name}: {step.title} ({share:.0f} s)", flush=True)
        found = _run(step, device, folder, share, quick, pack)
        results.append(found)
        if step.spoken:
            _verdict(found)
            if broken(found) and steps[k + 1 :]:
                print("The other steps need it, and are not begun. To run some all the same, name them by --only.", flush=True)
                return
            continue
        notes = [note for note in found["notes"] if note not in said]
        said.update(notes)
        print(table({**found, "notes": notes}), flush=True)


def _verdict(found: dict[str, Any]) -> None:
    """In a sentence: which parts work."""
    bad = [*record.wrong(found), *record.failed(found)]
    count = len(found["rows"]) - len(bad)
    if found["left"]:
        print(f"Not tried, since the time was over: {', '.join(found['left'])}")
    print(f"Parts that work: {count}; broken: {', '.join(bad) or 'none'}.", flush=True)


def _chosen(only: str | None) -> list[Step]:
    if only is None:
        return list(STEPS)
    names = [name.strip() for name in only.split(",")]
    for name in names:
        if name not in NAMES:
            raise ValueError(f"bench gpu: no step {name!r}; there are {', '.join(NAMES)}")
    return [step for step in STEPS if step.name in names]


def _to_do(folder: Path, steps: Sequence[Step], arguments: argparse.Namespace) -> tuple[list[Step], list[dict[str, Any]]]:
    """(steps to run, what is known of the others)."""
    todo, known = [], []
    for step in steps:
        found = record.read(folder, step.name)
        if found is not None and not arguments.resume:
            raise ValueError(
                f"bench gpu: {folder} has results of another run ({step.name}.json): --resume goes on with that, "
                "--out names another folder"
            )
        if found is not None and found.get("quick", arguments.quick) is not arguments.quick:
            kind = "of" if found["quick"] else "without"
            raise ValueError(f"bench gpu: {folder} has results {kind} --quick: name another folder")
        if found is None or found["status"] != record.DONE or record.failed(found):
            todo.append(step)
        else:
            print(f"{step.name}: done before")
            known.append(found)
    return todo, known


def _run(step: Step, device: str, folder: Path, share: float, quick: bool, pack: Pack) -> dict[str, Any]:
    """A step, in as many processes as it ends."""
    if share < _WORTH:
        found = record.read(folder, step.name) or record.fresh(step.name, step.title, share)
        found.update(status=record.CUT, reason="no time was left for it", quick=quick)
        record.write(folder, found)
        return found
    record.try_again(folder, step.name)
    begin = time.monotonic()
    for _ in range(_AGAIN):
        left, before = share - (time.monotonic() - begin), (record.read(folder, step.name) or {"seconds": 0.0})["seconds"]
        status = _process(step, device, folder, left, share, quick, pack)
        found = record.read(folder, step.name) or record.fresh(step.name, step.title, share)
        found["share"] = round(share, 1)
        if status == 0:
            break
        row, why = found["doing"], _why(status, folder, step)
        found["doing"] = None
        if row is not None and status is None and found["seconds"] - before > left / 2:
            found["left"] = [row]  # it was begun too late to be called endless
        elif row is not None:
            found["rows"].append({"name": row, "error": why})
            if step.spoken:
                print(record.sentence(found["rows"][-1]), flush=True)
        over = status is None or share - (time.monotonic() - begin) <= 0
        found.update(status=record.CUT if over else record.FAILED, reason=why)
        record.write(folder, found)
        if over or row is None and status != LOST or broken(found):
            break  # else another process goes on behind the row that ended this one
    record.write(folder, found)
    return found


def _process(step: Step, device: str, folder: Path, left: float, share: float, quick: bool, pack: Pack) -> int | None:
    """The exit status of a step's process; None where it did not end in time."""
    command = [*CHILD, step.name, "--device", device, "--out", str(folder), "--seconds", f"{left:.2f}", *["--quick"] * quick]
    with open(folder / f"{step.name}.log", "ab") as log:
        process = together.started(command, log, step.spoken)
        end = time.monotonic() + max(left, 0.0) + max(_LEAST_GRACE, _GRACE * share)
        try:
            while (status := _waited(process, min(_PACKING, end - time.monotonic()))) is None and time.monotonic() < end:
                pack.write()
            return status
        finally:  # Ctrl-C among it: nothing of a step goes on behind the command's back
            together.end(process)


def _waited(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(max(0.0, seconds))
    except subprocess.TimeoutExpired:
        return None


def _why(status: int | None, folder: Path, step: Step) -> str:
    log = folder / f"{step.name}.log"
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    last = f"; its last words: {lines[-1].strip()[:300]}" if lines else ""
    if status is None:
        return f"its time was over in the middle of a row, and it was ended{last}"
    if status < 0:
        return f"its process died of {signal.Signals(-status).name}{last}"
    return f"its process ended with {status}{last} (see {log.name})"


def _told(results: Sequence[dict[str, Any]], folder: Path) -> int:
    """What became of the steps, and the exit status."""
    print(f"\n{'step':14}{'status':9}{'seconds':>9}{'rows':>6}  remarks")
    good = True
    for found in results:
        wrong, failed = record.wrong(found), record.failed(found)
        good = good and not wrong and not failed and found["status"] in (record.DONE, record.CUT)
        remarks = [found["reason"]] if found["reason"] else []
        remarks += _named("NOT RIGHT", wrong) + _named("no figures", [f"{name} ({why})" for name, why in failed.items()])
        print(f"{found['step']:14}{found['status']:9}{found['seconds']:9.1f}{len(found['rows']):6}  {'; '.join(remarks)}")
    if any(map(record.failed, results)):
        print(f"\n`--resume --out {folder}` tries once more what failed.")
    print(f"\nSend us the folder {folder}: a file a step, and what each printed.")
    return 0 if good else 1


def _named(word: str, rows: Sequence[str]) -> list[str]:
    more = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    return [f"{word}: {', '.join(rows[:5])}{more}"] if rows else []
