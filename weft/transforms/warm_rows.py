"""Rows that describe the arguments and the result of a warm call: see ``weft.devices.native_protocols.WarmCall``.

A list, tuple or dict has one row; the rows of its items are adjacent and come later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from weft.devices.native_protocols import Place
from weft.transforms.tree import unflatten

NONE: Place = ("same", None, None, 0, 0)


class _Leaf(NamedTuple):
    """A leaf of a result, at its place in the structure of the result."""

    row: Place


def argument_rows(args: Sequence[Any], leaves: Sequence[Place], trees: bool) -> tuple[list[Place] | None, list[int]]:
    """Return the rows of arguments and the numbers of those of the leaves. No rows: a container is no list, tuple or dict.

    leaves : their rows. trees : whether containers are trees, in which None is no leaf
    """
    rows: list[Any] = []
    places: list[int] = []

    def leaf_row(place: int, x: Any) -> Place | None:
        if x is None and trees:
            return NONE
        if len(places) == len(leaves):
            return None
        places.append(place)
        return leaves[len(places) - 1]

    complete = _lay_out(rows, args, leaf_row) and len(places) == len(leaves)
    return (rows if complete else None), places


def result_rows(structure: Any, leaves: Sequence[Place]) -> list[Place] | None:
    """Return the rows of a result, None if it contains other objects than lists, tuples and dicts. leaves : their rows"""
    rows: list[Any] = []
    whole = unflatten(structure, [_Leaf(row) for row in leaves])
    return rows if _lay_out(rows, [whole], lambda _, x: NONE if x is None else x.row if type(x) is _Leaf else None) else None


def _lay_out(rows: list[Any], items: Sequence[Any], row_of: Callable[[int, Any], Place | None]) -> bool:
    """Append the rows of items, then those of the items in lists, tuples and dicts. Leaves are visited in the order of a tree.

    row_of : returns the row of a leaf at a place, or None if there is none, which makes the result False
    """
    first = len(rows)
    rows += [None] * len(items)
    for k, x in enumerate(items, first):
        kind = type(x)
        if kind in (list, tuple, dict):
            inside = list(x.values()) if kind is dict else x
            rows[k] = kind, tuple(x) if kind is dict else None, None, len(rows), len(inside)
            if not _lay_out(rows, inside, row_of):
                return False
        else:
            rows[k] = row_of(k, x)
            if rows[k] is None:
                return False
    return True
