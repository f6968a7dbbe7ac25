"""What functions and objects hold beside what they are given: as a key, values, and records of what may change.

Equal keys mean one structure: the same code, classes, names and containers. Arrays and constants (numbers, strings and the like)
in attributes, items and variables are its values. They are apart from the key, in the order in which they were found, so equal
keys have values that correspond to each other.

Modules and optimizers count the changes of their attributes (``Structure.count``). Lists, dicts, sets, NumPy arrays, plain
objects and variables do not: records of them are compared at each call.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections.abc import Collection, Iterator
from importlib.util import resolve_name
from typing import Any

import numpy as np

from weft.array import Array
from weft.devices.native_protocols import Watched
from weft.runtime.traced_int import RUN_TIME
from weft.transforms.reach import (
    ANY,
    attributes_named,
    contents_of,
    is_library,
    is_third_party,
    is_unnamed,
    methods_named,
    names_in,
)
from weft.transforms.records import (
    MISSING,
    CellsRecord,
    ClassRecord,
    DictRecord,
    Form,
    ListRecord,
    ModuleRecord,
    ObjectRecord,
    OptimizerRecord,
    Path,
    Record,
    VariablesRecord,
    form_of,
    record_for,
    ways_into,
)
from weft.transforms.tree import Structure, is_module, is_only_attributes, slots_of
from weft.transforms.values import CONSTANTS, EXACT, Hashed, cells_of, key_of_values

LARGE = 1 << 20  # bytes: NumPy arrays beyond are compared by identity, for to read them at each call would take long
MANY = 1000  # items: the constants in longer containers are compared as a whole
FEW = 100  # items: longer containers that are variables are compared by identity
_BUILT_IN = (types.BuiltinFunctionType, np.ufunc)
_THEMSELVES = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, np.ufunc, staticmethod)


class Content:
    """Makes keys of what it is given with :meth:`of`; :meth:`close` follows the variables that functions name.

    words : names that the function and all that it calls name as attributes; more are added to them
    skipped : containers (by id) that are variables and whose content does not count
    package : the name of the jitted function's Python module; functions of this package are looked into even if it is installed
    held : what the keys name by number, which somebody has to keep
    key : of all that was found, and what :meth:`close` was given
    beside : what was looked at before, and is known by number where it is met again
    records : of what may change
    values : arrays and constants in the records; numbers : whether there are numbers among them
    moving : numbers of the constants that are run-time numbers from the first call on
    """

    __slots__ = (
        "_cells", "_cells_of_values", "_classes", "_keys_of_values", "_namespaces", "_objects", "_package", "_seen", "_skipped",
        "_stores", "_untold", "_variables", "_words", "beside", "count", "held", "key", "moving", "numbers", "records", "values",
    )

    def __init__(
        self, words: set[str] | None = None, skipped: Collection[int] = (), package: Any = "", beside: Content | None = None,
    ) -> None:
        self.held: list[Any] = []
        self.key: Any = None
        self.beside = beside
        self._cells_of_values: dict[int, int] | None = None
        self._keys_of_values: dict[frozenset[int], Hashed] = {}
        self.records: list[Record] = []
        self.values: tuple[Any, ...] = ()
        self.moving: frozenset[int] = frozenset()
        self.numbers = False
        self.count = Structure.count
        self._untold: list[Record] = []
        self._skipped = skipped
        self._package = package.partition(".")[0] if isinstance(package, str) else ""
        self._seen: dict[int, int] = {} if beside is None else beside._seen.copy()  # for cycles, and what is held twice
        self._cells: dict[int, tuple[int, str, types.CellType]] = {}  # number, name of the variable, and the cell
        self._variables: dict[int, tuple[Record, dict[str, None]]] = {}  # by owner: an empty record, and their names
        self._objects: dict[int, tuple[ObjectRecord, Any]] = {}  # an empty record, and what the key says of the object
        self._classes: dict[type, bool] = {}  # True for one that is reached as itself, not by its objects
        self._namespaces: dict[int, types.ModuleType] = {}  # Python modules of the user's
        self._words: set[str] = set() if words is None else words
        self._stores: set[str] = set()  # names of attributes that functions may set

    def of(self, x: Any, deep: bool = True) -> Any:
        """Return the key of ``x``: constants by value, functions by their code, objects by class and structure. Here Arrays are
        known by identity; those in records are values.

        deep : whether ``x`` belongs to an object. Of containers that are variables, long ones and NumPy arrays are not read
        """
        kind = type(x)
        if kind in CONSTANTS:
            return (kind, repr(x) if kind in EXACT else x)  # -0.0 is not 0.0
        if isinstance(x, tuple | frozenset):
            return (kind, *[self.of(item, deep) for item in x])
        if isinstance(x, Array):
            return (self._named(x), x.shape, x.dtype)
        if id(x) in self._seen:
            return (Content, self._seen[id(x)])
        self._seen[self._named(x)] = len(self._seen)
        if is_module(x):
            return self._object(x, ModuleRecord)
        if hasattr(kind, "__structure__"):
            return (self._object(x, OptimizerRecord), *map(self.of, x.__parts__()))
        if isinstance(x, functools.partial):
            return (kind, self.of(x.func, deep), self.of(x.args, deep), self.of(x.keywords, deep))
        if isinstance(x, types.MethodType):
            return (kind, self.of(x.__func__), self.of(x.__self__))
        if isinstance(x, types.FunctionType):
            return self._function(x)
        if isinstance(x, types.ModuleType):
            self._namespace(x)
            return (kind, id(x))
        if isinstance(x, type):
            if is_unnamed(x) or not self._is_library(x.__module__):
                self._classes[x] = True
            return (kind, x)
        container = record_for(x)
        if container is not None:
            return self._container(x, container, deep)
        if has_content(x):
            return self._object(x, ObjectRecord)
        inner = getattr(x, "__wrapped__", None)
        if inner is not None and callable(x):
            return (id(x), self.of(inner, deep))
        try:
            hash(x)
        except (TypeError, ValueError):  # ValueError: a memoryview that can be written
            return id(x)
        return (kind, x)

    def _namespace(self, module: types.ModuleType) -> None:
        """Note a Python module; its variables are looked at when it is known which of them are named."""
        if not self._is_library(module.__name__):
            self._namespaces[id(module)] = module

    def _named(self, x: Any) -> int:
        self.held.append(x)
        return id(x)

    def _object(self, x: Any, record: type[ObjectRecord]) -> Any:
        """Note an object; its attributes are looked at when it is known which of them count."""
        kind = type(x)
        self._classes.setdefault(kind, False)
        library = self._is_library(kind.__module__) and not is_unnamed(kind)
        everything = library or dataclasses.is_dataclass(kind)  # functions of trees read all of it
        same = is_only_attributes(kind) and record is not OptimizerRecord
        self._objects[id(x)] = record(x, words=None if everything else self._words), kind if same else id(x)
        return (Content, self._seen[id(x)])

    def _recorded(self, record: Record, deep: bool = True, whole: bool = False) -> list[Any]:
        """Take the record down and return the key of its structure; ``whole``: its constants are part of that."""
        record.deep = deep
        record.names, record.values = record.read()
        parts: list[Any] = [tuple([name if type(name) is str else self.of(name) for name in record.names])]
        paths: list[Path] = []
        for k, value in enumerate(record.values):
            if not whole and (type(value) in CONSTANTS or isinstance(value, Array)):
                parts.append(True)
                paths.append((k, ()))
                continue
            by_value = whole and (not record.writable or not isinstance(value, Array))
            part, ways = (self.of(value, deep), ()) if by_value else self._part(value, deep)
            parts.append(part)
            paths += [(k, way) for way in ways]
        record.paths = tuple(paths)
        self.records.append(record)
        return parts

    def _part(self, value: Any, deep: bool) -> tuple[Any, tuple[tuple[int, ...], ...]]:
        """Return the key of a value of a record, and the ways to the constants in it."""
        form: Form | None = form_of(value)
        return (self.of(value, deep), ()) if form is None else (form, tuple(ways_into(form)))

    def _container(self, x: Any, kind: type[Record], deep: bool) -> Any:
        if isinstance(x, np.ndarray) and (not deep or x.nbytes > LARGE):
            return (id(x), x.shape, x.dtype)
        if not deep and (id(x) in self._skipped or len(x) > FEW):
            return id(x)
        whole = kind not in (DictRecord, ListRecord) or len(x) > MANY
        about = (x.shape, x.dtype) if isinstance(x, np.ndarray) else ()
        return (type(x), *about, *self._recorded(kind(x), deep, whole))

    def _function(self, f: types.FunctionType) -> Any:
        parts: list[Any] = [types.FunctionType, id(f.__code__)]
        parts += [self.of(x, deep=False) for x in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values())]
        if self._is_library(f.__globals__.get("__name__")):
            return (*parts, *[self.of(x, deep=False) for x in contents_of(f)])
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            parts.append(self._cells.setdefault(id(cell), (len(self._cells), name, cell))[0])
        found = names_in(f.__code__)
        self._words |= found.words
        self._stores |= found.stores
        for name in found.variables:
            self._variable(VariablesRecord(f.__globals__), name, f.__globals__.get(name, MISSING))
        for name, attribute in found.attributes:
            owner = f.__globals__.get(name, MISSING)
            if isinstance(owner, types.ModuleType):
                if not self._is_library(owner.__name__):
                    self._variable(VariablesRecord(vars(owner)), attribute, vars(owner).get(attribute, MISSING))
                continue
            self._words.add(attribute)
            if isinstance(owner, type):
                self._classes[owner] = True
        for level, name in found.imports:
            path = resolve_name("." * level + name, f.__globals__.get("__package__") or "weft") if level else name
            module = sys.modules.get(path)
            if isinstance(module, types.ModuleType):
                self._namespace(module)
        if f.__dict__.keys() - {"__wrapped__"}:
            parts += self._recorded(DictRecord(f.__dict__), deep=False)
        return tuple(parts)

    def _variable(self, owner: Record, name: str, value: Any) -> None:
        """Note a variable, if it may be bound to something else: what was imported stays what it is."""
        if value is MISSING:
            return
        if isinstance(value, _THEMSELVES):
            module = value.__globals__.get("__name__") if isinstance(value, types.FunctionType) else _module_of(value)
            if is_third_party(module) and self._is_library(module):
                self._words.add(ANY)  # it may read any attribute of what it is given
            imported = getattr(value, "__name__", "") == name and (isinstance(value, _BUILT_IN) or self._is_library(module))
            if isinstance(value, types.ModuleType):
                self._namespace(value)
            if isinstance(value, types.ModuleType) or imported:
                return
        self._variables.setdefault(id(owner.owner), (owner, {}))[1][name] = None

    def _is_library(self, module: Any) -> bool:
        return is_library(module) and (self._package in ("", "weft") or module.partition(".")[0] != self._package)

    def close(self, *keys: Any) -> Content:
        """Follow the variables and the methods that functions name, and complete the key and the values."""
        found: dict[Any, tuple[Any, Any]] = {}  # by place: a value, and what ``_part`` says of it
        methods: dict[int, Any] = {}
        while self._follow(found, methods):
            pass
        parts = list(methods.values())
        for key, (record, names) in self._variables.items():
            parts.append((key, *self._joined(record, tuple(names), [found[key, name] for name in names])))
        for key, (record, kind) in self._objects.items():
            counting = [name for name in record.every if (key, name) in found]
            parts.append((kind, *self._joined(record, tuple(counting), [found[key, name] for name in counting])))
        if self._cells:
            _, of_cells, owners = zip(*self._cells.values(), strict=True)
            parts.append(self._joined(CellsRecord(owners), of_cells, [found[key] for key in self._cells]))
        self.key = Hashed((*keys, *parts))
        self._settle()
        start = 0
        for record in self.records:
            chosen = getattr(type(record.owner), "__run_time__", ())
            self.moving |= {start + n for n, (k, _) in enumerate(record.paths) if chosen and record.names[k] in chosen}
            start += len(record.paths)
        return self

    def _follow(self, found: dict[Any, tuple[Any, Any]], methods: dict[int, Any]) -> bool:
        """Look at the variables, attributes and methods that were named since; whether there were any."""
        before = len(found) + len(methods)
        for module in list(self._namespaces.values()):
            for name in self._words.intersection(vars(module)):
                self._variable(VariablesRecord(vars(module)), name, getattr(module, name))
        for key, (_, _, cell) in list(self._cells.items()):
            if key not in found:
                value = CellsRecord((cell,)).read()[1][0]
                found[key] = value, self._part(value, deep=False)
        for key, (variables, names) in list(self._variables.items()):
            fresh = tuple([name for name in names if (key, name) not in found])
            for name, value in zip(fresh, variables.again(fresh).read()[1] if fresh else (), strict=True):
                found[key, name] = value, self._part(value, deep=False)
        for key, (record, _) in list(self._objects.items()):
            for name, value in zip(*record.read(), strict=True):
                if (key, name) not in found:
                    found[key, name] = value, self._part(value, deep=True)
        for cls, direct in list(self._classes.items()):
            for method in methods_named(cls, self._words):
                if id(method) not in methods:
                    methods[id(method)] = self.of(method)
            for base, name in attributes_named(cls, self._words):
                self._variables.setdefault(id(base), (ClassRecord(base), {}))[1][name] = None
            for name in self._stores if direct else ():
                if not hasattr(cls, name):
                    self._variables.setdefault(id(cls), (ClassRecord(cls), {}))[1][name] = None
        unread = any([(key, name) not in found for key, (_, names) in self._variables.items() for name in names])
        return unread or len(found) + len(methods) > before

    def _joined(self, record: Record, names: tuple[Any, ...], found: list[tuple[Any, Any]]) -> tuple[Any, ...]:
        """Take down a record of variables or attributes that have been looked at; their names and keys."""
        paths = tuple([(k, way) for k, (_, (_, ways)) in enumerate(found) for way in ways])
        self.records.append(record.again(names, tuple([value for value, _ in found]), paths))
        return (names, *[part for _, (part, _) in found])

    def _settle(self) -> None:
        """Note what the records say; the values first, for another thread may be reading."""
        self._cells_of_values, self._keys_of_values = None, {}
        self.values = tuple([x for record in self.records for x in record.leaves()])
        kinds = set(map(type, self.values))
        self.numbers = not RUN_TIME.isdisjoint(kinds)
        self._untold = [record for record in self.records if not record.told]

    def cells(self) -> dict[int, int]:
        """Return the cells that arrays among the values show (by id), each with the number of the first."""
        if self._cells_of_values is None:
            self._cells_of_values = cells_of(self.values)
        return self._cells_of_values

    def key_of_values(self, moving: frozenset[int]) -> Hashed:
        """Return the key of the values. moving : those that each call tells"""
        found = self._keys_of_values.get(moving)
        if found is None:
            found = self._keys_of_values[moving] = key_of_values(self.values, self.cells(), moving)
        return found

    def untold(self) -> list[Record]:
        """Return the records of what does not tell of its changes."""
        return self._untold

    def refresh(self) -> bool:
        """Read the values again where something has changed. Return False if the structure has."""
        count = Structure.count
        if count == self.count and all([record.unchanged() for record in self._untold]):
            return True
        records = self.records.copy()
        for k, record in enumerate(records):
            if (record.told and count == self.count) or record.unchanged():
                continue
            renewed = record.renewed()
            if renewed is None:
                return False
            records[k] = renewed
        if any(new is not old for new, old in zip(records, self.records, strict=True)):
            self.records = records
            self._settle()
        self.count = count
        return True

    def watch(self) -> Iterator[list[Watched] | None]:
        """Yield what native code has to compare to see that nothing has changed; None where it cannot."""
        for record in self._untold:
            yield record.watch()

    def places(self) -> Iterator[tuple[Record, int, tuple[int, ...]]]:
        """Yield, for each value, its record, the number of the value, and the way into that."""
        for record in self.records:
            for k, way in record.paths:
                yield record, k, way


def _module_of(x: Any) -> Any:
    return x.__name__ if isinstance(x, types.ModuleType) else getattr(x, "__module__", None)


def has_content(x: Any) -> bool:
    """Whether ``x`` is a plain object: one with attributes, whose class does not say by a hash what makes two of them equal.

    Those of the standard library (files, loggers, locks) and of weft (loaders, jitted functions) are what they are.
    """
    kind = type(x)
    if isinstance(x, _THEMSELVES) or not (hasattr(x, "__dict__") or slots_of(kind)):
        return False
    if kind.__hash__ is None or dataclasses.is_dataclass(kind):
        return True
    library = kind.__module__.partition(".")[0]
    ours = library != "weft" and library not in sys.stdlib_module_names
    return kind.__hash__ is object.__hash__ and (ours or is_unnamed(kind))
