"""Copies at the positions of pixels, zeros between them: what sums along pixels read beside the image copy."""

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
    """[image][row]...: ``images`` and ``rows`` of a buffer at the image copy's positions, zeros between, up to position ``end``.

    source: the block's first pixel. image_step, steps: elements of the buffer from an image, a pixel of each window to the next.
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
    """``void name(ptr image, ptr places, ptr target, i64 count, i64 images, i64 rows)``: columns of an image copy, each
    ``pitch`` positions long and zero where there is no pixel."""
    arguments = "ptr %image, ptr %places, ptr %target, i64 %count, i64 %images, i64 %rows"
    f = module.function(f"define internal void {name}({arguments})")
    copied = Buffer(-1, conv.contraction.accum, (pitch,))
    with f.loop(0, "%count") as k:
        column = f.offset("%image", f.load("i64", f.element("%places", "i64", k)))
        to = f.offset("%target", f.mul(k, pitch * number.size))
        steps = layout.image_pitch, layout.pitches
        pack_pixels(f, conv, layout, number, copied, column, to, *steps, "%images", "%rows", pitch)
    f.do("ret void")


def blank_rest(f: Function, conv: Conv, layout: ImageLayout, number: Number, image: str, images: str) -> None:
    """Zeros where an image copy holds nothing and a vector may read: behind the last image of a block that is not full, and
    behind the last phase of a channel. What lies in scratch need not be finite."""
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
    """Zeros from element ``start`` to ``end``, both known to be few or aligned to nothing."""
    lanes, size = number.lanes, number.size
    left = f.let(f"sub i64 {end}, {start}")
    vectors = f.let(f"and i64 {left}, {-lanes}")
    middle = f.add(start, vectors)
    with f.loop(start, middle, lanes) as i:
        f.store(number.vector, "zeroinitializer", f.element(pointer, number.type, i), size)
    with f.loop(middle, end) as i:
        f.store(number.type, "0.0", f.element(pointer, number.type, i), size)


def zero_groups(f: Function, number: Number, pointer: str, start: str, end: str) -> None:
    """Zeros between two byte offsets, whole groups of 16 bytes apart."""
    for lanes, first, last in _vectors(f, number, start, end):
        with f.loop(first, last, lanes * number.size) as at:
            f.store(f"<{lanes} x {number.type}>", "zeroinitializer", f.offset(pointer, at), number.size)


def all_finite(f: Function, module: Module, number: Number, pointer: str, start: str, end: str) -> str:
    """Whether all numbers between two byte offsets are finite: only then x - x is 0."""
    one, found = f"i{8 * number.size}", []
    for lanes, first, last in _vectors(f, number, start, end):
        v, bits = f"<{lanes} x {number.type}>", f"<{lanes} x {one}>"
        cell = f.local(bits)
        f.store(bits, "zeroinitializer", cell)
        with f.loop(first, last, lanes * number.size) as at:
            x = f.load(v, f.offset(pointer, at), number.size)
            nothing = f.let(f"bitcast {v} {f.let(f'fsub {v} {x}, {x}')} to {bits}")
            f.store(bits, f.let(f"or {bits} {f.load(bits, cell)}, {nothing}"), cell)
        name = f"llvm.vector.reduce.or.v{lanes}{one}"
        module.declare(name, f"declare {one} @{name}({bits})")
        found.append(f.let(f"call {one} @{name}({bits} {f.load(bits, cell)})"))
    return f.let(f"icmp eq {one} {f.let(f'or {one} {found[0]}, {found[-1]}')}, 0")


def _vectors(f: Function, number: Number, start: str, end: str) -> list[tuple[int, str, str]]:
    """(lanes, from, to) of whole vectors, and of the groups of 16 bytes that are left."""
    group, width = 16 // number.size, number.lanes * number.size
    if number.lanes == group:
        return [(group, start, end)]
    whole = f.let(f"and i64 {f.let(f'sub i64 {end}, {start}')}, {-width}")
    middle = f.add(start, whole)
    return [(number.lanes, start, middle), (group, middle, end)]
