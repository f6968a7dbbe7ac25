"""Ctrl-C as a flag, for runs that end after their current step."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupt:
    """Flag: whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.to_stop = False


@contextmanager
def catch_interrupt() -> Iterator[Interrupt]:
    """Context manager: Ctrl-C sets ``to_stop``, a second one raises KeyboardInterrupt.

    It acts only in the main thread, and only if Python's default handler is installed; a program's own handler stays.
    """
    interrupt = Interrupt()
    is_main_thread = threading.current_thread() is threading.main_thread()
    if not is_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield interrupt
        return

    def note(number: int, frame: Any) -> None:
        if interrupt.to_stop:
            raise KeyboardInterrupt
        interrupt.to_stop = True

    signal.signal(signal.SIGINT, note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
