"""Ctrl-C during a run: the first one is noted and acted on after the step, the second ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Asked:
    """Whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.to_stop = False


@contextmanager
def noted() -> Iterator[Asked]:
    """While it lasts Ctrl-C sets ``to_stop``; a second one raises KeyboardInterrupt.

    Only in the main thread, and only where Python's own handler is in place: programs with a handler of theirs keep it.
    """
    asked = Asked()
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield asked
        return

    def note(number: int, frame: Any) -> None:
        if asked.to_stop:
            raise KeyboardInterrupt
        asked.to_stop = True

    signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
