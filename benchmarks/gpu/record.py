"""The file of a step: its rows and the environment of the measurement. It is replaced atomically after each row."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from weft.errors import DataError
from weft.process.files import write_atomically

FORM = 1  # version of the files' format
_SHORT = 160  # characters
WORKING, DONE, CUT, FAILED = "running", "done", "cut", "failed"


def path_of(folder: Path, step: str) -> Path:
    return folder / f"{step}.json"


def read(folder: Path, step: str) -> dict[str, Any] | None:
    """Return the record of a step, None if it was never started.

    Raises
    ------
    DataError
        The file is not a record of this step.
    """
    path = path_of(folder, step)
    if not path.exists():
        return None
    try:
        result = json.loads(path.read_text())
        if result["form"] == FORM and result["step"] == step and isinstance(result["rows"], list):
            return result
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise DataError(f"bench: {path} is no file of `weft bench gpu`: remove it, or name another folder by --out")


def fresh(step: str, title: str, share: float) -> dict[str, Any]:
    """Return the record of a step that starts. share : seconds"""
    return {
        "form": FORM, "step": step, "title": title, "status": WORKING, "reason": "", "share": round(share, 1), "seconds": 0.0,
        "doing": None, "left": [], "notes": [], "about": {}, "rows": [],
    }


def write(folder: Path, result: dict[str, Any]) -> None:
    """Write a record immediately, so that no row is lost if the process ends."""
    write_atomically(
        path_of(folder, result["step"]), (json.dumps(_plain(result), indent=1, allow_nan=False) + "\n").encode(), "bench"
    )


def _plain(value: Any) -> Any:
    """Convert a value for JSON. NaN and infinities, which JSON does not have, become strings."""
    if isinstance(value, dict):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, (bool, str, int)) or value is None:
        return value
    number = float(value)
    return number if math.isfinite(number) else str(number)


def wrong(result: dict[str, Any]) -> list[str]:
    """Return the names of the rows whose numbers are wrong."""
    return [row["name"] for row in result["rows"] if row.get("right") is False]


def failed(result: dict[str, Any]) -> dict[str, str]:
    """Map the names of rows without figures, which raised or ended their process, to the first line of the error."""
    return {row["name"]: _short(row["error"]) for row in result["rows"] if "error" in row}


def _short(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= _SHORT else line[: _SHORT - 3] + "..."


def sentence(row: dict[str, Any]) -> str:
    """Return a row as a line for the terminal."""
    good = "error" not in row and row.get("right", True)
    text = row.get("error", row.get("says", "")).splitlines()
    return f"{'works' if good else 'BROKEN':7} {row['name']:38} {text[0] if text else ''}"


def discard_failures(folder: Path, step: str) -> None:
    """Move rows without figures to "failed before", so that they are measured again."""
    result = read(folder, step)
    if result is not None and failed(result):
        result["failed before"] = [*result.get("failed before", []), *[row for row in result["rows"] if "error" in row]]
        result.update(rows=[row for row in result["rows"] if "error" not in row], status=WORKING, reason="")
        write(folder, result)
