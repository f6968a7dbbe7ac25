"""Format amounts, lines and shares in a profile's sentences and tables."""

from __future__ import annotations

from weft.graph.source_lines import file_name

UNKNOWN = "(unknown line)"


def amount(n: float) -> str:
    """Return a number with a metric prefix, to be followed by a unit: ``1.3 G``."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n >= size:
            return f"{n / size:.3g} {unit}" if n < 999.5 * size else f"{n / size:.0f} {unit}"
    return f"{n:.0f} "


def short(line: str) -> str:
    """Return a line with the short name of its file: ``net.py:12``."""
    file, colon, number = line.rpartition(":")
    return f"{file_name(file)}:{number}" if colon else line


def percent(share: float, estimated: bool = False) -> str:
    return "<0.1 %" if 0 < share < 0.0005 else f"{'~' if estimated else ''}{100 * share:.1f} %"
