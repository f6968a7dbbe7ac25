"""A loader for the object files LLVM writes on Linux x86-64: sections into memory, relocations, done.

A process that finds its kernels on disk needs no LLVM, and opening LLVM (180 MB) takes longer than everything else
weft does at start. Only what position-independent code without exceptions and thread-locals contains is
accepted; anything else raises, and the caller goes to LLVM's own loader. Code pages are never writable and
executable at once.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Callable
from typing import NamedTuple

_ALLOC, _EXEC, _NOBITS, _RELA, _SYMTAB = 2, 4, 8, 4, 2
_R64, _PC32, _PLT32, _GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX, _PC64 = 1, 2, 4, 9, 41, 42, 24
_GOT = (_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX)


class UnsupportedObject(ValueError):
    """An object file with something this loader does not do."""


class Section(NamedTuple):
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


def supported() -> bool:
    return sys.platform == "linux" and platform.machine() == "x86_64"


class Symbol(NamedTuple):
    name: str
    info: int
    section: int  # 0: imported
    value: int


class Object(NamedTuple):
    """relocations: (section that is changed, its rows (offset, symbol << 32 | kind, addend))"""

    sections: list[Section]
    symbols: list[Symbol]
    relocations: list[tuple[int, list[tuple[int, int, int]]]]


class Layout(NamedTuple):
    """Offsets in memory: code and stubs for imported functions, up to ``split``; then the rest and the table of addresses."""

    place: dict[int, int]  # of sections
    stub: dict[int, int]  # of imported symbols
    table: dict[int, int]  # of symbols: where their address stands
    split: int
    size: int


def load(code: bytes, resolve: Callable[[str], int]) -> dict[str, int]:
    """Put an object file into memory for good; returns the address of each symbol it exports.

    ``resolve(name)`` gives the address of a symbol the object imports.
    """
    if code[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", code, 16) != (1, 62):
        raise UnsupportedObject("not a relocatable x86-64 object")
    found = _parsed(code)
    layout = _laid_out(found)
    memory = mmap.mmap(-1, layout.size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # a forked child writes to its own
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    # never unmapped: workers may be inside, and buffers are freed by this code while the interpreter ends
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))

    def address(number: int) -> int:
        symbol = found.symbols[number]
        if symbol.section == 0:
            return resolve(symbol.name)
        if symbol.section == 0xFFF1:
            return symbol.value
        if symbol.section not in layout.place:
            raise UnsupportedObject(f"symbol {symbol.name!r} in an unknown section")
        return base + layout.place[symbol.section] + symbol.value

    for i, offset in layout.place.items():
        s = found.sections[i]
        if s.kind != _NOBITS:
            memory[offset : offset + s.size] = code[s.offset : s.offset + s.size]
    for symbol, offset in layout.table.items():
        struct.pack_into("<Q", memory, offset, address(symbol))
    for symbol, offset in layout.stub.items():  # jmp *[rip + to the table]
        memory[offset : offset + 2] = b"\xff\x25"
        struct.pack_into("<i", memory, offset + 2, layout.table[symbol] - (offset + 6))
    _relocate(memory, base, found, layout, address)
    if _protect(base, layout.split, mmap.PROT_READ | mmap.PROT_EXEC):
        raise UnsupportedObject("this system refuses executable memory")
    return {
        s.name: address(i) for i, s in enumerate(found.symbols)
        if s.name and s.section and s.info >> 4 == 1 and s.section in layout.place
    }


def _parsed(code: bytes) -> Object:
    sections = _sections(code)
    table = next((s for s in sections if s.kind == _SYMTAB), None)
    if table is None:
        return Object(sections, [], [])
    strings = sections[table.link].offset
    symbols = [
        Symbol(_text(code, strings + name), info, section, value)
        for name, info, _, section, value, _ in struct.iter_unpack("<IBBHQQ", code[table.offset : table.offset + table.size])
    ]
    relocations = [
        (s.info, list(struct.iter_unpack("<QQq", code[s.offset : s.offset + s.size])))
        for s in sections if s.kind == _RELA and sections[s.info].flags & _ALLOC and _kept(sections[s.info])
    ]
    return Object(sections, symbols, relocations)


def _laid_out(found: Object) -> Layout:
    rows = [row for _, rows in found.relocations for row in rows]
    outside = {info >> 32 for _, info, _ in rows if found.symbols[info >> 32].section == 0}
    through = {info >> 32 for _, info, _ in rows if info & 0xFFFFFFFF in _GOT} | outside
    place, stub, split, end = {}, {}, 0, 0
    for executable in (True, False):
        for i, s in enumerate(found.sections):
            if s.flags & _ALLOC and _kept(s) and bool(s.flags & _EXEC) == executable:
                end = _up(end, max(s.align, 1))
                place[i], end = end, end + s.size
        if executable:
            stub = {symbol: _up(end, 16) + 16 * n for n, symbol in enumerate(sorted(outside))}
            split = end = _up(end + 16 + 16 * len(stub), mmap.PAGESIZE)
    table = {symbol: _up(end, 8) + 8 * n for n, symbol in enumerate(sorted(through))}
    return Layout(place, stub, table, split, _up(end + 16 + 8 * len(table), mmap.PAGESIZE))


def _relocate(memory: mmap.mmap, base: int, found: Object, layout: Layout, address: Callable[[int], int]) -> None:
    pack_i, pack_q = struct.Struct("<i").pack_into, struct.Struct("<q").pack_into
    known: dict[int, int] = {}
    for target, rows in found.relocations:
        start = layout.place[target]
        for offset, info, addend in rows:
            symbol, kind, here = info >> 32, info & 0xFFFFFFFF, start + offset
            if kind in _GOT:
                pack_i(memory, here, layout.table[symbol] + addend - here)
            elif kind in (_PC32, _PLT32):
                if symbol in layout.stub:
                    pack_i(memory, here, layout.stub[symbol] + addend - here)
                else:
                    if symbol not in known:
                        known[symbol] = address(symbol) - base
                    pack_i(memory, here, known[symbol] + addend - here)
            elif kind == _R64:
                pack_q(memory, here, address(symbol) + addend)
            elif kind == _PC64:
                pack_q(memory, here, address(symbol) - base + addend - here)
            else:
                raise UnsupportedObject(f"relocation {kind}")


def _up(n: int, to: int) -> int:
    """The next multiple."""
    return -(-n // to) * to


def process_symbol(name: str) -> int:
    """The address of a function of the C library, libm or the interpreter."""
    try:
        return ctypes.cast(getattr(_process(), name), ctypes.c_void_p).value or 0
    except AttributeError:
        pass
    for library in ("libm.so.6", "libgcc_s.so.1"):
        try:
            return ctypes.cast(getattr(ctypes.CDLL(library), name), ctypes.c_void_p).value or 0
        except (OSError, AttributeError):
            pass
    raise UnsupportedObject(f"no symbol {name!r} in this process")


def _process() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _protect(address: int, size: int, flags: int) -> int:
    mprotect = _process().mprotect
    mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return mprotect(address, size, flags) if size else 0


def _kept(section: Section) -> bool:
    return section.name != ".eh_frame"


def _sections(code: bytes) -> list[Section]:
    (offset,) = struct.unpack_from("<Q", code, 40)
    size, count, names = struct.unpack_from("<HHH", code, 58)
    rows = [struct.unpack_from("<IIQQQQIIQQ", code, offset + i * size) for i in range(count)]
    strings = rows[names][4]
    return [Section(_text(code, strings + r[0]), r[1], r[2], r[4], r[5], r[6], r[7], r[8]) for r in rows]


def _text(code: bytes, start: int) -> str:
    return code[start : code.index(b"\0", start)].decode()
