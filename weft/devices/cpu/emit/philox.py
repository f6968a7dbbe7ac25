"""Philox4x32-10 in vector registers, computed with 64-bit multiplications."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.types import splat_text
from weft.graph.primitives.philox import MULTIPLIERS, ROUNDS, WEYL, philox

_M0, _M1 = MULTIPLIERS
_W0, _W1 = WEYL


def random_word(o: Ops, key: str, base: str, element: str) -> str:
    """Emit word element & 3 of Philox4x32-10(key, base + (element >> 2)); the counter's high 64 bits are 0."""
    counter = o.op("add", "i64", base, o.op("lshr", "i64", element, o.c("i64", 2)))
    return select_word(o, philox(_register_arithmetic(o), counter, key), o.op("and", "i64", element, o.c("i64", 3)))


def random_half_word(o: Ops, key: str, base: str, element: str) -> str:
    """Emit half a word for an element, in the upper bits: see ``half_word`` of ``graph/primitives/philox.py``."""
    high = o.op("shl", "i64", o.op("lshr", "i64", element, o.c("i64", 5)), o.c("i64", 4))
    words = random_word(o, key, base, o.op("or", "i64", high, o.op("and", "i64", element, o.c("i64", 15))))
    return upper_half(o, words, o.convert("trunc", "i64", o.op("and", "i64", element, o.c("i64", 16)), "i32"))


def upper_half(o: Ops, words: str, sixteen: str) -> str:
    """Emit the upper half of words where ``sixteen`` is 16, and the lower half, moved up, where it is 0."""
    moved = o.op("shl", "i32", words, o.op("sub", "i32", o.c("i32", 16), sixteen))
    return o.op("and", "i32", moved, o.c("i32", 0xFFFF0000))


def select_word(o: Ops, words: list[str], which: str) -> str:
    """Emit words[which], lane by lane; a word is the low half of an i64."""
    odd = o.cmp("ne", "i64", o.op("and", "i64", which, o.c("i64", 1)), o.c("i64", 0))
    high = o.cmp("ne", "i64", o.op("and", "i64", which, o.c("i64", 2)), o.c("i64", 0))
    low = o.select(odd, "i64", words[1], words[0])
    top = o.select(odd, "i64", words[3], words[2])
    return o.convert("trunc", "i64", o.select(high, "i64", top, low), "i32")


def _register_arithmetic(o: Ops) -> SimpleNamespace:
    """Return the arithmetic of ``philox`` on 64-bit registers."""
    low, half = o.c("i64", 0xFFFFFFFF), o.c("i64", 32)
    return SimpleNamespace(
        number=partial(o.c, "i64"), multiply=partial(o.op, "mul", "i64"), add=partial(o.op, "add", "i64"),
        xor=partial(o.op, "xor", "i64"), low=lambda a: o.op("and", "i64", a, low), high=lambda a: o.op("lshr", "i64", a, half),
    )


def consecutive_words(o: Ops, key: str, counter: str) -> str:
    """Emit the words of lanes / 4 consecutive counters, in order; ``key`` and ``counter`` are scalars.

    A counter's words are arranged as (c0, c2) and (c1, c3) in pairs of 64-bit lanes, so that one multiplication serves both
    halves of a round and the exchange between them stays within 128 bits.
    """
    assert o.lanes is not None
    f, half = o.f, o.lanes // 2
    pairs, words = f"<{half} x i64>", f"<{o.lanes} x i32>"

    def vector(even: str, odd: str) -> str:
        return "<" + ", ".join(f"i64 {odd if i % 2 else even}" for i in range(half)) + ">"

    def spread(even: str, odd: str) -> str:
        two = f.let(f"insertelement {pairs} poison, i64 {even}, i32 0")
        two = f.let(f"insertelement {pairs} {two}, i64 {odd}, i32 1")
        return f.shuffle(pairs, two, "poison", [i % 2 for i in range(half)])

    def exchange(x: str, order: tuple[int, ...]) -> str:
        """Reorder the words of each 128 bits."""
        narrow = f.let(f"bitcast {pairs} {x} to {words}")
        shuffled = f.shuffle(words, narrow, "poison", [i // 4 * 4 + order[i % 4] for i in range(o.lanes or 0)])
        return f.let(f"bitcast {words} {shuffled} to {pairs}")

    ramp = "<" + ", ".join("i64 0" if i % 2 else f"i64 {i // 2}" for i in range(half)) + ">"
    counters = f.let(f"add {pairs} {spread(counter, '0')}, {ramp}")
    a = f.let(f"and {pairs} {counters}, {vector(str(0xFFFFFFFF), '0')}")
    b = f.let(f"lshr {pairs} {counters}, {vector('32', '32')}")
    keys = spread(f.let(f"and i64 {key}, {0xFFFFFFFF}"), f.let(f"lshr i64 {key}, 32"))
    for turn in range(ROUNDS):
        if turn:
            keys = f.let(f"add {pairs} {keys}, {vector(str(_W0), str(_W1))}")
        low = f.let(f"and {pairs} {a}, {vector(str(0xFFFFFFFF), str(0xFFFFFFFF))}")
        product = f.let(f"mul {pairs} {low}, {vector(str(_M0), str(_M1))}")
        mixed = f.let(f"xor {pairs} {exchange(product, (3, 2, 1, 0))}, {b}")
        a, b = f.let(f"xor {pairs} {mixed}, {keys}"), exchange(product, (2, 3, 0, 1))
    low = f.let(f"and {pairs} {a}, {vector(str(0xFFFFFFFF), str(0xFFFFFFFF))}")
    high = f.let(f"shl {pairs} {b}, {vector('32', '32')}")
    return f.let(f"bitcast {pairs} {f.let(f'or {pairs} {low}, {high}')} to {words}")


def two_vectors_of_words(o: Ops, key: str, counter: str) -> tuple[str, str]:
    """Emit the words of lanes / 2 consecutive counters, in order, as two vectors; ``key`` and ``counter`` are scalars.

    Each of a counter's words has a vector of 64-bit lanes, whose high halves are ignored: a round takes two multiplications, two
    shifts and two exclusive ors for twice the words of ``consecutive_words``, which takes four instructions.
    """
    assert o.lanes is not None
    f, half = o.f, o.lanes // 2
    pairs, words, constants = f"<{half} x i64>", f"<{o.lanes} x i32>", Ops(f, o.m, o.isa, half)

    def each(word: str, x: str, y: str | int) -> str:
        return f.let(f"{word} {pairs} {x}, {splat_text('i64', str(y), half) if isinstance(y, int) else y}")

    counters = each("add", f.splat("i64", counter, half), "<" + ", ".join(f"i64 {i}" for i in range(half)) + ">")
    c = [counters, each("lshr", counters, 32), "zeroinitializer", "zeroinitializer"]
    keys = [f.splat("i64", f.let(f"{word} i64 {key}, {n}"), half) for word, n in (("and", 0xFFFFFFFF), ("lshr", 32))]
    factors = [each("and", constants.kept("i64", m), 0xFFFFFFFF) for m in MULTIPLIERS]
    for turn in range(ROUNDS):
        now = [each("add", k, constants.kept("i64", turn * weyl)) if turn else k for k, weyl in zip(keys, WEYL, strict=True)]
        a, b = (each("mul", each("and", c[n], 0xFFFFFFFF), factor) for n, factor in zip((0, 2), factors, strict=True))
        high_a, high_b = (each("lshr", x, 32) for x in (a, b))
        c = [each("xor", each("xor", high_b, c[1]), now[0]), b, each("xor", each("xor", high_a, c[3]), now[1]), a]
    even, odd = (each("or", each("and", c[n], 0xFFFFFFFF), each("shl", c[n + 1], 32)) for n in (0, 2))
    ordered = [n for i in range(half) for n in (i, half + i)]
    first, second = (f.shuffle(pairs, even, odd, part) for part in (ordered[:half], ordered[half:]))
    return f.let(f"bitcast {pairs} {first} to {words}"), f.let(f"bitcast {pairs} {second} to {words}")
