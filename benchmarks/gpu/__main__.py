"""One step of ``weft bench gpu`` in a process of its own, which writes each row when it is measured.

    python -m benchmarks.gpu STEP --device gpu --out DIR --seconds 60 [--quick] [--follow]

Rows in the step's file are not repeated. The exit status is 0, or 3 if the device is lost: after an illegal address a process
cannot use the card any more, and another process continues after that row.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.gpu import record, together
from benchmarks.gpu.setting import Rows, Setting, made
from benchmarks.gpu.steps import STEPS, Step, broken

LOST = 3


def main(argv: Sequence[str] | None = None) -> int:
    """Run the rows of a step that are missing from its file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu")
    parser.add_argument("step", choices=[step.name for step in STEPS])
    parser.add_argument("--device", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--seconds", required=True, type=float)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(together.FLAG, action="store_true", dest="follow", help="end when standard input does")
    arguments = parser.parse_args(argv)
    if arguments.follow:
        together.follow()
    step = next(s for s in STEPS if s.name == arguments.step)
    return run(step, made(arguments.device, arguments.quick, arguments.seconds), arguments.out, arguments.seconds)


def run(step: Step, setting: Setting, folder: Path, share: float) -> int:
    """Run the rows of a step and return the exit status."""
    import weft as wf
    from benchmarks.gpu.about import about

    begin = time.monotonic()
    result = record.read(folder, step.name) or record.fresh(step.name, step.title, share)
    before = result["seconds"]
    result.update(status=record.WORKING, reason="", left=[], quick=setting.quick)

    def update(**more: Any) -> None:
        result.update(more, seconds=round(before + time.monotonic() - begin, 2))
        result["notes"] += [text for text in setting.notes if text not in result["notes"]]
        record.write(folder, result)

    if not step.spoken:  # the rows of a spoken step test whether the device can be opened
        wf.set_device(setting.device)
        result["about"] = result["about"] or about(setting.device)
    measured = {row["name"] for row in result["rows"]}
    room = importlib.import_module(f"benchmarks.gpu.{step.room}")
    rows: Rows = getattr(room, step.function)(setting)
    try:
        for name, measure in rows:
            if name in measured:
                continue
            if setting.left <= 0:
                result["left"].append(name)
                continue
            update(doing=name)
            row, lost = _measure_row(measure, setting)
            result["rows"].append({"name": name, **row})
            update(doing=None)
            if step.spoken:
                print(record.sentence(result["rows"][-1]), flush=True)
                if broken(result):
                    update(status=record.FAILED, reason=f"without {name!r} nothing else has a meaning")
                    return 0
            if lost:
                update(status=record.FAILED, reason=f"the device is lost since {name!r}")
                return LOST
        if not result["about"]:
            result["about"] = about(setting.device)
    finally:
        wf.set_device("cpu")
    remaining = result["left"]
    if remaining:
        count = len(remaining) + len(result["rows"])
        update(status=record.CUT, reason=f"its {share:.0f} s are over: {len(remaining)} of {count} rows were not begun")
    else:
        update(status=record.DONE)
    return 0


def _measure_row(measure: Any, setting: Setting) -> tuple[dict[str, Any], bool]:
    """Return the row's figures or its error, and whether the device is lost."""
    begin = time.monotonic()
    try:
        return {**measure(), "seconds": round(time.monotonic() - begin, 3)}, False
    except Exception as error:
        traceback.print_exc()
        row = {"error": f"{type(error).__name__}: {error}"[:2000], "seconds": round(time.monotonic() - begin, 3)}
    try:
        setting.card.synchronise()
    except Exception:
        return row, True
    return row, False


if __name__ == "__main__":
    sys.exit(main())
