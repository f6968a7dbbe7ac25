"""The file of a step: rows as they are measured, and where they were measured. It is whole at every moment."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from weft.errors import DataError
from weft.process.files import write_whole

FORM = 1  # of the files
_SHORT = 160  # letters
WORKING, DONE, CUT, FAILED = "running", "done", "cut", "failed"


def path_of(folder: Path, step: str) -> Path:
    return folder / f"{step}.json"


def read(folder: Path, step: str) -> dict[str, Any] | None:
    """What is known of a step; None where it was never begun.

    Raises
    ------
    DataError
        The file holds something else.
    """
    path = path_of(folder, step)
    if not path.exists():
        return None
    try:
        found = json.loads(path.read_text())
        if found["form"] == FORM and found["step"] == step and isinstance(found["rows"], list):
            return found
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise DataError(f"bench: {path} is no file of `weft bench gpu`: remove it, or name another folder by --out")


def fresh(step: str, title: str, share: float) -> dict[str, Any]:
    """A step that begins. share : seconds"""
    return {
        "form": FORM, "step": step, "title": title, "status": WORKING, "reason": "", "share": round(share, 1), "seconds": 0.0,
        "doing": None, "left": [], "notes": [], "about": {}, "rows": [],
    }


def write(folder: Path, found: dict[str, Any]) -> None:
    """At once, so that whatever ends the process leaves what was measured."""
    write_whole(path_of(folder, found["step"]), (json.dumps(_plain(found), indent=1, allow_nan=False) + "\n").encode(), "bench")


def _plain(value: Any) -> Any:
    """As JSON has it: NaN and infinities, which it has not, as words."""
    if isinstance(value, dict):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (bool, str, int)) or value is None:
        return value
    number = float(value)
    return number if math.isfinite(number) else str(number)


def wrong(found: dict[str, Any]) -> list[str]:
    """The names of rows whose numbers are not right."""
    return [row["name"] for row in found["rows"] if row.get("right") is False]


def failed(found: dict[str, Any]) -> dict[str, str]:
    """The rows that have no figures, since they raised or ended their process, and why, in short."""
    return {row["name"]: _short(row["error"]) for row in found["rows"] if "error" in row}


def _short(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= _SHORT else line[: _SHORT - 3] + "..."


def sentence(row: dict[str, Any]) -> str:
    """A row as a line for the terminal."""
    good = "error" not in row and row.get("right", True)
    text = row.get("error", row.get("says", "")).splitlines()
    return f"{'works' if good else 'BROKEN':7} {row['name']:38} {text[0] if text else ''}"


def try_again(folder: Path, step: str) -> None:
    """Rows without figures are taken out, so that they are measured once more; why they failed stays in the file."""
    found = read(folder, step)
    if found is not None and failed(found):
        found["failed before"] = [*found.get("failed before", []), *[row for row in found["rows"] if "error" in row]]
        found.update(rows=[row for row in found["rows"] if "error" not in row], status=WORKING, reason="")
        write(folder, found)
