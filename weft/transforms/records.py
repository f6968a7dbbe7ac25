"""Records: what an object, a container or the variables of functions held, and whether they still hold it.

A record has an owner, names and, for each name, a value. Arrays and constants (numbers, strings and the like) among the values,
and those in tuples among them, are its *leaves*: ``paths`` says where each is. A record whose leaves alone have changed is
renewed; any other change is one of structure.
"""

from __future__ import annotations

import gc
import hashlib
import itertools
import types
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Sequence
from operator import attrgetter, is_, itemgetter
from typing import Any, ClassVar, Self

import numpy as np

from weft.array import Array
from weft.devices.native_protocols import Watched
from weft.runtime.traced_int import GIVEN
from weft.transforms.reach import ANY
from weft.transforms.tree import attributes_of, slots_of
from weft.transforms.values import CONSTANTS, EXACT

MISSING: Any = object()  # the value of a variable that is not bound
LONGEST = 16  # leaves in a tuple; a longer tuple is compared as a whole
_content = attrgetter("cell_contents")

Form = Any  # True for a leaf; (type of tuple, forms of its items) for a tuple of leaves
Path = tuple[int, tuple[int, ...]]  # number of the value, and the way into its tuples


def form_of(value: Any) -> Form | None:
    """Return the form of a leaf or of a tuple of leaves, None of anything else."""
    kind = type(value)
    if kind in CONSTANTS or kind in GIVEN or isinstance(value, Array):
        return True
    if not issubclass(kind, tuple) or not 0 < len(value) <= LONGEST:
        return None
    parts = tuple(map(form_of, value))
    return None if None in parts else (kind, parts)


def ways_into(form: Form) -> Iterable[tuple[int, ...]]:
    """Yield the way to each leaf of a form."""
    if form is True:
        yield ()
        return
    for k, part in enumerate(form[1]):
        for way in ways_into(part):
            yield (k, *way)


def at(value: Any, way: tuple[int, ...]) -> Any:
    """Return the leaf to which ``way`` leads."""
    for k in way:
        value = value[k]
    return value


def same_constant(a: Any, b: Any) -> bool:
    """Whether two leaves are one and the same to a program: there are two zeros, and NaN."""
    if a is b:
        return True
    kind = type(a)
    return kind is type(b) and kind in CONSTANTS and (repr(a) == repr(b) if kind in EXACT else a == b)


def is_plain(value: Any) -> bool:
    """Whether there are no run-time numbers in a leaf or a tuple of leaves."""
    return all(map(is_plain, value)) if isinstance(value, tuple) else type(value) not in GIVEN


def replaced(value: Any, changes: dict[tuple[int, ...], Any], way: tuple[int, ...] = ()) -> Any:
    """Return ``value`` with other leaves where the ways lead."""
    if way in changes:
        return changes[way]
    if not isinstance(value, tuple):
        return value
    parts = [replaced(part, changes, (*way, k)) for k, part in enumerate(value)]
    return tuple_of(type(value), parts)


def tuple_of(kind: Any, parts: Sequence[Any]) -> Any:
    """Return a tuple, or a named one, of these parts."""
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


class Record:
    """What one owner held. Subclasses say how its names and values are read, and how a value is set.

    paths : where its leaves are
    deep : whether it belongs to an object, and not to variables
    """

    told: ClassVar[bool] = False  # whether the owner counts its changes in ``Structure.count``
    writable: ClassVar[bool] = True  # whether single values can be set
    __slots__ = ("deep", "names", "owner", "paths", "values")

    def __init__(
        self, owner: Any, names: tuple = (), values: tuple = (), paths: tuple[Path, ...] = (), deep: bool = True,
    ) -> None:
        self.owner, self.names, self.values, self.paths, self.deep = owner, names, values, paths, deep

    def read(self) -> tuple[tuple, tuple]:
        """Return the names and the values that the owner has now."""
        raise NotImplementedError

    def put(self, k: Any, value: Any) -> None:
        """Set the value of number ``k``."""
        raise TypeError(f"{type(self).__name__} sets no values")

    def reset(self) -> None:
        """Let the owner hold again what it held."""
        for k, value in enumerate(self.values):
            if value is not MISSING:
                self.put(k, value)

    def again(self, names: tuple = (), values: tuple = (), paths: tuple[Path, ...] = ()) -> Self:
        """Return a record of the same owner."""
        return type(self)(self.owner, names, values, paths, self.deep)

    def added(self) -> list[str]:
        """Return the names of attributes that the owner has now and did not have."""
        return []

    def remove(self, name: str) -> None:
        """Remove an added attribute."""
        raise TypeError(f"{type(self).__name__} removes nothing")

    def place(self, k: int | str) -> tuple[int, Any]:
        """Return what tells the value of number ``k``, or of a new attribute ``k``, from all others."""
        return id(self.owner), self.names[k] if self.names and isinstance(k, int) else k

    def unchanged(self) -> bool:
        """Whether the owner holds the very things that it held."""
        names, values = self.read()
        return _alike(names, self.names) and _alike(values, self.values)

    def leaves(self) -> list[Any]:
        """Return the leaves; another thread may be tracing with run-time numbers in their places."""
        values = self.values
        found = [at(values[k], way) if way else values[k] for k, way in self.paths]
        return [x.value if type(x) in GIVEN else x for x in found] if not GIVEN.isdisjoint(map(type, found)) else found

    def renewed(self) -> Record | None:
        """Return a record of what the owner holds now, None if more than leaves has changed."""
        names, values = self.read()
        if not _alike(names, self.names) or len(values) != len(self.values):
            return None
        for k, (old, new) in enumerate(zip(self.values, values, strict=True)):
            if old is not new and (form_of(new) != form_of(old) or not any([k == place for place, _ in self.paths])):
                return None
        return self.again(names, values, self.paths)

    def watch(self) -> list[Watched] | None:
        """Return rows by which a device sees in a warm call that nothing has changed, None if there are none.

        See ``weft.devices.native_protocols``."""
        return None


class DictRecord(Record):
    __slots__ = ()

    def read(self) -> tuple[tuple, tuple]:
        return tuple(self.owner), tuple(self.owner.values())

    def unchanged(self) -> bool:
        x = self.owner
        return len(x) == len(self.names) and all(map(is_, x, self.names)) and all(map(is_, x.values(), self.values))

    def put(self, k: int, value: Any) -> None:
        self.owner[self.names[k]] = value

    def reset(self) -> None:
        self.owner.clear()
        self.owner.update(zip(self.names, self.values, strict=True))

    def watch(self) -> list[Watched] | None:
        if isinstance(self.owner, OrderedDict):  # its order is not that of the dict beneath it
            return None
        return _rows_of_dict(self.owner, self.names, self.values)


class ListRecord(Record):
    """A list or a deque."""

    __slots__ = ()

    def read(self) -> tuple[tuple, tuple]:
        return (), tuple(self.owner)

    def unchanged(self) -> bool:
        return len(self.owner) == len(self.values) and all(map(is_, self.owner, self.values))

    def put(self, k: int, value: Any) -> None:
        self.owner[k] = value

    def reset(self) -> None:
        self.owner.clear()
        self.owner.extend(self.values)

    def watch(self) -> list[Watched] | None:
        if type(self.owner) is not list:
            return None
        rows: list[Watched] = [("items", self.owner, len(self.values), None)]
        return rows + [("item", self.owner, k, value) for k, value in enumerate(self.values)]


class SetRecord(Record):
    """A set: what is in it is no constant, for nothing can take its place."""

    writable = False
    __slots__ = ()

    def read(self) -> tuple[tuple, tuple]:
        return (), tuple(self.owner)


class BufferRecord(Record):
    """A NumPy array or a bytearray: a digest of its bytes."""

    writable = False
    __slots__ = ()

    def read(self) -> tuple[tuple, tuple]:
        x = self.owner
        return (), (bytes(x) if isinstance(x, bytearray) else hashlib.sha1(x.tobytes()).digest(),)

    def unchanged(self) -> bool:
        return self.read()[1] == self.values

    def renewed(self) -> Record | None:
        return self if self.unchanged() else None


class ItemsRecord(Record):
    """A NumPy array of Python objects."""

    __slots__ = ()

    def read(self) -> tuple[tuple, tuple]:
        return (), tuple(self.owner.ravel().tolist())

    def put(self, k: int, value: Any) -> None:
        self.owner.flat[k] = value


class ObjectRecord(Record):
    """The attributes of an object, those in slots too.

    words : what the function and all that it calls name: of other attributes nothing counts. Without words all count
    every : the names of all attributes
    """

    __slots__ = ("every", "words")

    def __init__(self, owner: Any, *read: Any, words: Collection[str] | None = None) -> None:
        super().__init__(owner, *read)
        self.words = words
        self.every = tuple(attributes_of(owner))

    def again(self, *read: Any) -> Self:
        return type(self)(self.owner, *read, self.deep, words=self.words)

    def counts(self, name: str, value: Any) -> bool:
        """Whether an attribute counts."""
        return self.words is None or name in self.words or ANY in self.words

    def read(self) -> tuple[tuple, tuple]:
        found = attributes_of(self.owner)
        if self.words is not None:
            found = {name: value for name, value in found.items() if self.counts(name, value)}
        return tuple(found), tuple(found.values())

    def unchanged(self) -> bool:
        attributes = attributes_of(self.owner)
        if not _alike(attributes, self.every):
            return False
        whole = len(self.names) == len(self.every)
        return all(map(is_, attributes.values() if whole else map(attributes.get, self.names), self.values))

    def put(self, k: int | str, value: Any) -> None:
        """Set the value of number ``k``, or of a new attribute ``k``."""
        name, attributes = k if isinstance(k, str) else self.names[k], getattr(self.owner, "__dict__", {})
        if name in attributes:
            attributes[name] = value
        else:
            object.__setattr__(self.owner, name, value)

    def added(self) -> list[str]:
        return [name for name in attributes_of(self.owner) if name not in self.every]

    def remove(self, name: str) -> None:
        object.__delattr__(self.owner, name)

    def reset(self) -> None:
        for name in self.added():
            self.remove(name)
        super().reset()

    def watch(self) -> list[Watched] | None:
        if slots_of(type(self.owner)):
            return None
        attributes = vars(self.owner)
        if len(self.names) == len(self.every):
            return _rows_of_dict(attributes, self.names, self.values)
        named = zip(self.names, self.values, strict=True)
        return [("keys", attributes, len(self.every), None), *[("variable", attributes, n, v) for n, v in named]]


class ModuleRecord(ObjectRecord):
    """The attributes of a module, which counts the changes of its attributes. weft reads all but constants that nobody names."""

    told = True
    __slots__ = ()

    def counts(self, name: str, value: Any) -> bool:
        return super().counts(name, value) or not _is_constant(value)

    def put(self, k: int | str, value: Any) -> None:
        vars(self.owner)[k if isinstance(k, str) else self.names[k]] = value


def _is_constant(value: Any) -> bool:
    """Whether a value is a constant, or a tuple, list, dict or set of constants; of a long one the first items tell."""
    if isinstance(value, dict):
        value = list(itertools.islice(value.values(), _FIRST))
    elif isinstance(value, list | tuple | set | frozenset | deque):
        value = list(itertools.islice(value, _FIRST))
    else:
        return type(value) in CONSTANTS or type(value) in GIVEN
    return all(map(_is_constant, value))


_FIRST = 8


class OptimizerRecord(ModuleRecord):
    """Those attributes of an object that its method ``__structure__`` names; it counts their changes, too."""

    __slots__ = ()

    def counts(self, name: str, value: Any) -> bool:
        return True

    def added(self) -> list[str]:
        return []

    def read(self) -> tuple[tuple, tuple]:
        attributes, names = vars(self.owner), self.owner.__structure__()
        return names, tuple([attributes[name] for name in names])


class CellsRecord(Record):
    """The variables of closures: ``owner`` is a tuple of cells, ``names`` their names."""

    __slots__ = ()

    def read(self) -> tuple[tuple, tuple]:
        return self.names, tuple(map(_held_by, self.owner))

    def unchanged(self) -> bool:
        try:
            return all(map(is_, map(_content, self.owner), self.values))
        except ValueError:  # a cell without a content
            return all(map(is_, map(_held_by, self.owner), self.values))

    def again(self, names: tuple = (), values: tuple = (), paths: tuple[Path, ...] = ()) -> Self:
        """Return a record of the same owner."""
        return type(self)(self.owner, names, values, paths, self.deep)

    def place(self, k: int) -> tuple[int, Any]:
        return id(self.owner[k]), None

    def put(self, k: int, value: Any) -> None:
        self.owner[k].cell_contents = value

    def watch(self) -> list[Watched] | None:
        if any([value is MISSING for value in self.values]):
            return None
        return [("cell", cell, None, value) for cell, value in zip(self.owner, self.values, strict=True)]


def _held_by(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


class VariablesRecord(Record):
    """Global variables: ``owner`` is the dict of a Python module, ``names`` are those that functions name."""

    __slots__ = ("_getter",)

    _getter: Any

    def read(self) -> tuple[tuple, tuple]:
        get = self.owner.get
        return self.names, tuple([get(name, MISSING) for name in self.names])

    def unchanged(self) -> bool:
        try:
            found = self._getter(self.owner)
        except AttributeError:
            self._getter = itemgetter(*self.names, self.names[0])  # of one name alone it would give no tuple
            return self.unchanged()
        except KeyError:
            return False
        return all(map(is_, found, self.values))

    def put(self, k: int, value: Any) -> None:
        self.owner[self.names[k]] = value

    def watch(self) -> list[Watched] | None:
        return [("variable", self.owner, name, value) for name, value in zip(self.names, self.values, strict=True)]


class ClassRecord(Record):
    """Attributes and methods of a class that functions read through its name, or by its instances."""

    __slots__ = ()

    def read(self) -> tuple[tuple, tuple]:
        attributes = vars(self.owner)
        return self.names, tuple([attributes.get(name, MISSING) for name in self.names])

    def put(self, k: int, value: Any) -> None:
        if value is not MISSING:
            setattr(self.owner, self.names[k], value)
        elif self.names[k] in vars(self.owner):
            delattr(self.owner, self.names[k])

    def watch(self) -> list[Watched] | None:
        (attributes,) = gc.get_referents(vars(self.owner))  # what a mappingproxy shows
        there = [pair for pair in zip(self.names, self.values, strict=True) if pair[1] is not MISSING]
        rows: list[Watched] = [("variable", attributes, name, value) for name, value in there]
        return rows if len(there) == len(self.names) else [("keys", attributes, len(attributes), None), *rows]


def _alike(now: Collection[Any], before: Sequence[Any]) -> bool:
    return len(now) == len(before) and all(map(is_, now, before))


def _rows_of_dict(x: dict, names: tuple, values: tuple) -> list[Watched]:
    rows: list[Watched] = [("keys", x, len(names), None)]
    return rows + [("next", x, name, value) for name, value in zip(names, values, strict=True)]


def record_for(x: Any) -> type[Record] | None:
    """Return the kind of record that a container has, None of what is no container."""
    if isinstance(x, dict):
        return DictRecord
    if isinstance(x, list | deque):
        return ListRecord
    if isinstance(x, set):
        return SetRecord
    if isinstance(x, np.ndarray):
        return ItemsRecord if x.dtype.hasobject else BufferRecord
    return BufferRecord if isinstance(x, bytearray) else None
