"""Ctrl-C held back while something must not be cut in two: a module that loads, a compilation inside LLVM.

Python raises KeyboardInterrupt between any two instructions. Inside the import of a C extension that leaves a library that
can never be loaded again; inside a destructor the exception is printed and lost; between a lock and its guard the lock stays
taken. Whoever holds Ctrl-C must be quick: a second at most.
"""

from __future__ import annotations

import threading
from typing import Any


class uninterrupted:
    """``with uninterrupted():`` Ctrl-C that comes meanwhile is raised at the end, as if it had come then.

    Only the main thread gets signals, so in others nothing happens. It may be nested: the outermost one raises. Where SIGINT is
    ignored, ends the process or belongs to code that is not Python's, it is left alone.
    """

    __slots__ = ("before", "came")

    def __init__(self) -> None:
        self.before: Any = None  # the handler that is put back
        self.came = False

    def __enter__(self) -> uninterrupted:
        if threading.current_thread() is not threading.main_thread():
            return self
        import signal

        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and not isinstance(getattr(handler, "__self__", None), uninterrupted):
            self.before = handler
            try:
                signal.signal(signal.SIGINT, self._note)
            except ValueError:  # another interpreter's main thread
                self.before = None
            except BaseException:  # another signal's handler raised
                signal.signal(signal.SIGINT, handler)
                raise
        return self

    def _note(self, number: int, frame: Any) -> None:
        self.came = True

    def __exit__(self, *exc: object) -> None:
        if self.before is not None:
            import signal

            signal.signal(signal.SIGINT, self.before)
            if self.came:
                signal.raise_signal(signal.SIGINT)
