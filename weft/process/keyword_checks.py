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
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from types import ModuleType, TracebackType
from typing import Any, Self, TypeVar

from weft.errors import is_own_file, short
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
    _argument_hint = ""  # how the class is called, for errors about arguments by position

    def __new__(cls, *args: Any, **keywords: Any) -> Self:
        if keywords:
            check_keywords(cls, keywords)
        if args:
            _check_positions(cls, args, keywords)
        return super().__new__(cls)


def _check_positions(cls: type[KeywordCheck], args: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
    """Raise TypeError if a constructor of weft is given too many arguments by position, or one by position and by keyword."""
    code = getattr(cls.__init__, "__code__", None)
    if code is None or code.co_flags & inspect.CO_VARARGS or not is_own_file(code.co_filename):
        return
    names = code.co_varnames[1 : code.co_argcount]
    hint = f"; in weft: {cls._argument_hint}" if cls._argument_hint else ""
    for name, value in zip(names, args, strict=False):
        if name in keywords:
            given = f"by position as {_describe(value)} and by keyword as {_describe(keywords[name])}"
            raise TypeError(f"{cls.__name__}: {name} is given twice, {given}{hint}")
    if len(args) > len(names):
        takes = f"it takes {len(names)}: {', '.join(names)}" if names else "it takes none"
        raise TypeError(f"{cls.__name__}: {len(args)} arguments by position, {takes}{hint}")


def _describe(value: Any) -> str:
    """Return a number or text for a message, and the class of any other value."""
    return short(value) if isinstance(value, int | float | str | None) else f"a {type(value).__name__}"


def advise_keywords(function: F) -> F:
    """Decorate a function so that an unexpected keyword raises with weft's spelling. Not for functions whose calls are short."""

    count = function.__code__.co_argcount  # type: ignore[attr-defined]

    @functools.wraps(function)
    def _check_and_call(*args: Any, **keywords: Any) -> Any:
        check_keywords(function, keywords)
        if len(args) > count:
            names = ", ".join((accepted_keywords(function) or [])[:count])
            takes = f"it takes {count}: {names}; the others are keywords, such as epochs="
            raise TypeError(f"{function.__name__}: {len(args)} arguments by position, {takes}")
        return function(*args, **keywords)

    return _check_and_call  # type: ignore[return-value]


def complete_message(error: BaseException) -> None:
    """Add weft's spelling to Python's TypeError for an unexpected keyword of a function of weft, or for a call of a property."""
    if not isinstance(error, TypeError) or not error.args:
        return
    if re.fullmatch(r"'\w+' object is not callable", str(error.args[0])) and (trace := error.__traceback__) is not None:
        error.args = (error.args[0] + _advise_on_property(_last(trace)),)
        return
    given = r"([\w.<>]+)\(\) takes .*positional arguments? but \d+ (?:was|were) given"
    if (found := re.fullmatch(given, str(error.args[0]))) is not None:
        error.args = (error.args[0] + _advise_on_positions(error, found[1]),)
        return
    if "got an unexpected keyword argument" not in str(error.args[0]):
        return
    found = re.fullmatch(r"([\w.<>]+)\(\) got an unexpected keyword argument '(\w+)'", str(error.args[0]))
    trace = error.__traceback__
    if found is None or trace is None:
        return
    function = _find_function(_last(trace), found[1])
    accepted = None if function is None else accepted_keywords(function)
    if accepted is not None and found[2] not in accepted:
        error.args = (f"{found[0]}{keyword_advice(found[2], accepted)}",)


def _last(trace: TracebackType) -> TracebackType:
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace


def _advise_on_positions(error: TypeError, name: str) -> str:
    """Return the end of a message about too many arguments by position."""
    trace = error.__traceback__
    function = None if trace is None else _find_function(_last(trace), name)
    accepted = None if function is None else accepted_keywords(function)
    if not accepted:
        return ""
    names = ", ".join(name for name in accepted if name != "self")
    return f"; it takes {names}" + ("; wf.swapaxes(x, 0, 1) exchanges two axes" if name == "transpose" else "")


_PROPERTIES = {"size": "x.size is the number of elements, x.shape[0] an extent", "shape": "x.shape, x.shape[0]"}


def _advise_on_property(trace: TracebackType) -> str:
    """Return the end of a message about a call of ``x.size`` or another attribute of an object of weft."""
    call = _parse_call(trace)
    if call is None or not isinstance(call.func, ast.Attribute):
        return ""
    owner, name = _resolve(call.func.value, trace), call.func.attr
    if owner is _UNKNOWN or isinstance(owner, ModuleType) or not _is_own(type(owner)):
        return ""
    return f"; in weft: {_PROPERTIES.get(name, f'.{name} is an attribute, without parentheses')}"


def _find_function(trace: TracebackType, qualified_name: str) -> Any:
    """Return weft's function of this qualified name that is called at the end of a traceback, or None."""
    frame, name = trace.tb_frame, qualified_name.removesuffix(".__init__").rpartition(".")[2]
    spaces = (frame.f_locals, frame.f_globals)
    candidates = [_resolve_call(trace)]
    if candidates == [_UNKNOWN] and not any(_is_function(space.get(name)) and not _is_own(space[name]) for space in spaces):
        weft = sys.modules["weft"]
        owners = (weft, weft.ndarray, weft.nn.Module, weft.optim.Optimizer) if "nn" in vars(weft) else (weft, weft.ndarray)
        found = [getattr(owner, name, None) for owner in owners]
        candidates = [f for f in found if getattr(f, "__qualname__", "") == qualified_name]
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
    call = _parse_call(trace)
    return _UNKNOWN if call is None else _resolve(call.func, trace)


def _parse_call(trace: TracebackType) -> ast.Call | None:
    """Return the call that the last line of a traceback was running; None if its source is not known."""
    frame = trace.tb_frame
    line, end, start, stop = next(islice(frame.f_code.co_positions(), trace.tb_lasti // 2, None), (None,) * 4)
    if line is None or end is None or start is None or stop is None:
        return None
    lines = [text.encode() for text in linecache.getlines(frame.f_code.co_filename, frame.f_globals)[line - 1 : end]]
    if len(lines) != end - line + 1:
        return None
    lines[-1] = lines[-1][:stop]
    lines[0] = lines[0][start:]
    try:
        call = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
    except SyntaxError:
        return None
    return call if isinstance(call, ast.Call) else None


def _resolve(node: ast.expr, trace: TracebackType) -> Any:
    """Return the value of a dotted name in a frame, ``_UNKNOWN`` if it is none. Nothing is run for it."""
    if isinstance(node, ast.Name):
        return trace.tb_frame.f_locals.get(node.id, trace.tb_frame.f_globals.get(node.id, _UNKNOWN))
    base = _resolve(node.value, trace) if isinstance(node, ast.Attribute) else _UNKNOWN
    if base is _UNKNOWN or not isinstance(node, ast.Attribute):
        return _UNKNOWN
    return getattr(base, node.attr, None) if isinstance(base, ModuleType) else inspect.getattr_static(base, node.attr, None)
