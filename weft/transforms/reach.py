"""What the code of a function names: global variables, attributes of Python modules and classes, methods."""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

_GLOBAL = frozenset(("LOAD_GLOBAL", "LOAD_NAME"))
_ATTRIBUTE = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
_SILENT = frozenset(("__new__", "__repr__", "__str__", "__del__", "__reduce__", "__getstate__", "__setstate__"))


class Names(NamedTuple):
    """What a code object and the functions defined in it name.

    variables: global variables. attributes: pairs (global variable, attribute that is read of it directly). words: all names
    of attributes and methods.
    """

    variables: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]
    words: frozenset[str]


@functools.lru_cache(maxsize=4096)
def names_in(code: types.CodeType) -> Names:
    """Read the instructions of ``code`` and of the functions defined in it."""
    variables: dict[str, None] = {}
    attributes: dict[tuple[str, str], None] = {}
    words = set(code.co_names)
    owner = ""
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in _GLOBAL:
            owner = str(instruction.argval)
            variables[owner] = None
            continue
        if owner and name in _ATTRIBUTE:
            attributes[owner, str(instruction.argval)] = None
        owner = ""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = names_in(constant)
            variables |= dict.fromkeys(inner.variables)
            attributes |= dict.fromkeys(inner.attributes)
            words |= inner.words
    return Names(tuple(variables), tuple(attributes), frozenset(words))


def contents_of(f: types.FunctionType) -> list[Any]:
    """Return what the closure of ``f`` holds; cells without a content are left out."""
    out = []
    for cell in f.__closure__ or ():
        try:
            out.append(cell.cell_contents)
        except ValueError:
            continue  # not assigned yet
    return out


def methods_named(cls: type, words: frozenset[str] | set[str]) -> Iterator[types.FunctionType]:
    """Yield the methods of ``cls`` that code which names ``words`` may call: those, special methods, and ``forward``.

    Classes of libraries are left out.
    """
    for base in cls.__mro__:
        if is_library(base.__module__):
            continue
        for name, value in vars(base).items():
            special = name[:2] == "__" == name[-2:] and name not in _SILENT
            if not (special or name in words or name == "forward"):
                continue
            for part in (value.fget, value.fset) if isinstance(value, property) else (getattr(value, "__func__", value),):
                part = getattr(part, "__wrapped__", part)
                if isinstance(part, types.FunctionType):
                    yield part


@functools.lru_cache(maxsize=4096)
def is_library(name: Any) -> bool:
    """Whether the module of this name belongs to Python, weft, or an installed package: its variables stay what they are."""
    top = name.partition(".")[0] if isinstance(name, str) else ""
    if top in sys.stdlib_module_names:
        return top != "__main__"
    if top in ("weft", "numpy"):
        return True
    path = getattr(sys.modules.get(top), "__file__", None) or ""
    return "site-packages" in path or "dist-packages" in path
