"""Binary search inside kernels: count the leading elements of a sorted vector that fulfil a condition, in log2(n) reads."""

from __future__ import annotations

from collections.abc import Callable

from weft.dtypes.formats import INT32, INT64
from weft.functions.support.arguments import Node, cast, number, op

MAX_COMPARED = 32  # up to this length, comparing with every element is faster than the dependent reads of a search


def count_leading(length: int, is_passed: Callable[[Node], Node]) -> Node:
    """Return, for each element of the result of ``is_passed``, how many of the positions 0 to ``length - 1`` fulfil it, as int64.

    ``is_passed`` maps a node of positions to a bool node and holds for a prefix of the positions. It receives positions inside
    of the vector only, so its reads need no bounds check.
    """
    dtype = INT32 if length <= INT32.greatest else INT64
    count = number(0, dtype)
    while length > 1:  # invariant: count <= result <= count + length
        half = length // 2
        behind = op("add", count, number(half, dtype))
        count = op("where", is_passed(op("subtract", behind, number(1, dtype))), behind, count)
        length -= half
    return op("add", cast(count, INT64), cast(is_passed(count), INT64))
