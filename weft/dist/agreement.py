"""Before a collective moves data, each rank compares its request with that of its neighbour.

If all neighbours in a ring agree, all ranks do. It costs one short message, before 2 log2(ranks) others.
"""

from __future__ import annotations

import numpy as np

from weft.dist.engine import Engine, Waiter
from weft.errors import CollectiveError

AGREEMENT_TAG = 1
MESSAGE_TAGS = (3, 5)  # of values, and of derivatives: their orders are opposite; the next tag is that of the content
_BYTES = 256
_END = "the end of the script"


def pack(request: str, place: str) -> np.ndarray:
    """Return the bytes of a request; ``place``: the user's line, which may differ between ranks."""
    text = (request.encode()[: _BYTES - 64] + b"\0" + place.encode())[:_BYTES]
    return np.frombuffer(text.ljust(_BYTES, b"\0"), np.uint8)


def unpack(data: np.ndarray) -> tuple[str, str]:
    """Return request and place."""
    request, _, place = data.tobytes().partition(b"\0")
    return request.decode(errors="replace"), place.rstrip(b"\0").decode(errors="replace")


def empty() -> np.ndarray:
    """Return memory for a packed request."""
    return np.empty(_BYTES, np.uint8)


def agree(world: Waiter, engine: Engine, ranks: tuple[int, ...], request: str, place: str) -> None:
    """Raise CollectiveError unless the left neighbour among ``ranks`` asks for the same."""
    me, n = ranks.index(world.rank), len(ranks)
    right, left = ranks[(me + 1) % n], ranks[me - 1]
    theirs = empty()
    arriving, leaving = engine.irecv(theirs, left, AGREEMENT_TAG), engine.isend(pack(request, place), right, AGREEMENT_TAG)
    requests = [(arriving, left), (leaving, right)]
    world.wait(requests, f"{request} ({place})" if place else request)
    other, other_place = unpack(theirs)
    if other != request:
        raise CollectiveError(
            f"rank {world.rank} of {world.size} {_describe(request, place)}, but rank {left} {_describe(other, other_place)}: "
            "all ranks must ask for the same, in the same order"
        )


def agree_to_leave(world: Waiter, engine: Engine) -> None:
    """Wait until the neighbours have come to the end of their scripts, too."""
    agree(world, engine, tuple(range(world.size)), _END, "")


def _describe(request: str, place: str) -> str:
    return "is at the end of its script" if request == _END else f"asks for {request} ({place})"
