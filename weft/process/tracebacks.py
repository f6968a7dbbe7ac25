"""Tracebacks as users see them: without weft's own frames, and with completed messages."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

_EXPECTED = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, OSError, ImportError, Warning)
_has_noted = False  # whether a traceback has told how hidden frames are shown


def install() -> None:
    """Wrap ``sys.excepthook``, or the display of errors in IPython."""
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


def _show_in_ipython(shell: Any, kind: Any, error: BaseException, trace: Any, tb_offset: int | None = None) -> None:
    from weft.process.name_errors import suggest_attribute

    prepare_display(error)
    suggest_attribute(error)
    shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset)


def prepare_display(error: BaseException) -> None:
    """Complete the message of an error and of its causes, and remove weft's frames from their tracebacks."""
    global _has_noted
    seen: set[int] = set()
    current: BaseException | None = error
    hidden = 0
    from weft import errors  # loads NumPy, which ``import weft`` does not
    from weft.process.keyword_checks import complete_message

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
    if not kept or (entries[-1] is not kept[-1] and not isinstance(error, _EXPECTED)):
        return error.__traceback__, 0
    trace: TracebackType | None = None
    for entry in reversed(kept):
        trace = TracebackType(trace, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return trace, len(entries) - len(kept)
