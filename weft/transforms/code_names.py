"""Names in the code of functions: global variables, attributes of Python modules and classes, methods."""

from __future__ import annotations

import dis
import enum
import functools
import sys
import types
from collections.abc import Collection, Iterator, Sequence
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
_LOCAL = ("STORE_FAST", "DELETE_FAST", "STORE_DEREF", "DELETE_DEREF")  # instructions that bind variables of the function itself
_OF_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
MISSING: Any = object()  # the value of a variable that is not bound
ANY = "*"  # in ``words``: any attribute may be read


class Names(NamedTuple):
    """Names in a code object and in the functions defined in it.

    variables : global variables that are read
    bound_variables : global variables that are bound or deleted
    attributes : pairs (global variable, attribute read from it directly)
    words : all other names of attributes and methods, strings that may be such, and ``ANY``
    imports : modules imported inside, each with the level of a relative import
    stores : attributes that may be set
    rebinds : whether a name outside may be bound or deleted
    calls : whether other functions may be called
    typed_names : names of variables, attributes and keys whose class ``type(...)`` reads, which tells a run-time number from an
    int
    """

    variables: tuple[str, ...]
    bound_variables: tuple[str, ...]
    attributes: tuple[tuple[str, str], ...]
    words: frozenset[str]
    imports: tuple[tuple[int, str], ...]
    stores: frozenset[str]
    rebinds: bool
    calls: bool
    typed_names: frozenset[str]


@functools.lru_cache(maxsize=4096)
def names_in(code: types.CodeType) -> Names:
    """Return the names in ``code`` and in the functions defined in it."""
    variables: dict[str, None] = {}
    bound: dict[str, None] = {}
    attributes: dict[tuple[str, str], None] = {}
    imports: dict[tuple[int, str], None] = {}
    words = set(_identifiers(code.co_consts))
    stores = set(words) if "setattr" in code.co_names else set()
    owner, constants, rebinds, calls = "", [0, 0], False, False
    typed: set[str] = set()
    argument: str | None = None  # the last name or key in the argument of ``type(...)``, None outside of one
    for instruction in dis.get_instructions(code):
        name, value = instruction.opname, instruction.argval
        if argument is not None:
            if name.startswith(("CALL", "PRECALL")):
                typed.add(argument)
                argument = None
            elif name.startswith("LOAD_") and isinstance(value, str):
                argument = value
        if name in _GLOBAL and value == "type":
            argument = ""
        if name.startswith(("STORE_", "DELETE_")):
            rebinds = rebinds or value in code.co_freevars or not name.startswith(_LOCAL)
        calls = calls or name.startswith(("CALL", "IMPORT", "BEFORE_WITH", "SEND", "GET_ITER"))
        if name == "LOAD_CONST":
            constants = [constants[-1], value]
        elif name == "STORE_ATTR":
            stores.add(str(value))
        elif name in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            bound[str(value)] = None
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
            bound |= dict.fromkeys(inner.bound_variables)
            attributes |= dict.fromkeys(inner.attributes)
            words |= inner.words
            imports |= dict.fromkeys(inner.imports)
            stores |= inner.stores
            rebinds, calls = rebinds or inner.rebinds, calls or inner.calls
            typed |= inner.typed_names
    by_module = _ANY_BY_MODULE.intersection([attribute for _, attribute in attributes])
    if by_module or _ANY_BY_ATTRIBUTE.intersection(words) or _ANY_BY_VARIABLE.intersection(variables):
        words.add(ANY)
    return Names(
        tuple(variables), tuple(bound), tuple(attributes), frozenset(words), tuple(imports), frozenset(stores), rebinds, calls,
        frozenset(typed),
    )


def is_only_appended(code: types.CodeType, names: Collection[str]) -> bool:
    """Return whether each load of these names in ``code``, and in the functions defined in it, calls the list's method append or
    extend."""
    instructions = list(dis.get_instructions(code))
    for k, instruction in enumerate(instructions):
        if instruction.argval in names and instruction.opname.startswith(("LOAD_", "DELETE_", "STORE_")):
            following = instructions[k + 1] if k + 1 < len(instructions) else instruction
            defines = instruction.opname == "LOAD_CLOSURE"  # a function, which is examined too
            if not defines and (following.opname not in _ATTRIBUTE or following.argval not in ("append", "extend")):
                return False
    return all([is_only_appended(x, names) for x in code.co_consts if isinstance(x, types.CodeType)])


def _identifiers(constants: Any) -> Iterator[str]:
    """Yield the strings among constants that may be names of attributes, as in ``case Point(x=0)``."""
    for constant in constants:
        if isinstance(constant, tuple | frozenset):
            yield from _identifiers(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            yield constant


def closure_contents(f: types.FunctionType) -> list[Any]:
    """Return the contents of the closure of ``f``, without empty cells."""
    return [x for x in map(cell_content, f.__closure__ or ()) if x is not MISSING]


def cell_content(cell: types.CellType) -> Any:
    """Return the content of a closure variable, MISSING if it is not bound."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def find_attributes(cls: type, words: Collection[str]) -> Iterator[tuple[Sequence[type], str, Any]]:
    """Yield (classes, name, value) for the attributes of ``cls`` that code with the names ``words`` may read: attributes, methods
    and properties with these names, special methods and ``forward``. The classes are the one that has the attribute and, as an
    attribute set there later would hide it, those before it in the method resolution order; none if another attribute hides it,
    and for members of an Enum. Skip classes of libraries, and slots."""
    bases = [base for base in cls.__mro__ if not is_library_class(base)]
    seen: set[str] = set()
    for k, base in enumerate(bases):
        for name, value in vars(base).items():
            special, plain = name[:2] == "__" == name[-2:], not hasattr(type(value), "__get__")
            if (special and (name in _SILENT or plain)) or isinstance(value, _OF_SLOTS):
                continue
            if special or name in words or name == "forward" or (plain and ANY in words):
                yield () if name in seen or isinstance(cls, enum.EnumMeta) else bases[: k + 1], name, value
        seen.update(vars(base))


def functions_in(attribute: Any) -> list[types.FunctionType]:
    """Return the functions of a method or property."""
    property_ = isinstance(attribute, property)
    parts = (attribute.fget, attribute.fset) if property_ else (getattr(attribute, "__func__", attribute),)
    return [f for f in [getattr(part, "__wrapped__", part) for part in parts] if isinstance(f, types.FunctionType)]


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
