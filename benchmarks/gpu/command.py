"""``weft bench gpu``: run each step in a process with its share of the time, and print results and omissions."""

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
from weft.devices.names import canonical_name, why_not
from weft.errors import DeviceError
from weft.process.run_lock import hold_run_lock

FOLDER = "weft-bench-gpu"
CHILD = (sys.executable, "-m", "benchmarks.gpu")
_DAY = 24 * 60
_GRACE = 0.25  # share of a step's time that its last row may take in addition
_LEAST_GRACE = 10.0  # seconds
_WORTH = 0.5  # seconds: a step with less time is not started
_PACKING = 5.0  # seconds between two packings of a running step's results
_AGAIN = 20  # processes per step, if rows end them


def gpu(arguments: argparse.Namespace) -> int:
    """Run the steps. Return 0 if everything was measured and right.

    Raises
    ------
    DeviceError
        The device cannot be used.
    ImportError
        Packages are missing; the message names all of them.
    ValueError
        Arguments are invalid, or the folder has results of another run or is in use by another run.
    OSError
        The folder is not writable.
    """
    device = canonical_name(arguments.device or "gpu")
    if device == "cpu":
        raise ValueError("bench gpu: --device is gpu, gpu:1 or gpu-sim; on the CPU there is `weft bench convnets`")
    missing = why_not(device)
    if missing:
        raise DeviceError(f"device {device!r}: {missing}")
    packages = missing_packages()
    if packages:
        raise ImportError(packages)
    steps = _parse_steps(arguments.only)
    minutes = arguments.minutes
    if not 0 < minutes <= _DAY:
        raise ValueError(f"bench gpu: --minutes must be more than 0 and at most {_DAY}, a day, not {minutes:g}")
    folder = _make_folder(arguments)
    lock = hold_run_lock(folder / ".lock", "bench gpu", f"the folder {str(folder)!r}", "name another by --out")
    with together.signals_as_interrupts(), lock:
        steps, done = _select_steps(folder, steps, arguments)
        end = time.monotonic() + 60 * minutes
        count = "1 step" if len(steps) == 1 else f"{len(steps)} steps"
        print(f"{count} on {device} in {minutes:g} minute{'' if minutes == 1 else 's'}; results: {folder}", flush=True)
        results = [*done]
        pack = Pack(folder, arguments.zip)
        try:
            _run_steps(steps, device, folder, end, arguments.quick, results, pack)
        except KeyboardInterrupt as interrupted:
            print(f"\ninterrupted; `--resume --out {folder}` goes on behind the last row")
            return 128 + (interrupted.args[0] if interrupted.args else signal.SIGINT)
        finally:
            pack.write()
        return _print_summary(results, folder)


def _make_folder(arguments: argparse.Namespace) -> Path:
    """Create the folder for results if necessary, check that it is writable, and return it."""
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


def _run_steps(
    steps: Sequence[Step], device: str, folder: Path, end: float, quick: bool, results: list[dict[str, Any]], pack: Pack,
) -> None:
    """Run the steps one after the other, print each result and append it to ``results``. end : deadline of ``time.monotonic``"""
    printed_notes: set[str] = set()
    for k, step in enumerate(steps):
        left = max(0.0, end - time.monotonic())
        share = left * step.weight / sum([s.weight for s in steps[k:]])
        if step.spoken:
            share = min(left, step.weight)
        print(f"\n{step.name}: {step.title} ({share:.0f} s)", flush=True)
        result = _run(step, device, folder, share, quick, pack)
        results.append(result)
        if step.spoken:
            _print_verdict(result)
            if broken(result) and steps[k + 1 :]:
                print("The other steps need it, and are not begun. To run some all the same, name them by --only.", flush=True)
                return
            continue
        notes = [note for note in result["notes"] if note not in printed_notes]
        printed_notes.update(notes)
        print(table({**result, "notes": notes}), flush=True)


def _print_verdict(result: dict[str, Any]) -> None:
    """Print which parts work, as a sentence."""
    bad = [*record.wrong(result), *record.failed(result)]
    count = len(result["rows"]) - len(bad)
    if result["left"]:
        print(f"Not tried, since the time was over: {', '.join(result['left'])}")
    print(f"Parts that work: {count}; broken: {', '.join(bad) or 'none'}.", flush=True)


def _parse_steps(only: str | None) -> list[Step]:
    if only is None:
        return list(STEPS)
    names = [name.strip() for name in only.split(",")]
    for name in names:
        if name not in NAMES:
            raise ValueError(f"bench gpu: no step {name!r}; there are {', '.join(NAMES)}")
    return [step for step in STEPS if step.name in names]


def _select_steps(folder: Path, steps: Sequence[Step], arguments: argparse.Namespace) -> tuple[list[Step], list[dict[str, Any]]]:
    """Return the steps to run, and the records of those that are done."""
    todo, done = [], []
    for step in steps:
        result = record.read(folder, step.name)
        if result is not None and not arguments.resume:
            raise ValueError(
                f"bench gpu: {folder} has results of another run ({step.name}.json): --resume goes on with that, "
                "--out names another folder"
            )
        if result is not None and result.get("quick", arguments.quick) is not arguments.quick:
            kind = "of" if result["quick"] else "without"
            raise ValueError(f"bench gpu: {folder} has results {kind} --quick: name another folder")
        if result is None or result["status"] != record.DONE or record.failed(result):
            todo.append(step)
        else:
            print(f"{step.name}: done before")
            done.append(result)
    return todo, done


def _run(step: Step, device: str, folder: Path, share: float, quick: bool, pack: Pack) -> dict[str, Any]:
    """Run a step, in a new process after each row that ends one, and return its record."""
    if share < _WORTH:
        result = record.read(folder, step.name) or record.fresh(step.name, step.title, share)
        result.update(status=record.CUT, reason="no time was left for it", quick=quick)
        record.write(folder, result)
        return result
    record.discard_failures(folder, step.name)
    begin = time.monotonic()
    for _ in range(_AGAIN):
        left, before = share - (time.monotonic() - begin), (record.read(folder, step.name) or {"seconds": 0.0})["seconds"]
        status = _run_process(step, device, folder, left, share, quick, pack)
        result = record.read(folder, step.name) or record.fresh(step.name, step.title, share)
        result["share"] = round(share, 1)
        if status == 0:
            break
        row, why = result["doing"], _explain_status(status, folder, step)
        result["doing"] = None
        if row is not None and status is None and result["seconds"] - before > left / 2:
            result["left"] = [row]  # it had too little time to count as failed
        elif row is not None:
            result["rows"].append({"name": row, "error": why})
            if step.spoken:
                print(record.sentence(result["rows"][-1]), flush=True)
        over = status is None or share - (time.monotonic() - begin) <= 0
        result.update(status=record.CUT if over else record.FAILED, reason=why)
        record.write(folder, result)
        if over or row is None and status != LOST or broken(result):
            break  # else another process continues after the row that ended this one
    record.write(folder, result)
    return result


def _run_process(step: Step, device: str, folder: Path, seconds: float, share: float, quick: bool, pack: Pack) -> int | None:
    """Run a step's process and return its exit status, None if it did not end in time."""
    command = [*CHILD, step.name, "--device", device, "--out", str(folder), "--seconds", f"{seconds:.2f}", *["--quick"] * quick]
    with open(folder / f"{step.name}.log", "ab") as log:
        process = together.started(command, log, step.spoken)
        end = time.monotonic() + max(seconds, 0.0) + max(_LEAST_GRACE, _GRACE * share)
        try:
            while (status := _wait(process, min(_PACKING, end - time.monotonic()))) is None and time.monotonic() < end:
                pack.write()
            return status
        finally:  # on Ctrl-C too, no process of a step may outlive the command
            together.end(process)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    try:
        return process.wait(max(0.0, seconds))
    except subprocess.TimeoutExpired:
        return None


def _explain_status(status: int | None, folder: Path, step: Step) -> str:
    log = folder / f"{step.name}.log"
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    last = f"; its last words: {lines[-1].strip()[:300]}" if lines else ""
    if status is None:
        return f"its time was over in the middle of a row, and it was ended{last}"
    if status < 0:
        return f"its process died of {signal.Signals(-status).name}{last}"
    return f"its process ended with {status}{last} (see {log.name})"


def _print_summary(results: Sequence[dict[str, Any]], folder: Path) -> int:
    """Print a summary of the steps and return the exit status."""
    print(f"\n{'step':14}{'status':9}{'seconds':>9}{'rows':>6}  remarks")
    good = True
    for result in results:
        wrong, failed = record.wrong(result), record.failed(result)
        good = good and not wrong and not failed and result["status"] in (record.DONE, record.CUT)
        remarks = [result["reason"]] if result["reason"] else []
        remarks += _remark("NOT RIGHT", wrong) + _remark("no figures", [f"{name} ({why})" for name, why in failed.items()])
        print(f"{result['step']:14}{result['status']:9}{result['seconds']:9.1f}{len(result['rows']):6}  {'; '.join(remarks)}")
    if any(map(record.failed, results)):
        print(f"\n`--resume --out {folder}` tries once more what failed.")
    print(f"\nSend us the folder {folder}: a file a step, and what each printed.")
    return 0 if good else 1


def _remark(word: str, rows: Sequence[str]) -> list[str]:
    rest = f" and {len(rows) - 5} more" if len(rows) > 5 else ""
    return [f"{word}: {', '.join(rows[:5])}{rest}"] if rows else []
