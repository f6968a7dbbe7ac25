"""Collectives on arrays in the memory of GPUs: parts go from card to card, and the cards add them up.

Each rank receives its part of a sum from all others, adds up in the tree of the host's sums, and sends the result to all. That is
as many bytes as a ring sends, in two groups of messages.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from weft.devices.steps import DeviceStep
from weft.dist.algorithms import Link, sum_in_tree
from weft.dist.nccl import Communicator


class CardLink:
    """The members of a group in one collective on cards.

    source, out : addresses of operand and result, which may be one. nbytes : of the operand
    """

    def __init__(self, link: Link, communicator: Communicator, step: DeviceStep) -> None:
        self.me, self.size, self._communicator, self.step = link.me, link.size, communicator, step
        self.source, self.out = step.address, step.out
        self.nbytes = prod(step.shape, start=step.dtype.bytes)

    @property
    def others(self) -> list[int]:
        return [k for k in range(self.size) if k != self.me]

    def exchange(self, sends: list[tuple[int, int, int]], receives: list[tuple[int, int, int]]) -> None:
        self._communicator.exchange(self.step, sends, receives)

    def copy(self, target: int, source: int, nbytes: int) -> None:
        if nbytes and target != source:
            self.step.copy(target, source, nbytes)


def run(name: str, link: Link, communicator: Communicator, step: DeviceStep, **params: Any) -> None:
    """Run a collective and wait for it."""
    card = CardLink(link, communicator, step)
    BY_NAME[name](card, **params)
    communicator.wait(link, step)


def all_sum(card: CardLink) -> None:
    """Write the sum over the ranks."""
    form = card.step.dtype
    count = card.nbytes // form.bytes
    width = -(-count // card.size)
    bounds = [min(k * width, count) * form.bytes for k in range(card.size + 1)]
    parts = [(bounds[k], bounds[k + 1] - bounds[k]) for k in range(card.size)]
    _add_parts(card, card.out + parts[card.me][0], parts)
    first, own = parts[card.me]
    card.exchange(
        [(card.out + first, own, k) for k in card.others], [(card.out + parts[k][0], parts[k][1], k) for k in card.others],
    )


def reduce_scatter(card: CardLink) -> None:
    """Write this rank's row of the sum over the ranks."""
    row = card.nbytes // card.size
    _add_parts(card, card.out, [(k * row, row) for k in range(card.size)])


def _add_parts(card: CardLink, target: int, parts: list[tuple[int, int]]) -> None:
    """Write the sum of this rank's part over the ranks. parts : (offset, bytes) of each rank's part of the operand"""
    first, own = parts[card.me]
    rows = card.step.allocate(own * card.size)
    card.copy(rows + card.me * own, card.source + first, own)
    card.exchange(
        [(card.source + parts[k][0], parts[k][1], k) for k in card.others], [(rows + k * own, own, k) for k in card.others],
    )
    if own:
        form = card.step.dtype.part  # a complex number is two floats
        sums = sum_in_tree(list(range(card.size)), lambda a, b: (a, b))
        card.step.sum_rows(target, rows, sums, own // form.bytes, form)


def reduce(card: CardLink, root: int) -> None:
    """Write the sum over the ranks at the root, and zeros elsewhere."""
    all_sum(card)
    if card.me != root:
        card.step.zero(card.out, card.nbytes)


def all_to_all(card: CardLink) -> None:
    """Write this rank's row of every rank's array."""
    row = card.nbytes // card.size
    source = _apart(card)
    card.copy(card.out + card.me * row, source + card.me * row, row)
    card.exchange([(source + k * row, row, k) for k in card.others], [(card.out + k * row, row, k) for k in card.others])


def all_gather(card: CardLink) -> None:
    """Write the arrays of all ranks, stacked."""
    n = card.nbytes
    card.copy(card.out + card.me * n, card.source, n)
    card.exchange([(card.source, n, k) for k in card.others], [(card.out + k * n, n, k) for k in card.others])


def broadcast(card: CardLink, root: int) -> None:
    """Write the root's array, which goes down a binomial tree."""
    n, place, step = card.size, (card.me - root) % card.size, 1  # the root has place 0
    if place == 0:
        card.copy(card.out, card.source, card.nbytes)
    while step < n:
        if place < step and place + step < n:
            card.exchange([(card.out, card.nbytes, (place + step + root) % n)], [])
        elif step <= place < 2 * step:
            card.exchange([], [(card.out, card.nbytes, (place - step + root) % n)])
        step *= 2


def _apart(card: CardLink) -> int:
    """Return the address of the operand, or of a copy if the result takes its memory."""
    if card.source != card.out:
        return card.source
    copy = card.step.allocate(card.nbytes)
    card.copy(copy, card.source, card.nbytes)
    return copy


BY_NAME: dict[str, Callable[..., None]] = {
    "all_sum": all_sum, "all_gather": all_gather, "reduce_scatter": reduce_scatter, "all_to_all": all_to_all,
    "broadcast": broadcast, "reduce": reduce,
}
