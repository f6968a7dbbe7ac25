"""One call of a jitted function: its flattened arguments, the contents of arguments and function, and the key of its program."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from weft.array import Array
from weft.array.numpy_methods import lies
from weft.dtypes.formats import DEFAULT
from weft.errors import DTypeError, short
from weft.graph.primitives.meeting import DETERMINISM
from weft.graph.primitives.precision import MATMUL_PRECISION
from weft.runtime.context import CONTEXT
from weft.runtime.traced_int import RUN_TIME_TYPES
from weft.transforms.aliases import path_key
from weft.transforms.content import StaticKey, has_content
from weft.transforms.records import Record
from weft.transforms.traced import is_static, materialise_argument
from weft.transforms.tree import Structure, has_structure
from weft.transforms.values import EXACT, cells_of, key_of_values

NUMBERS = RUN_TIME_TYPES - {float}  # types of arguments that are static until they come with a second value, or NumPy's floats
PLAIN = frozenset((int, bool, np.bool_, str, bytes, type(None))) | NUMBERS


class Objects(NamedTuple):
    """The static leaves of a call, the key of each, and the content of the objects among them."""

    leaves: tuple[Any, ...]
    statics: tuple[Any, ...]
    content: StaticKey


class Call:
    """One call.

    given, leaves : the leaves of the arguments, as passed and materialised
    structure : of the arguments
    statics : the key of each leaf, None for leaves that are not static
    contents : of the function and, if there are objects among the arguments, of the arguments
    values : the arrays and constants in ``contents``
    moving : numbers of the values that are run-time numbers from the first call on
    cells : ids of the cells that arrays among the values show, each with the number of the first such value
    kind : calls of one kind share a ``Numbers``
    count : ``Structure.count`` at the call
    """

    __slots__ = (
        "args", "cells", "contents", "count", "given", "kind", "kwargs", "leaves", "moving", "rebuild", "statics", "structure",
        "values",
    )

    def __init__(self, jitted: Any, args: tuple, kwargs: dict[str, Any], earlier: Call | None = None) -> None:
        """jitted : a Jitted. earlier : a ``Call`` of the same arguments, whose leaves are used"""
        self.args, self.kwargs, self.count = args, kwargs, Structure.count
        self.given, self.rebuild, self.structure, static_arguments = jitted.flat(args, kwargs)
        self.statics: list[Any] = []
        objects, leaves = bool(static_arguments) and any([type(x) not in PLAIN for x in static_arguments]), []
        for leaf in self.given:
            static = None
            if not is_static(leaf) and type(leaf) is not float:
                leaf = materialise_argument(leaf)
            elif type(leaf) is not float:
                static = _plain_key(leaf)
                objects = objects or type(leaf) not in PLAIN
            leaves.append(leaf)
            self.statics.append(static)
        self.leaves: list[Any] = earlier.leaves if earlier else leaves
        reached: StaticKey = jitted.reach()
        if not objects:
            self.contents: tuple[StaticKey, ...] = (reached,)
            self.values, self.moving = reached.values, reached.moving
            self.cells: Mapping[int, int] = reached.cells()
            content_key: Any = None
        else:
            words = len(jitted.words)
            content = self._content(jitted, reached, static_arguments)
            while len(jitted.words) != words:  # methods of the arguments read attributes of other objects
                jitted.forget()
                words, reached = len(jitted.words), jitted.reach()
                content = self._content(jitted, reached, static_arguments)
            self.contents = (reached, content)
            self.values = reached.values + content.values
            self.cells = cells_of(self.values)
            self.moving = reached.moving | {len(reached.values) + k for k in content.moving}
            content_key = content.key
        statics = tuple([None if key is None or key[0] in NUMBERS else key for key in self.statics])
        plain = tuple([_plain_key(x) for x in static_arguments if type(x) in PLAIN]) if static_arguments else ()
        self.kind = (reached.key, self.structure, statics, plain, content_key)

    def _content(self, jitted: Any, reached: StaticKey, fixed: Sequence[Any]) -> StaticKey:
        """Return the content of the objects among the arguments: the last call's if objects and structure are the same."""
        before: Objects | None = jitted.objects
        static = tuple([x if is_static(x) else None for x in (*self.leaves, *fixed)])
        if before is not None and before.content.beside is reached and len(before.leaves) == len(static):
            if all(map(_is_same_leaf, before.leaves, static)) and before.content.refresh():
                keys = zip(self.leaves, before.statics, strict=True)
                self.statics = [_plain_key(x) if type(x) in PLAIN else key for x, key in keys]
                return before.content
        content = StaticKey(jitted.words, jitted.skipped, getattr(jitted.f, "__module__", ""), reached)
        self.statics = [_static_key(x, content) if is_static(x) else None for x in self.leaves]
        extra_keys = [_static_key(x, content) for x in fixed if type(x) not in PLAIN]
        content.close(*extra_keys)
        jitted.objects = Objects(static, tuple(self.statics), content)
        return content

    def key(self, states: Collection[int], moving: Collection[int]) -> Any:
        """Return the key of the program.

        states : ids of captured cells that are not among the values
        moving : numbers of the run-time numbers, which enter the key by type only
        """
        first = len(self.leaves)
        numbers = frozenset([k - first for k in moving if k >= first])
        if len(self.contents) == 1:
            values = self.contents[0].key_of_values(numbers)
        else:
            values = key_of_values(self.values, self.cells, numbers)
        return (*self.kind, settings(), values, *self._leaf_keys(states, moving))

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
            keys.append((node.shape, node.dtype, type(leaf), lies(leaf)) if first == k else first)
        return keys

    def like(self, states: Collection[int]) -> Any:
        """Return the part of the key that does not depend on floats and objects."""
        keys = zip(self.leaves, self._leaf_keys(states, ()), strict=True)
        by_type = [type(x) is float or (is_static(x) and type(x) not in PLAIN) for x in self.leaves]
        return (self.structure, *[type(x) if only else key for (x, key), only in zip(keys, by_type, strict=True)])

    def records(self) -> list[Record]:
        return [record for content in self.contents for record in content.records]

    def named(self) -> list[Any]:
        """Return a unique name for each value: its place and the path into its tuple."""
        return [(record.place(k), indices) for content in self.contents for record, k, indices in content.places()]

    def places(self) -> dict[Any, tuple[int, Any]]:
        """Map each place to the number of its record and the number of the value in the record."""
        return {record.place(k): (n, k) for n, record in enumerate(self.records()) for k in range(len(record.values))}


class State:
    """Marks, in a key, an argument that shows a captured cell."""


def _is_same_leaf(before: Any, now: Any) -> bool:
    """Return whether a static leaf has the same content as before: the same object, or a constant of the same type."""
    return before is now or (type(before) is type(now) and type(now) in PLAIN)


def settings() -> tuple[Any, ...]:
    """Return the settings that programs depend on. Profiled calls use programs of their own."""
    return (
        CONTEXT.placement,
        CONTEXT.flush_denormals,
        DEFAULT.wide,
        MATMUL_PRECISION.value,
        DETERMINISM.value,
        CONTEXT.profiler is None,
    )


def _plain_key(x: Any) -> tuple[type, Any]:
    """Return the key of a constant. The repr of a float tells NaN from a number, and 0.0 from -0.0."""
    return type(x), repr(x) if type(x) in EXACT else x


def _static_key(x: Any, content: StaticKey) -> Any:
    if type(x) in PLAIN:
        return _plain_key(x)
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
