"""Philox4x32-10 in vector registers: the word of each element from 64-bit multiplies."""

from __future__ import annotations

from weft.codegen.cpu.machine import Ops

_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85


def philox(o: Ops, key: str, base: str, element: str) -> str:
    """Word i & 3 of Philox4x32-10(key, base + (i >> 2)); the counter's high 64 bits are 0."""
    counter = o.op("add", "i64", base, o.op("lshr", "i64", element, o.c("i64", 2)))
    words = block(o, key, counter)
    return pick(o, words, o.op("and", "i64", element, o.c("i64", 3)))


def pick(o: Ops, words: list[str], which: str) -> str:
    """words[which], lane by lane; each word is an i64 whose low half counts."""
    odd = o.cmp("ne", "i64", o.op("and", "i64", which, o.c("i64", 1)), o.c("i64", 0))
    high = o.cmp("ne", "i64", o.op("and", "i64", which, o.c("i64", 2)), o.c("i64", 0))
    low = o.select(odd, "i64", words[1], words[0])
    top = o.select(odd, "i64", words[3], words[2])
    return o.convert("trunc", "i64", o.select(high, "i64", top, low), "i32")


def block(o: Ops, key: str, counter: str) -> list[str]:
    """The four words of a counter, each in the low half of an i64."""
    low = o.c("i64", 0xFFFFFFFF)

    def split(x: str) -> tuple[str, str]:
        return o.op("and", "i64", x, low), o.op("lshr", "i64", x, o.c("i64", 32))

    c0, c1 = split(counter)
    c2 = c3 = o.c("i64", 0)
    k0, k1 = split(key)
    for turn in range(10):
        if turn:
            k0 = o.op("and", "i64", o.op("add", "i64", k0, o.c("i64", _W0)), low)
            k1 = o.op("and", "i64", o.op("add", "i64", k1, o.c("i64", _W1)), low)
        low0, high0 = split(o.op("mul", "i64", c0, o.c("i64", _M0)))
        low1, high1 = split(o.op("mul", "i64", c2, o.c("i64", _M1)))
        c0 = o.op("xor", "i64", o.op("xor", "i64", high1, c1), k0)
        c2 = o.op("xor", "i64", o.op("xor", "i64", high0, c3), k1)
        c1, c3 = low1, low0
    return [c0, c1, c2, c3]
