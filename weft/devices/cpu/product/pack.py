"""Copies of operands in the order in which the microkernel reads them, converted to the accumulator's type.

A *panel* is the vector operand of one column of tiles: ``[k][nr]``. A *block* is the other operand of one unit of work:
``[row][k]`` if the source is contiguous along k, else ``[k][row]`` per group of tile rows.
"""

from __future__ import annotations

from weft.devices.cpu.emit.storage_formats import to_accumulator
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import llvm_type, memory_type, wide
from weft.dtypes.formats import Format
from weft.kernel.product import Operand


def operand_pointer(f: Function, operand: Operand, outer: list[str]) -> str:
    """Return the address of a product's operand at the indices ``outer``."""
    pointer = f.argument(operand.buffer.id)
    return f.offset(pointer, f.mul(f.dot(operand.const, zip(outer, operand.outer, strict=True)), operand.buffer.dtype.bytes))


class Packer:
    """Emit pack functions from a source dtype to an accumulator dtype."""

    def __init__(self, module: Module, source: Format, target: Format, lanes: int) -> None:
        self.module, self.source, self.lanes = module, source, lanes
        self.size_in, self.size_out = source.bytes, target.bytes
        self.out = llvm_type(target)

    def read(self, f: Function, pointer: str, n: int) -> str:
        value = f.load(wide(memory_type(self.source), n or None), pointer, self.size_in)
        return to_accumulator(f, value, self.source, self.out, n or None)

    def write(self, f: Function, value: str, pointer: str, n: int) -> None:
        f.store(wide(self.out, n or None), value, pointer, self.size_out)

    def copy(self, f: Function, src: str, dst: str, count: int) -> None:
        """Copy a constant number of adjacent elements, in powers of two."""
        at = 0
        while at < count:
            n = min(self.lanes, 1 << ((count - at).bit_length() - 1))
            n = 0 if n == 1 else n
            self.write(f, self.read(f, f.offset(src, at * self.size_in), n), f.offset(dst, at * self.size_out), n)
            at += max(n, 1)

    def rows(self, name: str, row_stride: int, k_stride: int, out_stride: int, ahead: int) -> None:
        """Emit ``@name(src, dst, rows, kc)``: dst[r * out_stride + k] = src[r * row_stride + k * k_stride].

        ahead: distance, in rows, of the rows to prefetch.
        """
        f = self.module.function(f"define internal void @{name}(ptr %src, ptr %dst, i64 %rows, i64 %kc)")
        line = 64 // self.size_in
        with f.loop(0, "%rows") as r:
            src = f.offset("%src", f.mul(r, row_stride * self.size_in))
            dst = f.offset("%dst", f.mul(r, out_stride * self.size_out))
            body = f.let(f"and i64 %kc, {-line}") if k_stride == 1 else "0"
            if k_stride == 1:
                with f.loop(0, body, line) as k:
                    self.fetch(f, f.offset(src, f.add(f.mul(k, self.size_in), ahead * row_stride * self.size_in)))
                    self.copy(f, f.offset(src, f.mul(k, self.size_in)), f.offset(dst, f.mul(k, self.size_out)), line)
            with f.loop(body, "%kc") as k:
                value = self.read(f, f.offset(src, f.mul(k, k_stride * self.size_in)), 0)
                self.write(f, value, f.offset(dst, f.mul(k, self.size_out)), 0)

    def fetch(self, f: Function, pointer: str) -> None:
        self.module.prefetch(f, pointer, near=False)

    def columns(self, name: str, count: int, stride: int, k_stride: int, out_stride: int) -> None:
        """Emit ``@name(src, dst, kc)``: dst[k * out_stride + c] = src[c * stride + k * k_stride] for c < count."""
        f = self.module.function(f"define internal void @{name}(ptr %src, ptr %dst, i64 %kc)")
        if stride == 1:
            with f.loop(0, "%kc") as k:
                src = f.offset("%src", f.mul(k, k_stride * self.size_in))
                self.fetch(f, f.offset(src, 64))
                self.copy(f, src, f.offset("%dst", f.mul(k, out_stride * self.size_out)), count)
        elif k_stride == 1:
            self._emit_transposed(f, count, stride, out_stride)
        else:
            with f.loop(0, "%kc") as k:
                self._emit_strided(f, k, count, stride, k_stride, out_stride)

    def _emit_strided(self, f: Function, k: str, count: int, stride: int, k_stride: int, out_stride: int) -> None:
        src = f.offset("%src", f.mul(k, k_stride * self.size_in))
        dst = f.offset("%dst", f.mul(k, out_stride * self.size_out))
        with f.loop(0, count) as c:
            value = self.read(f, f.offset(src, f.mul(c, stride * self.size_in)), 0)
            self.write(f, value, f.offset(dst, f.mul(c, self.size_out)), 0)

    def _emit_transposed(self, f: Function, count: int, stride: int, out_stride: int) -> None:
        """Transpose a quarter vector by a vector at a time in registers; rows beyond the last repeat the last one."""
        body = f.let(f"and i64 %kc, {-self.quad}")
        with f.loop(0, body, self.quad) as k:
            src = f.offset("%src", f.mul(k, self.size_in))
            dst = f.offset("%dst", f.mul(k, out_stride * self.size_out))
            for first in range(0, count, self.lanes):
                for u, vector in enumerate(self.square(f, src, first, count, stride)):
                    self.write(f, vector, f.offset(dst, (u * out_stride + first) * self.size_out), self.lanes)
        with f.loop(body, "%kc") as k:
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
            x = self.read(f, f.offset(src, min(first + lane, count - 1) * stride * self.size_in), 0)
            out = f.let(f"insertelement {vec} {out}, {self.out} {x}, i32 {lane}")
        return out

    def _gather_rows(self, f: Function, src: str, rows: list[int], stride: int, quad: int) -> str:
        """Read quad elements along k of each row into one vector."""
        parts = [self.read(f, f.offset(src, row * stride * self.size_in), quad) for row in rows]
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

