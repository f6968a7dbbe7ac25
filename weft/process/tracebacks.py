"""Tracebacks as users see them: without weft's own frames, and with weft's spelling of a keyword from another library.

Python raises the error for an unexpected keyword before the function runs, so a function would need a wrapper, which every call
would pay for, to word it. The message is therefore completed where the error passes anyway: in a Module's call, and when Python
or IPython displays it.
"""

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
    prepare_display(error)
    suggest_attribute(error)
    shell.showtraceback((kind, error, error.__traceback__), tb_offset=tb_offset)


def suggest_attribute(error: BaseException) -> None:
    """Add the attribute most like a misspelled one of weft's objects to an error's message, as Python's own display does."""
    owner = type(getattr(error, "obj", None))
    if isinstance(error, AttributeError) and error.args and any(c.__module__.partition(".")[0] == "weft" for c in owner.__mro__):
        from weft.process.foreign_names import suggest

        if close := suggest(str(error.name), dir(error.obj)):
            error.args = (f"{error.args[0]}. Did you mean {close}?",)


def prepare_display(error: BaseException) -> None:
    """Complete the message of an error and of its causes, and remove weft's frames from their tracebacks."""
    global _has_noted
    seen: set[int] = set()
    current: BaseException | None = error
    hidden = 0
    from weft import errors  # loads NumPy, which ``import weft`` does not

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


def complete_message(error: BaseException) -> None:
    """Add weft's spelling to Python's TypeError for a keyword that a function of weft does not take."""
    if not isinstance(error, TypeError) or not error.args or "got an unexpected keyword argument" not in str(error.args[0]):
        return
    import re

    from weft.process.foreign_names import accepted_keywords, keyword_advice

    found = re.fullmatch(r"([\w.<>]+)\(\) got an unexpected keyword argument '(\w+)'", str(error.args[0]))
    trace = error.__traceback__
    if found is None or trace is None:
        return
    while trace.tb_next is not None:
        trace = trace.tb_next
    function = _find_function(trace, found[1])
    accepted = None if function is None else accepted_keywords(function)
    if accepted is not None and found[2] not in accepted:
        error.args = (f"{found[0]}{keyword_advice(found[2], accepted)}",)


def _find_function(trace: TracebackType, qualified_name: str) -> Any:
    """Return weft's function of this qualified name that is called at the end of a traceback, or None."""
    frame, name = trace.tb_frame, qualified_name.removesuffix(".__init__").rpartition(".")[2]
    spaces = (frame.f_locals, frame.f_globals)
    candidates = [_resolve_call(trace)]
    if candidates == [_UNKNOWN] and not any(_is_function(space.get(name)) and not _is_own(space[name]) for space in spaces):
        weft = sys.modules["weft"]
        owners = (weft, weft.ndarray, weft.nn.Module, weft.optim.Optimizer) if "nn" in vars(weft) else (weft, weft.ndarray)
        candidates = [getattr(owner, name, None) for owner in owners]
    for function in candidates:
        if function not in (None, _UNKNOWN) and _is_own(function) and getattr(function, "__name__", name) == name:
            return function
    return None


_UNKNOWN: Any = object()  # a function that is not called by a dotted name, or whose source is not known


def _is_function(value: Any) -> bool:
    return hasattr(value, "__code__")


def _is_own(function: Any) -> bool:
    """Return whether a function or class is weft's."""
    import inspect

    function = inspect.unwrap(function)
    function = getattr(function, "__func__", function)
    if isinstance(function, type):
        return function.__module__.partition(".")[0] == "weft"
    from weft.errors import is_own_file

    return _is_function(function) and is_own_file(function.__code__.co_filename)


def _resolve_call(trace: TracebackType) -> Any:
    """Return the function called in the last line of a traceback, ``_UNKNOWN`` if it is no dotted name. Nothing is run for it."""
    import ast
    import inspect
    import linecache
    from itertools import islice
    from types import ModuleType

    frame = trace.tb_frame
    line, end, start, stop = next(islice(frame.f_code.co_positions(), trace.tb_lasti // 2, None), (None,) * 4)
    if line is None or end is None or start is None or stop is None:
        return _UNKNOWN
    lines = [text.encode() for text in linecache.getlines(frame.f_code.co_filename, frame.f_globals)[line - 1 : end]]
    if len(lines) != end - line + 1:
        return _UNKNOWN
    lines[-1] = lines[-1][:stop]
    lines[0] = lines[0][start:]
    try:
        call = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except SyntaxError:
        return _UNKNOWN

    def resolve(node: ast.expr) -> Any:
        if isinstance(node, ast.Name):
            return frame.f_locals.get(node.id, frame.f_globals.get(node.id, _UNKNOWN))
        base = resolve(node.value) if isinstance(node, ast.Attribute) else _UNKNOWN
        if base is _UNKNOWN:
            return _UNKNOWN
        if isinstance(base, ModuleType):
            return getattr(base, node.attr, None)  # type: ignore[attr-defined]
        return inspect.getattr_static(base, node.attr, None)  # type: ignore[attr-defined]

    return resolve(call.func) if isinstance(call, ast.Call) else _UNKNOWN
