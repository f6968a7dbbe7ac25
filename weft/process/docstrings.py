"""Complete the docstrings of related functions and classes from the docstring of the first one."""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_VARARGS, CO_VARKEYWORDS, cleandoc
from itertools import groupby
from typing import Any

_ORDER = ("Parameters", "Returns", "Raises", "Notes", "References", "Examples")


def complete_docs(head: Callable[..., Any], *others: Callable[..., Any]) -> None:
    """Add to each docstring of ``others`` the sections that it lacks, from the docstring of ``head``.

    Parameters are listed in the order of the function's own signature: its own entries win, all other names are copied from
    ``head``. Returns and Raises are copied if absent, but no Returns to a function that returns None. Examples are never copied.
    All of them, ``head`` first, are also completed by :func:`complete_each`. Does nothing under ``python -OO``, which removes
    docstrings.

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
        entries = described | _entries(sections.get("Parameters", []))
        names = _parameters(other)
        missing = [name for name in names if name not in entries]
        if missing:
            raise KeyError(f"{other.__qualname__}: neither its docstring nor that of {head.__qualname__} describes {missing}")
        if names:
            sections["Parameters"] = []
            for _, group in groupby(names, key=lambda name: id(entries[name])):
                first, *more = group
                kind, *body = entries[first]
                sections["Parameters"] += [", ".join([first, *more]) + kind, *body]
        for title in ("Returns", "Raises"):
            if title in complete and not (title == "Returns" and _plain(other).__annotations__.get("return") in (None, "None")):
                sections.setdefault(title, complete[title])
        _write(other, summary, sections)


def complete_each(*functions: Callable[..., Any]) -> None:
    """Add to each docstring its Returns if absent, from the annotation, and ``import weft as wf`` to its Examples."""
    for function in functions:
        if function.__doc__ is None:
            continue
        summary, sections = _split(function)
        returns = _plain(function).__annotations__.get("return")
        if returns not in (None, "None") and not sections.keys() & {"Returns", "Yields"}:
            sections["Returns"] = [returns.replace("np.", "numpy.")]
        elif _has_import(sections):
            continue
        _write(function, summary, sections)


def _write(function: Callable[..., Any], summary: str, sections: dict[str, list[str]]) -> None:
    """Set a docstring from its sections, in the usual order."""
    if not _has_import(sections):
        sections["Examples"].insert(0, ">>> import weft as wf")
    titles = sorted(sections, key=lambda title: _ORDER.index(title) if title in _ORDER else len(_ORDER))
    parts = [summary, *("\n".join([title, "-" * len(title), *sections[title]]) for title in titles)]
    function.__doc__ = "\n\n".join(parts) + "\n"


def _has_import(sections: dict[str, list[str]]) -> bool:
    """Return whether the examples import weft, or there are none."""
    return "Examples" not in sections or any("import" in line and "weft" in line for line in sections["Examples"])


def _split(function: Callable[..., Any]) -> tuple[str, dict[str, list[str]]]:
    """Return the text before the first section, and each section's lines by its title."""
    lines = cleandoc(function.__doc__ or "").splitlines()
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    summary = current
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if below and set(below) == {"-"} and len(below) == len(line):
            current = sections[line] = []
        elif not (line and set(line) == {"-"}):
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
    code = _plain(function).__code__
    named = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[: named + bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)])
    if code.co_flags & CO_VARARGS:
        names.insert(code.co_argcount, names.pop(named))
    return [name for name in names if name != "self"]


def _plain(function: Callable[..., Any]) -> Any:
    """Return the function under a decorator, or a class's ``__init__``."""
    return function.__init__ if isinstance(function, type) else getattr(function, "__wrapped__", function)  # type: ignore[misc]
