"""Values as they lie in memory and as they are kept in registers."""

from __future__ import annotations

import numpy as np

from weft.devices.cpu.emit.rounding import decoded, encoded
from weft.devices.cpu.emit.text import Function
from weft.devices.cpu.emit.types import cell_type, literal, llvm_type, memory_type, splat_text, wide
from weft.dtypes.formats import BFLOAT16, BOOL, FLOAT16, Format


def from_memory(f: Function, name: str, dtype: Format, lanes: int | None) -> str:
    """A loaded value as it is kept in registers."""
    if dtype is BOOL:
        return f.let(f"icmp ne {wide('i8', lanes)} {name}, {splat_text('i8', '0', lanes)}")
    if dtype is FLOAT16:
        return f.let(f"fpext {wide('half', lanes)} {name} to {wide('float', lanes)}")
    if dtype is BFLOAT16:
        bits = f.let(f"zext {wide('i16', lanes)} {name} to {wide('i32', lanes)}")
        high = f.let(f"shl {wide('i32', lanes)} {bits}, {splat_text('i32', '16', lanes)}")
        return f.let(f"bitcast {wide('i32', lanes)} {high} to {wide('float', lanes)}")
    return decoded(f, name, dtype, lanes) if dtype.narrow else name


def to_memory(f: Function, name: str, dtype: Format, lanes: int | None) -> str:
    """A register value as it is written."""
    if dtype is BOOL:
        return f.let(f"zext {wide('i1', lanes)} {name} to {wide('i8', lanes)}")
    if dtype is FLOAT16:
        return f.let(f"fptrunc {wide('float', lanes)} {name} to {wide('half', lanes)}")
    if dtype is BFLOAT16:
        bits = f.let(f"bitcast {wide('float', lanes)} {name} to {wide('i32', lanes)}")
        high = f.let(f"lshr {wide('i32', lanes)} {bits}, {splat_text('i32', '16', lanes)}")
        return f.let(f"trunc {wide('i32', lanes)} {high} to {wide('i16', lanes)}")
    return encoded(f, name, dtype, lanes) if dtype.narrow else name


def memory_literal(dtype: Format, fill: object) -> str:
    """``fill`` as a constant of the memory type."""
    if dtype is BOOL:
        return "1" if fill else "0"
    if dtype.narrow:
        return str(np.asarray(fill).astype(dtype.numpy).view(dtype.integer.numpy).item())
    return literal(dtype, fill)


def load_cell(f: Function, type_: str, pointer: str, align: int | None = None) -> str:
    """Registers of ``type_`` from memory, where they lie as ``cell_type(type_)``."""
    cell = cell_type(type_)
    out = f.load(cell, pointer, align)
    return out if cell == type_ else f.let(f"trunc {cell} {out} to {type_}")


def store_cell(f: Function, type_: str, value: str, pointer: str, align: int | None = None) -> None:
    """Registers of ``type_`` into memory, where they lie as ``cell_type(type_)``."""
    cell = cell_type(type_)
    if cell != type_:
        value = f.let(f"zext {type_} {value} to {cell}")
    f.store(cell, value, pointer, align)


def load_scalar(f: Function, dtype: Format, pointer: str) -> str:
    """A run-time scalar from its argument slot, as it is kept in registers."""
    return from_memory(f, f.load(memory_type(dtype), pointer, dtype.bytes), dtype, None)


def widened(f: Function, name: str, dtype: Format, type_: str, lanes: int | None) -> str:
    """What was loaded of a float dtype, as accumulators of ``type_`` take it."""
    name, own = from_memory(f, name, dtype, lanes), llvm_type(dtype)
    return name if own == type_ else f.let(f"fpext {wide(own, lanes)} {name} to {wide(type_, lanes)}")
