"""What a code generator gives: the text of one kernel, and what it needs to run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Generated:
    """LLVM text of one kernel. scratch: bytes shared by all workers; worker_scratch: bytes a worker.

    paths: the ways of generating code that were entered, in words: what tests ask whether they have met them all.
    """

    symbol: str
    ir: str
    scratch: int
    worker_scratch: int
    paths: tuple[str, ...] = ()
