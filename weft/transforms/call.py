"""One call of a jitted function: its flattened arguments, the content of arguments and function, and the key of its program.

A number in arguments or objects is part of the key, and a constant of the program, until a call passes a second value: most never
change, and programs with constants are the fastest. After that it is a run-time number (see ``traced_int.py``), unless the
function needs the value itself (as a shape, in a format): then it is pinned to the key for good.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from weft.array import Array
from weft.array.numpy_methods import element_strides
from weft.dtypes.formats import DEFAULT
from weft.errors import DTypeError, short
from weft.graph.primitives.settings import CONV_ALGORITHM, DETERMINISM, MATMUL_PRECISION
from weft.process.bounded_cache import BoundedCache
from weft.runtime.context import CONTEXT
from weft.runtime.traced_int import RUN_TIME_TYPES
from weft.transforms.aliases import path_key
from weft.transforms.causes import argument_names
from weft.transforms.content import StaticKey, has_content
from weft.transforms.records import key_of_constant, same_constant
from weft.transforms.tracing import is_static, materialise_argument
from weft.transforms.tree import Structure, has_structure

NUMBERS = RUN_TIME_TYPES - {float}  # types of arguments that are static until they come with a second value, or NumPy's floats
STATIC_TYPES = frozenset((int, bool, np.bool_, str, bytes, type(None))) | NUMBERS


class Call:
    """One call.

    passed_leaves, leaves : the leaves of the arguments, as passed and materialised
    structure : of the arguments
    statics : the key of each leaf, None for leaves that are not static
    content : of the function and, if there are objects among the arguments, of the arguments
    cells : ids of the cells that arrays among its values show, each with the number of the first such value
    kind : calls of one kind share a ``Numbers``
    count : ``Structure.count`` at the call
    """

    __slots__ = (
        "args", "cells", "content", "count", "passed_leaves", "kind", "kwargs", "leaves", "rebuild", "statics", "structure",
    )

    def __init__(self, jitted: Any, args: tuple, kwargs: dict[str, Any], earlier: Call | None = None) -> None:
        """jitted : a JittedFunction. earlier : a ``Call`` of the same arguments, whose leaves are used"""
        self.args, self.kwargs, self.count = args, kwargs, Structure.count
        self.passed_leaves, self.rebuild, self.structure, static_arguments = jitted.flat(args, kwargs)
        self.statics: list[Any] = []
        objects, leaves = bool(static_arguments) and any([type(x) not in STATIC_TYPES for x in static_arguments]), []
        for leaf in self.passed_leaves:
            static = None
            if isinstance(leaf, float) and not isinstance(leaf, np.generic):
                leaf = float(leaf)  # of a class of the user
            if isinstance(leaf, Array) or not (type(leaf) is float or is_static(leaf)):
                leaf = materialise_argument(leaf)
            elif type(leaf) is not float:
                static = key_of_constant(leaf)
                objects = objects or type(leaf) not in STATIC_TYPES
            leaves.append(leaf)
            self.statics.append(static)
        self.leaves: list[Any] = earlier.leaves if earlier else leaves
        reached: StaticKey = jitted.read_captured()
        if objects:
            words = len(jitted.words)
            reached = self._content(jitted, reached, static_arguments)
            while len(jitted.words) != words:  # methods of the arguments read attributes of other objects
                words = len(jitted.words)
                reached = self._content(jitted, jitted.read_captured(again=True), static_arguments)
        self.content = reached
        self.cells: Mapping[int, int] = reached.cells()
        statics = tuple([None if key is None or key[0] in NUMBERS else key for key in self.statics])
        plain = tuple([key_of_constant(x) for x in static_arguments if type(x) in STATIC_TYPES]) if static_arguments else ()
        self.kind = (reached.key, self.structure, statics, plain)

    def _content(self, jitted: Any, reached: StaticKey, fixed: Sequence[Any]) -> StaticKey:
        """Return the content of the objects among the arguments: the last call's if objects and structure are the same."""
        leaves, keys, content = jitted.objects or ((), (), None)
        static = tuple([x if is_static(x) else None for x in (*self.leaves, *fixed)])
        if content is not None and content.base is reached and len(leaves) == len(static):
            if all(map(_is_same_leaf, leaves, static)) and content.refresh():
                pairs = zip(self.leaves, keys, strict=True)
                self.statics = [key_of_constant(x) if type(x) in STATIC_TYPES else key for x, key in pairs]
                return content
        content = StaticKey(jitted.words, getattr(jitted.f, "__module__", ""), reached)
        self.statics = [_static_key(x, content) if is_static(x) else None for x in self.leaves]
        extra_keys = [_static_key(x, content) for x in fixed if type(x) not in STATIC_TYPES]
        content.close(*extra_keys)
        jitted.objects = static, tuple(self.statics), content
        return content

    def key(self, states: Collection[int], moving: Collection[int]) -> Any:
        """Return the key of the program.

        states : ids of captured cells that are not among the values
        moving : numbers of the run-time numbers, which enter the key by type only
        """
        first = len(self.leaves)
        numbers = frozenset([k - first for k in moving if k >= first])
        return (*self.kind, settings(), self.content.key_of_values(numbers), *self._leaf_keys(states, moving))

    def _leaf_keys(self, states: Collection[int], moving: Collection[int]) -> list[Any]:
        seen: dict[int, int] = {}
        keys: list[Any] = []
        has_cells = bool(self.cells) or bool(states)
        for k, leaf in enumerate(self.leaves):
            if not isinstance(leaf, Array):
                static = self.statics[k]
                keys.append(type(leaf) if k in moving else (float, repr(leaf)) if static is None else static)
                continue
            cell = id(leaf.cell) if has_cells else None
            if has_cells and (cell in self.cells or cell in states):
                keys.append((State, self.cells.get(cell or 0, cell), path_key(leaf), type(leaf)))
                continue
            first = seen.setdefault(id(leaf), k)
            node = leaf.node
            keys.append((node.shape, node.dtype, type(leaf), element_strides(leaf)) if first == k else first)
        return keys

    def make_partial_key(self, states: Collection[int]) -> Any:
        """Return the part of the key that does not depend on floats and objects."""
        keys = zip(self.leaves, self._leaf_keys(states, ()), strict=True)
        by_type = [type(x) is float or (is_static(x) and type(x) not in STATIC_TYPES) for x in self.leaves]
        return (self.structure, *[type(x) if only else key for (x, key), only in zip(keys, by_type, strict=True)])

    def name_values(self) -> list[Any]:
        """Return a unique name for each value: its place and the path into its tuple."""
        return [(record.place(k), indices) for record, k, indices in self.content.places()]


class State:
    """Marks, in a key, an argument that shows a captured cell."""


def _is_same_leaf(before: Any, now: Any) -> bool:
    """Return whether a static leaf has the same content as before: the same object, or a constant of the same type."""
    return before is now or (type(before) is type(now) and type(now) in STATIC_TYPES)


def settings() -> tuple[Any, ...]:
    """Return the settings that programs depend on. Profiled calls use programs of their own."""
    return (
        CONTEXT.placement,
        CONTEXT.flush_denormals,
        CONTEXT.precision,
        CONTEXT.watch,
        DEFAULT.wide,
        MATMUL_PRECISION.value,
        CONV_ALGORITHM.value,
        DETERMINISM.value,
        CONTEXT.profiler is None,
    )


def _static_key(x: Any, content: StaticKey) -> Any:
    if type(x) in STATIC_TYPES:
        return key_of_constant(x)
    if isinstance(x, Array | np.ndarray):
        raise DTypeError(f"jit: a static argument cannot be an array (shape {x.shape}): leave it out of static_argnums")
    if not has_structure(x) and not has_content(x):
        try:
            hash(x)
        except TypeError:
            raise DTypeError(
                f"jit: an argument holds {short(x)} of type {type(x).__name__}: arguments are arrays, numbers, str, None, "
                "modules, and dicts, lists, tuples and dataclasses of these; other objects must be hashable"
            ) from None
    return content.of(x)


class Numbers:
    """The numbers of one kind of call: those among the leaves of the arguments, then those among the values of objects.

    leaf_count : number of leaves of the arguments; the values of objects are numbered from there on
    values : of the numbers that have not changed so far
    moving : the run-time numbers
    needed_values : former run-time numbers that are part of the key again, each with the line that needs its value
    """

    __slots__ = ("_last_values", "leaf_count", "moving", "needed_values", "values")

    def __init__(self, leaf_count: int, moving: frozenset[int]) -> None:
        self.leaf_count, self.moving = leaf_count, moving
        self.needed_values: dict[int, str] = {}
        self.values: dict[int, Any] = {}
        self._last_values: Sequence[Any] = ()

    def see(self, leaves: Sequence[Any], values: Sequence[Any]) -> None:
        """Compare the numbers of a call with those before, and make changed ones run-time numbers."""
        for k, new in enumerate(leaves):
            if isinstance(new, float | np.floating):
                if k not in self.needed_values and type(new) in RUN_TIME_TYPES:
                    self.moving |= {k}
            elif type(new) in RUN_TIME_TYPES:
                self._see(k, new)
        if values is not self._last_values:
            self._last_values = values
            before = self.values
            for k, new in enumerate(values, self.leaf_count):
                if type(new) in RUN_TIME_TYPES and before.get(k) is not new:
                    self._see(k, new)

    def _see(self, k: int, new: Any) -> None:
        if k in self.moving or k in self.needed_values:
            return
        old = self.values.get(k)
        if type(old) is type(new) and not same_constant(old, new):
            del self.values[k]
            self.moving |= {k}
        else:
            self.values[k] = new

    def pin(self, numbers: Mapping[int, str]) -> None:
        """Make these numbers part of the key from now on."""
        self.needed_values |= {k: line for k, line in numbers.items() if k in self.moving}
        self.moving = self.moving.difference(numbers)


_NONE = Numbers(0, frozenset())


def _typed_numbers(f: Callable, call: Call) -> frozenset[int]:
    """Return the numbers whose class the code reads by ``type(...)``, judged by the names of arguments, attributes and keys."""
    typed = call.content.typed_names
    arguments = [re.findall(r"\w+", name)[2:] for name in argument_names(f, call.structure)]
    names = arguments + [[str(record.names[k])] if record.names else [] for record, k, _ in call.content.places()]
    return frozenset([k for k, parts in enumerate(names) if not typed.isdisjoint(parts)])


def numbers_of(cache: BoundedCache, call: Call, f: Callable) -> Numbers:
    """Return the ``Numbers`` in ``cache`` for this kind of call, updated with its values. A kind does not depend on shapes."""
    leaves, values = call.leaves, call.content.values
    if RUN_TIME_TYPES.isdisjoint(map(type, leaves)) and not call.content.numbers:
        return _NONE
    kind = (call.kind, *map(type, leaves))
    leaf_count = len(leaves)
    numbers = cache.get(kind)
    if numbers is None:
        moving = [leaf_count + k for k in call.content.moving if type(values[k]) in RUN_TIME_TYPES]
        numbers = Numbers(leaf_count, frozenset(moving))
        if call.content.typed_names:
            static = _typed_numbers(f, call)
            numbers.moving -= static
            numbers.needed_values |= dict.fromkeys(static, "")
        cache.put(kind, numbers)
    numbers.see(leaves, values)
    return numbers
