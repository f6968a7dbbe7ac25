"""Copies of operands in the order in which the microkernel reads them, converted to the accumulator's type.

A *panel* is the vector operand of one column of tiles: ``[k][nr]``. A *block* is the other operand of one unit of work:
``[row][k]`` if the source is contiguous along k, else ``[k][row]`` per group of tile rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import nan

from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.storage_formats import cast, decode_through_half, goes_through_half, to_accumulator
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import llvm_type, memory_type, splat_text, wide
from weft.dtypes.formats import BFLOAT16, FLOAT32, FLOATS, Format
from weft.kernel.product import Operand


def operand_pointer(f: Function, operand: Operand, outer: list[str]) -> str:
    """Return the address of a product's operand at the indices ``outer``."""
    pointer = f.argument(operand.buffer.id)
    return f.offset(pointer, f.mul(f.dot(operand.const, zip(outer, operand.outer, strict=True)), operand.buffer.dtype.bytes))


def flip_signs(f: Function, units: str, n: int) -> str:
    """Emit the units of bytes whose sign bits are flipped; n: lanes, 0 for a scalar."""
    return f.let(f"xor {wide('i32', n or None)} {units}, {splat_text('i32', '-2139062144', n or None)}")


def round_to_bfloat16(module: Module, f: Function, n: int, low: str, high: str) -> str:
    """Emit the 16-bit codes of two vectors of n float32 (4, 8 or 16), one after another; numbers below 2**-126 become zero."""
    v, codes, name = wide("float", n), wide("bfloat", 2 * n), f"llvm.x86.avx512bf16.cvtne2ps2bf16.{32 * n}"
    module.declare(name, f"declare {codes} @{name}({v}, {v})")
    return f.let(f"bitcast {codes} {f.let(f'call {codes} @{name}({v} {high}, {v} {low})')} to {wide('i16', 2 * n)}")


class Packer:
    """Emit pack functions from a source dtype to an accumulator dtype.

    per: numbers along k in a packed element: 1, or, of integers, four bytes or two 16-bit integers, or two bfloat16 of floats
    (see ``dot.py``). Such an element is a *unit*. rest: numbers in the last unit of k, 0 if it is whole. flip: whether the sign
    bits of bytes are flipped. Strides are those of the source's numbers. isa: if given, its conversion of halves is used.
    rounded, canonical: see ``Operand``; they need isa. apart: the distance of the two numbers of a pair; then steps along k are
    those of single numbers.
    """

    def __init__(
        self, module: Module, source: Format, target: Format, lanes: int, per: int = 1, rest: int = 0, flip: bool = False,
        isa: ISA | None = None, rounded: Format | None = None, canonical: bool = False, apart: int | None = None,
    ) -> None:
        self.module, self.source, self.lanes, self.per, self.rest, self.flip = module, source, lanes, per, rest, flip
        self.isa, self.target, self.rounded, self.canonical, self.apart = isa, target, rounded, canonical, apart
        self.through_half = isa is not None and isa.has_halves and target is FLOAT32 and goes_through_half(source)
        self.size, self.size_in, self.size_out = source.bytes, source.bytes * (per if apart is None else 1), target.bytes
        self.align = source.bytes if source in FLOATS else 1  # units may begin at any byte
        self.out = llvm_type(target)
        self.makes_pairs = per == 2 and target is FLOAT32
        self.rounds_pairs = self.makes_pairs and rounded is BFLOAT16 and source is FLOAT32 and not canonical

    def read(self, f: Function, pointer: str, n: int) -> str:
        """Read n elements (0: a scalar) that are contiguous in memory."""
        if self.makes_pairs:
            return self._read_pairs(f, pointer, n) if self.apart is None else self.read_columns(f, pointer, n, self.apart)
        if self.per == 1:
            value = self.convert(f, f.load(wide(memory_type(self.source), n or None), pointer, self.align), n)
        elif self.per == 4:
            value = f.load(wide("i32", n or None), pointer, 1)
        else:
            extended = self._extend(f, f.load(wide("i8", 2 * max(n, 1)), pointer, 1), "i8", "i16", 2 * max(n, 1))
            value = f.let(f"bitcast {wide('i16', 2 * max(n, 1))} {extended} to {wide('i32', n or None)}")
        return flip_signs(f, value, n) if self.flip else value

    def convert(self, f: Function, value: str, n: int) -> str:
        """Convert n loaded numbers (0: a scalar) to the accumulator's type."""
        if self.through_half and n:
            value = decode_through_half(f, value, self.source, n)
        else:
            value = to_accumulator(f, value, self.source, self.out, n or None)
        if self.rounded is None and not self.canonical:
            return value
        assert self.isa is not None
        o = Ops(f, self.module, self.isa, n or None)
        if self.rounded is not None:
            value = cast(o, cast(o, value, self.target, self.rounded), self.rounded, self.target)
        return o.select(o.cmp("uno", self.out, value, value), self.out, o.c(self.out, nan), value) if self.canonical else value

    def _read_pairs(self, f: Function, pointer: str, n: int) -> str:
        """Read n pairs of adjacent numbers (0: one) as units of bfloat16, the first number in the high half."""
        if self.source is BFLOAT16:
            unit = wide("i32", n or None)
            pairs = f.load(unit, pointer, self.align)
            low, high = (f.let(f"{word} {unit} {pairs}, {splat_text('i32', '16', n or None)}") for word in ("lshr", "shl"))
            return self._as_floats(f, f.let(f"or {unit} {low}, {high}"), n)
        if self.rounds_pairs and n >= 4:
            unit, places = wide("i32", n), [f.offset(pointer, j * n * self.size) for j in (0, 1)]
            halves = [f.load(wide(self.out, n), place, self.align) for place in places]
            pairs = f.let(f"bitcast {wide('i16', 2 * n)} {round_to_bfloat16(self.module, f, n, *halves)} to {unit}")
            low, high = (f.let(f"{word} {unit} {pairs}, {splat_text('i32', '16', n)}") for word in ("lshr", "shl"))
            return self._as_floats(f, f.let(f"or {unit} {low}, {high}"), n)
        double, count = wide("i64", n or None), 2 * max(n, 1)
        value = self.convert(f, f.load(wide(memory_type(self.source), count), pointer, self.align), count)
        pairs = f.let(f"bitcast {wide(self.out, count)} {value} to {double}")
        second = f.let(f"lshr {double} {pairs}, {splat_text('i64', '48', n or None)}")
        first = f.let(f"and {double} {pairs}, {splat_text('i64', '4294901760', n or None)}")
        both = f.let(f"or {double} {first}, {second}")
        return self._as_floats(f, f.let(f"trunc {double} {both} to {wide('i32', n or None)}"), n)

    def _join_pairs(self, f: Function, rows: list[str], n: int) -> str:
        """Return the units of n numbers (0: one) and, if there is a second row, the numbers that follow them along k."""
        unit = wide("i32", n or None)
        bits = [f.let(f"bitcast {wide(self.out, n or None)} {row} to {unit}") for row in rows]
        value = f.let(f"and {unit} {bits[0]}, {splat_text('i32', '-65536', n or None)}")
        if len(bits) == 2:
            second = f.let(f"lshr {unit} {bits[1]}, {splat_text('i32', '16', n or None)}")
            value = f.let(f"or {unit} {value}, {second}")
        return self._as_floats(f, value, n)

    def _as_floats(self, f: Function, units: str, n: int) -> str:
        return f.let(f"bitcast {wide('i32', n or None)} {units} to {wide(self.out, n or None)}")

    def _extend(self, f: Function, x: str, narrow: str, to: str, n: int) -> str:
        word = "sext" if self.source.kind == "signed" else "zext"
        return f.let(f"{word} {wide(narrow, n or None)} {x} to {wide(to, n or None)}")

    def read_columns(self, f: Function, pointer: str, n: int, k_stride: int, live: int = 0) -> str:
        """Read an element of each of n adjacent columns (0: one); ``live`` numbers of a unit (0: all), ``k_stride`` apart."""
        live = live or self.per
        if self.per == 1:
            return self.read(f, pointer, n)
        if self.makes_pairs:
            k_stride = k_stride if self.apart is None else self.apart
            places = [f.offset(pointer, j * k_stride * self.size) for j in range(live)]
            type_ = wide(memory_type(self.source), n or None)
            rows = [f.load(type_, place, self.align) for place in places]
            if self.rounds_pairs and n >= 4 and live == 2:
                words = round_to_bfloat16(self.module, f, n, rows[1], rows[0])
                words = f.shuffle(wide("i16", 2 * n), words, "poison", [half + i for i in range(n) for half in (0, n)])
                return f.let(f"bitcast {wide('i16', 2 * n)} {words} to {wide(self.out, n)}")
            return self._join_pairs(f, [self.convert(f, row, n) for row in rows], n)
        type_ = wide("i32", n or None)
        rows = [f.load(wide("i8", n or None), f.offset(pointer, j * k_stride), 1) for j in range(live)]
        if self.per == live == 4 and n == self.lanes == 16:
            value = self._interleave(f, rows)
        else:
            value = "0" if n == 0 else "zeroinitializer"
            for j, row in enumerate(rows):
                if self.per == 2:
                    row = self._extend(f, row, "i8", "i16", n)
                row = f.let(f"zext {wide('i8' if self.per == 4 else 'i16', n or None)} {row} to {type_}")
                row = f.let(f"shl {type_} {row}, {splat_text('i32', str(32 // self.per * j), n or None)}")
                value = f.let(f"or {type_} {value}, {row}")
        return flip_signs(f, value, n) if self.flip else value

    def _interleave(self, f: Function, rows: list[str]) -> str:
        """Return the units of four rows of 16 bytes: a shuffle of 32-bit words across lanes, then one of bytes within lanes.

        The first is an intrinsic: of two plain shuffles LLVM 22 makes one, which takes six instructions without AVX512-VBMI.
        """
        low, high = (f.shuffle("<16 x i8>", x, y, range(32)) for x, y in (rows[:2], rows[2:]))
        mixed = self.transpose_words(f, f.shuffle("<32 x i8>", low, high, range(64)), 4, 4)
        places = [16 * lane + 4 * r + c for lane in range(4) for c in range(4) for r in range(4)]
        return f.let(f"bitcast <64 x i8> {f.shuffle('<64 x i8>', mixed, 'poison', places)} to <16 x i32>")

    def transpose_words(self, f: Function, x: str, rows: int, columns: int) -> str:
        """Return the bytes of a matrix of 32-bit words, transposed."""
        n, order = rows * columns, [columns * r + c for c in range(columns) for r in range(rows)]
        if n < 16:
            return f.shuffle(f"<{4 * n} x i8>", x, "poison", [4 * word + byte for word in order for byte in range(4)])
        name, vec = "llvm.x86.avx512.permvar.si.512", "<16 x i32>"
        self.module.declare(name, f"declare {vec} @{name}({vec}, {vec})")
        words = f.let(f"bitcast <64 x i8> {x} to {vec}")
        words = f.let(f"call {vec} @{name}({vec} {words}, {vec} <{', '.join(f'i32 {place}' for place in order)}>)")
        return f.let(f"bitcast {vec} {words} to <64 x i8>")

    def write(self, f: Function, value: str, pointer: str, n: int) -> None:
        f.store(wide(self.out, n or None), value, pointer, self.size_out)

    def copy(self, f: Function, src: str, dst: str, count: int) -> None:
        """Copy a constant number of adjacent elements, in powers of two."""
        for at, n in self._pieces(count):
            self.write(f, self.read(f, f.offset(src, at * self.size_in), n), f.offset(dst, at * self.size_out), n)

    def _pieces(self, count: int) -> Iterator[tuple[int, int]]:
        """Yield (start, number) of powers of two that make ``count``; the number is 0 for one element."""
        at = 0
        while at < count:
            n = min(self.lanes, 1 << ((count - at).bit_length() - 1))
            yield at, 0 if n == 1 else n
            at += n

    def _copy_columns(self, f: Function, src: str, dst: str, count: int, k_stride: int, live: int = 0) -> None:
        for at, n in self._pieces(count):
            value = self.read_columns(f, f.offset(src, at * self.size), n, k_stride, live)
            self.write(f, value, f.offset(dst, at * self.size_out), n)

    def _function(self, name: str, parameters: str) -> tuple[Function, str]:
        """Return the function, and the number of elements that are whole."""
        rest = ", i64 %full" if self.rest else ""
        return self.module.function(f"define internal void @{name}({parameters}, i64 %kc{rest})"), "%full" if self.rest else "%kc"

    @contextmanager
    def _last_unit(self, f: Function) -> Iterator[None]:
        """Emit the body for a last unit that is not whole."""
        with f.when(f.let("icmp slt i64 %full, %kc", "c")):
            yield

    def rows(self, name: str, row_stride: int, k_stride: int, out_stride: int, ahead: int) -> None:
        """Emit ``@name(src, dst, rows, kc)``: dst[r * out_stride + k] = src[r * row_stride + k * k_stride].

        ahead: distance, in rows, of the rows to prefetch.
        """
        f, whole = self._function(name, "ptr %src, ptr %dst, i64 %rows")
        line = 64 // self.size_in
        with f.loop(0, "%rows") as r:
            src = f.offset("%src", f.mul(r, row_stride * self.size))
            dst = f.offset("%dst", f.mul(r, out_stride * self.size_out))
            body = f.let(f"and i64 {whole}, {-line}") if k_stride == 1 else "0"
            if k_stride == 1:
                with f.loop(0, body, line) as k:
                    self.fetch(f, f.offset(src, f.add(f.mul(k, self.size_in), ahead * row_stride * self.size)))
                    self.copy(f, f.offset(src, f.mul(k, self.size_in)), f.offset(dst, f.mul(k, self.size_out)), line)
            with f.loop(body, whole) as k:
                value = self.read_columns(f, f.offset(src, f.mul(k, k_stride * self.size_in)), 0, k_stride)
                self.write(f, value, f.offset(dst, f.mul(k, self.size_out)), 0)
            if self.rest:
                with self._last_unit(f):
                    value = self.read_columns(f, f.offset(src, f.mul("%full", k_stride * self.size_in)), 0, k_stride, self.rest)
                    self.write(f, value, f.offset(dst, f.mul("%full", self.size_out)), 0)

    def fetch(self, f: Function, pointer: str) -> None:
        self.module.prefetch(f, pointer, near=False)

    def columns(self, name: str, count: int, stride: int, k_stride: int, out_stride: int) -> None:
        """Emit ``@name(src, dst, kc)``: dst[k * out_stride + c] = src[c * stride + k * k_stride] for c < count."""
        f, whole = self._function(name, "ptr %src, ptr %dst")
        if stride == 1:
            with f.loop(0, whole) as k:
                src = f.offset("%src", f.mul(k, k_stride * self.size_in))
                for j in range(self.per):
                    self.fetch(f, f.offset(src, j * k_stride * self.size + 64))
                self._copy_columns(f, src, f.offset("%dst", f.mul(k, out_stride * self.size_out)), count, k_stride)
        elif k_stride == 1:
            self._emit_transposed(f, whole, count, stride, out_stride)
        else:
            with f.loop(0, whole) as k:
                self._emit_strided(f, k, count, stride, k_stride, out_stride)
        if self.rest:
            with self._last_unit(f):
                self._emit_strided(f, "%full", count, stride, k_stride, out_stride, self.rest)

    def _emit_strided(
        self, f: Function, k: str, count: int, stride: int, k_stride: int, out_stride: int, live: int = 0,
    ) -> None:
        src = f.offset("%src", f.mul(k, k_stride * self.size_in))
        dst = f.offset("%dst", f.mul(k, out_stride * self.size_out))
        with f.loop(0, count) as c:
            value = self.read_columns(f, f.offset(src, f.mul(c, stride * self.size)), 0, k_stride, live)
            self.write(f, value, f.offset(dst, f.mul(c, self.size_out)), 0)

    def _emit_transposed(self, f: Function, whole: str, count: int, stride: int, out_stride: int) -> None:
        """Transpose a quarter vector by a vector at a time in registers; rows beyond the last repeat the last one."""
        body = f.let(f"and i64 {whole}, {-self.quad}")
        with f.loop(0, body, self.quad) as k:
            src = f.offset("%src", f.mul(k, self.size_in))
            dst = f.offset("%dst", f.mul(k, out_stride * self.size_out))
            for first in range(0, count, self.lanes):
                for u, vector in enumerate(self.square(f, src, first, count, stride)):
                    self.write(f, vector, f.offset(dst, (u * out_stride + first) * self.size_out), self.lanes)
        with f.loop(body, whole) as k:
            self._emit_strided(f, k, count, stride, 1, out_stride)

    @property
    def quad(self) -> int:
        """Return the elements in 16 bytes: the side of the squares that are transposed at once."""
        return 16 // self.size_out

    def square(self, f: Function, src: str, first: int, count: int, stride: int) -> list[str]:
        """Return quad vectors, one per k step, of the columns from ``first`` on; the source is contiguous along k."""
        quad = self.quad
        wide = [
            self._gather_rows(f, src, [min(first + g + r, count - 1) for g in range(0, self.lanes, quad)], stride, quad)
            for r in range(quad)
        ]
        return self._transpose_squares(f, wide, quad)

    def across(self, f: Function, src: str, first: int, count: int, stride: int) -> str:
        """Return the vector of the columns from ``first`` on at one k step."""
        vec, out = f"<{self.lanes} x {self.out}>", "poison"
        for lane in range(self.lanes):
            x = self.read(f, f.offset(src, min(first + lane, count - 1) * stride * self.size), 0)
            out = f.let(f"insertelement {vec} {out}, {self.out} {x}, i32 {lane}")
        return out

    def _gather_rows(self, f: Function, src: str, rows: list[int], stride: int, quad: int) -> str:
        """Read quad elements along k of each row into one vector."""
        parts = [self.read(f, f.offset(src, row * stride * self.size), quad) for row in rows]
        n = quad
        while len(parts) > 1:
            kind = f"<{n} x {self.out}>"
            parts = [f.shuffle(kind, x, y, range(2 * n)) for x, y in zip(parts[::2], parts[1::2], strict=True)]
            n *= 2
        return parts[0]

    def _transpose_squares(self, f: Function, wide: list[str], quad: int) -> list[str]:
        """Transpose the quad x quad squares that are side by side in ``wide``."""
        vec = f"<{self.lanes} x {self.out}>"

        def shuffle(x: str, y: str, pattern: list[int]) -> str:
            # pattern: positions within one square's columns; >= quad means from y
            order = [
                base + p if p < quad else self.lanes + base + p - quad for base in range(0, self.lanes, quad) for p in pattern
            ]
            return f.shuffle(vec, x, y, order)

        if quad == 2:
            return [shuffle(wide[0], wide[1], [0, 2]), shuffle(wide[0], wide[1], [1, 3])]
        a, b = ([shuffle(wide[k], wide[k + 1], order) for order in ([0, 4, 1, 5], [2, 6, 3, 7])] for k in (0, 2))
        return [shuffle(a[h], b[h], pattern) for h in (0, 1) for pattern in ([0, 1, 4, 5], [2, 3, 6, 7])]

