"""Defer signals while an operation must not be interrupted: the import of a module, a compilation in LLVM.

Python raises KeyboardInterrupt, and exceptions of a program's own handlers, between any two instructions. In the import of a C
extension that leaves a library that can never be loaded again; in a destructor the exception is printed and lost; between two
calls of LLVM unallocated memory is freed; between a lock and its guard the lock stays taken. Code that defers signals must be
quick: a second at most.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

_NAMES = ("SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT", "SIGVTALRM", "SIGPROF", "SIGCHLD", "SIGIO",
          "SIGWINCH", "SIGBREAK")  # signals that programs handle; those of faults cannot be deferred
_defers = False  # whether an outer block defers signals; used by the main thread only


class defer_signals:
    """Defer signals inside ``with uninterrupted():`` and handle them at its end.

    Only the main thread handles signals, so in other threads nothing happens. Blocks may be nested: the outermost one handles
    the signals. Signals that are ignored, end the process or have no Python handler are left alone.
    """

    __slots__ = ("before", "came")

    def __init__(self) -> None:
        self.before: dict[int, Any] | None = None  # the handlers to restore
        self.came: list[int] = []

    def __enter__(self) -> defer_signals:
        global _defers
        if _defers or threading.current_thread() is not threading.main_thread():
            return self
        import signal

        handlers: dict[int, Any] = {}
        try:
            for number in [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]:
                handler = signal.getsignal(number)
                if callable(handler):
                    handlers[number] = handler
                    signal.signal(number, self._note)
        except ValueError:  # another interpreter's main thread
            return self
        except BaseException:  # raised by a handler that is not replaced yet
            _restore(handlers)
            raise
        self.before, _defers = handlers, True
        return self

    def _note(self, number: int, frame: Any) -> None:
        """Record a signal."""
        if number not in self.came:
            self.came.append(number)

    def __exit__(self, *exc: object) -> None:
        global _defers
        if self.before is not None:
            _defers = False
            try:
                _restore({**self.before})
            finally:  # signals may arrive until all handlers are restored
                _call_handlers([(number, self.before[number]) for number in self.came])


def _restore(before: dict[int, Any]) -> None:
    """Restore all handlers, even if handlers that are already restored raise."""
    import signal

    while before:
        number, handler = before.popitem()
        try:
            signal.signal(number, handler)
        except BaseException:
            before[number] = handler
            _restore(before)
            raise


def _call_handlers(handlers: list[tuple[int, Any]]) -> None:
    """Call all handlers, even if some raise. (Sending the signals again would wake an event loop twice.)"""
    if handlers:
        number, handler = handlers[0]
        try:
            handler(number, sys._getframe())
        finally:
            _call_handlers(handlers[1:])
