"""Trees: arguments and results made of dicts, lists, tuples, dataclasses and modules.

optree does the walking (namespace "weft"); it is imported when a tree is first met, plain Arrays never need it.
A module is a tree of its parameters; for ``jit`` it is one leaf, known by identity and by its structure.
"""

from __future__ import annotations

import atexit
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from weft.array import Array
from weft.formats import INEXACT
from weft.signals import uninterrupted

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

    def __init__(self, cls: type, names: tuple[str, ...], others: dict[str, Any]) -> None:
        self.cls, self.names, self.others = cls, names, others

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
    return [*children.values()], _Rest(type(module), names, others), names


def _unflatten_module(rest: Any, children: Any) -> Any:
    module: Any = object.__new__(rest.cls)
    module.__dict__.update(rest.others)
    module.__dict__.update(zip(rest.names, children, strict=True))
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
            import optree

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
    """The tree that :func:`flatten` took apart, with other leaves."""
    return _optree().tree_unflatten(structure, leaves)


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
