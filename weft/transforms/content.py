"""Content: the contents of functions and objects, as a key, a list of values, and records to detect changes.

Equal keys mean equal structure: the same code, classes, names and containers. Arrays and constants (numbers, strings and the
like) in attributes, items and variables are not in the key but in the list of values, in a fixed order: the values of equal
keys correspond to each other.

Changes of modules and optimizers raise ``Structure.count``. Lists, dicts, sets, NumPy arrays, plain objects and variables do
not report changes: their records are compared at each call.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import gc
import sys
import types
from collections.abc import Iterator
from importlib.util import resolve_name
from typing import Any

import numpy as np

from weft.array import Array
from weft.runtime.traced_int import RUN_TIME_TYPES
from weft.transforms import code_names, records
from weft.transforms.records import CONSTANTS, HashedKey, cells_of, key_of_values
from weft.transforms.tree import Structure, is_module, is_only_attributes, slots_of

MAX_COMPARED_BYTES = 1 << 20  # bytes: larger NumPy arrays are compared by identity, since reading them at each call would be slow
MAX_KEY_CONSTANTS = 1000  # items: in longer containers the constants are part of the key
MAX_VARIABLE_ITEMS = 100  # items: longer containers in variables are compared by identity
_ITERATORS = ("builtins", "itertools")
_BUILT_IN = (types.BuiltinFunctionType, np.ufunc)
_THEMSELVES = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, np.ufunc, staticmethod)


class StaticKey:
    """The content of functions and objects: :meth:`of` makes the key of one, :meth:`close` follows the variables in their code.

    words : attribute names in the code of the function and its callees; :meth:`of` adds to them
    unrecorded_values : containers that are compared by identity
    iterators : whether iterators of Python are reached, whose state cannot be compared
    typed_names : names whose class the code reads by ``type(...)``: numbers of these names are static
    package : the name of the jitted function's Python module; functions of this package are followed even if it is installed
    kept_alive : objects whose ids are in keys, kept alive so that the ids stay unique
    key : of everything recorded, and of the keys passed to :meth:`close`
    base : the content of the function, for the content of its arguments: its records and values come first
    records : of everything that may change
    checked_records : those whose owners do not raise ``Structure.count``
    values : arrays and constants in the records
    numbers : whether run-time numbers are among the values
    moving : numbers of the values that are run-time numbers from the first call on
    """

    def __init__(
        self, words: set[str] | None = None, package: Any = "", base: StaticKey | None = None,
    ) -> None:
        self.kept_alive: list[Any] = []
        self.key: Any = None
        self.base = base
        self._records: list[records.Record] = []  # without those of ``base``
        self.moving: frozenset[int] = frozenset()
        self.count = Structure.count
        self.unrecorded_values: list[Any] = [] if base is None else base.unrecorded_values.copy()
        self.iterators: bool = base is not None and base.iterators
        self.typed_names: frozenset[str] = frozenset() if base is None else base.typed_names
        self._package = package.partition(".")[0] if isinstance(package, str) else ""
        # id -> number, for cycles and shared objects
        self._object_numbers: dict[int, int] = {} if base is None else base._object_numbers.copy()
        self._cells: dict[int, tuple[int, str, types.CellType]] = {}  # number, name of the variable, and the cell
        self._variables: dict[int, tuple[records.Record, dict[str, None]]] = {}  # by owner's id: an empty record, and the names
        self._objects: dict[int, tuple[records.ObjectRecord, Any]] = {}  # by id: an empty record, and the object's class or id
        self._classes: dict[type, bool] = {}  # True for a class that is reached as itself, not by its objects
        self._namespaces: dict[int, types.ModuleType] = {}  # Python modules of the user, by id
        self._words: set[str] = set() if words is None else words
        self._stores: set[str] = set()  # names of attributes that functions may set
        self._update_values()

    def of(self, x: Any, deep: bool = True) -> Any:
        """Return the key of ``x``: constants by value, functions by code, objects by class and structure, Arrays by identity.

        deep : whether ``x`` belongs to an object. If it is a variable, a long container or NumPy array is compared by identity
        """
        kind = type(x)
        if kind in CONSTANTS:
            return records.key_of_constant(x)
        if isinstance(x, tuple | frozenset):
            return (kind, *[self.of(item, deep) for item in x])
        if isinstance(x, Array):
            return (self._keep_alive(x), x.shape, x.dtype)
        if id(x) in self._object_numbers:
            return (StaticKey, self._object_numbers[id(x)])
        self._object_numbers[self._keep_alive(x)] = len(self._object_numbers)
        if is_module(x):
            return self._object(x, records.ModuleRecord)
        if hasattr(kind, "__structure__"):
            return (self._object(x, records.OptimizerRecord), *map(self.of, x.__parts__()))
        if isinstance(x, functools.partial):
            return (kind, self.of(x.func, deep), self.of(x.args, deep), self.of(x.keywords, deep))
        if isinstance(x, types.MethodType):
            if type(x.__self__).__module__ == "weft.functions.support.arguments":
                return (kind, id(x.__func__))  # one of weft's functions, whose caches are no state of the program
            return (kind, self.of(x.__func__), self.of(x.__self__))
        if isinstance(x, types.BuiltinMethodType) and records.record_for(x.__self__) is not None:
            return (kind, x.__name__, self.of(x.__self__))  # such as ``push = items.append``
        if isinstance(x, types.FunctionType):
            return self._function(x)
        if kind in (staticmethod, classmethod):
            return (kind, self.of(x.__func__, deep))
        if kind is property:
            return (kind, self.of(x.fget, deep), self.of(x.fset, deep), self.of(x.fdel, deep))
        if isinstance(x, types.ModuleType):
            self._namespace(x)
            return (kind, id(x))
        if isinstance(x, type):
            if code_names.is_unnamed(x) or not self._is_library(x.__module__):
                self._classes[x] = True
            return (kind, x)
        container = records.record_for(x)
        if container is not None:
            return self._container(x, container, deep)
        if has_content(x):
            return self._object(x, records.ObjectRecord)
        if kind is types.MappingProxyType:
            return (kind, *[self.of(behind, deep) for behind in gc.get_referents(x)])
        if hasattr(kind, "__next__") and kind.__module__ in _ITERATORS:
            self.iterators = True
        inner = getattr(x, "__wrapped__", None)
        if inner is not None and callable(x):
            return (id(x), self.of(inner, deep))
        try:
            hash(x)
        except (TypeError, ValueError):  # ValueError: a memoryview that can be written
            return id(x)
        return (kind, x)

    def _namespace(self, module: types.ModuleType) -> None:
        """Register a Python module. :meth:`close` reads those of its variables that the code names."""
        if not self._is_library(module.__name__):
            self._namespaces[id(module)] = module

    def _keep_alive(self, x: Any) -> int:
        self.kept_alive.append(x)
        return id(x)

    def _object(self, x: Any, record: type[records.ObjectRecord]) -> Any:
        """Register an object. :meth:`close` records its attributes when all attribute names in the code are known."""
        kind = type(x)
        self._classes.setdefault(kind, False)
        library = self._is_library(kind.__module__) and not code_names.is_unnamed(kind)
        everything = library or dataclasses.is_dataclass(kind)  # all attributes are read
        same = is_only_attributes(kind) and record is not records.OptimizerRecord
        self._objects[id(x)] = record(x, words=None if everything else self._words), kind if same else id(x)
        return (StaticKey, self._object_numbers[id(x)])

    def _record(self, record: records.Record, deep: bool = True, whole: bool = False) -> tuple[Any, ...]:
        """Read and add a record, and return the key of its structure. ``whole``: constants are part of the key, not values."""
        names, values = record.read()
        by_value = [whole and (not record.writable or not isinstance(value, Array)) for value in values]
        parts = [(self.of(x, deep), ()) if whole else self._part(x, deep) for x, whole in zip(values, by_value, strict=True)]
        return self._add_record(record, names, list(zip(values, parts, strict=True)))

    def _part(self, value: Any, deep: bool) -> tuple[Any, tuple[tuple[int, ...], ...]]:
        """Return the key of a value of a record, and the tuple indices of the leaves in it."""
        form: records.Form | None = records.form_of(value)
        return (self.of(value, deep), ()) if form is None else (form, tuple(records.leaf_indices(form)))

    def _container(self, x: Any, kind: type[records.Record], deep: bool) -> Any:
        if isinstance(x, np.ndarray) and (not deep or x.nbytes > MAX_COMPARED_BYTES):
            if x.nbytes <= MAX_COMPARED_BYTES:
                self.unrecorded_values.append(x)
            return (id(x), x.shape, x.dtype)
        if not deep and len(x) > MAX_VARIABLE_ITEMS:
            self.unrecorded_values.append(x)
            return id(x)
        whole = kind not in (records.DictRecord, records.ListRecord) or len(x) > MAX_KEY_CONSTANTS
        array_type = (x.shape, x.dtype) if isinstance(x, np.ndarray) else ()
        return (type(x), *array_type, *self._record(kind(x), deep, whole))

    def _function(self, f: types.FunctionType) -> Any:
        parts: list[Any] = [types.FunctionType, id(f.__code__)]
        parts += [self.of(x, deep=False) for x in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values())]
        if self._is_library(f.__globals__.get("__name__")):
            return (*parts, *[self.of(x, deep=False) for x in code_names.closure_contents(f)])
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            parts.append(self._cells.setdefault(id(cell), (len(self._cells), name, cell))[0])
        names = code_names.names_in(f.__code__)
        self._words |= names.words
        self.typed_names |= names.typed_names
        self._stores |= names.stores
        for name in names.variables:
            self._variable(records.VariablesRecord(f.__globals__), name, f.__globals__.get(name, code_names.MISSING))
        for name in names.bound_variables:
            self._note(records.VariablesRecord(f.__globals__), name)
        for name, attribute in names.attributes:
            owner = f.__globals__.get(name, code_names.MISSING)
            if isinstance(owner, types.ModuleType):
                if not self._is_library(owner.__name__):
                    value = vars(owner).get(attribute, code_names.MISSING)
                    self._variable(records.VariablesRecord(vars(owner)), attribute, value)
                continue
            self._words.add(attribute)
            if isinstance(owner, type):
                self._classes[owner] = True
        for level, name in names.imports:
            path = resolve_name("." * level + name, f.__globals__.get("__package__") or "weft") if level else name
            module = sys.modules.get(path)
            if isinstance(module, types.ModuleType):
                self._namespace(module)
        if f.__dict__.keys() - {"__wrapped__"}:
            parts += self._record(records.DictRecord(f.__dict__), deep=False)
        return tuple(parts)

    def _variable(self, owner: records.Record, name: str, value: Any) -> None:
        """Register a variable, unless it is an imported module or function, which is assumed constant."""
        if value is code_names.MISSING:
            if not hasattr(builtins, name):
                self._note(owner, name)
            return
        if isinstance(value, _THEMSELVES):
            module = value.__globals__.get("__name__") if isinstance(value, types.FunctionType) else _module_of(value)
            if code_names.is_third_party(module) and self._is_library(module):
                self._words.add(code_names.ANY)  # it may read any attribute of its arguments
            imported = getattr(value, "__name__", "") == name and (isinstance(value, _BUILT_IN) or self._is_library(module))
            if isinstance(value, types.ModuleType):
                self._namespace(value)
            if isinstance(value, types.ModuleType) or imported:
                return
        self._note(owner, name)

    def _note(self, owner: records.Record, name: str) -> None:
        """Register a variable or an attribute of a class."""
        self._variables.setdefault(id(owner.owner), (owner, {}))[1][name] = None

    def _is_library(self, module: Any) -> bool:
        return code_names.is_library(module) and (self._package in ("", "weft") or module.partition(".")[0] != self._package)

    def close(self, *keys: Any) -> StaticKey:
        """Follow the variables and methods in the code of functions, and complete the key and the values."""
        parts_by_place: dict[Any, tuple[Any, Any]] = {}  # by place: a value, and the result of ``_part`` for it
        methods: dict[int, Any] = {}
        while self._follow(parts_by_place, methods):
            pass
        parts = list(methods.values())
        for key, (record, names) in self._variables.items():
            parts.append((key, *self._add_record(record, tuple(names), [parts_by_place[key, name] for name in names])))
        for key, (record, kind) in self._objects.items():
            counting = [name for name in record.every if (key, name) in parts_by_place]
            parts.append((kind, *self._add_record(record, tuple(counting), [parts_by_place[key, name] for name in counting])))
        if self._cells:
            _, of_cells, owners = zip(*self._cells.values(), strict=True)
            parts.append(self._add_record(records.CellsRecord(owners), of_cells, [parts_by_place[key] for key in self._cells]))
        self.key = HashedKey((self.base and self.base.key, *keys, *parts))
        self._update_values()
        start = 0
        for record in self.records:
            chosen = getattr(type(record.owner), "__run_time__", ())
            self.moving |= {start + n for n, (k, _) in enumerate(record.paths) if chosen and record.names[k] in chosen}
            start += len(record.paths)
        return self

    def _follow(self, parts_by_place: dict[Any, tuple[Any, Any]], methods: dict[int, Any]) -> bool:
        """Read the variables, attributes and methods registered since the last call. Return whether there were any."""
        before = len(parts_by_place) + len(methods)
        for module in list(self._namespaces.values()):
            for name in self._words.intersection(vars(module)):
                self._variable(records.VariablesRecord(vars(module)), name, getattr(module, name))
            for name in self._stores.difference(vars(module)):
                self._note(records.VariablesRecord(vars(module)), name)
        for key, (_, _, cell) in list(self._cells.items()):
            if key not in parts_by_place:
                value = records.CellsRecord((cell,)).read()[1][0]
                parts_by_place[key] = value, self._part(value, deep=False)
        for key, (variables, names) in list(self._variables.items()):
            fresh = tuple([name for name in names if (key, name) not in parts_by_place])
            for name, value in zip(fresh, variables.copy_with(fresh).read()[1] if fresh else (), strict=True):
                parts_by_place[key, name] = value, self._part(value, deep=False)
        for key, (record, _) in list(self._objects.items()):
            for name, value in zip(*record.read(), strict=True):
                if (key, name) not in parts_by_place:
                    parts_by_place[key, name] = value, self._part(value, deep=True)
        for cls, direct in list(self._classes.items()):
            for _, _, value in code_names.find_attributes(cls, self._words):
                for method in code_names.functions_in(value):
                    if id(method) not in methods:
                        methods[id(method)] = self.of(method)
            # afterwards, so that the order of the names does not depend on which words were known before
            for owners, name, _ in code_names.find_attributes(cls, self._words):
                for owner in owners:
                    self._note(records.ClassRecord(owner), name)
            for name in self._stores if direct else ():
                if not hasattr(cls, name):
                    self._note(records.ClassRecord(cls), name)
        unread = any([(key, name) not in parts_by_place for key, (_, names) in self._variables.items() for name in names])
        return unread or len(parts_by_place) + len(methods) > before

    def _add_record(self, record: records.Record, names: tuple[Any, ...], values: list[tuple[Any, Any]]) -> tuple[Any, ...]:
        """Add a record of values that have been read, and return its names and the keys of the values."""
        paths = tuple([(k, indices) for k, (_, (_, index_paths)) in enumerate(values) for indices in index_paths])
        self._records.append(record.copy_with(names, tuple([value for value, _ in values]), paths))
        return (tuple([name if type(name) is str else self.of(name) for name in names]), *[part for _, (part, _) in values])

    def _update_values(self) -> None:
        """Update the values and what depends on them. The values come first: another thread may be reading."""
        base = self.base
        self._cells_of_values: dict[int, int] | None = None
        self._keys_of_values: dict[frozenset[int], HashedKey] = {}
        self._base_values = () if base is None else base.values
        self.values: tuple[Any, ...] = (*self._base_values, *[x for record in self._records for x in record.leaves()])
        self.numbers = not RUN_TIME_TYPES.isdisjoint(map(type, self.values))
        self._untold = self.checked_records = [record for record in self._records if not record.raises_count]
        self.records = self._records
        if base is not None:
            self.records, self.checked_records = [*base.records, *self._records], [*base.checked_records, *self._untold]

    def cells(self) -> dict[int, int]:
        """Map the id of each cell that arrays among the values show to the number of the first such value."""
        if self._cells_of_values is None:
            self._cells_of_values = cells_of(self.values)
        return self._cells_of_values

    def key_of_values(self, moving: frozenset[int]) -> HashedKey:
        """Return the key of the values, cached. moving : numbers of the run-time numbers among them"""
        cached = self._keys_of_values.get(moving)
        if cached is None:
            cached = self._keys_of_values[moving] = key_of_values(self.values, self.cells(), moving)
        return cached

    def refresh(self) -> bool:
        """Read changed values again. Return False if the structure has changed."""
        base, count, changed = self.base, Structure.count, False
        if base is not None and not base.refresh():
            return False
        if count != self.count or not all([record.is_unchanged() for record in self._untold]):
            current: list[Any] = [
                record if (record.raises_count and count == self.count) or record.is_unchanged() else record.renew()
                for record in self._records
            ]
            if None in current:
                return False
            changed = any([new is not old for new, old in zip(current, self._records, strict=True)])
            self._records = current
        if changed or (base is not None and base.values is not self._base_values):
            self._update_values()
        self.count = count
        return True

    def places(self) -> Iterator[tuple[records.Record, int, tuple[int, ...]]]:
        """Yield, for each leaf, its record, the number of the value, and the tuple indices into the value."""
        for record in self.records:
            for k, indices in record.paths:
                yield record, k, indices


def _module_of(x: Any) -> Any:
    return x.__name__ if isinstance(x, types.ModuleType) else getattr(x, "__module__", None)


def has_content(x: Any) -> bool:
    """Return whether ``x`` is a plain object: it has attributes, and its class defines no hash by value.

    Objects of the standard library (files, loggers, locks) and of weft (loaders, jitted functions) are compared by identity.
    """
    kind = type(x)
    if isinstance(x, _THEMSELVES) or not (hasattr(x, "__dict__") or slots_of(kind)):
        return False
    if kind.__hash__ is None or dataclasses.is_dataclass(kind):
        return True
    library = kind.__module__.partition(".")[0]
    ours = library != "weft" and library not in sys.stdlib_module_names
    return kind.__hash__ is object.__hash__ and (ours or code_names.is_unnamed(kind))
