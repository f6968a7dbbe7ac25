"""Where temporaries live: places in one arena."""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Sequence

ALIGN = 64
MANY = 1000  # temporaries; above, their places are sought in a way that takes less time and may take more memory


def aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGN) * ALIGN


def arena(sizes: Sequence[int], lives: Sequence[tuple[int, int]]) -> tuple[list[int], int]:
    """Offsets for temporaries, and the size of the whole.

    Parameters
    ----------
    sizes : bytes of each
    lives : (step that writes it, last step that reads it) of each, both inclusive

    The largest are placed first, each into the lowest gap that is free over its whole life; where there are very many, in the
    order in which they are written, each into the lowest gap that is free then.
    """
    if len(sizes) > MANY:
        return _swept(sizes, lives)
    offsets = [0] * len(sizes)
    placed: list[tuple[int, int, int, int]] = []  # (begin and end of the place, of the life), in order of places
    total = 0
    for k in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        need = aligned(sizes[k])
        begin, end = lives[k]
        at = 0
        for low, high, first, last in placed:
            if first <= end and begin <= last:
                if low - at >= need:
                    break
                at = max(at, high)
        offsets[k] = at
        total = max(total, at + need)
        insort(placed, (at, at + need, begin, end))
    return offsets, total


def _swept(sizes: Sequence[int], lives: Sequence[tuple[int, int]]) -> tuple[list[int], int]:
    """Step by step: a gap for what is written, and what was read last is a gap again."""
    offsets, total = [0] * len(sizes), 0
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for k, (begin, end) in enumerate(lives):
        begins.setdefault(begin, []).append(k)
        ends.setdefault(end, []).append(k)
    gaps: list[tuple[int, int]] = []  # (begin, end), in order
    for step in sorted(begins.keys() | ends.keys()):
        for k in sorted(begins.get(step, ()), key=lambda i: (-sizes[i], i)):
            need = aligned(sizes[k])
            for place, (low, high) in enumerate(gaps):
                if high - low >= need:
                    gaps[place : place + 1] = [(low + need, high)] if high - low > need else []
                    offsets[k] = low
                    break
            else:
                if gaps and gaps[-1][1] == total:  # the last gap grows
                    offsets[k] = gaps.pop()[0]
                else:
                    offsets[k] = total
                total = offsets[k] + need
        for k in ends.get(step, ()):
            low, high = offsets[k], offsets[k] + aligned(sizes[k])
            place = bisect(gaps, (low, high))
            if place < len(gaps) and gaps[place][0] == high:
                high = gaps.pop(place)[1]
            if place and gaps[place - 1][1] == low:
                place -= 1
                low = gaps.pop(place)[0]
            if low < high:
                gaps.insert(place, (low, high))
    return offsets, total
