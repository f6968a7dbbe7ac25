"""A step's rows as a table for the terminal: times in milliseconds, and what else the rows have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_HIDDEN = ("name", "sample", "seconds", "right", "profile", "log", "losses", "forward off", "update off")
_MOST = 40  # rows that are shown
_WIDEST = 60


def table(found: dict[str, Any]) -> str:
    """The rows of a step's record, where it was cut, and remarks."""
    rows = found["rows"]
    shown = _worth(rows)
    columns = list(dict.fromkeys([key for row in shown for key in row if key not in _HIDDEN]))
    lines = [["", *[f"{key} ms" if any(_is_time(row.get(key)) for row in shown) else key for key in columns]]]
    lines += [[row["name"], *[_cell(row.get(key)) for key in columns]] for row in shown]
    told = [_lined(lines)] if rows else []
    if len(shown) < len(rows):
        told.append(f"... {len(rows)} rows in all, see {found['step']}.json")
    if found["reason"]:
        told.append(f"{found['status'].upper()}: {found['reason']}")
    if found["left"]:
        told.append(f"left: {', '.join(found['left'][:12])}{' ...' if len(found['left']) > 12 else ''}")
    return "\n".join(told + found["notes"])


def _worth(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """All where they are few, else first those that went wrong."""
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


def _lined(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return "\n".join(["  ".join([line[0].ljust(widths[0]), *[c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True)]])
                      for line in lines])
