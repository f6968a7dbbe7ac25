"""Checks of keywords: the error for one that a function does not take has weft's spelling, or the keyword most alike.

Constructors and long calls check their keywords themselves. Python raises the error of other functions before they run, so each
call would have to pay for a wrapper that words it. ``completion`` completes their messages.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
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
