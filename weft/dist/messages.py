"""Messages from one rank to another: a header with the array's shape, dtype and line of the program, then its bytes."""

from __future__ import annotations

import numpy as np

from weft.dist.agreement import MESSAGE_TAGS, empty, pack, unpack
from weft.dist.world import world
from weft.errors import CollectiveError


def send(x: np.ndarray, to: int, place: str, backward: bool) -> None:
    """Send a copy. This rank does not wait for the other one."""
    job, what = world(), f"send to rank {to}"
    with job.conversation(f"{what} ({place})"):
        job.sent[to, int(backward)] += 1
        data = np.array(x, order="C").reshape(-1).view(np.uint8)
        job.send_later([pack(_text(x.shape, x.dtype), place)], to, MESSAGE_TAGS[backward])
        if data.size:
            job.send_later([data], to, MESSAGE_TAGS[backward] + 1)


def receive(shape: tuple[int, ...], dtype: np.dtype, source: int, place: str, backward: bool) -> np.ndarray:
    """Return the next array from a rank, which must have this shape and dtype."""
    job, what = world(), f"recv from rank {source} ({place})"
    expected, note = _text(shape, dtype), empty()
    with job.conversation(what) as engine:
        job.wait([(engine.irecv(note, source, MESSAGE_TAGS[backward]), source)], what)
        job.received[source, int(backward)] += 1
        found, their_place = unpack(note)
        if found != expected:
            raise CollectiveError(
                f"{job} expects {expected} from rank {source} ({place}), but it sends {found} ({their_place})"
            )
        out = np.empty(shape, dtype)
        if out.size:
            job.wait([(engine.irecv(out.reshape(-1).view(np.uint8), source, MESSAGE_TAGS[backward] + 1), source)], what)
    return out


def _text(shape: tuple[int, ...], dtype: np.dtype) -> str:
    return f"{dtype}{list(shape)}"
