"""Groups: some of the ranks, among which a collective runs."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from weft.dist.world import world
from weft.errors import short


@dataclass(frozen=True, slots=True, init=False)
class Group:
    """Ranks that take part in a collective. Make one with :func:`group`.

    Attributes
    ----------
    ranks : tuple of int
        the members, in their order within the group

    Raises
    ------
    TypeError, ValueError
        As :func:`group`.
    """

    ranks: tuple[int, ...]

    def __init__(self, ranks: Iterable[int]) -> None:
        try:
            given = tuple(ranks)
        except TypeError:
            raise TypeError(f"group: ranks is {short(ranks)}, but must be a list of ints") from None
        members = tuple([check_rank("group", f"ranks[{k}]", r, world().size) for k, r in enumerate(given)])
        if not members or len(set(members)) < len(members):
            raise ValueError(f"group: ranks is {short(ranks)}, but must have at least one rank, and each once")
        object.__setattr__(self, "ranks", members)

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.ranks)

    @property
    def rank(self) -> int | None:
        """The place of this rank among the members; None if it is none of them."""
        me = world().rank
        return self.ranks.index(me) if me in self.ranks else None


def group(ranks: Iterable[int]) -> Group:
    """Return a group of ranks, for the argument ``group`` of collectives. Nothing is sent.

    Parameters
    ----------
    ranks : ints, each once; the order is that of sums and of the rows of :func:`all_gather`

    Returns
    -------
    Group

    Raises
    ------
    TypeError, ValueError
        ``ranks`` are not ints, are empty, repeat one, or name a rank that the job does not have.

    Examples
    --------
    >>> import weft as wf
    >>> alone = wf.dist.group([wf.dist.rank()])
    >>> alone.size, wf.dist.all_sum(wf.ones(2), group=alone)
    (1, array([1., 1.], dtype=float32))
    """
    return Group(ranks)


@cache
def everybody() -> Group:
    """Return the group of all ranks."""
    return Group(range(world().size))


def check_rank(function: str, argument: str, value: Any, size: int) -> int:
    """Return the number of a rank among ``size`` ones. Raise TypeError or ValueError for others, in the name of an argument."""
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{function}: {argument} is {short(value)}, but must be the number of a rank, an int") from None
    if not 0 <= number < size:
        raise ValueError(f"{function}: {argument} is {number}, but the ranks are 0 to {size - 1}")
    return number
