"""What a code generator gives: the text of one kernel, and what it needs to run."""

from __future__ import annotations

from dataclasses import dataclass

from weft.devices.cpu.emit.text import Module


@dataclass(frozen=True, slots=True)
class Generated:
    """LLVM text of one kernel. scratch: bytes shared by all workers; worker_scratch: bytes a worker.

    paths: the ways of generating code that were entered, in words: what tests ask whether they have met them all.
    vectors: whether several elements are computed together. called: functions of the C library, with the type of their numbers.
    """

    symbol: str
    ir: str
    scratch: int
    worker_scratch: int
    paths: tuple[str, ...] = ()
    vectors: bool = False
    called: tuple[tuple[str, str], ...] = ()


def generated(module: Module, symbol: str, scratch: int, worker_scratch: int) -> Generated:
    """What a module holds when all is written."""
    return Generated(symbol, module.text(), scratch, worker_scratch, tuple(module.paths), module.vectors, tuple(module.called))
