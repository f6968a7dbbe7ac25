"""Trees: arguments and results made of dicts, lists, tuples, dataclasses and modules.

optree flattens them (namespace "weft"); it is imported with the first tree, so programs with plain Arrays do not need it.
A module is a tree of its parameters; for ``jit`` it is one leaf, compared by identity and structure.
"""

from __future__ import annotations

import atexit
import dataclasses
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

import numpy as np

from weft.array import Array, Scalar, ndarray
from weft.dtypes.formats import INEXACT
from weft.process.import_hook import import_needed
from weft.process.keyword_checks import KeywordCheck
from weft.process.signals import defer_signals
from weft.runtime.traced_int import TRACED_TYPES

_MODULES: set[type] = set()
_UNREGISTERED_ERROR: list[type] = []  # module classes to be registered with optree
_OPTREE: list[Any] = []  # the module when it is loaded, and the context manager that keeps the order of keys in ``_CALLS``
_CALLS = "weft.calls"  # namespace of call arguments, in which the order of a dict's keys is part of the structure
_LEAVES: set[type] = set()  # classes known to be leaves
_NO_TREES = frozenset((Array, ndarray, Scalar, np.ndarray, float, int, bool, str, type(None)))


class Structure:
    """A counter that every change of a module's structure raises, so that jitted functions compare contents again."""

    count = 0


def structure_changed() -> None:
    """Raise the counter. Modules call this when an attribute is set; writing an Array's content is no such change."""
    Structure.count += 1


def register_module(cls: type) -> None:
    """Make a class a module: its instances are trees of the float Arrays in their attributes.

    Attributes named in ``cls.buffers``, and arrays of integers and bools, are not leaves: they belong to the structure, like
    all other attributes.
    """
    if cls not in _MODULES:
        _MODULES.add(cls)
        _UNREGISTERED_ERROR.append(cls)


def matches(name: str, pattern: str) -> bool:
    """Return whether a parameter's name matches a pattern, or belongs to the layer that the pattern names."""
    return fnmatchcase(name, pattern) or fnmatchcase(name, pattern + ".*") or fnmatchcase("." + name, pattern)


def is_module(x: Any) -> bool:
    return type(x) in _MODULES


def has_structure(x: Any) -> bool:
    """Return whether ``jit`` compares ``x`` by identity and structure: a module, or an object with a method ``__structure__``."""
    return type(x) in _MODULES or hasattr(type(x), "__structure__")


def is_container(x: Any) -> bool:
    """Return whether ``x`` is a tree, not a leaf."""
    if type(x) in _NO_TREES:  # the usual arguments; the tests below take 0.7 us
        return False
    return isinstance(x, dict | list | tuple) or is_module(x) or (dataclasses.is_dataclass(x) and not isinstance(x, type))


def holds_arrays(value: Any) -> bool:
    if isinstance(value, Array):
        return value.node.dtype in INEXACT
    if is_module(value):
        return True
    if isinstance(value, dict):
        return any(map(holds_arrays, value.values()))
    return isinstance(value, list | tuple) and any(map(holds_arrays, value))


class _ModuleStructure:
    """The parts of a module that are not leaves. Equal for equal classes and attribute names."""

    def __init__(self, cls: type, names: tuple[str, ...], others: dict[str, Any], order: tuple[str, ...]) -> None:
        """names : of the leaves. order : of all attributes"""
        self.cls, self.names, self.others, self.order = cls, names, others, order

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ModuleStructure) and (self.cls, self.names) == (other.cls, other.names)

    def __hash__(self) -> int:
        return hash((self.cls, self.names))

    def __repr__(self) -> str:
        return f"{self.cls.__name__}({', '.join(self.names)})"


def _flatten_module(module: Any) -> tuple[list[Any], _ModuleStructure, tuple[str, ...]]:
    buffers = (*getattr(type(module), "buffers", ()), *getattr(module, "_results", ()))
    children: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in module.__dict__.items():
        into = children if name not in buffers and holds_arrays(value) else rest
        into[name] = value
    names = tuple(children)
    return [*children.values()], _ModuleStructure(type(module), names, rest, tuple(module.__dict__)), names


def _unflatten_module(rest: Any, children: Any) -> Any:
    module: Any = object.__new__(rest.cls)
    attributes = rest.others | dict(zip(rest.names, children, strict=True))
    module.__dict__.update({name: attributes[name] for name in rest.order})
    return module


def _flatten_dataclass(x: Any) -> tuple[list[Any], type, tuple[str, ...]]:
    names = tuple(f.name for f in dataclasses.fields(x))
    return [getattr(x, n) for n in names], type(x), names


def _unflatten_dataclass(cls: type, children: Any) -> Any:
    out: Any = object.__new__(cls)
    for field, value in zip(dataclasses.fields(cls), children, strict=True):
        object.__setattr__(out, field.name, value)
    return out


def _flatten_attributes(x: Any) -> tuple[list[Any], tuple[type, tuple[str, ...]], tuple[str, ...]]:
    """Flatten a dataclass that is an argument, with attributes that are not fields."""
    attributes = attributes_of(x)
    return [*attributes.values()], (type(x), tuple(attributes)), tuple(attributes)


def _unflatten_attributes(kind: tuple[type, tuple[str, ...]], children: Any) -> Any:
    out: Any = object.__new__(kind[0])
    for name, value in zip(kind[1], children, strict=True):
        object.__setattr__(out, name, value)
    return out


def dataclasses_in(arguments: Any) -> list[Any]:
    """Return the dataclasses in a tree, and the dicts and lists in them, in a fixed order."""
    found: list[Any] = []
    stack = [(arguments, False)]
    while stack:
        x, inside = stack.pop()
        if not is_container(x) or is_module(x):
            continue
        if dataclasses.is_dataclass(x):
            parts, inside = attributes_of(x).values(), True
        else:
            parts = x.values() if isinstance(x, dict) else x
        if inside and not isinstance(x, tuple):
            found.append(x)
        stack += [(part, inside) for part in parts]
    return found


def _optree() -> Any:
    if _UNREGISTERED_ERROR or not _OPTREE:
        with defer_signals():  # an interrupt must not lose a class between list and registration
            optree = import_needed("optree", "lists, dicts and modules as arguments")
            while _UNREGISTERED_ERROR:
                optree.register_pytree_node(_UNREGISTERED_ERROR.pop(), _flatten_module, _unflatten_module, namespace="weft")
            if not _OPTREE:
                order = optree.dict_insertion_ordered(True, namespace=_CALLS)
                order.__enter__()
                atexit.register(order.__exit__, None, None, None)  # at exit the interpreter would close it after parts of optree
                _OPTREE[:] = [optree, order]
    return _OPTREE[0]


def flatten(
    tree: Any, modules: bool = True, ordered: bool = False, existing: Collection[int] = (),
) -> tuple[list[Any], Any]:
    """Return the leaves of a tree and its structure. ``modules=False``: modules are leaves

    ``ordered``, with ``modules=False``: the order of a dict's keys is part of the structure.
    ``existing``, with ``modules=False``: ids of containers that are leaves

    Examples
    --------
    >>> from weft.transforms.tree import flatten
    >>> flatten({"a": 1, "b": [2, 3]})[0]
    [1, 2, 3]
    """
    optree = _optree()
    namespace = _CALLS if ordered else "weft"
    is_leaf = None if modules else is_module if not existing else lambda x: id(x) in existing or is_module(x)
    while True:
        try:
            leaves, structure = optree.tree_flatten(tree, is_leaf=is_leaf, namespace=namespace)
        except RecursionError:
            raise ValueError("a list, tuple or dict in arguments or results contains itself, or is nested too deeply") from None
        fresh = {type(x) for x in leaves if id(x) not in existing} - _LEAVES if existing else set(map(type, leaves)) - _LEAVES
        unknown = [cls for cls in fresh if dataclasses.is_dataclass(cls) and cls not in _MODULES]
        if not unknown:
            _LEAVES.update(fresh)
            return leaves, structure
        with defer_signals():
            for cls in unknown:
                optree.register_pytree_node(cls, _flatten_dataclass, _unflatten_dataclass, namespace="weft")
                optree.register_pytree_node(cls, _flatten_attributes, _unflatten_attributes, namespace=_CALLS)


def tree_paths(tree: Any) -> list[tuple[Any, ...]]:
    """Return the path of each leaf of a tree: the keys, numbers and names of attributes that lead to it."""
    flatten(tree)  # registers the classes of the tree
    return _optree().tree_paths(tree, namespace="weft")


def flatten_value(value: Any, modules: bool = True) -> tuple[list[Any], Any]:
    """Return the leaves and the structure of a tree. Any other value is a leaf, and its structure is None."""
    return flatten(value, modules=modules) if is_container(value) else ([value], None)


def unflatten(structure: Any, leaves: list[Any]) -> Any:
    """Rebuild the value that was flattened, with other leaves."""
    return leaves[0] if structure is None else structure.unflatten(leaves)


def _slots_of(kind: type) -> tuple[str, ...]:
    """Return the names of the attributes that a class keeps in slots."""
    names = [n for c in kind.__mro__ for n, v in vars(c).items() if isinstance(v, types.MemberDescriptorType)]
    return tuple([n for n in names if n != "__dict__"])


slots_of: Callable[[type], tuple[str, ...]] = lru_cache(maxsize=1024)(_slots_of)


def is_only_attributes(kind: type) -> bool:
    """Return whether an instance of the class can be rebuilt from its attributes alone."""
    return kind.__new__ in (object.__new__, types.SimpleNamespace.__new__, KeywordCheck.__new__)


def attributes_of(x: Any) -> dict[str, Any]:
    """Return the attributes of an object, including slots. Callers must not change the dict."""
    slots = slots_of(type(x))
    if not slots:
        return x.__dict__ if hasattr(x, "__dict__") else {}
    return getattr(x, "__dict__", {}) | {name: getattr(x, name) for name in slots if hasattr(x, name)}


Build = Callable[[Iterator[Any], dict[int, Any]], Any]  # makes a part of a result, given all leaves and the objects made so far


class Results:
    """The structure of results that contain objects made by the function."""

    __slots__ = ("_build",)

    def __init__(self, build: Build) -> None:
        self._build = build

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        return self._build(iter(leaves), {})


def _build_leaf(leaves: Iterator[Any], made: dict[int, Any]) -> Any:
    return next(leaves)


def _build_object(kind: Any, number: int, parts: Mapping[str, Build]) -> Build:
    def build(leaves: Iterator[Any], made: dict[int, Any]) -> Any:
        out = made[number] = kind.__new__(kind)
        for name, part in parts.items():
            value = part(leaves, made)
            if hasattr(out, "__dict__"):
                out.__dict__[name] = value
            else:
                object.__setattr__(out, name, value)
        return out

    return build


def flatten_results(
    tree: Any, is_made: Callable[[Any], bool], modules: bool = False, existing: Collection[int] = (),
) -> tuple[list[Any], Any]:
    """Flatten the result of a function like :func:`flatten`, including objects that it has made (``is_made``): all arrays,
    objects and containers in their attributes are part of the tree.

    modules : whether other modules are trees of their float Arrays; otherwise they are leaves, and so are run-time numbers
    existing : ids of containers that existed before the call, which are leaves
    """
    if id(tree) in existing:
        return [tree], None
    if not (is_container(tree) and (modules or not is_module(tree))) and not is_made(tree):
        return [tree], None
    leaves: list[Any] = []
    numbers: dict[int, int] = {}  # by id of an object made by the function

    def part_of(x: Any, inside: bool) -> Build:
        known = id(x) in numbers
        if known or is_made(x):  # no function but that of a constant may refer to ``x``, which may hold arrays of the trace
            number = numbers.setdefault(id(x), len(numbers))
            if known:
                return lambda leaves, made: made[number]
            return _build_object(type(x), number, {name: part_of(value, True) for name, value in attributes_of(x).items()})
        if is_container(x) and (modules or not is_module(x)) and id(x) not in existing:
            items, structure = flatten(x, modules=False, existing=existing) if not is_module(x) else flatten(x)
            parts = [part_of(item, inside) for item in items]
            return lambda leaves, made: structure.unflatten([part(leaves, made) for part in parts])
        if inside and not isinstance(x, Array | np.ndarray) and (modules or type(x) not in TRACED_TYPES):
            return lambda leaves, made: x  # a constant
        leaves.append(x)
        return _build_leaf

    build = part_of(tree, False)
    return (leaves, Results(build)) if numbers else flatten(tree, modules=modules, existing=existing)


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply ``f`` to every leaf (and the leaves at its place in the other trees) and return a tree of the results.

    Parameters
    ----------
    f : function of as many leaves as there are trees
    tree, rest : trees of one structure

    Returns
    -------
    tree

    Raises
    ------
    ValueError
        The structures differ.

    Examples
    --------
    >>> from weft.transforms.tree import tree_map
    >>> tree_map(lambda x: x + 1, {"a": 1, "b": (2, 3)})
    {'a': 2, 'b': (3, 4)}
    """
    leaves, structure = flatten(tree)
    rest_leaves = []
    for k, other in enumerate(rest):
        other_leaves, shape = flatten(other)
        if shape != structure:
            raise ValueError(f"tree_map: tree {k + 1} has structure {shape}, the first has {structure}")
        rest_leaves.append(other_leaves)
    return unflatten(structure, [f(*xs) for xs in zip(leaves, *rest_leaves, strict=True)])


def tree_leaves(tree: Any) -> list[Any]:
    """Return the leaves of a tree, including those of modules.

    Parameters
    ----------
    tree : anything; an object that is not a tree is a leaf

    Returns
    -------
    list

    Raises
    ------
    ValueError
        A list, tuple or dict contains itself, or is nested too deeply.

    Examples
    --------
    >>> import weft as wf
    >>> wf.tree_leaves({"a": [1, 2.5], "b": (3,)})
    [1, 2.5, 3]
    """
    return flatten(tree)[0]


def arrays_in(tree: Any) -> Iterator[Array]:
    """Yield every Array in a tree, including the buffers of modules."""
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, Array):
            yield item
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list | tuple | set):
            stack.extend(item)
        elif is_module(item) or (dataclasses.is_dataclass(item) and not isinstance(item, type)):
            stack.extend(attributes_of(item).values())
