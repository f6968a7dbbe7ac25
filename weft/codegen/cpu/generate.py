"""The CPU generator's face: a Kernel in, LLVM text out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Generated:
    """LLVM text of one kernel. scratch: bytes shared by all workers; worker_scratch: bytes a worker."""

    symbol: str
    ir: str
    scratch: int
    worker_scratch: int
