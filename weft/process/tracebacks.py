"""Tracebacks as users see them: without weft's own frames, and with completed messages.

From Python 3.12 on, messages of Python's own errors are completed where they are raised, by a callback for raised exceptions.
Calls that raise nothing cost the same; a raise costs 30 to 70 ns more in each frame that it passes. Python 3.11 has no such
callback: messages are completed where an error is displayed, and where it passes a module, jit, grad or a loop.
"""

from __future__ import annotations

import sys
from types import CodeType, TracebackType
from typing import Any

_EXPECTED = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, OSError, ImportError, Warning)
_MONITORING_NAMES = (4, 3)  # tool ids that sys.monitoring reserves for nobody
_COMPLETED = (TypeError, AttributeError, IndexError)  # the classes that ``complete_message`` may complete
_has_noted = False  # whether a traceback has told how hidden frames are shown


def install() -> None:
    """Complete messages where they are raised, and wrap ``sys.excepthook`` or the display of errors in IPython."""
    _watch_raised_errors()
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        if not shell.custom_exceptions:
            shell.set_custom_exc((Exception,), _show_in_ipython)
        return
    previous = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        try:
            prepare_display(error)
        except Exception:
            pass  # the error itself is displayed in any case
        previous(kind, error, error.__traceback__)

    sys.excepthook = show


def _watch_raised_errors() -> None:
    """Let ``_complete_raised`` see each exception that is raised, if this Python can call it and a tool id is free."""
    monitoring: Any = getattr(sys, "monitoring", None)
    tool = None if monitoring is None else next((k for k in _MONITORING_NAMES if monitoring.get_tool(k) is None), None)
    if tool is not None:
        monitoring.use_tool_id(tool, "weft")
        monitoring.register_callback(tool, monitoring.events.RAISE, _complete_raised)
        monitoring.set_events(tool, monitoring.events.RAISE)


def _complete_raised(code: CodeType, offset: int, error: BaseException) -> None:
    """Complete the message of an error in the frame that raises it."""
    if type(error) in _COMPLETED and (trace := error.__traceback__) is not None and trace.tb_next is None:
        try:
            from weft.process.completion import complete_message

            complete_message(error)
        except Exception:
            pass  # the error itself passes in any case


def _show_in_ipython(shell: Any, kind: Any, error: BaseException, trace: Any, tb_offset: int | None = None) -> None:
    prepare_display(error)
    shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset)


def prepare_display(error: BaseException) -> None:
    """Complete the message of an error and of its causes, and remove weft's frames from their tracebacks."""
    global _has_noted
    seen: set[int] = set()
    current: BaseException | None = error
    hidden = 0
    from weft import errors  # loads NumPy, which ``import weft`` does not
    from weft.process.completion import complete_message

    while current is not None and id(current) not in seen:
        seen.add(id(current))
        complete_message(current)
        if not errors.shows_own_frames():
            trace, count = _without_own_frames(current)
            current.__traceback__ = trace
            hidden += count
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    if hidden and not _has_noted:
        _has_noted = True
        error.add_note("(weft's own frames are hidden; wf.errors.show_own_frames() or WEFT_TRACEBACK=full shows them)")


def _without_own_frames(error: BaseException) -> tuple[TracebackType | None, int]:
    """Return the traceback without weft's frames, and how many were removed; all are kept if weft itself is at fault."""
    entries, current = [], error.__traceback__
    while current is not None:
        entries.append(current)
        current = current.tb_next
    from weft.errors import is_own_file

    kept = [e for e in entries if not is_own_file(e.tb_frame.f_code.co_filename)]
    is_expected = isinstance(error, _EXPECTED) or type(error).__module__ == "weft.errors"
    if not kept or (entries[-1] is not kept[-1] and not is_expected):
        return error.__traceback__, 0
    trace: TracebackType | None = None
    for entry in reversed(kept):
        trace = TracebackType(trace, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return trace, len(entries) - len(kept)
