"""A run in a notebook: a plot of the losses and a table of the epochs, in one output that is written over."""

from __future__ import annotations

import html
import io
import sys
import time
from typing import Any

from weft.train.history import Epoch, History
from weft.train.progress import Progress

LEAST_SECONDS = 0.5  # between two plots


def in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel, whose outputs show HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class _Live(Progress):
    def __init__(self, total: int | None, history: History, epochs: int, done: int) -> None:
        super().__init__(epochs)
        from IPython.display import display

        self._total, self._history, self._done, self._next, self._plot = total, history, done, 0.0, 0.0
        self._last = ""
        self._bar = display(_Html(self._text()), display_id=True)
        self._picture: Any = None
        self._display = display

    def step(self, batches: int = 1) -> None:
        self._done += batches
        now = time.perf_counter()
        if now >= self._next:
            self._next = now + 0.2
            self._bar.update(_Html(self._text()))

    def epoch(self, row: Epoch) -> None:
        if self._total is None:
            self._total = round(self._done / row.number * self.epochs)
        self._bar.update(_Html(self._text()))
        now = time.perf_counter()
        if now >= self._plot:
            self.draw()
            self._plot = time.perf_counter() + LEAST_SECONDS

    def draw(self) -> None:
        """The plot as it is now; without matplotlib the table alone is shown."""
        picture = _picture(self._history)
        if picture is None:
            return
        if self._picture is None:
            self._picture = self._display(picture, display_id=True)
        else:
            self._picture.update(picture)

    def end(self) -> None:
        self._bar.update(_Html(self._text()))
        if self._history.epochs:
            self.draw()

    def _text(self) -> str:
        amount = f' max="{self._total}" value="{self._done}"' if self._total else ""
        counted = f"{self._done}/{self._total if self._total is not None else '?'} batches"
        table = self._history._repr_html_() if self._history.epochs else ""
        return f"<div><progress{amount}></progress> {html.escape(counted)}{table}</div>"


def live(total: int | None, history: History, epochs: int, done: int) -> _Live:
    """The output of a run; ``end`` draws it for the last time."""
    return _Live(total, history, epochs, done)


class _Html:
    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_html_(self) -> str:
        return self.text


class _Png:
    def __init__(self, content: bytes) -> None:
        self.content = content

    def _repr_png_(self) -> bytes:
        return self.content


def _picture(history: History) -> _Png | None:
    try:
        drawn = history.plot()
    except ImportError:
        return None
    out = io.BytesIO()
    drawn.savefig(out, format="png", dpi=90)
    return _Png(out.getvalue())
