"""Format a step's rows as a table for the terminal: times in milliseconds, and the other entries of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_HIDDEN = ("name", "sample", "seconds", "right", "profile", "log", "losses", "forward off", "update off")
_MOST = 40  # rows that are shown
_WIDEST = 60


def table(record: dict[str, Any]) -> str:
    """Return the rows of a step's record, its omissions and remarks as text."""
    rows = record["rows"]
    visible = _select_rows(rows)
    columns = list(dict.fromkeys([key for row in visible for key in row if key not in _HIDDEN]))
    lines = [["", *[f"{key} ms" if any(_is_time(row.get(key)) for row in visible) else key for key in columns]]]
    lines += [[row["name"], *[_cell(row.get(key)) for key in columns]] for row in visible]
    lines_of_text = [_align(lines)] if rows else []
    if len(visible) < len(rows):
        lines_of_text.append(f"... {len(rows)} rows in all, see {record['step']}.json")
    if record["reason"]:
        lines_of_text.append(f"{record['status'].upper()}: {record['reason']}")
    if record["left"]:
        lines_of_text.append(f"left: {', '.join(record['left'][:12])}{' ...' if len(record['left']) > 12 else ''}")
    return "\n".join(lines_of_text + record["notes"])


def _select_rows(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return at most ``_MOST`` rows. If there are more, wrong and failed ones come first."""
    if len(rows) <= _MOST:
        return list(rows)
    wrong = [row for row in rows if row.get("right") is False or "error" in row]
    return [*wrong, *[row for row in rows if row not in wrong]][:_MOST]


def _is_time(value: Any) -> bool:
    return isinstance(value, dict) and "median" in value


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if _is_time(value):
        return f"{1e3 * value['median']:.4g}"
    if isinstance(value, bool):
        return "yes" if value else "NO"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 3] + "..."


def _align(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return "\n".join(["  ".join([line[0].ljust(widths[0]), *[c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True)]])
                      for line in lines])
