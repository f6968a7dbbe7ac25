"""Binary search inside kernels: how many places of a sorted vector fulfil a condition, found in log2(n) reads."""

from __future__ import annotations

from collections.abc import Callable

from weft.dtypes.formats import INT32, INT64
from weft.functions.support.arguments import Node, cast, number, op

MAX_COMPARED = 32  # up to this length a comparison with every element takes less time than the dependent reads of a search


def count_leading(length: int, is_passed: Callable[[Node], Node]) -> Node:
    """Return how many of the places 0 to ``length - 1`` fulfil ``is_passed``, for each element of what it returns: int64.

    ``is_passed`` maps a node of places to a bool node and holds for a first part of the places alone. No place that it is given
    lies outside of the vector, so the reads need no check.
    """
    dtype = INT32 if length <= INT32.greatest else INT64
    found = number(0, dtype)
    while length > 1:  # the result lies between found and found + length
        half = length // 2
        behind = op("add", found, number(half, dtype))
        found = op("where", is_passed(op("subtract", behind, number(1, dtype))), behind, found)
        length -= half
    return op("add", cast(found, INT64), cast(is_passed(found), INT64))
