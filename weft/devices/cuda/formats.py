"""Number formats as Triton spells them: in registers, in memory, and as arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.dtypes.formats import BOOL, FLOATS, Format, scalar

_SHORT = {"float32": "fp32", "float64": "fp64", "float16": "fp16", "bfloat16": "bf16", "bool": "i1"}


def register(form: Format) -> str:
    """How registers hold a format: narrow floats as float32 that was rounded, as on the CPU."""
    return "tl.int1" if form is BOOL else f"tl.{form.computed.name}"


def memory(form: Format) -> str:
    """How memory holds it: a bool is a byte, and so are 8-bit floats, whose bits are reckoned with."""
    return "tl.uint8" if form is BOOL or form.alone else f"tl.{form.name}"


def loaded(text: str, form: Format) -> str:
    """What memory holds of a float, as registers hold it."""
    if form.alone:
        return f"from_float8({text}, {_bits_of(form)})"
    return f"{text}.to(tl.float32)" if form.narrow else text


def stored(text: str, form: Format) -> str:
    """What registers hold of a format, as memory holds it."""
    if form.alone:
        return f"to_float8({text}, {_bits_of(form)})"
    return f"{text}.to({memory(form)})" if form is BOOL or form.narrow else text


def rounded(text: str, form: Format) -> str:
    """A float32 rounded to a narrow format, and still held as float32."""
    if form.alone:
        largest = int(np.float32(form.largest).view(np.int32))
        return f"round_float8({text}, {_bits_of(form)}, {largest})"
    return f"{text}.to({memory(form)}).to(tl.float32)" if form.narrow else text


def _bits_of(form: Format) -> str:
    return f"{form.mantissa}, {form.bias}, {form.finite}"


def pointer(form: Format) -> str:
    """The type of a buffer in a signature."""
    return "*" + ("u8" if form is BOOL or form.alone else passed(form, narrow=True))


def passed(form: Format, narrow: bool = False) -> str:
    """The type of a number in a signature; narrow floats are passed as registers hold them."""
    form = form if narrow else form.computed
    return "i32" if form is BOOL else _SHORT.get(form.name) or ("i" if form.kind == "signed" else "u") + str(form.bits)


def literal(x: Any, form: Format) -> str:
    """A number of the text without its type."""
    if form is BOOL:
        return str(bool(x))
    if form not in FLOATS:
        return str(int(x))
    x = float(form.computed.numpy.type(scalar(x, form)))
    return repr(x) if math.isfinite(x) else f'float("{x}")'


def in_memory(x: Any, form: Format) -> str:
    """A number of the text as memory holds it, without its type."""
    if form is BOOL:
        return str(int(bool(x)))
    return str(scalar(x, form).view(np.uint8).item()) if form.alone else literal(x, form)


def typed(x: Any, form: Format) -> str:
    """A number of the text with the type that registers hold it in."""
    return f"tl.full([], {literal(x, form)}, {register(form)})"
