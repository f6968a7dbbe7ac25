"""Figures of matplotlib, which is imported when the first one is made."""

from __future__ import annotations

from typing import Any


def make_figure(size: tuple[float, float], what: str = "plotting") -> Any:
    """Return a new ``matplotlib.figure.Figure``; raise ImportError if matplotlib is not installed.

    Parameters
    ----------
    size : width and height in inches
    what : what needs it, for the error
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError(f"{what} needs matplotlib: pip install weft[plot]") from None
    return Figure(figsize=size, layout="constrained")
