"""Complete the docstrings of related functions and classes from the docstring of the first one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import CO_VARARGS, CO_VARKEYWORDS, cleandoc
from itertools import groupby
from types import MethodType
from typing import Any

_ORDER = ("Parameters", "Attributes", "Returns", "Raises", "Notes", "References", "Examples")
_COMMON_PARAMETERS = """
a, x, arr, ary, v, m : array_like
out : Array, optional
    The array that the result is written to.
keepdims : bool
    Keep the reduced axes with extent 1.
device : str, optional
    The device of the result, such as "cpu" or "gpu"; by default the current one.
like : array, optional
    Ignored: the result is always an Array.
key : Array, optional
    The key to draw from, instead of the hidden state.
hermitian : bool
    Has no effect.
order, subok
    Ignored: weft's arrays are stored in row-major order and have no subclasses.
"""


def complete_docs(head: Callable[..., Any], *others: Callable[..., Any]) -> None:
    """Add to each docstring of ``others`` the sections that it lacks, from the docstring of ``head``.

    Parameters are listed in the order of the function's own signature: its own entries win, then those of ``head``, then the
    common ones. Returns and Raises are copied if absent, but no Returns to a function that returns None. Examples are never
    copied. All of them, ``head`` first, are also completed by :func:`complete_each`. Does nothing under ``python -OO``, which
    removes docstrings.

    Raises
    ------
    KeyError
        Neither docstring describes a parameter.
    """
    if head.__doc__ is None:
        return
    complete_each(head)
    _, complete = _split(head)
    described = _entries(complete.get("Parameters", []))
    for other in others:
        summary, sections = _split(other)
        missing = _describe(other, sections, described)
        if missing:
            raise KeyError(f"{other.__qualname__}: neither its docstring nor that of {head.__qualname__} describes {missing}")
        for title in ("Returns", "Raises"):
            if title in complete and not (title == "Returns" and _unwrap(other).__annotations__.get("return") in (None, "None")):
                sections.setdefault(title, complete[title])
        _complete(other, summary, sections)


def complete_each(*functions: Callable[..., Any]) -> None:
    """Add missing parts to each docstring: common parameters, Returns from the annotation, ``import weft as wf`` in Examples."""
    for function in functions:
        if function.__doc__ is not None:
            _complete(function, *_split(function))


def _complete(function: Callable[..., Any], summary: str, sections: dict[str, list[str]]) -> None:
    if not _entries(sections.get("Parameters", [])).keys() >= set(_parameters(function)):
        _describe(function, sections, {})
    returns = _unwrap(function).__annotations__.get("return")
    if returns not in (None, "None") and not sections.keys() & {"Returns", "Yields"}:
        sections["Returns"] = [returns.replace("np.", "numpy.")]
    _write(function, summary, sections)


def complete_module(names: dict[str, Any], *families: tuple[Callable[..., Any], ...]) -> None:
    """Call :func:`complete_docs` for each family, its head first, then :func:`complete_each` for all functions and classes of a
    module whose docstrings have sections; ``names`` is its ``globals()``."""
    for head, *others in families:
        complete_docs(head, *others)
    complete = {id(function) for family in families for function in family}
    for value in list(names.values()):
        if getattr(value, "__module__", "") == names["__name__"] and id(value) not in complete and value.__doc__:
            if hasattr(_unwrap(value), "__code__"):
                summary, sections = _split(value)
                if sections:
                    _complete(value, summary, sections)


def _describe(function: Callable[..., Any], sections: dict[str, list[str]], described: dict[str, list[str]]) -> list[str]:
    """Write the Parameters from the function's own entries, ``described`` and the common ones. Return the names without entry."""
    own = sections.get("Parameters", [])
    entries = _common_entries() | described | _entries(own)
    shown = {name.strip("* "): name.strip() for line in own for name in line.partition(" : ")[0].split(",")}  # with their stars
    names = _parameters(function)
    known = [name for name in names if name in entries]
    if known:
        sections["Parameters"] = []
        for _, group in groupby(known, key=lambda name: id(entries[name])):
            first, *more = group
            kind, *body = entries[first]
            sections["Parameters"] += [", ".join([shown.get(name, name) for name in (first, *more)]) + kind, *body]
    return [name for name in names if name not in entries]


@cache
def _common_entries() -> dict[str, list[str]]:
    return _entries(_COMMON_PARAMETERS.strip().splitlines())


def _write(function: Callable[..., Any], summary: str, sections: dict[str, list[str]]) -> None:
    """Set a docstring from its sections, in the usual order."""
    if not _has_import(sections):
        sections["Examples"].insert(0, ">>> import weft as wf")
    titles = sorted(sections, key=lambda title: _ORDER.index(title) if title in _ORDER else len(_ORDER))
    parts = [summary, *("\n".join([title, "-" * len(title), *sections[title]]) for title in titles)]
    target: Any = function.__func__ if isinstance(function, MethodType) else function
    target.__doc__ = "\n\n".join(parts) + "\n"


def _has_import(sections: dict[str, list[str]]) -> bool:
    """Return whether the examples import weft, or there are none."""
    return "Examples" not in sections or any("import" in line and "weft" in line for line in sections["Examples"])


def _split(function: Callable[..., Any]) -> tuple[str, dict[str, list[str]]]:
    """Return the text before the first section, and each section's lines by its title. Examples need no title in a source."""
    lines = cleandoc(function.__doc__ or "").splitlines()
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    summary = current
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if below[:1] == "-" and below == "-" * len(line):
            current = sections[line] = []
        elif line[:4] == ">>> " and "Examples" not in sections:
            current = sections["Examples"] = [line]
        elif line[:1] != "-" or line.strip("-"):
            current.append(line)
    for part in (summary, *sections.values()):
        while part and not part[-1]:
            part.pop()
    return "\n".join(summary), sections


def _entries(lines: list[str]) -> dict[str, list[str]]:
    """Return for each parameter its entry without the name; ``a, b : int`` is one entry of both."""
    entries: dict[str, list[str]] = {}
    entry: list[str] = []
    for line in lines:
        if line.startswith(" ") or not line:
            entry.append(line)
        else:
            names, colon, kind = line.partition(" : ")
            entry = [colon + kind]
            entries.update((name.strip().lstrip("*"), entry) for name in names.split(","))
    return entries


def _parameters(function: Callable[..., Any]) -> list[str]:
    """Return the parameters of a function or of a class's ``__init__``; ``inspect.signature`` takes ten times as long."""
    code = _unwrap(function).__code__
    named = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[: named + bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)])
    if code.co_flags & CO_VARARGS:
        names.insert(code.co_argcount, names.pop(named))
    return [name for name in names if name != "self"]


def _unwrap(function: Callable[..., Any]) -> Any:
    """Return the function under a decorator, or a class's ``__init__``."""
    return function.__init__ if isinstance(function, type) else getattr(function, "__wrapped__", function)  # type: ignore[misc]
