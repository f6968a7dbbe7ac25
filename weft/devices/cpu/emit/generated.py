"""The result of code generation: the text of one kernel and its requirements at run time."""

from __future__ import annotations

from dataclasses import dataclass

from weft.devices.cpu.emit.text import Module


@dataclass(frozen=True, slots=True)
class Generated:
    """LLVM text of one kernel. scratch: bytes shared by all workers; worker_scratch: bytes per worker.

    paths: names of the code paths taken; tests check that they have covered all of them.
    vectors: whether several elements are computed together. called: functions of the C library, with their float type.
    """

    symbol: str
    ir: str
    scratch: int
    worker_scratch: int
    paths: tuple[str, ...] = ()
    vectors: bool = False
    called: tuple[tuple[str, str], ...] = ()


def generated(module: Module, symbol: str, scratch: int, worker_scratch: int) -> Generated:
    """Return the Generated of a finished module."""
    return Generated(symbol, module.text(), scratch, worker_scratch, tuple(module.paths), module.vectors, tuple(module.called))
