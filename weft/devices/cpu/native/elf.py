"""A loader for the object files that LLVM writes on Linux x86-64: it copies sections to memory and relocates them.

With it, a process whose kernels are cached does not load LLVM (180 MB), which takes longer than all else at weft's start.
The loader accepts position-independent code without exceptions and thread-local variables. Other and damaged files raise
UnsupportedObject; the caller then rebuilds the object or uses LLVM's loader. Code pages are never writable and executable at
the same time.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from typing import NamedTuple

from weft.devices.cpu.native.code_memory import UNIT, CodeMemory, Place
from weft.devices.cpu.native.host_cpu import architecture

_ALLOC, _EXEC, _NOBITS, _RELA, _SYMTAB = 2, 4, 8, 4, 2
_R64, _PC32, _PLT32, _GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX, _PC64 = 1, 2, 4, 9, 41, 42, 24
_GOT = (_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX)
_LARGEST = 1 << 30  # bytes of a section


class UnsupportedObject(ValueError):
    """The object file is damaged or uses a feature this loader does not support."""


class Section(NamedTuple):
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


def is_supported() -> bool:
    return sys.platform == "linux" and architecture() == "x86_64"


class Symbol(NamedTuple):
    name: str
    info: int
    section: int  # 0: imported
    value: int


class Object(NamedTuple):
    """A parsed object file. relocations: (section to change, rows of (offset, symbol << 32 | kind, addend))."""

    sections: list[Section]
    symbols: list[Symbol]
    relocations: list[tuple[int, list[tuple[int, int, int]]]]


class ObjectLayout(NamedTuple):
    """Offsets in an image: code and stubs of imported functions up to ``split``, then data and the table of addresses."""

    place: dict[int, int]  # of sections
    stub: dict[int, int]  # of imported symbols
    table: dict[int, int]  # of the addresses of symbols
    split: int
    size: int


def load(code: bytes, resolve: Callable[[str], int], memory: CodeMemory) -> tuple[dict[str, int], Place]:
    """Load an object file into memory. Return the address of each exported symbol, and the place to return to ``memory.give``.

    ``resolve(name)`` returns the address of an imported symbol.
    """
    place = None
    try:
        if code[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", code, 16) != (1, 62):
            raise UnsupportedObject("not a relocatable x86-64 object")
        parsed = _parse(code)
        layout = _lay_out(parsed)
        place = memory.take(layout.split, layout.size - layout.split)
        image, exports = _build_image(code, parsed, layout, place, resolve)
        memory.fill(place, image[: layout.split], image[layout.split :])
        return exports, place
    except BaseException as error:
        if place is not None:
            memory.give(place)
        damage = OSError | struct.error | LookupError | ValueError | ArithmeticError
        if isinstance(error, UnsupportedObject) or not isinstance(error, damage):
            raise
        raise UnsupportedObject(f"a damaged object, or no memory for it: {error}") from None


def _build_image(
    code: bytes, parsed: Object, layout: ObjectLayout, place: Place, resolve: Callable[[str], int]
) -> tuple[memoryview, dict[str, int]]:
    """Return the relocated bytes of code and data, and the addresses of exported symbols."""
    image = bytearray(layout.size)
    bases = (place.code_address, place.data_address - layout.split)

    def base(offset: int) -> int:
        return bases[offset >= layout.split]

    def address(number: int) -> int:
        symbol = parsed.symbols[number]
        if symbol.section == 0:
            return resolve(symbol.name)
        if symbol.section == 0xFFF1:
            return symbol.value
        if symbol.section not in layout.place:
            raise UnsupportedObject(f"symbol {symbol.name!r} in an unknown section")
        if symbol.value > parsed.sections[symbol.section].size:
            raise UnsupportedObject(f"symbol {symbol.name!r} outside of its section")
        offset = layout.place[symbol.section]
        return base(offset) + offset + symbol.value

    for i, offset in layout.place.items():
        s = parsed.sections[i]
        if s.kind != _NOBITS:
            image[offset : offset + s.size] = code[s.offset : s.offset + s.size]
    for symbol, offset in layout.table.items():
        struct.pack_into("<Q", image, offset, address(symbol))
    for symbol, offset in layout.stub.items():  # jmp *[rip + offset of the table entry]
        image[offset : offset + 2] = b"\xff\x25"
        to = base(layout.table[symbol]) + layout.table[symbol]
        struct.pack_into("<i", image, offset + 2, to - (base(offset) + offset + 6))
    _relocate(image, base, parsed, layout, address)
    exports = {
        s.name: address(i) for i, s in enumerate(parsed.symbols)
        if s.name and s.section and s.info >> 4 == 1 and s.section in layout.place
    }
    return memoryview(image), exports


def _parse(code: bytes) -> Object:
    sections = _sections(code)
    for s in sections:
        if s.size > _LARGEST or (s.kind != _NOBITS and s.offset + s.size > len(code)):
            raise UnsupportedObject(f"section {s.name!r} is cut off or too large")
    table = next((s for s in sections if s.kind == _SYMTAB), None)
    if table is None:
        return Object(sections, [], [])
    strings = sections[table.link].offset
    symbols = [
        Symbol(_read_string(code, strings + name), info, section, value)
        for name, info, _, section, value, _ in struct.iter_unpack("<IBBHQQ", code[table.offset : table.offset + table.size])
    ]
    relocations = [
        (s.info, list(struct.iter_unpack("<QQq", code[s.offset : s.offset + s.size])))
        for s in sections if s.kind == _RELA and sections[s.info].flags & _ALLOC and _is_loaded(sections[s.info])
    ]
    return Object(sections, symbols, relocations)


def _lay_out(parsed: Object) -> ObjectLayout:
    rows = [row for _, rows in parsed.relocations for row in rows]
    imported = {info >> 32 for _, info, _ in rows if parsed.symbols[info >> 32].section == 0}
    in_table = {info >> 32 for _, info, _ in rows if info & 0xFFFFFFFF in _GOT} | imported
    place, stub, split, end = {}, {}, 0, 0
    for executable in (True, False):
        for i, s in enumerate(parsed.sections):
            if s.flags & _ALLOC and _is_loaded(s) and bool(s.flags & _EXEC) == executable:
                if s.align > UNIT:
                    raise UnsupportedObject(f"section {s.name!r} is aligned to {s.align} bytes")
                end = _round_up(end, max(s.align, 1))
                place[i], end = end, end + s.size
        if executable:
            stub = {symbol: _round_up(end, 16) + 16 * n for n, symbol in enumerate(sorted(imported))}
            split = end = _round_up(end + 16 + 16 * len(stub), UNIT)
    table = {symbol: _round_up(end, 8) + 8 * n for n, symbol in enumerate(sorted(in_table))}
    return ObjectLayout(place, stub, table, split, _round_up(end, 8) + 8 * len(table))


def _relocate(
    image: bytearray, base: Callable[[int], int], parsed: Object, layout: ObjectLayout, address: Callable[[int], int],
) -> None:
    pack_i, pack_q = struct.Struct("<i").pack_into, struct.Struct("<q").pack_into
    addresses: dict[int, int] = {}
    for target, rows in parsed.relocations:
        start = layout.place[target]
        begin, size = base(start), parsed.sections[target].size
        for offset, info, addend in rows:
            symbol, kind, at = info >> 32, info & 0xFFFFFFFF, start + offset
            if offset > size - 4:
                raise UnsupportedObject("a relocation outside of its section")
            position = begin + at
            if kind in _GOT:
                to = layout.table[symbol]
                pack_i(image, at, base(to) + to + addend - position)
            elif kind in (_PC32, _PLT32):
                if symbol in layout.stub:
                    to = layout.stub[symbol]
                    pack_i(image, at, base(to) + to + addend - position)
                else:
                    if symbol not in addresses:
                        addresses[symbol] = address(symbol)
                    pack_i(image, at, addresses[symbol] + addend - position)
            elif kind == _R64:
                pack_q(image, at, address(symbol) + addend)
            elif kind == _PC64:
                pack_q(image, at, address(symbol) + addend - position)
            else:
                raise UnsupportedObject(f"relocation {kind}")


def _round_up(n: int, to: int) -> int:
    """Round up to a multiple of ``to``."""
    return -(-n // to) * to


def process_symbol(name: str) -> int:
    """Return the address of a function of the C library, libm, libgcc or the interpreter."""
    for library in (None, "libm.so.6", "libgcc_s.so.1"):  # the process itself first
        try:
            return ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value or 0
        except (OSError, AttributeError):
            pass
    raise UnsupportedObject(f"no symbol {name!r} in this process")


def _is_loaded(section: Section) -> bool:
    return section.name != ".eh_frame"


def _sections(code: bytes) -> list[Section]:
    (offset,) = struct.unpack_from("<Q", code, 40)
    size, count, names = struct.unpack_from("<HHH", code, 58)
    rows = [struct.unpack_from("<IIQQQQIIQQ", code, offset + i * size) for i in range(count)]
    strings = rows[names][4]
    return [Section(_read_string(code, strings + r[0]), r[1], r[2], r[4], r[5], r[6], r[7], r[8]) for r in rows]


def _read_string(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode()
