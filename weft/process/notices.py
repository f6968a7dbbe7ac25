"""A notice in a terminal or a notebook while something takes longer than a second, such as compiling."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from weft.process.attributes import change_attribute

DELAY_S = 1.0


class _State(threading.local):
    is_active = False  # whether a notice of this thread is pending or shown
    is_silent = False


_STATE = _State()


def in_notebook() -> bool:
    """Return whether this runs in a Jupyter kernel, which displays HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


def silent(is_silent: bool = True) -> AbstractContextManager[None]:
    """Context manager: show no notices in this thread."""
    return change_attribute(_STATE, "is_silent", is_silent or _STATE.is_silent)


@contextmanager
def announce(describe: Callable[[], str]) -> Iterator[None]:
    """Context manager: show what ``describe`` returns after a second, and remove it at the end.

    Nothing is shown where nobody would see it, and inside of another notice.
    """
    stream = sys.stderr
    is_notebook = in_notebook()
    if _STATE.is_active or _STATE.is_silent or not (is_notebook or (stream is not None and stream.isatty())):
        yield
        return
    notice = (_Displayed if is_notebook else _Line)(describe, stream)
    timer = threading.Timer(DELAY_S, notice.show)
    timer.daemon = _STATE.is_active = True
    timer.start()
    try:
        yield
    finally:
        _STATE.is_active = False
        timer.cancel()
        notice.end()


class _Line:
    """A line in a terminal, which is erased at the end."""

    def __init__(self, describe: Callable[[], str], stream: Any) -> None:
        self.describe, self.stream = describe, stream
        self._lock = threading.Lock()
        self._is_shown = self._has_ended = False

    def show(self) -> None:
        with self._lock:
            if not self._has_ended:
                self._is_shown = True
                self.write(f"weft: {self.describe()} ...")

    def end(self) -> None:
        with self._lock:
            self._has_ended = True
            if self._is_shown:
                self.erase()

    def write(self, text: str) -> None:
        below_bar = type(self.stream).__module__.startswith("rich.")  # rich prints whole lines above its bar
        print(text, end="\n" if below_bar else "", file=self.stream, flush=True)

    def erase(self) -> None:
        if not type(self.stream).__module__.startswith("rich."):
            print("\r\x1b[K", end="", file=self.stream, flush=True)


class _Displayed(_Line):
    """A line in a notebook's output."""

    def write(self, text: str) -> None:
        from html import escape

        from IPython import display

        self._display: Any = display
        self._handle: Any = self._display.display(self._display.HTML(f"<i>{escape(text)}</i>"), display_id=True)

    def erase(self) -> None:
        self._handle.update(self._display.HTML(""))
