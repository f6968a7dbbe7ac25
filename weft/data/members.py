"""Members: the arrays in nested tuples and dicts, as a model takes that has several inputs or outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def has_members(value: Any) -> bool:
    """Return whether a value is a tuple or dict of arrays. Lists, and tuples of numbers, are arrays themselves."""
    if isinstance(value, Mapping):
        return True
    return isinstance(value, tuple) and any(v is None or getattr(v, "ndim", 0) or has_members(v) for v in value)


def map_members(function: Callable[[Any], Any], value: Any) -> Any:
    """Return the tree with ``function`` of each member; None stays. All tuples and lists in it have members."""
    if isinstance(value, tuple | list):
        parts = [map_members(function, v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, Mapping):
        return {key: map_members(function, v) for key, v in value.items()}
    return None if value is None else function(value)


def read_members(read: Callable[[str, Any], Any], name: str, value: Any) -> Any:
    """Return the tree with ``read(name, member)`` of each member, such as ``read("x['image']", array)``."""
    if not has_members(value):
        return None if value is None else read(name, value)
    if isinstance(value, Mapping):
        return {key: read_members(read, f"{name}[{key!r}]", v) for key, v in value.items()}
    parts = [read_members(read, f"{name}[{k}]", v) for k, v in enumerate(value)]
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def name_members(value: Any, name: str = "x") -> list[tuple[str, Any]]:
    """Return (name, member) of each member of a tree, such as ("x['image']", array)."""
    if isinstance(value, tuple | list):
        return [pair for k, v in enumerate(value) for pair in name_members(v, f"{name}[{k}]")]
    if isinstance(value, Mapping):
        return [pair for key, v in value.items() for pair in name_members(v, f"{name}[{key!r}]")]
    return [] if value is None else [(name, value)]


def list_members(value: Any) -> list[Any]:
    """Return the members of a tree.

    Examples
    --------
    >>> from weft.data.members import list_members
    >>> list_members({"a": 1, "b": (2, {"c": 3})})
    [1, 2, 3]
    """
    return [member for _, member in name_members(value)]


def describe_tree(value: Any) -> str:
    """Return the outermost structure of a tree for a message: "a dict of 'a', 'b'", "a tuple of 2", "one array"."""
    if isinstance(value, Mapping):
        return f"a dict of {', '.join(map(repr, value)) or 'nothing'}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else "one array"


def order_members(value: Any, like: Any, name: str, context: str) -> Any:
    """Return a tree with the keys of its dicts in the order of ``like``. Raise TypeError if its structure is another.

    context : the beginning of the message
    """
    if isinstance(like, Mapping) and isinstance(value, Mapping) and value.keys() == like.keys():
        return {key: order_members(value[key], v, f"{name}[{key!r}]", context) for key, v in like.items()}
    if isinstance(like, tuple) and isinstance(value, tuple) and len(value) == len(like):
        parts = [order_members(a, b, f"{name}[{k}]", context) for k, (a, b) in enumerate(zip(value, like, strict=True))]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(like, tuple | Mapping) or isinstance(value, tuple | Mapping) or (like is None) != (value is None):
        raise TypeError(f"{context}: {name} is {describe_tree(value)}, and was {describe_tree(like)} in the first batch")
    return value
