"""Pack the parameters of a launch as the card reads them; each run replaces addresses and numbers only.

Each parameter is aligned to its size, in the order of the signature, pointers first. Two more pointers follow, to scratch memory
that Triton can request; weft's texts need none.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from weft.devices.cuda.adapter import Code
from weft.devices.cuda.arguments import Launch

_CODES = {
    "i8": "b", "u8": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q", "fp32": "f", "fp64": "d",
}
_PTX = {"8": 1, "16": 2, "32": 4, "64": 8}


@dataclass(frozen=True)
class Layout:
    """codes: ``struct`` code of each parameter; offsets: its position; pointers: the number of pointers, which come first."""

    codes: tuple[str, ...]
    offsets: tuple[int, ...]
    pointers: int

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Return the bytes of each parameter."""
        return tuple([struct.calcsize(c) for c in self.codes])

    @cached_property
    def packers(self) -> tuple[struct.Struct, ...]:
        """Return one packer for each parameter."""
        return tuple([struct.Struct("=" + c) for c in self.codes])

    @property
    def nbytes(self) -> int:
        """Return the bytes of all parameters."""
        return self.offsets[-1] + self.sizes[-1]

    @cached_property
    def addresses(self) -> struct.Struct:
        """Return the packer of all pointers."""
        return struct.Struct(f"={self.pointers}Q")


def layout(launch: Launch) -> Layout:
    """Return the layout of the parameters of a launch.

    Raises
    ------
    ValueError
        A parameter has a type that cannot be passed, or a number precedes a pointer.
    """
    types = [kind for _, kind, _ in launch.signature]
    pointers = sum(kind.startswith("*") for kind in types)
    unknown = [kind for kind in types[pointers:] if kind not in _CODES]
    if unknown:
        raise ValueError(f"a launch's numbers must come after its pointers and be one of {', '.join(_CODES)}, not {unknown[0]}")
    codes = ["Q"] * pointers + [_CODES[kind] for kind in types[pointers:]] + ["Q", "Q"]
    offsets, end = [], 0
    for code in codes:
        size = struct.calcsize(code)
        offsets.append(-(-end // size) * size)
        end = offsets[-1] + size
    return Layout(tuple(codes), tuple(offsets), pointers)


def declared_sizes(code: Code) -> tuple[int, ...]:
    """Return the bytes of each parameter, as compiled code declares them."""
    start = code.assembly.index(f".entry {code.entry}(")
    head = code.assembly[start : code.assembly.index(")", start)]
    return tuple([_PTX[bits] for bits in re.findall(r"\.param \.[bfsu](\d+)", head)])


class Parameters:
    """The packed parameters of one launch and the array of their addresses, which a driver reads. Not thread-safe."""

    __slots__ = ("_memory", "_pack", "_start", "_table", "address", "layout")

    def __init__(self, where: Layout) -> None:
        self.layout = where
        self._memory = ctypes.create_string_buffer(where.nbytes + 8)
        first = ctypes.addressof(self._memory)
        self._start = -first % 8
        self._pack = where.addresses.pack_into
        self._table = (ctypes.c_void_p * len(where.offsets))(*[first + self._start + offset for offset in where.offsets])
        self.address = ctypes.addressof(self._table)

    def put_addresses(self, addresses: Sequence[int]) -> None:
        """Set the pointers."""
        self._pack(self._memory, self._start, *addresses)

    def put_number(self, place: int, value: float) -> None:
        """Set another parameter by its position among all."""
        where = self.layout
        where.packers[place].pack_into(self._memory, self._start + where.offsets[place], value)
