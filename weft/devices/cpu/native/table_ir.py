"""What the runtime's native functions share as LLVM text: words of tables by name, addresses in an arena, a step's arguments.

A table is an array of 8-byte words: named ones first (``CALL``, ``LOOP``), from ``HEADER`` on lists. Both kinds of table end
in steps, each (function, number of arguments, what to look at afterwards, slots of the arguments).

What is looked at: bit 0: signals; above it, where the step may tell a fault (an index out of range), one more than the number
that its first site has among those of the Program. The record of the run is two words: 0 or the number of a site plus one; and
the index. Kernels write numbers of their own, the walker adds the first; after that no step runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

HEADER = 16  # where the lists begin
RELEASE, FLUSH = 1, 2  # flags of a call: give up the interpreter lock; flush denormals to zero
# kinds of input: how an object becomes an 8-byte slot
UNUSED, ADDRESS, FLOAT32, FLOAT64, INTEGER, BOOLEAN = range(6)
# ni, no, na, nc, ns, nd: how many inputs, outputs, arena offsets, constants, steps, donations. workers: threads it is made
# for. total: slots. most: arguments of a step. name: the attribute that holds a buffer's address. home: of the arena, or 0
CALL = ("ni", "no", "na", "nc", "ns", "flags", "workers", "total", "name", "most", "allocator", "home", "nd")
# every: steps of the loop between two looks for signals, 0: never
LOOP = ("length", "reverse", "carries", "xs", "ys", "constants", "na", "numbers", "ns", "total", "most", "every")
_POINTERS = ("name", "allocator", "home")


class TableRow(NamedTuple):
    """One native call. ``check``: look for signals (Ctrl-C) afterwards. ``first``: of its sites, -1: it checks no index; the
    sites of a loop have their numbers already, so its first is 0."""

    function: int
    args: tuple[int, ...]
    check: bool = False
    first: int = -1


def header(names: Sequence[str], **words: int) -> list[int]:
    """The named words of a table."""
    return [words[name] for name in names] + [0] * (HEADER - len(names))


def most_arguments(steps: Sequence[TableRow]) -> int:
    return max((len(s.args) for s in steps), default=0)


def step_words(steps: Iterable[TableRow]) -> list[int]:
    return [word for s in steps for word in (s.function, len(s.args), int(s.check) + 2 * (s.first + 1), *s.args)]


def filled(text: str, words: Mapping[str, object]) -> str:
    """``text`` with each ``!NAME`` replaced."""
    for name in sorted(words, key=len, reverse=True):
        text = text.replace(f"!{name}", str(words[name]))
    return text


def read(table: str, names: Sequence[str], *wanted: str) -> str:
    """``%word`` for each wanted word of the table at ``%table``."""
    return "\n".join(
        f"  %{word}.p = getelementptr i64, ptr %{table}, i64 {names.index(word)}\n"
        f"  %{word} = load {'ptr' if word in _POINTERS else 'i64'}, ptr %{word}.p"
        for word in wanted
    )


def addresses(before: str, base: str, target: str, after: str) -> str:
    """``%target[k] = %base + %offsets[k]`` for the ``%na`` temporaries; comes from the block ``before``, goes on at ``after``."""
    return filled(_ADDRESSES, {"BEFORE": before, "BASE": base, "TARGET": target, "AFTER": after})


_ADDRESSES = """  br label %arena.head
arena.head:
  %a = phi i64 [ 0, %!BEFORE ], [ %a1, %arena.body ]
  %a.more = icmp slt i64 %a, %na
  br i1 %a.more, label %arena.body, label %!AFTER
arena.body:
  %a.off.p = getelementptr i64, ptr %offsets, i64 %a
  %a.off = load i64, ptr %a.off.p
  %a.address = add i64 %!BASE, %a.off
  %a.slot = getelementptr i64, ptr %!TARGET, i64 %a
  store i64 %a.address, ptr %a.slot
  %a1 = add i64 %a, 1
  br label %arena.head"""

# step.body: call the step at %step with what its slots (of %slots) hold, by way of %packed. %after: the step behind it
STEP = """step.body:
  %function = load ptr, ptr %step
  %count.p = getelementptr i64, ptr %step, i64 1
  %count = load i64, ptr %count.p
  %check.p = getelementptr i64, ptr %step, i64 2
  %check = load i64, ptr %check.p
  %list = getelementptr i64, ptr %step, i64 3
  %after = getelementptr i64, ptr %list, i64 %count
  br label %arg.head
arg.head:
  %k = phi i64 [ 0, %step.body ], [ %k1, %arg.body ]
  %k.more = icmp slt i64 %k, %count
  br i1 %k.more, label %arg.body, label %step.call
arg.body:
  %index.p = getelementptr i64, ptr %list, i64 %k
  %index = load i64, ptr %index.p
  %from = getelementptr i64, ptr %slots, i64 %index
  %value = load i64, ptr %from
  %to = getelementptr i64, ptr %packed, i64 %k
  store i64 %value, ptr %to
  %k1 = add i64 %k, 1
  br label %arg.head
step.call:
  call void %function(ptr %packed)
  %s1 = add i64 %s, 1"""

# whether the step that ran told a fault, of which the record then has the number in the Program; goes on at %next, or at
# %faulted. From a block where %check is known.
FAULT = """  %first1 = lshr i64 %check, 1
  %may = icmp ne i64 %first1, 0
  br i1 %may, label %fault.look, label %!NEXT
fault.look:
  %fault.site = load i64, ptr %record
  %fault.told = icmp ne i64 %fault.site, 0
  br i1 %fault.told, label %fault.number, label %!NEXT
fault.number:
  %fault.first = sub i64 %first1, 1
  %fault.all = add i64 %fault.site, %fault.first
  store i64 %fault.all, ptr %record
  br label %!FAULTED"""
