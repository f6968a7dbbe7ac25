"""Checks of keywords: the error for one that a function does not take has weft's spelling, or the keyword most alike.

Constructors and long calls check their keywords themselves. Python raises the error of other functions before they run, so each
call would have to pay for a wrapper that words it. Their message is completed by :func:`complete_message` where the error passes
anyway: in a Module's call, and when Python or IPython displays it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
import sys
from collections.abc import Callable, Iterable
from itertools import islice
from types import ModuleType, TracebackType
from typing import Any, Self, TypeVar

from weft.errors import is_own_file
from weft.process.foreign_names import KEYWORDS, REFUSED
from weft.process.name_errors import suggest

F = TypeVar("F", bound=Callable[..., Any])


def accepted_keywords(function: Callable[..., Any]) -> list[str] | None:
    """Return the names that a function, or a class in all its constructors, takes as keywords; None if it takes any."""
    names: list[str] = []
    is_class = isinstance(function, type)
    steps = [vars(c)["__init__"] for c in function.__mro__ if "__init__" in vars(c)] if is_class else [function]  # type: ignore[attr-defined]
    for step in steps:
        if (signature := getattr(step, "__signature__", None)) is not None:  # of a generated constructor
            return [*names, *(name for name in signature.parameters if name not in ("self", *names))]
        code = getattr(inspect.unwrap(getattr(step, "__func__", step)), "__code__", None)
        if code is None:
            return None
        first, count = code.co_posonlyargcount, code.co_argcount + code.co_kwonlyargcount
        names += [name for name in code.co_varnames[first:count] if name not in ("self", *names)]
        if not code.co_flags & inspect.CO_VARKEYWORDS:
            return names
        if not is_own_file(code.co_filename):  # weft's constructors pass further keywords to those of their bases
            return None
    return None


def keyword_advice(keyword: str, accepted: list[str]) -> str:
    """Return the end of a message about an unexpected keyword."""
    close = next((here for here in KEYWORDS.get(keyword, ()) if here in accepted), "")
    if close:
        return f"; in weft: {close}="
    if close := suggest(keyword, accepted):
        return f". Did you mean {close}=?"
    if keyword in REFUSED:
        return f"; in weft: {REFUSED[keyword]}"
    return f"; it takes {', '.join(accepted)}" if accepted else "; it takes no keywords"


def check_keywords(function: Callable[..., Any], keywords: Iterable[str]) -> None:
    """Raise TypeError with weft's spelling if a function or class does not take one of the keywords."""
    accepted = accepted_keywords(function)
    for keyword in keywords:
        if accepted is not None and keyword not in accepted:
            advice = keyword_advice(keyword, accepted)
            raise TypeError(f"{function.__name__}: unexpected keyword argument {keyword!r}{advice}")


class KeywordCheck:
    """Base of classes whose constructors name weft's spelling of a keyword that they do not take."""

    __slots__ = ()

    def __new__(cls, *args: Any, **keywords: Any) -> Self:
        if keywords:
            check_keywords(cls, keywords)
        return super().__new__(cls)


def advise_keywords(function: F) -> F:
    """Decorate a function so that an unexpected keyword raises with weft's spelling. Not for functions whose calls are short."""

    @functools.wraps(function)
    def _check_and_call(*args: Any, **keywords: Any) -> Any:
        check_keywords(function, keywords)
        return function(*args, **keywords)

    return _check_and_call  # type: ignore[return-value]


def complete_message(error: BaseException) -> None:
    """Add weft's spelling to Python's TypeError for a keyword that a function of weft does not take."""
    if not isinstance(error, TypeError) or not error.args or "got an unexpected keyword argument" not in str(error.args[0]):
        return
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
    function = inspect.unwrap(function)
    function = getattr(function, "__func__", function)
    if isinstance(function, type):
        return function.__module__.partition(".")[0] == "weft"
    return _is_function(function) and is_own_file(function.__code__.co_filename)


def _resolve_call(trace: TracebackType) -> Any:
    """Return the function called in the last line of a traceback, ``_UNKNOWN`` if it is no dotted name. Nothing is run for it."""
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
