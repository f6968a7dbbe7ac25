"""What the code of a function names: global variables, attributes of Python modules and classes, methods."""

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
# by these code may read attributes that it does not name: attributes, global variables, functions of Python modules
_ANY_BY_ATTRIBUTE = frozenset(("__dict__", "__getattr__", "__getattribute__", "__getstate__"))
_ANY_BY_MODULE = frozenset((
    "asdict", "astuple", "attrgetter", "deepcopy", "dumps", "fields", "getmembers", "methodcaller", "replace",
))
_ANY_BY_VARIABLE = _ANY_BY_MODULE | frozenset(("copy", "delattr", "dir", "eval", "exec", "getattr", "setattr", "vars"))
ANY = "*"  # among words: any attribute may be read


class Names(NamedTuple):
    """What a code object and the functions defined in it name.

    variables: global variables. attributes: pairs (global variable, attribute that is read of it directly). words: all other
    names of attributes and methods, texts that may be such, and ``ANY``. imports: modules that it imports, each with the level of
    a relative import. stores: names of attributes that it may set.
    """

    variables: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]
    words: frozenset[str]
    imports: tuple[tuple[int, str], ...]
    stores: frozenset[str]


@functools.lru_cache(maxsize=4096)
def names_in(code: types.CodeType) -> Names:
    """Read the instructions of ``code`` and of the functions defined in it."""
    variables: dict[str, None] = {}
    attributes: dict[tuple[str, str], None] = {}
    imports: dict[tuple[int, str], None] = {}
    words = set(_texts(code.co_consts))
    stores = set(words) if "setattr" in code.co_names else set()
    owner, constants = "", [0, 0]
    for instruction in dis.get_instructions(code):
        name, value = instruction.opname, instruction.argval
        if name == "LOAD_CONST":
            constants = [constants[-1], value]
        elif name == "STORE_ATTR":
            stores.add(str(value))
        elif name == "IMPORT_NAME":  # behind its level and the names that it imports from the module
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
    """What a code object may do to names outside of it. stores : it binds or deletes some. calls : it calls other functions."""

    stores: bool
    calls: bool


@functools.lru_cache(maxsize=4096)
def may_rebind(code: types.CodeType) -> Effects:
    """Read what ``code``, and the functions defined in it, may do to names outside."""
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


def _texts(constants: Any) -> Iterator[str]:
    """Yield the texts among constants that may be names of attributes, as ``case Point(x=0)`` has them."""
    for constant in constants:
        if isinstance(constant, tuple | frozenset):
            yield from _texts(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            yield constant


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


def attributes_named(cls: type, words: Collection[str]) -> Iterator[tuple[type, str]]:
    """Yield the places where ``cls`` has what code that names ``words`` may read: attributes, methods and properties, special
    methods and ``forward``; each class that has one, and those before it that may get one. Classes of libraries, members of an
    Enum and slots are left out."""
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
    """Whether the module of this name belongs to an installed package, of which it is not known what attributes it reads."""
    top = name.partition(".")[0] if isinstance(name, str) else ""
    return is_library(name) and top not in sys.stdlib_module_names and top not in ("weft", "numpy")


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


def is_library_class(cls: type) -> bool:
    """Return whether a class belongs to a library. A class that text defines, run without a ``__name__``, names builtins."""
    return is_library(cls.__module__) and not is_unnamed(cls)


def is_unnamed(cls: type) -> bool:
    """Return whether a class names builtins as its module and is not one of Python's."""
    return cls.__module__ == "builtins" and bool(cls.__flags__ & _HEAP_TYPE)


_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement
