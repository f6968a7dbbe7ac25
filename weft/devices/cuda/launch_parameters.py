"""The parameters of a launch as the card reads them: packed once, and then only addresses and numbers of a run are put in.

Each parameter lies at a multiple of its size, in the order of the signature, pointers first; two more pointers follow, to scratch
memory that Triton may ask for and weft's texts do not.
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
    """codes : how ``struct`` calls each parameter; offsets : where it lies; pointers : how many come first"""

    codes: tuple[str, ...]
    offsets: tuple[int, ...]
    pointers: int

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of each."""
        return tuple([struct.calcsize(c) for c in self.codes])

    @cached_property
    def each(self) -> tuple[struct.Struct, ...]:
        """What packs one of them."""
        return tuple([struct.Struct("=" + c) for c in self.codes])

    @property
    def nbytes(self) -> int:
        """Bytes of all."""
        return self.offsets[-1] + self.sizes[-1]

    @cached_property
    def addresses(self) -> struct.Struct:
        """What packs the pointers, which are the first parameters."""
        return struct.Struct(f"={self.pointers}Q")


def layout(launch: Launch) -> Layout:
    """Where the parameters of a launch lie.

    Raises
    ------
    ValueError
        A parameter has a type that is not passed, or a number stands before a pointer.
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


def compiled_sizes(code: Code) -> tuple[int, ...]:
    """Bytes of each parameter, as compiled code declares them."""
    start = code.assembly.index(f".entry {code.entry}(")
    head = code.assembly[start : code.assembly.index(")", start)]
    return tuple([_PTX[bits] for bits in re.findall(r"\.param \.[bfsu](\d+)", head)])


class Parameters:
    """Room for the parameters of one launch, and the array of their addresses, which a driver reads. For one thread at a time."""

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
        """The pointers."""
        self._pack(self._memory, self._start, *addresses)

    def put_number(self, place: int, value: float) -> None:
        """One of the other parameters, by its place among all."""
        where = self.layout
        where.each[place].pack_into(self._memory, self._start + where.offsets[place], value)
