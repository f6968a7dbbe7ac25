"""Triton's names and conversions of number formats: in registers, in memory, and as arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.devices.cuda.format_functions import function_name
from weft.dtypes.formats import BOOL, FLOATS, INTEGERS, Format
from weft.dtypes.rounding import rounded_number, scalar

_SHORT = {"float32": "fp32", "float64": "fp64", "float16": "fp16", "bfloat16": "bf16", "bool": "i1"}


def register(form: Format) -> str:
    """Return the Triton type in registers: storage-only floats are kept as rounded float32, as on the CPU."""
    return "tl.int1" if form is BOOL else f"tl.{form.computed.name}"


def memory(form: Format) -> str:
    """Return the Triton type in memory: a byte for a bool and for 8-bit floats, which are converted bit by bit."""
    if form in INTEGERS:
        return register(form)
    return f"tl.uint{8 * form.bytes}" if form is BOOL or form.alone else f"tl.{form.name}"


def convert_loaded(text: str, form: Format) -> str:
    """Return the expression that converts a value from its memory type to its register type."""
    if form.alone:
        return f"{function_name('decode', form, form.computed)}({text})"
    if form in INTEGERS:
        return _low_bits(text, form) if form.narrow else text
    return f"{text}.to(tl.float32)" if form.narrow else text


def _low_bits(text: str, form: Format) -> str:
    """Return the expression of an integer of 8 bits with the value of its low bits."""
    if form.kind == "unsigned":
        return f"({text} & {(1 << form.bits) - 1})"
    return f"((({text}) << {8 - form.bits}).to(tl.int8) >> {8 - form.bits})"


def convert_stored(text: str, form: Format) -> str:
    """Return the expression that converts a value from its register type to its memory type."""
    if form.alone:
        return f"{function_name('encode', form.computed, form)}({text})"
    if form in INTEGERS:
        return f"({text} & {(1 << form.bits) - 1})" if form.narrow else text
    return f"{text}.to({memory(form)})" if form is BOOL or form.narrow else text


def round_to_format(text: str, form: Format) -> str:
    """Return the expression that rounds a float32 to a storage-only format and keeps it as float32."""
    if form.alone:
        return f"{function_name('round', form.computed, form)}({text})"
    if form in INTEGERS:
        return _low_bits(text, form) if form.narrow else text
    return f"{text}.to({memory(form)}).to(tl.float32)" if form.narrow else text


def pointer(form: Format) -> str:
    """Return the type of a buffer in a signature."""
    return "*" + (f"u{8 * form.bytes}" if form is BOOL or form.alone else parameter_type(form, narrow=True))


def parameter_type(form: Format, narrow: bool = False) -> str:
    """Return the type of a number in a signature. Storage-only floats are passed in their register format."""
    form = form if narrow and form in FLOATS else form.computed
    return "i32" if form is BOOL else _SHORT.get(form.name) or ("i" if form.kind == "signed" else "u") + str(form.bits)


def literal(x: Any, form: Format) -> str:
    """Return a constant as an untyped literal."""
    if form is BOOL:
        return str(bool(x))
    if form not in FLOATS:
        return str(int(x))
    x = float(rounded_number(x, form))
    return repr(x) if math.isfinite(x) else f'float("{x}")'


def memory_literal(x: Any, form: Format) -> str:
    """Return a constant as an untyped literal in its memory type."""
    if form is BOOL:
        return str(int(bool(x)))
    if form.narrow and form in INTEGERS:
        return str(int(x) & (1 << form.bits) - 1)
    return str(np.asarray(scalar(x, form)).view(f"u{form.bytes}").item()) if form.alone else literal(x, form)


def typed_literal(x: Any, form: Format) -> str:
    """Return a constant with its register type."""
    return f"tl.full([], {literal(x, form)}, {register(form)})"
