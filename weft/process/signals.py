"""Signals held back while something must not be cut in two: a module that loads, a compilation inside LLVM.

Python raises KeyboardInterrupt, and whatever a program's own handlers raise, between any two instructions. Inside the import of a
C extension that leaves a library that can never be loaded again; inside a destructor the exception is printed and lost; between
two calls of LLVM memory is freed that was never made; between a lock and its guard the lock stays taken. Whoever holds signals
back must be quick: a second at most.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

_NAMES = ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGVTALRM", "SIGPROF", "SIGCHLD", "SIGIO",
          "SIGWINCH", "SIGBREAK")  # that programs handle; those of faults cannot wait
_held = False  # by somebody further out; only the main thread looks


class uninterrupted:
    """``with uninterrupted():`` signals that come meanwhile are handled at the end, as if they had come then.

    Only the main thread handles signals, so in others nothing happens. It may be nested: the outermost one handles. A signal
    that is ignored, ends the process or belongs to code that is not Python's is left alone.
    """

    __slots__ = ("before", "came")

    def __init__(self) -> None:
        self.before: dict[int, Any] | None = None  # the handlers that are put back
        self.came: list[int] = []

    def __enter__(self) -> uninterrupted:
        global _held
        if _held or threading.current_thread() is not threading.main_thread():
            return self
        import signal

        before: dict[int, Any] = {}
        try:
            for number in [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]:
                handler = signal.getsignal(number)
                if callable(handler):
                    before[number] = handler
                    signal.signal(number, self._note)
        except ValueError:  # another interpreter's main thread
            return self
        except BaseException:  # a handler that is not held back yet raised
            _put_back(before)
            raise
        self.before, _held = before, True
        return self

    def _note(self, number: int, frame: Any) -> None:
        if number not in self.came:
            self.came.append(number)

    def __exit__(self, *exc: object) -> None:
        global _held
        if self.before is not None:
            _held = False
            try:
                _put_back({**self.before})
            finally:  # they may have come until then
                _handle([(number, self.before[number]) for number in self.came])


def _put_back(before: dict[int, Any]) -> None:
    """Set all handlers, whatever those raise that are set already."""
    import signal

    while before:
        number, handler = before.popitem()
        try:
            signal.signal(number, handler)
        except BaseException:
            before[number] = handler
            _put_back(before)
            raise


def _handle(handlers: list[tuple[int, Any]]) -> None:
    """Call them all, whatever those before raise. (To send the signals again would wake an event loop twice.)"""
    if handlers:
        number, handler = handlers[0]
        try:
            handler(number, sys._getframe())
        finally:
            _handle(handlers[1:])
