"""Offsets of temporaries in one arena.

Temporaries between several writes of one array use the memory of the last result, so a chain of scatters is in place.
"""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Sequence

ALIGN = 64
MAX_SORTED = 1000  # temporaries; more are placed step by step, which is faster but may take more memory


def align_bytes(nbytes: int) -> int:
    """Return ``nbytes``, rounded up to the alignment."""
    return -(-nbytes // ALIGN) * ALIGN


def arena(sizes: Sequence[int], lives: Sequence[tuple[int, int]]) -> tuple[list[int], int]:
    """Return the offset of each temporary, and the size of the arena.

    Parameters
    ----------
    sizes : bytes of each
    lives : (step that writes it, last step that reads it) of each, both inclusive

    The largest temporaries are placed first, each into the lowest gap that is free during its whole life. More than
    ``MAX_SORTED`` are placed in the order in which they are written, each into the lowest gap that is free at that step.
    """
    if len(sizes) > MAX_SORTED:
        return _place_in_step_order(sizes, lives)
    offsets = [0] * len(sizes)
    placed: list[tuple[int, int, int, int]] = []  # (begin and end of the place, first and last step), ordered by place
    total = 0
    for k in sorted(range(len(sizes)), key=lambda i: (-sizes[i], i)):
        need = align_bytes(sizes[k])
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


def _place_in_step_order(sizes: Sequence[int], lives: Sequence[tuple[int, int]]) -> tuple[list[int], int]:
    """Place temporaries step by step: each written one takes a gap, each one read for the last time becomes a gap."""
    offsets, total = [0] * len(sizes), 0
    begins: dict[int, list[int]] = {}
    ends: dict[int, list[int]] = {}
    for k, (begin, end) in enumerate(lives):
        begins.setdefault(begin, []).append(k)
        ends.setdefault(end, []).append(k)
    gaps: list[tuple[int, int]] = []  # (begin, end), in order
    for step in sorted(begins.keys() | ends.keys()):
        for k in sorted(begins.get(step, ()), key=lambda i: (-sizes[i], i)):
            need = align_bytes(sizes[k])
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
            low, high = offsets[k], offsets[k] + align_bytes(sizes[k])
            place = bisect(gaps, (low, high))
            if place < len(gaps) and gaps[place][0] == high:
                high = gaps.pop(place)[1]
            if place and gaps[place - 1][1] == low:
                place -= 1
                low = gaps.pop(place)[0]
            if low < high:
                gaps.insert(place, (low, high))
    return offsets, total
