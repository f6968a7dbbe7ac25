"""Number formats as Triton spells them: in registers, in memory, and as arguments."""

from __future__ import annotations

import math
from typing import Any

from weft.formats import BOOL, FLOATS, Format

_SHORT = {"float32": "fp32", "float64": "fp64", "float16": "fp16", "bfloat16": "bf16", "bool": "i1"}


def register(form: Format) -> str:
    """How registers hold a format: narrow floats as float32 that was rounded, as on the CPU."""
    return "tl.int1" if form is BOOL else f"tl.{form.computed.name}"


def memory(form: Format) -> str:
    """How memory holds it: a bool is a byte."""
    return "tl.uint8" if form is BOOL else f"tl.{form.name}"


def pointer(form: Format) -> str:
    """The type of a buffer in a signature."""
    return "*" + ("u8" if form is BOOL else passed(form, narrow=True))


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
    x = float(form.computed.numpy.type(form.numpy.type(x)))
    return repr(x) if math.isfinite(x) else f'float("{x}")'


def typed(x: Any, form: Format) -> str:
    """A number of the text with the type that registers hold it in."""
    return f"tl.full([], {literal(x, form)}, {register(form)})"
