"""What a device must offer. A backend is a folder whose module has these; nothing else is asked of it."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from weft.schedule.program import Program


class Buffer(Protocol):
    """Memory on a device. ``address`` is a plain int; the memory lives as long as the object."""

    address: int
    nbytes: int


class Executable(Protocol):
    """A compiled Program. ``places``: what the array layer keeps with it, to say where a fault comes from."""

    program: Program
    places: Any

    def __call__(self, inputs: list[Any], held: list[bool] | None = None) -> list[Buffer]:
        """Run: buffers (or Python numbers for scalar inputs) in, one new buffer an output out.

        ``held[i]`` is False where nobody else holds input i, so that its memory may become an output's. Raises IndexFault
        where an index is out of range; then no input has changed.
        """
        ...

    def direct(self) -> int:
        """For warm calls: the address of what one native call runs, or 0."""
        ...


class Backend(Protocol):
    name: str

    def compile(self, program: Program) -> Executable: ...
    def allocate(self, nbytes: int) -> Buffer: ...
    def from_numpy(self, array: np.ndarray) -> Buffer: ...
    def gather(self, array: np.ndarray, rows: np.ndarray) -> Buffer: ...
    def first(self, buffer: Buffer, dtype: np.dtype) -> Any: ...
    def to_numpy(self, buffer: Buffer, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray: ...
    def synchronise(self) -> None: ...
    def describe(self) -> dict[str, Any]: ...
