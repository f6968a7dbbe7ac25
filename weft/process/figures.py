"""Figures of matplotlib, which is imported when the first one is made."""

from __future__ import annotations

import io
from typing import Any

from weft.process.distribution import install_command


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
        raise ImportError(f"{what} needs matplotlib: {install_command('plot')}") from None

    class Picture(Figure):
        """A figure that notebooks show, although pyplot does not manage it."""

        def _repr_png_(self) -> bytes:
            out = io.BytesIO()
            self.savefig(out, format="png", dpi=90)
            return out.getvalue()

    return Picture(figsize=size, layout="constrained")
