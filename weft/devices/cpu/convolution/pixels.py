"""Copies for sums along pixels: values at the image copy's pixel positions, with zeros in between."""

from __future__ import annotations

from weft.devices.cpu.convolution.layout import ImageLayout
from weft.devices.cpu.convolution.pack import copy_run, zero_fill
from weft.devices.cpu.convolution.tile import Number
from weft.devices.cpu.emit.text import Function, Module
from weft.kernel.convolution import Conv
from weft.kernel.ir import Buffer


def pack_pixels(
    f: Function, conv: Conv, layout: ImageLayout, number: Number, buffer: Buffer, source: str, target: str,
    image_step: int, steps: tuple[int, ...], images: str, rows: str, end: int,
) -> None:
    """Emit a copy of a buffer's pixels to the image copy's positions, [image][row]..., with zeros elsewhere up to ``end``.

    source: the block's first pixel. image_step, steps: strides of images and of each window's pixels in the buffer, in elements.
    """
    windows, size, width = conv.windows, number.size, buffer.dtype.bytes

    def copy(depth: int, at: str, to: str) -> None:
        extent = windows[depth].pixel.extent
        if depth == len(windows) - 1:
            copy_run(f, buffer, number, at, to, extent, steps[depth])
            zero_fill(f, number, f.offset(to, extent * size), layout.pitches[depth - 1] - extent)
            return
        pitch = layout.pitches[depth]
        with f.loop(0, rows if depth == 0 else extent) as r:
            copy(depth + 1, f.offset(at, f.mul(r, steps[depth] * width)), f.offset(to, f.mul(r, pitch * size)))
        if depth:
            zero_fill(f, number, f.offset(to, extent * pitch * size), layout.pitches[depth - 1] - extent * pitch)
        else:
            zero_run(f, number, to, f.mul(rows, pitch), layout.image_pitch)

    with f.loop(0, images) as n:
        copy(0, f.offset(source, f.mul(n, image_step * width)), f.offset(target, f.mul(n, layout.image_pitch * size)))
    zero_run(f, number, target, f.mul(images, layout.image_pitch), end)


def pack_columns(module: Module, name: str, conv: Conv, layout: ImageLayout, number: Number, pitch: int) -> None:
    """Emit ``void name(ptr image, ptr places, ptr target, i64 count, i64 images, i64 rows)``, which copies columns.

    Columns are copied from an image copy. Each is ``pitch`` positions long and zero at positions without a pixel.
    """
    arguments = "ptr %image, ptr %places, ptr %target, i64 %count, i64 %images, i64 %rows"
    f = module.function(f"define internal void {name}({arguments})")
    image_copy = Buffer(-1, conv.contraction.accum, (pitch,))
    with f.loop(0, "%count") as k:
        column = f.offset("%image", f.load("i64", f.element("%places", "i64", k)))
        to = f.offset("%target", f.mul(k, pitch * number.size))
        steps = layout.image_pitch, layout.pitches
        pack_pixels(f, conv, layout, number, image_copy, column, to, *steps, "%images", "%rows", pitch)
    f.do("ret void")


def zero_unused(f: Function, conv: Conv, layout: ImageLayout, number: Number, image: str, images: str) -> None:
    """Emit zeros where an image copy is unused but read by vectors, since uninitialised scratch may hold NaN.

    These positions are behind the last image of a block that is not full, and behind the last phase of a channel.
    """
    size, channels, phases = number.size, conv.free.extent, len(layout.phases)
    used = phases * layout.plane
    if conv.chan.extent % layout.images:
        with f.when(f.let(f"icmp slt i64 {images}, {layout.images}")):
            with f.loop(0, channels) as c, f.loop(0, phases) as p:
                at = f.add(f.mul(c, layout.chan_pitch), f.mul(p, layout.plane))
                plane = f.offset(image, f.mul(at, size))
                zero_run(f, number, plane, f.mul(images, layout.image_pitch), layout.plane)
    if layout.chan_pitch > used:
        with f.loop(0, channels) as c:
            at = f.add(f.mul(c, layout.chan_pitch * size), used * size)
            zero_fill(f, number, f.offset(image, at), layout.chan_pitch - used)


def zero_run(f: Function, number: Number, pointer: str, start: str | int, end: int) -> None:
    """Emit zeros from element ``start`` to ``end``, without assumptions on alignment."""
    lanes, size = number.lanes, number.size
    left = f.let(f"sub i64 {end}, {start}")
    vectors = f.let(f"and i64 {left}, {-lanes}")
    middle = f.add(start, vectors)
    with f.loop(start, middle, lanes) as i:
        f.store(number.vector, "zeroinitializer", f.element(pointer, number.type, i), size)
    with f.loop(middle, end) as i:
        f.store(number.type, "0.0", f.element(pointer, number.type, i), size)


def zero_groups(f: Function, number: Number, pointer: str, start: str, end: str) -> None:
    """Emit zeros between two byte offsets, a multiple of 16 bytes apart."""
    for lanes, first, last in _vector_ranges(f, number, start, end):
        with f.loop(first, last, lanes * number.size) as at:
            f.store(f"<{lanes} x {number.type}>", "zeroinitializer", f.offset(pointer, at), number.size)


def all_finite(f: Function, module: Module, number: Number, pointer: str, start: str, end: str) -> str:
    """Emit a test whether all numbers between two byte offsets are finite: x - x is 0 only for finite x."""
    one, parts = f"i{8 * number.size}", []
    for lanes, first, last in _vector_ranges(f, number, start, end):
        v, bits = f"<{lanes} x {number.type}>", f"<{lanes} x {one}>"
        cell = f.local(bits)
        f.store(bits, "zeroinitializer", cell)
        with f.loop(first, last, lanes * number.size) as at:
            x = f.load(v, f.offset(pointer, at), number.size)
            difference = f.let(f"bitcast {v} {f.let(f'fsub {v} {x}, {x}')} to {bits}")
            f.store(bits, f.let(f"or {bits} {f.load(bits, cell)}, {difference}"), cell)
        name = f"llvm.vector.reduce.or.v{lanes}{one}"
        module.declare(name, f"declare {one} @{name}({bits})")
        parts.append(f.let(f"call {one} @{name}({bits} {f.load(bits, cell)})"))
    return f.let(f"icmp eq {one} {f.let(f'or {one} {parts[0]}, {parts[-1]}')}, 0")


def _vector_ranges(f: Function, number: Number, start: str, end: str) -> list[tuple[int, str, str]]:
    """Return (lanes, from, to) of the whole vectors, and of the remaining groups of 16 bytes."""
    group, width = 16 // number.size, number.lanes * number.size
    if number.lanes == group:
        return [(group, start, end)]
    whole = f.let(f"and i64 {f.let(f'sub i64 {end}, {start}')}, {-width}")
    middle = f.add(start, whole)
    return [(number.lanes, start, middle), (group, middle, end)]
