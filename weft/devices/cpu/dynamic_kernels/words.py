"""Random words of any count, equal to the words that kernels draw (see ``graph/primitives/philox.py``)."""

from __future__ import annotations

from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.philox import consecutive_words
from weft.devices.cpu.emit.text import Module


def words_text(isa: ISA) -> str:
    """Return the text of ``void @weft_words(ptr args)``, args: the count, and the addresses of the results, the key and the base.

    The last words, if they fill no vector, are copied from one, so nothing is written beyond them.
    """
    module = Module(hides_counters=False)
    f = module.function("define void @weft_words(ptr %args)")
    count, *places = [f.load("i64", f.offset("%args", 8 * k), 8) for k in range(4)]
    target, key, base = [f.let(f"inttoptr i64 {place} to ptr") for place in places]
    key, base = f.load("i64", key, 8), f.load("i64", base, 8)
    lanes = max(4, isa.lanes(4))
    ops, room = Ops(f, module, isa, lanes), f.local(f"<{lanes} x i32>", 64)
    with f.loop(0, count, lanes) as i:
        counter = f.let(f"add i64 {base}, {f.let(f'lshr i64 {i}, 2')}")
        words = consecutive_words(ops, key, counter)
        left = f.let(f"sub i64 {count}, {i}")
        short, place = f.let(f"icmp slt i64 {left}, {lanes}", "c"), f.element(target, "i32", i)
        f.store(f"<{lanes} x i32>", words, f.let(f"select i1 {short}, ptr {room}, ptr {place}"), 4)
        with f.when(short), f.loop(0, left) as k:
            f.store("i32", f.load("i32", f.element(room, "i32", k), 4), f.element(place, "i32", k), 4)
    return module.text()
