"""Names in the code of functions: global variables, attributes of Python modules and classes, methods."""

from __future__ import annotations

import dis
import enum
import functools
import sys
import types
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

_GLOBAL = frozenset(("LOAD_GLOBAL", "LOAD_NAME"))
_ATTRIBUTE = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
_SILENT = frozenset(("__new__", "__repr__", "__str__", "__del__", "__reduce__", "__getstate__", "__setstate__"))
# code with one of these names may read attributes whose names it does not contain
_ANY_BY_ATTRIBUTE = frozenset(("__dict__", "__getattr__", "__getattribute__", "__getstate__"))
_ANY_BY_MODULE = frozenset((
    "asdict", "astuple", "attrgetter", "deepcopy", "dumps", "fields", "getmembers", "methodcaller", "replace",
))
_ANY_BY_VARIABLE = _ANY_BY_MODULE | frozenset(("copy", "delattr", "dir", "eval", "exec", "getattr", "setattr", "vars"))
ANY = "*"  # in ``words``: any attribute may be read


class Names(NamedTuple):
    """Names in a code object and in the functions defined in it.

    variables : global variables
    attributes : pairs (global variable, attribute read from it directly)
    words : all other names of attributes and methods, strings that may be such, and ``ANY``
    imports : modules imported inside, each with the level of a relative import
    stores : attributes that may be set
    """

    variables: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]
    words: frozenset[str]
    imports: tuple[tuple[int, str], ...]
    stores: frozenset[str]


@functools.lru_cache(maxsize=4096)
def names_in(code: types.CodeType) -> Names:
    """Return the names in ``code`` and in the functions defined in it."""
    variables: dict[str, None] = {}
    attributes: dict[tuple[str, str], None] = {}
    imports: dict[tuple[int, str], None] = {}
    words = set(_identifiers(code.co_consts))
    stores = set(words) if "setattr" in code.co_names else set()
    owner, constants = "", [0, 0]
    for instruction in dis.get_instructions(code):
        name, value = instruction.opname, instruction.argval
        if name == "LOAD_CONST":
            constants = [constants[-1], value]
        elif name == "STORE_ATTR":
            stores.add(str(value))
        elif name == "IMPORT_NAME":  # follows its level and the imported names
            imports[constants[0], str(value)] = None
        if name in _GLOBAL:
            owner = str(value)
            variables[owner] = None
            continue
        if owner and name in _ATTRIBUTE:
            attributes[owner, str(value)] = None
        elif instruction.opcode in dis.hasname:
            words.add(str(value))
        owner = ""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = names_in(constant)
            variables |= dict.fromkeys(inner.variables)
            attributes |= dict.fromkeys(inner.attributes)
            words |= inner.words
            imports |= dict.fromkeys(inner.imports)
            stores |= inner.stores
    by_module = _ANY_BY_MODULE.intersection([attribute for _, attribute in attributes])
    if by_module or _ANY_BY_ATTRIBUTE.intersection(words) or _ANY_BY_VARIABLE.intersection(variables):
        words.add(ANY)
    return Names(tuple(variables), tuple(attributes), frozenset(words), tuple(imports), frozenset(stores))


class Effects(NamedTuple):
    """What a code object may do to names outside. stores : it binds or deletes one. calls : it calls other functions"""

    stores: bool
    calls: bool


@functools.lru_cache(maxsize=4096)
def may_rebind(code: types.CodeType) -> Effects:
    """Return whether ``code``, and the functions defined in it, may rebind names outside or call other functions."""
    stores = calls = False
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name.startswith(("STORE_", "DELETE_")):
            stores = stores or not name.startswith(("STORE_FAST", "DELETE_FAST", "STORE_DEREF", "DELETE_DEREF")) or (
                instruction.argval in code.co_freevars
            )
        calls = calls or name.startswith(("CALL", "IMPORT", "BEFORE_WITH", "SEND", "GET_ITER"))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = may_rebind(constant)
            stores, calls = stores or inner.stores, calls or inner.calls
    return Effects(stores, calls)


def _identifiers(constants: Any) -> Iterator[str]:
    """Yield the strings among constants that may be names of attributes, as in ``case Point(x=0)``."""
    for constant in constants:
        if isinstance(constant, tuple | frozenset):
            yield from _identifiers(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            yield constant


def closure_contents(f: types.FunctionType) -> list[Any]:
    """Return the contents of the closure of ``f``, without empty cells."""
    out = []
    for cell in f.__closure__ or ():
        try:
            out.append(cell.cell_contents)
        except ValueError:
            continue  # not assigned yet
    return out


def find_methods(cls: type, words: frozenset[str] | set[str]) -> Iterator[types.FunctionType]:
    """Yield the methods of ``cls`` that may be called by code with the names ``words``: these, special methods and ``forward``.

    Skip classes of libraries.
    """
    for base in cls.__mro__:
        if is_library_class(base):
            continue
        for name, value in vars(base).items():
            special = name[:2] == "__" == name[-2:] and name not in _SILENT
            if not (special or name in words or name == "forward"):
                continue
            for part in (value.fget, value.fset) if isinstance(value, property) else (getattr(value, "__func__", value),):
                part = getattr(part, "__wrapped__", part)
                if isinstance(part, types.FunctionType):
                    yield part


_OF_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)


def find_attributes(cls: type, words: Collection[str]) -> Iterator[tuple[type, str]]:
    """Yield pairs (class, name) of attributes of ``cls`` that code with the names ``words`` may read: attributes, methods and
    properties with these names, special methods and ``forward``. The class is the one that has the attribute or, as an attribute
    set there later would hide it, one before it in the method resolution order. Skip classes of libraries, members of an Enum
    and slots."""
    bases = [base for base in cls.__mro__ if not is_library_class(base)] if not isinstance(cls, enum.EnumMeta) else []
    seen: set[str] = set()
    for k, base in enumerate(bases):
        for name, value in vars(base).items():
            special = name[:2] == "__" == name[-2:]
            silent = special and (name in _SILENT or not hasattr(type(value), "__get__"))
            if silent or name in seen or isinstance(value, _OF_SLOTS):
                continue
            by_any_name = ANY in words and not hasattr(type(value), "__get__")
            if special or name in words or name == "forward" or by_any_name:
                for owner in bases[: k + 1]:
                    yield owner, name
        seen.update(vars(base))


@functools.lru_cache(maxsize=4096)
def is_third_party(name: Any) -> bool:
    """Return whether the module of this name belongs to an installed package, which may read any attribute."""
    top = name.partition(".")[0] if isinstance(name, str) else ""
    return is_library(name) and top not in sys.stdlib_module_names and top not in ("weft", "numpy")


@functools.lru_cache(maxsize=4096)
def is_library(name: Any) -> bool:
    """Return whether the module of this name belongs to Python, weft or an installed package, whose variables are constant."""
    top = name.partition(".")[0] if isinstance(name, str) else ""
    if top in sys.stdlib_module_names:
        return top != "__main__"
    if top in ("weft", "numpy"):
        return True
    path = getattr(sys.modules.get(top), "__file__", None) or ""
    return "site-packages" in path or "dist-packages" in path


def is_library_class(cls: type) -> bool:
    """Return whether a class belongs to a library. A class that text defines, run without a ``__name__``, names builtins."""
    return is_library(cls.__module__) and not is_unnamed(cls)


def is_unnamed(cls: type) -> bool:
    """Return whether a class names builtins as its module and is not one of Python's."""
    return cls.__module__ == "builtins" and bool(cls.__flags__ & _HEAP_TYPE)


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement
