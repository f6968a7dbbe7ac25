"""The ranks that share a run of ``fit``, and what they tell each other between its steps.

``weft.dist`` is loaded only if there are shards. All methods return at once on one rank.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.array import Array
from weft.functions.creation.fill import asarray
from weft.functions.support.arguments import integer_from


class Ranks:
    """The ranks of a run, seen from one of them. Every method must be called by all of them, in the same order.

    shards : parts of each batch; 1 on one rank only
    read_flags : function that returns whether Ctrl-C was pressed on this rank, and whether a snapshot is due by its clock
    takes_turns : whether the ranks take turns with the shards, instead of having neighbouring ones
    overlaps : whether exchanges may run beside the program
    interrupted, snapshot_due : whether any rank said so in the last update
    """

    def __init__(
        self, shards: int = 1, rank: int = 0, size: int = 1, takes_turns: bool = False, overlaps: bool = False,
    ) -> None:
        self.shards, self.rank, self.size, self.takes_turns, self.overlaps = shards, rank, size, takes_turns, overlaps
        self.read_flags: Callable[[], tuple[bool, bool]] = lambda: (False, False)
        self.interrupted = self.snapshot_due = False

    @property
    def is_first(self) -> bool:
        """Whether this rank prints and writes files."""
        return self.rank == 0

    def own_shards(self) -> range:
        """Return the shards that this rank computes."""
        from weft.dist.shard_sum import shards_in_turn, shards_of

        return (shards_in_turn if self.takes_turns else shards_of)(self.rank, self.size, self.shards)

    def share_text(self, text: str, request: str) -> str:
        """Return the text of the first rank whose text is not empty."""
        if self.size == 1:
            return text
        own = text.encode()
        lengths = self.gather(np.array(len(own)), f"the length of {request}").tolist()
        root = next((rank for rank, length in enumerate(lengths) if length), None)
        if root is None:
            return ""
        return self._broadcast(own, lengths[root], root, request).decode()

    def broadcast(self, data: bytes | None, request: str) -> bytes | None:
        """Return the bytes of rank 0, or None if it has None."""
        if self.size == 1:
            return data
        lengths = self.gather(np.array(-1 if data is None else len(data)), f"the length of {request}").tolist()
        return None if lengths[0] < 0 else self._broadcast(data or b"", lengths[0], 0, request)

    def gather(self, x: np.ndarray, request: str) -> np.ndarray:
        """Return the arrays of all ranks, stacked."""
        if self.size == 1:
            return x[None]
        from weft.dist.algorithms import all_gather

        return self._run(all_gather, request, x)

    def gather_parts(self, x: np.ndarray, sizes: Sequence[int], request: str, root: int | None) -> np.ndarray:
        """Return the vectors of all ranks, joined. sizes : their lengths. root : the only rank that needs them, None for all"""
        if self.size == 1:
            return x
        from weft.dist.algorithms import gather_parts

        return self._run(gather_parts, request, x, sizes, root)

    def check_same(self, description: Mapping[str, Any]) -> None:
        """Raise ValueError, which names the first difference, if this rank describes another run than rank 0."""
        if self.size == 1:
            return
        text = json.dumps(description)
        first = json.loads(self.broadcast(text.encode(), "the description of a run of fit") or b"")
        for name, value in json.loads(text).items():
            if first.get(name) != value:
                raise ValueError(
                    f"fit: rank {self.rank} of {self.size} trains another model, or on other data, than rank 0: "
                    f"{name.replace('_', ' ')} is {value} here, and {first.get(name)} there. All ranks need the same; fit "
                    "divides the rows of each batch among them"
                )

    def share_arrays(self, arrays: Mapping[str, Array]) -> None:
        """Write the arrays of rank 0 into those of the others."""
        if self.size == 1:
            return
        from weft.dist.algorithms import broadcast

        for name, a in arrays.items():
            content = self._run(broadcast, f"{name} of fit", a.numpy(), 0)
            if not self.is_first:
                a[...] = asarray(content)

    def compare(self, arrays: Mapping[str, Array], moment: str) -> None:
        """Raise CollectiveError if the arrays differ between ranks."""
        if self.size == 1:
            return
        from weft.dist.algorithms import barrier

        checksum = 0
        for a in arrays.values():
            checksum = zlib.crc32(a.numpy().tobytes(), checksum)
        self._run(barrier, f"{moment} of fit, with weights of checksum {checksum:08x}")

    def _broadcast(self, data: bytes, length: int, root: int, request: str) -> bytes:
        from weft.dist.algorithms import broadcast

        content = np.frombuffer(data, np.uint8) if self.rank == root else np.empty(length, np.uint8)
        return self._run(broadcast, request, content, root).tobytes()

    def _run(self, algorithm: Callable[..., Any], request: str, *arguments: Any) -> Any:
        from weft.dist.together import run_together
        from weft.dist.world import user_place

        return run_together(algorithm, request, user_place(), tuple(range(self.size)), *arguments)


def join_ranks(shards: Any, takes_turns: bool = False) -> Ranks:
    """Return the ranks of a run, after a check of the argument ``shards`` of ``fit``."""
    if shards is None:
        module = sys.modules.get("weft.dist.world")
        size = 1 if module is None else module.started_size()
        if size > 1:
            raise ValueError(
                f"fit: this job has {size} ranks: give shards=, the number of parts of each batch, which they share; at least "
                f"{size}. The result depends on shards, not on the number of ranks"
            )
        return Ranks()
    count = int(integer_from(1, shards, "fit", "shards"))
    from weft.dist.world import world

    job = world()
    if count < job.size:
        raise ValueError(f"fit: shards={count}, but this job has {job.size} ranks, and each needs at least one shard")
    return Ranks(count, job.rank, job.size, takes_turns, job.overlaps)


def writes_files() -> bool:
    """Return whether this process writes the files of callbacks: rank 0, or a process without a job."""
    module = sys.modules.get("weft.dist.world")
    return module is None or module.started_rank() == 0
