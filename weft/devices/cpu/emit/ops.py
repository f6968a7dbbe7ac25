"""Operations on LLVM values: the same calls write scalars and vectors of any number of lanes."""

from __future__ import annotations

import zlib

import numpy as np

from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import float_text, literal, llvm_type, splat_text, wide
from weft.dtypes.formats import Format


class Ops:
    """A writer of operations on scalars (lanes None) or vectors of ``lanes``."""

    __slots__ = ("f", "isa", "lanes", "m")

    def __init__(self, f: Function, m: Module, isa: ISA, lanes: int | None) -> None:
        self.f = f
        self.m = m
        self.isa = isa
        self.lanes = lanes

    def t(self, type_: str) -> str:
        return wide(type_, self.lanes)

    def const(self, dtype: Format, value: object) -> str:
        return splat_text(llvm_type(dtype), literal(dtype, value), self.lanes)

    def c(self, type_: str, value: float | int) -> str:
        """Return a constant of an LLVM type."""
        if type_ in ("float", "double"):
            text = float_text(float(np.float32(value)) if type_ == "float" else float(value))
        elif type_ == "i1":
            text = "true" if value else "false"
        else:
            text = str(int(value))
        return splat_text(type_, text, self.lanes)

    def kept(self, type_: str, value: float) -> str:
        """Load a constant as a whole vector: arithmetic takes it as a memory operand, without an instruction for the constant."""
        if self.lanes is None:
            return self.c(type_, value)
        text = self.c(type_, value)
        name = f"@kept.{self.lanes}.{type_}.{zlib.crc32(text.encode()):08x}"
        size = self.lanes * (4 if type_ == "float" else 8)
        if self.m.once(name):
            self.m.globals.append(f"{name} = private unnamed_addr constant {self.t(type_)} {text}, align {size}")
        return self.f.load(self.t(type_), name, size)

    def splat(self, name: str, type_: str) -> str:
        if self.lanes is None:
            return name
        if not name.startswith("%"):
            return splat_text(type_, name, self.lanes)
        vtype = self.t(type_)
        one = self.f.let(f"insertelement {vtype} poison, {type_} {name}, i32 0")
        return self.f.let(f"shufflevector {vtype} {one}, {vtype} poison, {wide('i32', self.lanes)} zeroinitializer", "s")

    def op(self, word: str, type_: str, *args: str) -> str:
        """Emit ``word <type> a, b``."""
        return self.f.let(f"{word} {self.t(type_)} {', '.join(args)}")

    def divided(self, type_: str, a: str, b: str) -> str:
        """Emit a quotient of floats.

        LLVM 22 assumes 0 in a lane whose operands it knows to be zero, and drops a selection of another number there. A fence
        hides the operands.
        """
        out = self.op("fdiv", type_, a, b)
        return out if self.lanes is None else self.intrinsic("arithmetic.fence", type_, out)

    def cmp(self, word: str, type_: str, a: str, b: str) -> str:
        return self.f.let(f"{'fcmp' if type_ in ('float', 'double') else 'icmp'} {word} {self.t(type_)} {a}, {b}", "c")

    def select(self, c: str, type_: str, a: str, b: str) -> str:
        t = self.t(type_)
        return self.f.let(f"select {self.t('i1')} {c}, {t} {a}, {t} {b}")

    def convert(self, word: str, source: str, name: str, target: str) -> str:
        return self.f.let(f"{word} {self.t(source)} {name} to {self.t(target)}")

    def intrinsic(self, name: str, type_: str, *args: str, extra: str = "") -> str:
        """Emit ``llvm.name.type(args)``; extra: a trailing immediate argument, such as ``i1 false``."""
        short = {"float": "f32", "double": "f64", "half": "f16"}.get(type_, type_)
        full = f"llvm.{name}." + (short if self.lanes is None else f"v{self.lanes}{short}")
        t = self.t(type_)
        types = ", ".join([t] * len(args) + ([extra.split()[0]] if extra else []))
        self.m.declare(full, f"declare {t} @{full}({types})")
        text = ", ".join([f"{t} {a}" for a in args] + ([extra] if extra else []))
        return self.f.let(f"call {t} @{full}({text})")
