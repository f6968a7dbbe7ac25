"""One step of ``weft bench gpu``, in a process of its own: its rows, each noted when it is done.

    python -m benchmarks.gpu STEP --device gpu --out DIR --seconds 60 [--quick] [--follow]

Rows that the step's file has are not repeated. The status says how it ended: 0, or 3 where the device is lost (an illegal address
ends all that a process can do on a card), so that another process goes on behind the row that did it.
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
    """Run the rows of a step that its file has not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu")
    parser.add_argument("step", choices=[step.name for step in STEPS])
    parser.add_argument("--device", required=True)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--seconds", required=True, type=float)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(together.FLAG, action="store_true", dest="follow", help="end when standard input does")
    given = parser.parse_args(argv)
    if given.follow:
        together.follow()
    step = next(s for s in STEPS if s.name == given.step)
    return run(step, made(given.device, given.quick, given.seconds), given.out, given.seconds)


def run(step: Step, setting: Setting, folder: Path, share: float) -> int:
    """The rows of a step; returns the exit status."""
    import weft as wf
    from benchmarks.gpu.about import about

    begin = time.monotonic()
    found = record.read(folder, step.name) or record.fresh(step.name, step.title, share)
    before = found["seconds"]
    found.update(status=record.WORKING, reason="", left=[], quick=setting.quick)

    def note(**more: Any) -> None:
        found.update(more, seconds=round(before + time.monotonic() - begin, 2))
        found["notes"] += [text for text in setting.notes if text not in found["notes"]]
        record.write(folder, found)

    if not step.spoken:  # which tells by its rows whether the device can be opened at all
        wf.set_device(setting.device)
        found["about"] = found["about"] or about(setting.device)
    known = {row["name"] for row in found["rows"]}
    room = importlib.import_module(f"benchmarks.gpu.{step.room}")
    rows: Rows = getattr(room, step.function)(setting)
    try:
        for name, measure in rows:
            if name in known:
                continue
            if setting.left <= 0:
                found["left"].append(name)
                continue
            note(doing=name)
            row, lost = _measured(measure, setting)
            found["rows"].append({"name": name, **row})
            note(doing=None)
            if step.spoken:
                print(record.sentence(found["rows"][-1]), flush=True)
                if broken(found):
                    note(status=record.FAILED, reason=f"without {name!r} nothing else has a meaning")
                    return 0
            if lost:
                note(status=record.FAILED, reason=f"the device is lost since {name!r}")
                return LOST
        if not found["about"]:
            found["about"] = about(setting.device)
    finally:
        wf.set_device("cpu")
    left = found["left"]
    if left:
        count = len(left) + len(found["rows"])
        note(status=record.CUT, reason=f"its {share:.0f} s are over: {len(left)} of {count} rows were not begun")
    else:
        note(status=record.DONE)
    return 0


def _measured(measure: Any, setting: Setting) -> tuple[dict[str, Any], bool]:
    """(what a row tells, whether the device can be used no more)."""
    begin = time.monotonic()
    try:
        return {**measure(), "seconds": round(time.monotonic() - begin, 3)}, False
    except Exception as error:
        traceback.print_exc()
        told = {"error": f"{type(error).__name__}: {error}"[:2000], "seconds": round(time.monotonic() - begin, 3)}
    try:
        setting.card.synchronise()
    except Exception:
        return told, True
    return told, False


if __name__ == "__main__":
    sys.exit(main())
