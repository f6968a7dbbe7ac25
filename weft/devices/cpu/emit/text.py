"""A builder of LLVM IR text: names, blocks, loops. Local variables are allocas, which LLVM's SROA turns into registers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from weft.devices.cpu.emit.types import mangle, wide

_HIDE = "llvm.expect.i64"
_BITS = re.compile(r"\bi1\b")


class Function:
    """One function under construction. ``lines`` is its body; values are SSA names (str) such as ``%12``.

    hides_counters: see :class:`Module`.
    """

    def __init__(self, signature: str, attributes: str = "nounwind", hides_counters: bool = False) -> None:
        self.signature = signature
        self.attributes = attributes
        self.hides_counters = hides_counters
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.codes: dict[Any, str] = {}  # by name of a rounded number and format: the name of its bits in memory
        self._next = 0
        self._variables: set[str] = set()  # the locals that are not arrays
        self._loops: list[_Loop] = []
        self._when = ""  # the end label of the last `when`

    def name(self, hint: str = "v") -> str:
        self._next += 1
        return f"%{hint}{self._next}"

    def let(self, text: str, hint: str = "v") -> str:
        """Append ``%new = text`` and return the new name."""
        self._next += 1
        out = f"%{hint}{self._next}"
        self.lines.append(f"  {out} = {text}")
        return out

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def fresh_label(self, hint: str) -> str:
        self._next += 1
        return f"{hint}{self._next}"

    def local(self, type_: str, align: int = 0) -> str:
        """Return the pointer of an alloca in the entry block: an array in memory, or a variable, which becomes a register."""
        out = self.name("p")
        if type_[0] == "[":
            _check_memory_type(type_)
        else:
            self._variables.add(out)
        self.allocas.append(f"  {out} = alloca {type_}" + (f", align {align}" if align else ""))
        return out

    def load(self, type_: str, pointer: str, align: int | None = None, extra: str = "") -> str:
        self._check_access(type_, pointer)
        return self.let(f"load {type_}, ptr {pointer}" + (f", align {align}" if align else "") + extra)

    def store(self, type_: str, value: str, pointer: str, align: int | None = None, extra: str = "") -> None:
        self._check_access(type_, pointer)
        self.do(f"store {type_} {value}, ptr {pointer}" + (f", align {align}" if align else "") + extra)

    def clear(self, type_: str, pointers: Iterable[str], align: int | None = None) -> None:
        """Store zeros at each of the pointers."""
        for pointer in pointers:
            self.store(type_, "zeroinitializer", pointer, align)

    def _check_access(self, type_: str, pointer: str) -> None:
        """Raise ValueError for ``i1`` in memory; only variables, which become registers, may hold it."""
        if pointer not in self._variables:
            _check_memory_type(type_)

    def argument(self, slot: int, base: str = "%args") -> str:
        """Load the pointer in a slot of the kernel's arguments."""
        return self.load("ptr", self.offset(base, 8 * slot), 8)

    def offset(self, pointer: str, nbytes: str | int) -> str:
        """Emit ``pointer`` plus a number of bytes."""
        return pointer if nbytes == 0 else self.let(f"getelementptr i8, ptr {pointer}, i64 {nbytes}", "a")

    def element(self, pointer: str, type_: str, index: str | int) -> str:
        """Emit the address of an element of an array."""
        _check_memory_type(type_)
        return pointer if index == 0 else self.let(f"getelementptr {type_}, ptr {pointer}, i64 {index}", "a")

    def add(self, a: str | int, b: str | int) -> str:
        if isinstance(a, int) and isinstance(b, int):
            return str(a + b)
        if b == 0:
            return str(a)
        if a == 0:
            return str(b)
        return self.let(f"add i64 {a}, {b}", "i")

    def mul(self, a: str | int, b: str | int) -> str:
        if isinstance(a, int) and isinstance(b, int):
            return str(a * b)
        if b == 1:
            return str(a)
        if a == 1:
            return str(b)
        return "0" if a == 0 or b == 0 else self.let(f"mul i64 {a}, {b}", "i")

    def minimum(self, a: str | int, b: str | int) -> str:
        return self.let(f"select i1 {self.let(f'icmp slt i64 {a}, {b}', 'c')}, i64 {a}, i64 {b}")

    def maximum(self, a: str | int, b: str | int) -> str:
        return self.let(f"select i1 {self.let(f'icmp sgt i64 {a}, {b}', 'c')}, i64 {a}, i64 {b}")

    def shuffle(self, type_: str, a: str, b: str, order: Iterable[int | str]) -> str:
        """Emit a vector of elements of a and b, both of type ``type_``. ``order`` holds their positions in a followed by b."""
        places = [f"i32 {i}" for i in order]
        return self.let(f"shufflevector {type_} {a}, {type_} {b}, <{len(places)} x i32> <{', '.join(places)}>")

    def splat(self, type_: str, x: str, lanes: int) -> str:
        """Emit the vector of ``lanes`` times x."""
        one = self.let(f"insertelement <{lanes} x {type_}> poison, {type_} {x}, i32 0")
        return self.let(f"shufflevector <{lanes} x {type_}> {one}, <{lanes} x {type_}> poison, <{lanes} x i32> zeroinitializer")

    def dot(self, start: str | int, terms: Iterable[tuple[str | int, int]]) -> str | int:
        """Emit ``start`` plus the sum of name * factor."""
        for name, factor in terms:
            start = self.add(start, self.mul(name, factor))
        return start

    @contextmanager
    def loop(self, start: str | int, end: str | int, step: str | int = 1) -> Iterator[str]:
        """Emit ``for i in range(start, end, step)`` around the body; yield the name of the i64 counter."""
        counter = self.local("i64")
        head, body, done = (self.fresh_label(h) for h in ("head", "body", "done"))
        self.store("i64", str(start), counter)
        self.do(f"br label %{head}")
        self.label(head)
        i = self.load("i64", counter)
        self.do(f"br i1 {self.let(f'icmp slt i64 {i}, {end}', 'c')}, label %{body}, label %{done}")
        self.label(body)
        self._loops.append(_Loop(f"next.{head}", done))
        yield i
        if self._loops.pop().again:
            self._jump(f"next.{head}")
            self.label(f"next.{head}")
        if not self.ended():
            after = self.let(f"add i64 {i}, {step}", "i")
            if self.hides_counters:
                after = self.let(f"call i64 @{_HIDE}(i64 {after}, i64 0)", "i")
            self.store("i64", after, counter)
            self.do(f"br label %{head}")
        self.label(done)

    @contextmanager
    def forever(self) -> Iterator[None]:
        """Emit ``while True`` around the body, which ends the loop with ``leave``."""
        head, done = self.fresh_label("head"), self.fresh_label("done")
        self.do(f"br label %{head}")
        self.label(head)
        self._loops.append(_Loop(head, done))
        yield
        self._jump(head)
        if self._loops.pop().left:
            self.label(done)

    def leave(self) -> None:
        """Emit ``break`` out of the innermost loop."""
        self._loops[-1].left = True
        self._jump(self._loops[-1].done)

    def again(self) -> None:
        """Emit ``continue`` of the innermost loop."""
        self._loops[-1].again = True
        self._jump(self._loops[-1].next)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Emit an ``if`` around the body."""
        then, done = self.fresh_label("then"), self.fresh_label("done")
        self.do(f"br i1 {condition}, label %{then}, label %{done}")
        self.label(then)
        yield
        self._jump(done)
        self.label(done)
        self._when = self.lines[-1]

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """Emit the ``else`` branch of the ``when`` that ended just before."""
        if not self.lines or self.lines[-1] != self._when:
            raise ValueError("otherwise: no when ended just before")
        else_label = self.lines.pop()[:-1]  # the branch target if the condition is false
        end = self.fresh_label("end")
        falls_through = self.lines[-1] == f"  br label %{else_label}"
        if falls_through:
            self.lines[-1] = f"  br label %{end}"
        self.label(else_label)
        yield
        if falls_through or not self.ended():
            self._jump(end)
            self.label(end)

    def ended(self) -> bool:
        """Return whether the last line ends a block (``ret`` or ``br``)."""
        return bool(self.lines) and self.lines[-1].startswith(("  ret ", "  br "))

    def _jump(self, label: str) -> None:
        if not self.ended():
            self.do(f"br label %{label}")

    def text(self) -> str:
        """Return the function's text; a function without a result returns at its end."""
        end = ["  ret void"] if " void @" in self.signature and not self.ended() else []
        body = "\n".join([*self.allocas, *self.lines, *end])
        return f"{self.signature} {self.attributes} {{\nentry:\n{body}\n}}\n"


class _Loop:
    """The labels of a loop under construction, and whether its body jumps to them."""

    def __init__(self, next_: str, done: str) -> None:
        self.next, self.done = next_, done
        self.again = self.left = False


@cache
def _check_memory_type(type_: str) -> None:
    """Raise ValueError for a type with ``i1``: LLVM packs bits in memory, weft keeps one byte a bool (``types.cell_type``)."""
    if _BITS.search(type_):
        raise ValueError(f"{type_} in memory: bits have no addresses, keep bytes")


@dataclass(frozen=True, slots=True)
class Generated:
    """LLVM text of one kernel. scratch: bytes shared by all workers; worker_scratch: bytes per worker.

    paths: names of the code paths taken; tests check that they have covered all of them.
    vectors: whether several elements are computed together. called: functions of the C library, with their float type.
    """

    symbol: str
    ir: str
    scratch: int
    worker_scratch: int
    paths: tuple[str, ...] = ()
    vectors: bool = False
    called: tuple[tuple[str, str], ...] = ()


class Module:
    """Functions and declarations of one compiled unit; paths, called, vectors: as in ``Generated``.

    hides_counters: LLVM does not see that counters of loops grow by a constant, so its loop strength reduction finds nothing to
    do. That pass takes a fifth of the time of compiling a kernel, a third for convolutions, and kernels are not slower without
    it. Functions whose sizes are arguments are: by up to 14 %.
    """

    def __init__(self, hides_counters: bool = True) -> None:
        self.hides_counters = hides_counters
        self.functions: list[Function] = []
        self.globals: list[str] = []
        self._declared: dict[str, str] = {}
        self._once: set[str] = set()
        self.paths: dict[str, None] = {}
        self.called: dict[tuple[str, str], None] = {}
        self.vectors = False

    def took(self, path: str) -> None:
        """Record a path for ``Generated.paths``."""
        self.paths[path] = None

    def function(self, signature: str, attributes: str = "nounwind") -> Function:
        f = Function(signature, attributes, self.hides_counters)
        self.functions.append(f)
        return f

    def declare(self, name: str, declaration: str) -> None:
        """Add a declaration once: ``declare("weft_parallel", "declare void @weft_parallel(ptr, ptr, i64)")``."""
        self._declared[name] = declaration

    def prefetch(self, f: Function, pointer: str, write: bool = False, near: bool = True) -> None:
        """Emit a prefetch of a cache line, with ``near`` into the first-level cache."""
        self.declare("llvm.prefetch.p0", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        f.do(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {int(write)}, i32 {3 if near else 2}, i32 1)")

    def fma(self, f: Function, type_: str, lanes: int, x: str, y: str, z: str, fused: bool = True) -> str:
        """Emit x * y + z of float vectors, rounded once if ``fused``."""
        vec, name = wide(type_, lanes), f"llvm.fma.{mangle(type_, lanes)}"
        if not fused:
            return f.let(f"fadd {vec} {f.let(f'fmul {vec} {x}, {y}')}, {z}")
        self.declare(name, f"declare {vec} @{name}({vec}, {vec}, {vec})")
        return f.let(f"call {vec} @{name}({vec} {x}, {vec} {y}, {vec} {z})")

    def masked_load(
        self, f: Function, type_: str, lanes: int, source: str, align: int, mask: str, fill: str = "zeroinitializer",
        gather: bool = False,
    ) -> str:
        """Emit a load of the lanes of a mask, from a pointer or, with ``gather``, from a vector of pointers."""
        vec, bits, pointer = wide(type_, lanes), wide("i1", lanes), wide("ptr", lanes) if gather else "ptr"
        name = f"llvm.masked.{'gather' if gather else 'load'}.{mangle(type_, lanes)}.{f'v{lanes}' if gather else ''}p0"
        self.declare(name, f"declare {vec} @{name}({pointer}, {bits}, {vec})")
        return f.let(f"call {vec} @{name}({pointer} align {align} {source}, {bits} {mask}, {vec} {fill})")

    def masked_store(
        self, f: Function, type_: str, lanes: int, value: str, target: str, align: int, mask: str, scatter: bool = False,
    ) -> None:
        """Emit a store of the lanes of a mask, to a pointer or, with ``scatter``, to a vector of pointers."""
        vec, bits, pointer = wide(type_, lanes), wide("i1", lanes), wide("ptr", lanes) if scatter else "ptr"
        name = f"llvm.masked.{'scatter' if scatter else 'store'}.{mangle(type_, lanes)}.{f'v{lanes}' if scatter else ''}p0"
        self.declare(name, f"declare void @{name}({vec}, {pointer}, {bits})")
        f.do(f"call void @{name}({vec} {value}, {pointer} align {align} {target}, {bits} {mask})")

    def any_lane(self, f: Function, mask: str, lanes: int) -> str:
        """Emit a test whether any lane of a mask is set."""
        return self._reduce_mask(f, "or", mask, lanes)

    def all_lanes(self, f: Function, mask: str, lanes: int) -> str:
        """Emit a test whether all lanes of a mask are set."""
        return self._reduce_mask(f, "and", mask, lanes)

    def _reduce_mask(self, f: Function, operation: str, mask: str, lanes: int) -> str:
        name, type_ = f"llvm.vector.reduce.{operation}.v{lanes}i1", f"<{lanes} x i1>"
        if lanes == 1:  # LLVM 22 fails an assertion when it reduces one lane
            return f.let(f"extractelement {type_} {mask}, i32 0")
        self.declare(name, f"declare i1 @{name}({type_})")
        return f.let(f"call i1 @{name}({type_} {mask})")

    def once(self, name: str) -> bool:
        """Return True on the first call with ``name``: for helper functions and globals that a module shares."""
        if name in self._once:
            return False
        self._once.add(name)
        return True

    def text(self) -> str:
        if self.hides_counters:
            self.declare(_HIDE, f"declare i64 @{_HIDE}(i64, i64)")
        return "\n".join([*dict.fromkeys(self._declared.values()), *self.globals, *(f.text() for f in self.functions)])

    def generated(self, symbol: str, scratch: int, worker_scratch: int) -> Generated:
        paths, called = tuple(self.paths), tuple(self.called)
        return Generated(symbol, self.text(), scratch, worker_scratch, paths, self.vectors, called)
