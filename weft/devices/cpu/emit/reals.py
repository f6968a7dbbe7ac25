"""Short names for operations on float or double registers, and polynomials."""

from __future__ import annotations

from weft.devices.cpu.emit.ops import Ops


class Reals:
    """Operations on ``type_`` (``float`` or ``double``); ``whole`` is the integer type of the same width."""

    __slots__ = ("o", "type_", "whole")

    def __init__(self, o: Ops, type_: str) -> None:
        self.o = o
        self.type_ = type_
        self.whole = "i32" if type_ == "float" else "i64"

    def c(self, x: float) -> str:
        return self.o.c(self.type_, x)

    def k(self, x: float) -> str:
        return self.o.kept(self.type_, x)

    def add(self, a: str, b: str) -> str:
        return self.o.op("fadd", self.type_, a, b)

    def sub(self, a: str, b: str) -> str:
        return self.o.op("fsub", self.type_, a, b)

    def mul(self, a: str, b: str) -> str:
        return self.o.op("fmul", self.type_, a, b)

    def div(self, a: str, b: str) -> str:
        return self.o.divided(self.type_, a, b)

    def neg(self, a: str) -> str:
        return self.o.op("fneg", self.type_, a)

    def fma(self, a: str, b: str, c: str) -> str:
        if self.o.isa.fma:
            return self.o.intrinsic("fma", self.type_, a, b, c)
        return self.add(self.mul(a, b), c)

    def abs(self, a: str) -> str:
        return self.o.intrinsic("fabs", self.type_, a)

    def copysign(self, a: str, b: str) -> str:
        return self.o.intrinsic("copysign", self.type_, a, b)

    def where(self, word: str, a: str, b: str, yes: str, no: str) -> str:
        return self.o.select(self.o.cmp(word, self.type_, a, b), self.type_, yes, no)

    def clamped(self, x: str, low: float, high: float) -> str:
        """Clamp to [low, high]; NaN stays NaN."""
        x = self.where("ogt", x, self.c(high), self.c(high), x)
        return self.where("olt", x, self.c(low), self.c(low), x)

    def bits(self, a: str) -> str:
        return self.o.convert("bitcast", self.type_, a, self.whole)

    def real(self, a: str) -> str:
        return self.o.convert("bitcast", self.whole, a, self.type_)

    def i(self, word: str, a: str, b: int | str) -> str:
        return self.o.op(word, self.whole, a, self.o.c(self.whole, b) if isinstance(b, int) else b)

    def pairs(self, x: str, s: str, *coefs: float) -> str:
        """Evaluate a polynomial with an even number of coefficients in pairs, highest power first; ``s`` is x * x.

        Its dependency chain is half as long as that of ``poly``, which is faster if few chains must fill the pipeline.
        """
        r = self.fma(self.c(coefs[0]), x, self.k(coefs[1]))
        for a, b in zip(coefs[2::2], coefs[3::2], strict=True):
            r = self.fma(r, s, self.fma(self.c(a), x, self.k(b)))
        return r

    def poly(self, x: str, *coefs: float, kept: bool = False) -> str:
        """Evaluate a polynomial by Horner's rule, highest power first. kept: constants are read from memory."""
        r = self.c(coefs[0])
        for a in coefs[1:]:
            r = self.fma(r, x, self.k(a) if kept else self.c(a))
        return r
