"""Which modules and plain objects a function reaches without being given them: closures, defaults, globals it names, ``self``."""

from __future__ import annotations

import functools
import types
from typing import Any

from weft.transforms.content import has_content
from weft.transforms.tree import has_structure


def modules_of(f: Any) -> tuple[Any, ...]:
    """The modules and plain objects, in the order they are found."""
    found: dict[int, Any] = {}
    seen: set[int] = set()
    stack = [f]
    while stack:
        item = stack.pop()
        if id(item) in seen or isinstance(item, int | float | str | bytes | type | types.ModuleType | None):
            continue
        seen.add(id(item))
        if has_structure(item) or has_content(item):
            found[id(item)] = item
            if hasattr(item, "__wrapped__"):
                stack.append(item.__wrapped__)
            elif item is getattr(f, "__self__", None):  # what is called through it
                stack.extend(vars(item).values() if hasattr(item, "__dict__") else ())
        elif isinstance(item, types.FunctionType):
            stack.extend((*cells_of(item), *(item.__defaults__ or ()), *(item.__kwdefaults__ or {}).values()))
            if not (item.__module__ or "").startswith("weft."):
                stack.extend(item.__globals__[n] for n in names_of(item.__code__) if n in item.__globals__)
        elif isinstance(item, types.MethodType):
            stack.extend((item.__func__, item.__self__))
        elif isinstance(item, functools.partial):
            stack.extend((item.func, *item.args, *item.keywords.values()))
        elif isinstance(item, list | tuple):
            stack.extend(item[:100])
        elif isinstance(item, dict):
            stack.extend(list(item.values())[:100])
        elif hasattr(item, "__wrapped__"):
            stack.append(item.__wrapped__)
        elif hasattr(item, "__dict__") and len(seen) < 1000 and item is getattr(f, "__self__", None):
            stack.extend(vars(item).values())
    return tuple(found.values())


def cells_of(f: types.FunctionType) -> list[Any]:
    out = []
    for cell in f.__closure__ or ():
        try:
            out.append(cell.cell_contents)
        except ValueError:
            continue  # not assigned yet
    return out


def names_of(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names |= names_of(const)
    return names
