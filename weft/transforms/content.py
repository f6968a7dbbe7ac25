"""What an object holds, as a hashable key: same key, same trace. And whether it still holds that.

Modules say when an attribute is set (``Structure.count``). Lists, dicts, sets, NumPy arrays and plain objects do not: what was
in them when a key was made is remembered item by item, so that a warm call can see whether it is as it was.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import sys
import types
from collections import deque
from collections.abc import Iterable
from operator import is_
from typing import Any

import numpy as np

from weft.array import Array
from weft.transforms.tree import is_module

Watched = tuple[Any, tuple[str, ...], tuple]  # what may change by itself, the names of its slots, and what was in it
LARGE = 1 << 20  # bytes: NumPy arrays beyond are compared by identity, for to read them at each call would take long
_CONSTANT = (int, str, bytes, bool, type(None))
_THEMSELVES = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, np.ufunc)


class Content:
    """Makes keys. ``held``: what they name by number, which somebody has to keep; ``watched``: what may change by itself."""

    __slots__ = ("_seen", "held", "watched")

    def __init__(self) -> None:
        self.held: list[Any] = []
        self.watched: list[Watched] = []
        self._seen: dict[int, int] = {}  # for cycles, and what is held twice

    def key(self, x: Any) -> Any:
        """The key of ``x``: numbers and strings by value, Arrays and functions by identity, objects by identity and content."""
        kind = type(x)
        if kind in _CONSTANT:
            return (kind, x)
        if kind is float or kind is complex:
            return (kind, repr(x))  # -0.0 is not 0.0
        if isinstance(x, tuple | frozenset):
            return (kind, *map(self.key, x))
        if isinstance(x, Array):
            return (self._named(x), x.shape, x.dtype)
        if id(x) in self._seen:
            return (Content, self._seen[id(x)])
        self._seen[id(x)] = len(self._seen)
        if is_module(x):
            return (self._named(x), *[(n, self.key(v)) for n, v in vars(x).items()])
        if hasattr(kind, "__structure__"):
            return (self._named(x), x.__structure__(self.key))
        if isinstance(x, functools.partial):
            return (self._named(x), self.key(x.func), self.key(x.args), self.key(x.keywords))
        if isinstance(x, types.MethodType):
            return (kind, self.key(x.__func__), self.key(x.__self__))
        if isinstance(x, np.ndarray):
            if x.nbytes > LARGE:
                return (self._named(x), x.shape, x.dtype)
            return (kind, x.shape, x.dtype, *(map(self.key, self._watch(x)) if x.dtype.hasobject else self._watch(x)))
        if isinstance(x, bytearray):
            return (kind, *self._watch(x))
        if isinstance(x, dict | list | set | deque):
            return (kind, *map(self.key, self._watch(x)))
        if has_content(x):
            return (self._named(x), *map(self.key, self._watch(x)))
        try:
            hash(x)
        except TypeError:
            return self._named(x)
        return (kind, x)

    def _named(self, x: Any) -> int:
        self.held.append(x)
        return id(x)

    def _watch(self, x: Any) -> tuple:
        slots = _slots(type(x))
        items = _items(x, slots)
        self.watched.append((x, slots, items))
        return items


def has_content(x: Any) -> bool:
    """Whether ``x`` is a plain object: one with attributes, whose class does not say by a hash what makes two of them equal.

    Those of the standard library (files, loggers, locks) and of weft (loaders, jitted functions) are what they are.
    """
    kind = type(x)
    if isinstance(x, _THEMSELVES) or not (hasattr(x, "__dict__") or _slots(kind)):
        return False
    if kind.__hash__ is None or dataclasses.is_dataclass(kind):
        return True
    library = kind.__module__.partition(".")[0]
    return kind.__hash__ is object.__hash__ and library != "weft" and library not in sys.stdlib_module_names


def unchanged(watched: Iterable[Watched]) -> bool:
    """Whether everything holds the very things that it held."""
    for x, slots, before in watched:
        now = _items(x, slots)
        if len(now) != len(before) or not all(map(is_, now, before)):
            digest = isinstance(x, bytearray) or isinstance(x, np.ndarray) and not x.dtype.hasobject
            if not digest or now != before:
                return False
    return True


def _items(x: Any, slots: tuple[str, ...]) -> tuple:
    """What is in ``x``, one by one; of buffers a digest."""
    if isinstance(x, dict):
        return (*x, *x.values())
    if isinstance(x, list | set | deque):
        return tuple(x)
    if isinstance(x, np.ndarray):
        return tuple(x.ravel().tolist()) if x.dtype.hasobject else (hashlib.sha1(x.tobytes()).digest(),)
    if isinstance(x, bytearray):
        return (bytes(x),)
    attributes = getattr(x, "__dict__", {})
    slots = tuple([n for n in slots if hasattr(x, n)])
    return (*attributes, *slots, *attributes.values(), *[getattr(x, n) for n in slots])


def _slots(kind: type) -> tuple[str, ...]:
    """The names of the attributes that a class keeps in slots."""
    return tuple([n for c in kind.__mro__ for n, v in vars(c).items() if isinstance(v, types.MemberDescriptorType)])
