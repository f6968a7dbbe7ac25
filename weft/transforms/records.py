"""Records: the contents of an object, a container or the variables of functions, to detect changes at a later call.

A record has an owner, names and, for each name, a value. Arrays and constants (numbers, strings and the like) among the values,
and those in tuples among them, are its *leaves*, found through ``paths``. If only leaves have changed, a renewed record is
made; any other change is a change of structure, which needs another trace.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import is_
from typing import Any, ClassVar, Self

import numpy as np

from weft.array import Array
from weft.array.numpy_methods import element_strides
from weft.devices.native_protocols import WatchRow
from weft.dtypes.formats import EVERY
from weft.runtime.traced_int import RUN_TIME_TYPES, TRACED_TYPES
from weft.transforms.aliases import path_key
from weft.transforms.code_names import ANY, MISSING, cell_content
from weft.transforms.tree import attributes_of, slots_of

_SCALARS = frozenset([form.numpy.type for form in EVERY.values()])
CONSTANTS = frozenset((int, float, bool, complex, str, bytes, type(None))) | _SCALARS
EXACT = frozenset((float, complex)) | _SCALARS  # compared by their text: 0.0 and -0.0 differ, NaN equals NaN
MAX_TUPLE_LEAVES = 16  # leaves in a tuple; a longer tuple is compared as a whole

Form = Any  # True for a leaf; (type of tuple, forms of its items) for a tuple of leaves
Path = tuple[int, tuple[int, ...]]  # number of the value, and the indices into its nested tuples
Place = tuple[int, int, tuple[int, ...]]  # number of the record, and a path in it


def form_of(value: Any) -> Form | None:
    """Return the form of a leaf or of a tuple of leaves, None for anything else."""
    kind = type(value)
    if kind in CONSTANTS or kind in TRACED_TYPES or isinstance(value, Array):
        return True
    if not issubclass(kind, tuple) or not 0 < len(value) <= MAX_TUPLE_LEAVES:
        return None
    parts = tuple(map(form_of, value))
    return None if None in parts else (kind, parts)


def leaf_indices(form: Form) -> Iterable[tuple[int, ...]]:
    """Yield the tuple indices of each leaf of a form."""
    if form is True:
        yield ()
        return
    for k, part in enumerate(form[1]):
        for indices in leaf_indices(part):
            yield (k, *indices)


def at(value: Any, indices: tuple[int, ...]) -> Any:
    """Return the leaf at these indices into nested tuples."""
    for k in indices:
        value = value[k]
    return value


def same_constant(a: Any, b: Any) -> bool:
    """Return whether a program cannot distinguish two leaves. 0.0 and -0.0 differ; NaN equals NaN."""
    if a is b:
        return True
    kind = type(a)
    return kind is type(b) and kind in CONSTANTS and (repr(a) == repr(b) if kind in EXACT else a == b)


def map_leaves(value: Any, f: Callable[[Any, tuple[int, ...]], Any], indices: tuple[int, ...] = ()) -> Any:
    """Return ``value`` with ``f(leaf, indices)`` in the place of each leaf."""
    if not isinstance(value, tuple):
        return f(value, indices)
    parts = [map_leaves(part, f, (*indices, k)) for k, part in enumerate(value)]
    kind: Any = type(value)
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def put_leaves(records: Sequence[Record], leaves: Mapping[Place, Any]) -> dict[tuple[int, int], Any]:
    """Set leaves in the owners of records. Return the values set, by the numbers of the record and of the value in it."""
    placed: dict[tuple[int, int], Any] = {}
    for n, k, _ in leaves:
        if (n, k) not in placed:
            placed[n, k] = map_leaves(records[n].values[k], lambda x, i: leaves.get((n, k, i), x))  # noqa: B023  called at once
            records[n].put(k, placed[n, k])
    return placed


class Record:
    """The contents of one owner. Subclasses implement how its names and values are read, and how a value is set.

    paths : the places of its leaves
    deep : whether the owner belongs to an object, not to a variable
    """

    raises_count: ClassVar[bool] = False  # whether changes of the owner raise ``Structure.count``
    writable: ClassVar[bool] = True  # whether single values can be set

    def __init__(
        self, owner: Any, names: tuple = (), values: tuple = (), paths: tuple[Path, ...] = (), deep: bool = True,
    ) -> None:
        self.owner, self.names, self.values, self.paths, self.deep = owner, names, values, paths, deep

    def read(self) -> tuple[tuple, tuple]:
        """Return the owner's current names and values."""
        raise NotImplementedError

    def put(self, k: Any, value: Any) -> None:
        """Set value ``k`` in the owner."""
        raise TypeError(f"{type(self).__name__} sets no values")

    def reset(self) -> None:
        """Restore the recorded values in the owner."""
        names, values = self.read()
        now = dict(zip(names or range(len(values)), values, strict=True))
        for k, (name, value) in enumerate(zip(self.names or range(len(self.values)), self.values, strict=True)):
            if now.get(name, MISSING) is not value:
                self.put(k, value)

    def is_restructured(self, names: tuple, values: tuple) -> bool:
        """Return whether these current contents of the owner need :meth:`replace`: items were added, removed or reordered."""
        return False

    def replace(self, names: tuple, values: Sequence[Any]) -> None:
        """Replace all contents of the owner."""
        raise TypeError(f"{type(self).__name__} replaces no contents")

    def copy_with(self, names: tuple = (), values: tuple = (), paths: tuple[Path, ...] = ()) -> Self:
        """Return a new record of the same owner."""
        return type(self)(self.owner, names, values, paths, self.deep)

    def added_names(self) -> list[str]:
        """Return the names of attributes that the owner has gained."""
        return []

    def remove(self, name: str) -> None:
        """Remove an added attribute."""
        raise TypeError(f"{type(self).__name__} removes nothing")

    def place(self, k: int | str) -> tuple[int, Any]:
        """Return a unique identifier of value ``k``, or of the new attribute ``k``: the owner's id, and the name or index."""
        return id(self.owner), self.names[k] if self.names and isinstance(k, int) else k

    def is_unchanged(self) -> bool:
        """Return whether the owner holds the same objects under the same names."""
        names, values = self.read()
        return _are_same_objects(names, self.names) and _are_same_objects(values, self.values)

    def leaves(self) -> list[Any]:
        """Return the leaves. Run-time numbers, which a trace in another thread may have put in, are replaced by their values."""
        values = self.values
        result = [at(values[k], indices) if indices else values[k] for k, indices in self.paths]
        return (
            [x.value if type(x) in TRACED_TYPES else x for x in result]
            if not TRACED_TYPES.isdisjoint(map(type, result))
            else result
        )

    def renew(self) -> Record | None:
        """Return a record of the owner's current contents, None if more than leaves has changed."""
        names, values = self.read()
        if not _are_same_objects(names, self.names) or len(values) != len(self.values):
            return None
        for k, (old, new) in enumerate(zip(self.values, values, strict=True)):
            if old is not new and (form_of(new) != form_of(old) or not any([k == place for place, _ in self.paths])):
                return None
        return self.copy_with(names, values, self.paths)

    def watch_rows(self) -> list[WatchRow] | None:
        """Return the comparisons by which native code detects a change (see ``weft.devices.native_protocols``), None if it
        cannot."""
        return None


class DictRecord(Record):
    def read(self) -> tuple[tuple, tuple]:
        return tuple(self.owner), tuple(self.owner.values())

    def put(self, k: int, value: Any) -> None:
        self.owner[self.names[k]] = value

    def is_restructured(self, names: tuple, values: tuple) -> bool:
        return not _are_same_objects(names, self.names)

    def replace(self, names: tuple, values: Sequence[Any]) -> None:
        kind: Any = OrderedDict if isinstance(self.owner, OrderedDict) else dict  # not a subclass, such as Counter, which counts
        kind.clear(self.owner)
        for name, value in zip(names, values, strict=True):
            kind.__setitem__(self.owner, name, value)

    def reset(self) -> None:
        if self.is_restructured(*self.read()):
            self.replace(self.names, self.values)
        super().reset()

    def watch_rows(self) -> list[WatchRow] | None:
        if isinstance(self.owner, OrderedDict):  # its order differs from that of its underlying dict
            return None
        return _rows_of_dict(self.owner, self.names, self.values)


class ListRecord(Record):
    """The record of a list or a deque."""

    def read(self) -> tuple[tuple, tuple]:
        return (), tuple(self.owner)

    def put(self, k: int, value: Any) -> None:
        self.owner[k] = value

    def is_restructured(self, names: tuple, values: tuple) -> bool:
        return len(values) != len(self.values)

    def replace(self, names: tuple, values: Sequence[Any]) -> None:
        kind: Any = list if isinstance(self.owner, list) else deque
        kind.clear(self.owner)
        kind.extend(self.owner, values)

    def reset(self) -> None:
        if self.is_restructured(*self.read()):
            self.replace((), self.values)
        super().reset()

    def watch_rows(self) -> list[WatchRow] | None:
        if type(self.owner) is not list:
            return None
        rows: list[WatchRow] = [("items", self.owner, len(self.values), None)]
        return rows + [("item", self.owner, k, value) for k, value in enumerate(self.values)]


class SetRecord(Record):
    """The record of a set. Its items are not leaves, because a single item cannot be replaced."""

    writable = False
    def read(self) -> tuple[tuple, tuple]:
        return (), tuple(self.owner)

    def is_restructured(self, names: tuple, values: tuple) -> bool:
        return True

    def replace(self, names: tuple, values: Sequence[Any]) -> None:
        set.clear(self.owner)
        set.update(self.owner, values)

    def reset(self) -> None:
        self.replace((), self.values)


class BufferRecord(Record):
    """The record of a NumPy array or a bytearray: a digest of its bytes.

    saved_copy : a copy of the owner's content, for the time of a trace
    """

    writable = False
    saved_copy: Any = None
    def read(self) -> tuple[tuple, tuple]:
        x = self.owner
        return (), (bytes(x) if isinstance(x, bytearray) else hashlib.sha1(x.tobytes()).digest(),)

    def is_unchanged(self) -> bool:
        return self.read()[1] == self.values

    def is_restructured(self, names: tuple, values: tuple) -> bool:
        return True

    def replace(self, names: tuple, values: Sequence[Any]) -> None:
        _write_buffer(self.owner, values[0])

    def save(self) -> None:
        """Keep a copy of the content for :meth:`reset`."""
        self.saved_copy = self.owner.copy()

    def reset(self) -> None:
        if self.saved_copy is not None:
            _write_buffer(self.owner, self.saved_copy)

    def renew(self) -> Record | None:
        return self if self.is_unchanged() else None


def _write_buffer(x: Any, content: Any) -> None:
    if isinstance(x, bytearray):
        x[:] = content
    else:
        x[...] = content


class ItemsRecord(Record):
    """The record of a NumPy array of Python objects."""

    def read(self) -> tuple[tuple, tuple]:
        return (), tuple(self.owner.ravel().tolist())

    def put(self, k: int, value: Any) -> None:
        self.owner.flat[k] = value


class ObjectRecord(Record):
    """The record of an object's attributes, including slots.

    words : attribute names in the code of the function and its callees; other attributes are not recorded. None: all are
    every : the names of all attributes
    """

    def __init__(self, owner: Any, *read: Any, words: Collection[str] | None = None) -> None:
        super().__init__(owner, *read)
        self.words = words
        self.every = tuple(attributes_of(owner))

    def copy_with(self, *read: Any) -> Self:
        return type(self)(self.owner, *read, self.deep, words=self.words)

    def counts(self, name: str, value: Any) -> bool:
        """Return whether an attribute is recorded."""
        return self.words is None or name in self.words or ANY in self.words

    def read(self) -> tuple[tuple, tuple]:
        attributes = attributes_of(self.owner)
        if self.words is not None:
            attributes = {name: value for name, value in attributes.items() if self.counts(name, value)}
        return tuple(attributes), tuple(attributes.values())

    def is_unchanged(self) -> bool:
        attributes = attributes_of(self.owner)
        if not _are_same_objects(attributes, self.every):
            return False
        whole = len(self.names) == len(self.every)
        return all(map(is_, attributes.values() if whole else map(attributes.get, self.names), self.values))

    def put(self, k: int | str, value: Any) -> None:
        """Set the value of number ``k``, or of a new attribute ``k``. MISSING deletes the attribute."""
        name, attributes = k if isinstance(k, str) else self.names[k], getattr(self.owner, "__dict__", {})
        if value is MISSING:
            self.remove(name)
        elif name in attributes:
            attributes[name] = value
        else:
            object.__setattr__(self.owner, name, value)

    def added_names(self) -> list[str]:
        return [name for name in attributes_of(self.owner) if name not in self.every]

    def remove(self, name: str) -> None:
        object.__delattr__(self.owner, name)

    def reset(self) -> None:
        for name in self.added_names():
            self.remove(name)
        super().reset()

    def watch_rows(self) -> list[WatchRow] | None:
        if slots_of(type(self.owner)):
            return None
        attributes = vars(self.owner)
        if type(attributes) is not dict:  # a mappingproxy, as of protobuf's messages, which are written in C
            return None
        if len(self.names) == len(self.every):
            return _rows_of_dict(attributes, self.names, self.values)
        named = zip(self.names, self.values, strict=True)
        return [("keys", attributes, len(self.every), None), *[("variable", attributes, n, v) for n, v in named]]


class ModuleRecord(ObjectRecord):
    """The record of a module, whose changes raise ``Structure.count``: all attributes except constants that no code names."""

    raises_count = True
    def counts(self, name: str, value: Any) -> bool:
        return super().counts(name, value) or not _is_constant(value)


def _is_constant(value: Any) -> bool:
    """Return whether a value is a constant or a tuple, list, dict or set of constants, judged by its first ``_MAX_ITEMS_JUDGED``
    items."""
    if isinstance(value, dict):
        value = list(itertools.islice(value.values(), _MAX_ITEMS_JUDGED))
    elif isinstance(value, list | tuple | set | frozenset | deque):
        value = list(itertools.islice(value, _MAX_ITEMS_JUDGED))
    else:
        return type(value) in CONSTANTS or type(value) in TRACED_TYPES
    return all(map(_is_constant, value))


_MAX_ITEMS_JUDGED = 8


class OptimizerRecord(ModuleRecord):
    """The record of the attributes that an object's method ``__structure__`` names, whose changes raise ``Structure.count``."""

    def added_names(self) -> list[str]:
        return []

    def read(self) -> tuple[tuple, tuple]:
        attributes, names = vars(self.owner), self.owner.__structure__()
        return names, tuple([attributes[name] for name in names])


class CellsRecord(Record):
    """The record of closure variables: ``owner`` is a tuple of cells, ``names`` their names."""

    def read(self) -> tuple[tuple, tuple]:
        return self.names, tuple(map(cell_content, self.owner))

    def place(self, k: Any) -> tuple[int, Any]:
        return id(self.owner[k]), None

    def put(self, k: int, value: Any) -> None:
        if value is not MISSING:
            self.owner[k].cell_contents = value
        else:
            del self.owner[k].cell_contents

    def watch_rows(self) -> list[WatchRow] | None:
        if any([value is MISSING for value in self.values]):
            return None
        return [("cell", cell, None, value) for cell, value in zip(self.owner, self.values, strict=True)]


class VariablesRecord(Record):
    """The record of global variables: ``owner`` is the dict of a Python module, ``names`` are those in the code of functions."""

    def read(self) -> tuple[tuple, tuple]:
        get = (self.owner if isinstance(self.owner, dict) else vars(self.owner)).get
        return self.names, tuple([get(name, MISSING) for name in self.names])

    def put(self, k: int, value: Any) -> None:
        if value is not MISSING:
            self.owner[self.names[k]] = value
        else:
            self.owner.pop(self.names[k], None)

    def watch_rows(self) -> list[WatchRow] | None:
        return self._rows(self.owner)

    def _rows(self, variables: dict) -> list[WatchRow]:
        """Return the comparisons of the variables in a dict. An unbound name is bound only if the dict grows."""
        bound = [pair for pair in zip(self.names, self.values, strict=True) if pair[1] is not MISSING]
        rows: list[WatchRow] = [("variable", variables, name, value) for name, value in bound]
        return rows if len(bound) == len(self.names) else [("keys", variables, len(variables), None), *rows]


class ClassRecord(VariablesRecord):
    """The record of the attributes and methods of a class that functions read through its name or its instances."""

    def put(self, k: int, value: Any) -> None:
        if value is not MISSING:
            setattr(self.owner, self.names[k], value)
        elif self.names[k] in vars(self.owner):
            delattr(self.owner, self.names[k])

    def watch_rows(self) -> list[WatchRow] | None:
        (attributes,) = gc.get_referents(vars(self.owner))  # the dict behind the mappingproxy
        return self._rows(attributes)


def _are_same_objects(now: Collection[Any], before: Sequence[Any]) -> bool:
    return len(now) == len(before) and all(map(is_, now, before))


def _rows_of_dict(x: dict, names: tuple, values: tuple) -> list[WatchRow]:
    rows: list[WatchRow] = [("keys", x, len(names), None)]
    return rows + [("next item", x, name, value) for name, value in zip(names, values, strict=True)]


def read_whole(x: Any) -> Record:
    """Return a record of all contents of a container that :func:`record_for` knows, without leaves."""
    kind: Any = record_for(x)
    return kind(x, *kind(x).read())


def read_argument(x: Any) -> Record:
    """Return a record of all contents of a dataclass, dict or list."""
    return read_whole(x) if isinstance(x, dict | list) else ObjectRecord(x, *ObjectRecord(x).read())


def record_for(x: Any) -> type[Record] | None:
    """Return the record class for a container, None for anything else."""
    if isinstance(x, dict):
        return DictRecord
    if isinstance(x, list | deque):
        return ListRecord
    if isinstance(x, set):
        return SetRecord
    if isinstance(x, np.ndarray):
        return ItemsRecord if x.dtype.hasobject else BufferRecord
    return BufferRecord if isinstance(x, bytearray) else None


def key_of_constant(x: Any) -> tuple[type, Any]:
    """Return the key of a constant. The repr of a float tells NaN from a number, and 0.0 from -0.0."""
    return type(x), repr(x) if type(x) in EXACT else x


class HashedKey:
    """A long key with a cached hash."""

    __slots__ = ("_hash", "key")

    def __init__(self, key: Any) -> None:
        self.key, self._hash = key, hash(key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, HashedKey) and self._hash == other._hash and self.key == other.key)


def key_of(x: Array) -> tuple[Any, ...]:
    """Return the key of an array: shape and dtype of its cell, its class, memory layout and view path."""
    if x._base is None:
        node = x.node
        return node.shape, node.dtype, type(x), element_strides(x), ()
    node = x.cell.node
    return node.shape, node.dtype, type(x), element_strides(x), path_key(x)


def aliases_of(arrays: Sequence[Array]) -> list[tuple[int, int]]:
    """Return, for each array, the number of the first identical one, and of the first that shows the same cell."""
    same: dict[int, int] = {}
    cells: dict[int, int] = {}
    return [(same.setdefault(id(x), k), cells.setdefault(id(x.cell), k)) for k, x in enumerate(arrays)]


def cells_of(values: Sequence[Any]) -> dict[int, int]:
    """Map the id of each cell that arrays among the values show to the number of the first such value."""
    cells: dict[int, int] = {}
    for k, x in enumerate(values):
        if isinstance(x, Array):
            cells.setdefault(id(x.cell), k)
    return cells


def key_of_values(values: Sequence[Any], cells: Mapping[int, int], moving: Collection[int]) -> HashedKey:
    """Return the key of values. cells : as :func:`cells_of` returns them. moving : numbers of the run-time numbers among them"""
    keys: list[Any] = []
    same: dict[int, int] = {}
    for k, x in enumerate(values):
        kind = type(x)
        if kind in CONSTANTS:
            keys.append(kind if k in moving and kind in RUN_TIME_TYPES else key_of_constant(x))
        else:
            first, cell = same.setdefault(id(x), k), cells[id(x.cell)]
            keys.append(first if first < k else (key_of(x), cell if cell < k else None))
    return HashedKey(tuple(keys))
