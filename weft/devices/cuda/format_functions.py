"""Triton source of the functions that convert small floats, written by the formulas of ``weft.dtypes.rounding``."""

from __future__ import annotations

import re
from functools import lru_cache

from weft.dtypes.formats import FLOATS, Format, named
from weft.dtypes.rounding import decode, encode

_NAME = re.compile(r"\b(encode|decode|round(?:_[a-z_]+?)?)_from_(\w+?)_to_(\w+)\b")
_SIGNS = {"and": "&", "or": "|", "add": "+", "sub": "-", "shl": "<<", "lshr": ">>", "eq": "==", "ult": "<", "ugt": ">"}


def function_name(kind: str, source: Format, target: Format) -> str:
    """Return the name of a function. kind : "encode" and "decode" (to and from bits), "round", or "round_" and a mode"""
    return f"{kind}_from_{source.name}_to_{target.name}"


@lru_cache(maxsize=256)
def functions_in(text: str) -> tuple[str, ...]:
    """Return the sources of the functions that a text calls."""
    return tuple([_source(*match) for match in sorted(set(_NAME.findall(text)))])


def _source(kind: str, source_name: str, target_name: str) -> str:
    source, target = named(source_name), named(target_name)
    name, last = function_name(kind, source, target), ""
    if kind == "decode":
        b = _Lines(target)
        out = decode(b, b.let(f"x.to({b.type})"), source)
        last = f"{out}.to(tl.{target.name}, bitcast=True)"
    else:
        b = _Lines(source)
        mode = {"encode": "zero", "round": "nearest"}.get(kind, kind.removeprefix("round_"))
        word = b.let(f"word.to({b.type})") if mode == "stochastic" else None
        out = encode(b, b.let(f"x.to({b.type}, bitcast=True)"), target, mode, word)
        last = f"{out}.to(tl.uint{8 * target.bytes})"
        if kind != "encode":
            wide = _Lines(target.computed, b.lines)
            out = decode(wide, wide.let(f"{out}.to({wide.type})"), target)
            last = f"{out}.to(tl.{wide.form.name}, bitcast=True)"
    arguments = "x, word" if kind == "round_stochastic" else "x"
    return f"\ndef {name}({arguments}):\n" + "".join(f"    {line}\n" for line in (*b.lines, f"return {last}"))


class _Lines:
    """Triton's arithmetic on unsigned integers of the size of ``form``, one line for each operation."""

    def __init__(self, form: Format, lines: list[str] | None = None) -> None:
        assert form in FLOATS
        self.form, self.type, self.lines = form, f"tl.uint{form.bits}", [] if lines is None else lines

    def let(self, text: str) -> str:
        self.lines.append(f"v{len(self.lines)} = {text}")
        return f"v{len(self.lines) - 1}"

    def c(self, x: int | str) -> str:
        return f"tl.full([], {x}, {self.type})" if isinstance(x, int) else x

    def i(self, word: str, a: str, b: int | str) -> str:
        return self.let(f"{a} {_SIGNS[word]} {self.c(b)}")

    def where(self, word: str, a: str, b: int | str, then: int | str, other: int | str) -> str:
        return self.let(f"tl.where({a} {_SIGNS[word]} {self.c(b)}, {self.c(then)}, {self.c(other)})")

    def count(self, x: str, exponent: int) -> str:
        return self.let(f"({x}.to(tl.{self.form.name}) * {2.0**exponent!r}).to({self.type}, bitcast=True)")
