"""LLVM types and constants of weft's dtypes.

In registers a bool is ``i1`` and storage-only floats are ``float``, rounded to their dtype. In memory a bool is a byte 0 or 1,
float16 a ``half``, and the other storage-only floats are integers of their width.
"""

from __future__ import annotations

import struct
from functools import cache, lru_cache
from typing import Any

import numpy as np

from weft.dtypes.formats import BOOL, FLOAT16, FLOATS, Format
from weft.dtypes.rounding import rounded_number


@cache
def llvm_type(dtype: Format) -> str:
    """Return the scalar LLVM type of a dtype in registers."""
    if dtype is BOOL:
        return "i1"
    if dtype in FLOATS:
        return "double" if dtype.computed.bits == 64 else "float"
    return f"i{dtype.computed.bits}"


@cache
def memory_type(dtype: Format) -> str:
    """Return the scalar LLVM type of a dtype in memory."""
    if dtype is FLOAT16:
        return "half"
    return f"i{8 * dtype.bytes}" if dtype is BOOL or dtype.narrow else llvm_type(dtype)


def cell_type(type_: str) -> str:
    """Return the memory type of a register type (a value or a vector): LLVM packs bits, so each bool takes a byte."""
    return "i8" if type_ == "i1" else type_.replace(" i1>", " i8>")


def align_of(type_: str) -> int:
    """Return the alignment in bytes of elements of a scalar type in memory."""
    return {"i1": 1, "i8": 1, "i16": 2, "half": 2, "float": 4, "i32": 4}.get(type_, 8)


def wide(type_: str, lanes: int | None) -> str:
    """Return ``<lanes x type>``, or the type itself if lanes is None."""
    return type_ if lanes is None else f"<{lanes} x {type_}>"


def float_text(value: float) -> str:
    """Return a float or double constant. LLVM writes both as the bits of a double."""
    return "0x" + struct.pack(">d", value).hex().upper()


@lru_cache(maxsize=4096)
def _rounded_text(dtype: Format, double: bytes) -> str:
    """Return the text of a double rounded to a dtype. Cached by its bits, since 0.0 == -0.0 and NaN != NaN."""
    with np.errstate(over="ignore"):
        return float_text(float(rounded_number(struct.unpack(">d", double)[0], dtype)))


def literal(dtype: Format, value: Any) -> str:
    """Return a scalar constant of a dtype as a register operand."""
    if dtype is BOOL:
        return "true" if bool(value) else "false"
    if dtype in FLOATS:
        return float_text(float(value)) if dtype.bytes == 8 else _rounded_text(dtype, struct.pack(">d", value))
    bits = dtype.bits
    number = int(value) & ((1 << bits) - 1)
    return str(number - (1 << bits) if number >> (bits - 1) else number)


def splat_text(type_: str, text: str, lanes: int | None) -> str:
    """Return a scalar constant repeated in all lanes."""
    return text if lanes is None else f"splat ({type_} {text})"


def mangle(type_: str, lanes: int) -> str:
    """Return the suffix of a vector type in names of intrinsics."""
    short = {"float": "f32", "double": "f64", "half": "f16"}.get(type_, type_)
    return f"v{lanes}{short}"
