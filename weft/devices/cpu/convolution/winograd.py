"""Convolutions of stride 1 by Winograd's F(m x m, r x r): the base of both generators, and the transform of images to planes.

The image is divided into tiles of m x m results. Its pixels are turned to vectors of channels, a strip of rows at a time, and
the tiles of these are transformed to *planes*: ``[position][vector of channels][tile][channel]``, with (m + r - 1)^2 positions.
The products of a position are those of matrices. The work is done in rounds of strips, so that planes stay in the caches as
far as they can. Each phase of a round is a loop over chunks that all threads share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.devices.cpu.convolution import pack
from weft.devices.cpu.convolution.epilogue import SumPart
from weft.devices.cpu.convolution.forward import emit_digits
from weft.devices.cpu.convolution.tiling import even_block
from weft.devices.cpu.convolution.winograd_transform import Matrix, choose_outputs, emit_transform, winograd_matrices
from weft.devices.cpu.emit.isa import ISA, LINE, round_to_line
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.product.pack import Packer
from weft.kernel.convolution import Conv, coefficient
from weft.kernel.ir import Access, Axis, Kernel, Reduction

BLOCK = 64  # channels, or tiles of a weight gradient, that are summed in registers: 256 are as fast, with 1.7 times the error
ROUND_BYTES = 8 << 20  # aimed bytes of a round's planes, ...
MIN_TILES = 128  # ... but a round has at least about as many tiles, so that transformed weights are read seldom
MAX_STRIP = 128 << 10  # bytes of the rows of an image that are turned to vectors at once
UNROLL = 4  # steps of a product


@dataclass(frozen=True, slots=True)
class Planes:
    """An operand or result as [position][vector][tile][lane], at ``at`` in scratch. pitch: bytes from position to position."""

    at: int
    pitch: int
    vectors: int
    tile_bytes: int  # of a vector's tiles
    end: int


@dataclass(frozen=True, slots=True)
class Source:
    """An operand whose tiles are transformed: n x n pixels, m apart, of an image and a vector of channels.

    base, units: place of the first pixel, and strides of pixels, in elements. valid: range of the rows and columns that exist;
    others are zero.
    """

    label: str
    access: Access
    channels: Axis
    images: Axis
    base: int
    units: tuple[int, int]
    valid: tuple[tuple[int, int], tuple[int, int]]
    matrix: Matrix


class WinogradPart(SumPart):
    """Base class of the generators: the tiles, rounds and strips, and the transform of images to planes."""

    base = 0  # offset of the workers' scratch

    def __init__(
        self, kernel: Kernel, conv: Conv, isa: ISA, module: Module, prefix: str, tallies: tuple[Reduction, ...] = (),
    ) -> None:
        super().__init__(kernel, conv, isa, module, prefix, tallies)
        self.m, self.r = choose_outputs(conv, isa), conv.windows[0].tap.extent
        self.n = self.m + self.r - 1
        self.positions = self.n**2
        self.matrices = winograd_matrices(self.m, self.r)
        self.height, self.width = (w.pixel.extent for w in conv.windows)
        self.tile_rows, self.tile_columns = -(-self.height // self.m), -(-self.width // self.m)
        self.vector_bytes = self.number.lanes * self.number.size
        columns = self.m * (self.tile_columns - 1) + self.n
        self.row_bytes = columns * self.vector_bytes  # of a row of a strip
        most = max(1, (MAX_STRIP // self.row_bytes - self.n) // self.m + 1)
        self.strip = even_block(self.tile_rows, most)  # rows of tiles
        self.strips = -(-self.tile_rows // self.strip)  # of an image
        self.strip_tiles = self.strip * self.tile_columns
        self.strip_bytes = (self.m * (self.strip - 1) + self.n) * self.row_bytes

    def store_sums(self, f: Function, cells: Sequence[tuple[str, str]], adds: str | None) -> None:
        """Store vectors of sums. cells : (accumulator, place). adds : i1, whether to what is there; None for never"""
        vector, nbytes = self.number.vector, self.vector_bytes
        if adds is not None:
            with f.when(adds):
                for acc, to in cells:
                    f.store(vector, f.let(f"fadd {vector} {f.load(vector, to, nbytes)}, {f.load(vector, acc)}"), acc)
        for acc, to in cells:
            f.store(vector, f.load(vector, acc), to, nbytes)

    def choose_round(self, images: int, vectors: int) -> None:
        """Choose the strips of a round, of the same or several images. vectors: of both planes of the tiles."""
        strip_bytes = self.positions * vectors * self.strip_tiles * self.vector_bytes
        self.all_strips = images * self.strips
        self.round_strips = even_block(self.all_strips, max(ROUND_BYTES // strip_bytes, -(-MIN_TILES // self.strip_tiles)))
        self.rounds = -(-self.all_strips // self.round_strips)
        self.tiles = self.round_strips * self.strip_tiles

    def planes(self, at: int, vectors: int, tiles: int) -> Planes:
        """Return planes from ``at`` on. Positions are an odd number of lines apart, which distributes them over cache sets."""
        tile_bytes = tiles * self.vector_bytes
        pitch = round_to_line(vectors * tile_bytes) | LINE
        return Planes(at, pitch, vectors, tile_bytes, round_to_line(at + self.positions * pitch))

    def scratch(self, f: Function, at: str | int) -> str:
        return f.offset(self.argument(f, self.scratch_slot), at)

    def round_number(self, f: Function) -> str:
        return f.load("i64", self.argument(f, self.scratch_slot), 8) if self.rounds > 1 else "0"

    def round_count(self, f: Function) -> str | int:
        """Emit the number of strips of the round."""
        if self.all_strips % self.round_strips == 0:
            return self.round_strips
        first = f.mul(self.round_number(f), self.round_strips)
        return f.minimum(f.let(f"sub i64 {self.all_strips}, {first}"), self.round_strips)

    def place_strip(self, f: Function, n: str) -> tuple[str, str]:
        """Emit the image, and the first row of results, of the n-th strip of the round."""
        image, strip = emit_digits(f, f.add(n, f.mul(self.round_number(f), self.round_strips)), (self.all_strips, self.strips))
        return image, f.mul(strip, self.strip * self.m)

    def emit_spread(self, source: Source, planes: Planes) -> int:
        """Emit the transform of a strip of an image and a vector of channels, a chunk. Return the number of chunks."""
        number, size, lanes = self.number, self.number.size, self.number.lanes
        flat, width = source.access.flat(), source.access.buffer.dtype.bytes
        side = len(source.matrix[0])
        spread = self._emit_tile_row(source, planes)
        f = self.module.function(f"define internal void {self.name(source.label)}(ptr %args, i64 %chunk, i64 %worker)")
        n, vector = emit_digits(f, "%chunk", (self.round_strips, planes.vectors))
        with f.when(f.let(f"icmp slt i64 {n}, {self.round_count(f)}")):
            image, row0 = self.place_strip(f, n)
            channel = f.mul(vector, lanes)
            at = f.dot(source.base, ((image, coefficient(flat, source.images)), (channel, coefficient(flat, source.channels))))
            first = f.offset(self.argument(f, source.access.buffer.id), f.mul(at, width))
            rows = self.scratch(f, f.add(f.mul("%worker", self.worker), self.base))
            (low, high), (left, right) = source.valid
            row_lanes = (self.m * (self.tile_columns - 1) + side) * lanes
            left, right = (min(max(0, edge), row_lanes // lanes) for edge in (left, right))
            rest, last = source.channels.extent % lanes, planes.vectors - 1
            kinds = [(lanes, "slt"), (rest, "eq")] if rest and last else [(rest or lanes, "sle")]
            strip_rows = self.m * (self.strip - 1) + side
            with f.loop(0, strip_rows) as r:
                row = f.add(r, row0)
                to = f.offset(rows, f.mul(r, self.row_bytes))
                inside = f.let(f"and i1 {f.let(f'icmp sge i64 {row}, {low}')}, {f.let(f'icmp slt i64 {row}, {high}')}")
                with f.when(inside):
                    pack.zero_fill(f, number, to, left * lanes)
                    here = f.offset(first, f.mul(f.add(f.mul(row, source.units[0]), left * source.units[1]), width))
                    for count, compare in kinds:
                        with f.when(f.let(f"icmp {compare} i64 {vector}, {last}")):
                            name = self._turn(source, count)
                            f.do(f"call void {name}(ptr {here}, ptr {f.offset(to, left * lanes * size)}, i64 {right - left})")
                    pack.zero_fill(f, number, f.offset(to, right * lanes * size), row_lanes - right * lanes)
                with f.otherwise():
                    pack.zero_fill(f, number, to, row_lanes)
            tile = f.mul(n, self.strip_tiles * self.vector_bytes)
            to = self.scratch(f, f.add(f.add(f.mul(vector, planes.tile_bytes), tile), planes.at))
            with f.loop(0, self.strip) as r:
                x = f.offset(rows, f.mul(r, self.m * self.row_bytes))
                f.do(f"call void {spread}(ptr {x}, ptr {f.offset(to, f.mul(r, self.tile_columns * self.vector_bytes))})")
        return self.round_strips * planes.vectors

    def _turn(self, source: Source, count: int) -> str:
        """Emit ``void turn(ptr row, ptr vectors, i64 columns)`` for ``count`` channels. Return its name."""
        name = self.name(f"{source.label}.turn{count}")
        if self.module.once(name):
            packer = Packer(self.module, source.access.buffer.dtype, self.conv.contraction.accum, self.number.lanes)
            step = coefficient(source.access.flat(), source.channels)
            packer.columns(name[1:], count, step, source.units[1], self.number.lanes)
        return name

    def _emit_tile_row(self, source: Source, planes: Planes) -> str:
        """Emit ``void spread(ptr row, ptr plane)``, which transforms a row of tiles. Return its name."""
        name = self.name(f"{source.label}.spread")
        f = self.module.function(f"define internal void {name}(ptr noalias %x, ptr noalias %v)")
        vector, nbytes, n = self.number.vector, self.vector_bytes, self.n
        with f.loop(0, self.tile_columns) as t:
            x, v = f.offset("%x", f.mul(t, self.m * nbytes)), f.offset("%v", f.mul(t, nbytes))
            emit_transform(
                f, self.module, self.isa, self.number, source.matrix,
                lambda i, j: f.load(vector, f.offset(x, i * self.row_bytes + j * nbytes), nbytes),
                lambda i, j, value: f.store(vector, value, f.offset(v, (i * n + j) * planes.pitch), nbytes),
            )
        return name

    def image_source(self, channels: Axis, images: Axis) -> Source:
        """Return the image as a source."""
        conv, (rows, columns) = self.conv, self.conv.windows
        return Source(
            "image", conv.image, channels, images, conv.image_base, (rows.unit, columns.unit), (rows.valid, columns.valid),
            self.matrices.inputs,
        )
