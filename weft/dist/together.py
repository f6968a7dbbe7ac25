"""One collective on NumPy arrays: the ranks compare their requests, then run the algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.dist.agreement import agree
from weft.dist.algorithms import Link
from weft.dist.world import world


def run_together(
    algorithm: Callable[..., Any], request: str, place: str, ranks: tuple[int, ...], *arguments: Any, **options: Any,
) -> Any:
    """Return ``algorithm(link, ...)`` among ``ranks``, all of which must call this with the same ``request``.

    ``place``: the user's line, for messages
    """
    job = world()
    what = f"{request} ({place})"
    with job.conversation(what) as engine:
        agree(job, engine, ranks, request, place)
        return algorithm(Link(job, engine, ranks, what), *arguments, **options)
