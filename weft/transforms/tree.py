"""Trees: arguments and results made of dicts, lists, tuples, dataclasses and modules.

optree does the walking (namespace "weft"); it is imported when a tree is first met, plain Arrays never need it.
A module is a tree of its parameters; for ``jit`` it is one leaf, known by identity and by its structure.
"""

from __future__ import annotations

import atexit
import dataclasses
import types
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from weft.array import Array
from weft.dtypes.formats import INEXACT
from weft.process.import_hook import needed
from weft.process.signals import uninterrupted
from weft.runtime.traced_int import GIVEN

_MODULES: set[type] = set()
_UNTOLD: list[type] = []  # modules of which optree does not know yet
_OPTREE: list[Any] = []  # once it is loaded, and what keeps the order of keys in the namespace ``_CALLS``
_CALLS = "weft.calls"  # of arguments: here dicts whose keys come in another order are others
_LEAVES: set[type] = set()  # classes that are known to be no trees


class Structure:
    """A count that every change of a module's structure raises, so that jitted functions look again."""

    count = 0


def structure_changed() -> None:
    """Modules call this when an attribute other than an Array's content is set."""
    Structure.count += 1


def register_module(cls: type) -> None:
    """Make a class a module: its instances are trees of the float Arrays in their attributes.

    Arrays whose attribute is named in ``cls.buffers``, and arrays of integers and bools, are not leaves: they belong
    to the structure, like all other attributes.
    """
    if cls not in _MODULES:
        _MODULES.add(cls)
        _UNTOLD.append(cls)


def is_module(x: Any) -> bool:
    return type(x) in _MODULES


def has_structure(x: Any) -> bool:
    """Whether ``x`` is known to ``jit`` by identity and structure: a module, or what has a method ``__structure__``."""
    return type(x) in _MODULES or hasattr(type(x), "__structure__")


def is_container(x: Any) -> bool:
    """Whether ``x`` is a tree with something inside, not a leaf."""
    return isinstance(x, dict | list | tuple) or is_module(x) or (dataclasses.is_dataclass(x) and not isinstance(x, type))


def _holds_arrays(value: Any) -> bool:
    if isinstance(value, Array):
        return value.node.dtype in INEXACT
    if is_module(value):
        return True
    if isinstance(value, dict):
        return any(map(_holds_arrays, value.values()))
    return isinstance(value, list | tuple) and any(map(_holds_arrays, value))


class _Rest:
    """What of a module is not a leaf. Equal for equal classes and attribute names."""

    def __init__(self, cls: type, names: tuple[str, ...], others: dict[str, Any], order: tuple[str, ...]) -> None:
        """names : of the leaves. order : of all attributes"""
        self.cls, self.names, self.others, self.order = cls, names, others, order

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Rest) and (self.cls, self.names) == (other.cls, other.names)

    def __hash__(self) -> int:
        return hash((self.cls, self.names))

    def __repr__(self) -> str:
        return f"{self.cls.__name__}({', '.join(self.names)})"


def _flatten_module(module: Any) -> tuple[list[Any], _Rest, tuple[str, ...]]:
    buffers = getattr(type(module), "buffers", ())
    children: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, value in module.__dict__.items():
        into = children if name not in buffers and _holds_arrays(value) else others
        into[name] = value
    names = tuple(children)
    return [*children.values()], _Rest(type(module), names, others, tuple(module.__dict__)), names


def _unflatten_module(rest: Any, children: Any) -> Any:
    module: Any = object.__new__(rest.cls)
    held = rest.others | dict(zip(rest.names, children, strict=True))
    module.__dict__.update({name: held[name] for name in rest.order})
    return module


def _flatten_dataclass(x: Any) -> tuple[list[Any], type, tuple[str, ...]]:
    names = tuple(f.name for f in dataclasses.fields(x))
    return [getattr(x, n) for n in names], type(x), names


def _unflatten_dataclass(cls: type, children: Any) -> Any:
    out: Any = object.__new__(cls)
    for field, value in zip(dataclasses.fields(cls), children, strict=True):
        object.__setattr__(out, field.name, value)
    return out


def _optree() -> Any:
    if _UNTOLD or not _OPTREE:
        with uninterrupted():  # a class that left the list is registered
            optree = needed("optree", "lists, dicts and modules as arguments")
            while _UNTOLD:
                optree.register_pytree_node(_UNTOLD.pop(), _flatten_module, _unflatten_module, namespace="weft")
            if not _OPTREE:
                order = optree.dict_insertion_ordered(True, namespace=_CALLS)
                order.__enter__()
                atexit.register(order.__exit__, None, None, None)  # else the interpreter closes it when optree is half gone
                _OPTREE[:] = [optree, order]
    return _OPTREE[0]


def flatten(tree: Any, modules: bool = True, ordered: bool = False) -> tuple[list[Any], Any]:
    """The leaves of a tree and its structure; ``modules=False`` leaves modules whole, as leaves.

    ``ordered``, with ``modules=False``: the order of a dict's keys is part of the structure.

    Examples
    --------
    >>> from weft.transforms.tree import flatten
    >>> flatten({"a": 1, "b": [2, 3]})[0]
    [1, 2, 3]
    """
    optree = _optree()
    namespace = _CALLS if ordered else "weft"
    while True:
        leaves, structure = optree.tree_flatten(tree, is_leaf=None if modules else is_module, namespace=namespace)
        fresh = set(map(type, leaves)) - _LEAVES
        unknown = [cls for cls in fresh if dataclasses.is_dataclass(cls) and cls not in _MODULES]
        if not unknown:
            _LEAVES.update(fresh)
            return leaves, structure
        with uninterrupted():
            for cls in unknown:
                for space in ("weft", _CALLS):
                    optree.register_pytree_node(cls, _flatten_dataclass, _unflatten_dataclass, namespace=space)


def unflatten(structure: Any, leaves: list[Any]) -> Any:
    """The tree that :func:`flatten` or :func:`flatten_results` took apart, with other leaves."""
    return structure.unflatten(leaves)


def _slots_of(kind: type) -> tuple[str, ...]:
    """Return the names of the attributes that a class keeps in slots."""
    found = [n for c in kind.__mro__ for n, v in vars(c).items() if isinstance(v, types.MemberDescriptorType)]
    return tuple([n for n in found if n != "__dict__"])


slots_of: Callable[[type], tuple[str, ...]] = lru_cache(maxsize=1024)(_slots_of)


def is_only_attributes(kind: type) -> bool:
    """Whether the instances of a class are made of nothing but their attributes, so that another one can be made of these."""
    return kind.__new__ in (object.__new__, types.SimpleNamespace.__new__)


def attributes_of(x: Any) -> dict[str, Any]:
    """Return the attributes of an object, those in slots too; not to be changed."""
    slots = slots_of(type(x))
    if not slots:
        return x.__dict__ if hasattr(x, "__dict__") else {}
    return getattr(x, "__dict__", {}) | {name: getattr(x, name) for name in slots if hasattr(x, name)}


_LEAF = object()


class _Made:
    """An object of a result: its class and number, and a part for each attribute. A part is a leaf, a :class:`_Constant`, a tuple
    (structure, parts) of a container, a number of an object that is there already, or an object."""

    __slots__ = ("kind", "number", "parts")

    def __init__(self, kind: type, number: int) -> None:
        self.kind, self.number = kind, number
        self.parts: dict[str, Any] = {}


class _Constant:
    """What an attribute holds that is no leaf."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Results:
    """The structure of results in which there are objects that a function has made."""

    __slots__ = ("part",)

    def __init__(self, part: Any) -> None:
        self.part = part

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        return _built(self.part, iter(leaves), {})


def _built(part: Any, leaves: Iterator[Any], made: dict[int, Any]) -> Any:
    if part is _LEAF:
        return next(leaves)
    if type(part) is _Constant:
        return part.value
    if type(part) is tuple:
        structure, parts = part
        return structure.unflatten([_built(p, leaves, made) for p in parts])
    if type(part) is int:
        return made[part]
    out: Any = part.kind.__new__(part.kind)
    made[part.number] = out
    for name, inner in part.parts.items():
        value = _built(inner, leaves, made)
        if hasattr(out, "__dict__"):
            out.__dict__[name] = value
        else:
            object.__setattr__(out, name, value)
    return out


def flatten_results(tree: Any, is_made: Callable[[Any], bool], modules: bool = False) -> tuple[list[Any], Any]:
    """As :func:`flatten` of what a function gives, but objects that it has made (``is_made``) are taken apart, too: all arrays,
    objects and containers in their attributes are in the tree.

    modules : whether other modules are trees of their float Arrays; else they are leaves, and so are run-time numbers
    """
    if not (is_container(tree) and (modules or not is_module(tree))) and not is_made(tree):
        return [tree], None
    leaves: list[Any] = []
    numbers: dict[int, int] = {}
    kept: list[Any] = []

    def part_of(x: Any, inside: bool) -> Any:
        if id(x) in numbers:
            return numbers[id(x)]
        if is_made(x):
            made = _Made(type(x), len(numbers))
            numbers[id(x)] = made.number
            kept.append(x)
            made.parts = {name: part_of(value, True) for name, value in attributes_of(x).items()}
            return made
        if is_container(x) and (modules or not is_module(x)):
            found, structure = flatten(x, modules=False) if not is_module(x) else flatten(x)
            return structure, [part_of(item, inside) for item in found]
        if inside and not isinstance(x, Array | np.ndarray) and (modules or type(x) not in GIVEN):
            return _Constant(x)
        leaves.append(x)
        return _LEAF

    part = part_of(tree, False)
    if kept:
        return leaves, Results(part)
    return flatten(tree, modules=modules)


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """``f`` of every leaf (and the leaves at its place in the other trees); the result has the tree's structure.

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
    others = []
    for k, other in enumerate(rest):
        more, shape = flatten(other)
        if shape != structure:
            raise ValueError(f"tree_map: tree {k + 1} has structure {shape}, the first has {structure}")
        others.append(more)
    return unflatten(structure, [f(*xs) for xs in zip(leaves, *others, strict=True)])


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, modules taken apart.

    Parameters
    ----------
    tree : anything; what is no tree is a leaf

    Returns
    -------
    list

    Examples
    --------
    >>> import weft as wf
    >>> wf.tree_leaves({"a": [1, 2.5], "b": (3,)})
    [1, 2.5, 3]
    """
    return flatten(tree)[0]


def arrays_in(tree: Any) -> Iterator[Array]:
    """Every Array that a tree holds, buffers of modules included."""
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
            stack.extend(vars(item).values())
