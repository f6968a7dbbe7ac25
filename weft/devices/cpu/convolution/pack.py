"""Copies that make the inner loops contiguous: image blocks with borders, panels of weights, pixels between zeros."""

from __future__ import annotations

from math import prod

from weft.devices.cpu.convolution.epilogue import SumPart
from weft.devices.cpu.convolution.pairs import Pair, call_packer, emit_packers, make_pair
from weft.devices.cpu.convolution.tile import Number
from weft.devices.cpu.convolution.tiling import ImageLayout, phase_bounds
from weft.devices.cpu.emit.storage_formats import to_accumulator
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import memory_type, wide
from weft.kernel.convolution import Conv, coefficient
from weft.kernel.ir import Axis, Buffer

MAX_INLINE_PHASES = 4  # phases up to which copies are emitted inline


def load_number(f: Function, buffer: Buffer, number: Number, pointer: str, lanes: int | None = None) -> str:
    """Emit a load of one element, or of ``lanes`` elements, widened to the accumulator's type."""
    dtype = buffer.dtype
    return to_accumulator(f, f.load(wide(memory_type(dtype), lanes), pointer, dtype.bytes), dtype, number.type, lanes)


def zero_fill(f: Function, number: Number, pointer: str, count: int) -> None:
    """Emit stores of ``count`` zeros, unrolled or as a loop of vectors."""
    size, lanes = number.size, number.lanes
    whole = count // lanes
    if whole > 8:
        with f.loop(0, whole * lanes * size, lanes * size) as at:
            f.store(number.vector, "zeroinitializer", f.offset(pointer, at), size)
    else:
        for i in range(whole):
            f.store(number.vector, "zeroinitializer", f.offset(pointer, i * lanes * size), size)
    if count % lanes and whole:
        f.store(number.vector, "zeroinitializer", f.offset(pointer, (count - lanes) * size), size)
    elif count:
        for i in range(count % lanes):
            f.store(number.type, "0.0", f.offset(pointer, i * size), size)


def copy_run(
    f: Function, buffer: Buffer, number: Number, source: str, target: str, count: int, step: int, pair: Pair | None = None,
) -> None:
    """Emit a copy of ``count`` elements, ``step`` apart in the source. pair: if given, the target's elements are such pairs."""
    width, size, lanes = buffer.dtype.bytes, number.size, number.lanes

    def read(address: str, wide: bool) -> str:
        value = load_number(f, buffer, number, address, lanes if wide else None)
        if wide and step == 2:  # every second of 2 * lanes - 1 elements, to read nothing past the last one
            upper = load_number(f, buffer, number, f.offset(address, (lanes - 1) * width), lanes)
            value = f.shuffle(number.vector, value, upper, [i if i < lanes else i + 1 for i in range(0, 2 * lanes, 2)])
        return value

    def copy(at: str | int, wide: bool) -> None:
        address = f.offset(source, f.mul(at, step * width))
        value = read(address, wide)
        if pair is not None:
            value = pair.join(f, number, value, read(f.offset(address, pair.distance), wide), wide)
        f.store(number.vector if wide else number.type, value, f.offset(target, f.mul(at, size)), size)

    wide = step in (1, 2) and count >= lanes
    unit = lanes if wide else 1
    whole = count // unit * unit
    if whole > 8 * unit:
        with f.loop(0, whole, unit) as i:
            copy(i, wide)
    else:
        for at in range(0, whole, unit):
            copy(at, wide)
    if count > whole:  # the last vector overlaps the previous one
        copy(count - lanes, True)


def pack_image(
    part: SumPart, f: Function, layout: ImageLayout, source: str, target: str, axes: tuple[Axis, Axis], first: str,
    inners: str, row0: str | int, conv: Conv | None = None,
) -> None:
    """Emit a copy of a block as [outer][phase][inner][row]..., with zeros outside the image.

    source: first element of the group in the image. axes: outer and inner, the channel and image axes (exchanged when pixels
    are summed). The block has ``inners`` images from ``first`` on, and rows from ``row0`` on. conv: that of ``layout``, if it is
    not the part's.
    """
    conv = conv or part.conv
    for index in range(len(layout.phases)):
        if len(layout.phases) <= MAX_INLINE_PHASES:
            _pack_phase(part.module, f, conv, layout, part.number, index, source, target, axes, first, inners, row0)
            continue
        name = part.name(f"{index}.copy")  # similar functions are merged later
        values: dict[str, str | int] = {"%first": first, "%inners": inners, "%row0": row0, "%outer0": 0}
        numbers = ", ".join(f"i64 {v}" for v in values)
        g = part.module.function(f"define internal void {name}(ptr %source, ptr %target, {numbers})")
        _pack_phase(part.module, g, conv, layout, part.number, index, "%source", "%target", axes, *values)
        f.do(f"call void {name}(ptr {source}, ptr {target}, {', '.join(f'i64 {v}' for v in values.values())})")


def _pack_phase(
    module: Module, f: Function, conv: Conv, layout: ImageLayout, number: Number, index: int, source: str, target: str,
    axes: tuple[Axis, Axis], first: str, inners: str, row0: str | int, outer0: str | int = 0,
) -> None:
    image, flat, windows, phase, (outer, inner) = conv.image.buffer, conv.image.flat(), conv.windows, layout.phases[index], axes
    width, size = image.dtype.bytes, number.size
    base = conv.image_base + sum(w.unit * p for w, p in zip(windows, phase, strict=True))
    ranges = [phase_bounds(w.valid, p, w.stride) for w, p in zip(windows, phase, strict=True)]

    def copy(depth: int, at: str, to: str, inside: str, pair: Pair | None) -> None:
        w, (lo, hi), extent = windows[depth], ranges[depth], layout.extents[depth]
        step = w.unit * w.stride
        if depth == len(windows) - 1:
            lo, hi = min(max(lo, 0), extent), min(max(hi, 0), extent)
            if hi <= lo:
                zero_fill(f, number, to, extent)
                return
            copy_label, blank, done = (f.fresh_label(x) for x in ("copy", "blank", "copied"))
            f.do(f"br i1 {inside}, label %{copy_label}, label %{blank}")
            f.label(blank)
            zero_fill(f, number, to, extent)
            f.do(f"br label %{done}")
            f.label(copy_label)
            zero_fill(f, number, to, lo)
            copy_run(f, image, number, f.offset(at, lo * step * width), f.offset(to, lo * size), hi - lo, step, pair)
            zero_fill(f, number, f.offset(to, hi * size), extent - hi)
            f.do(f"br label %{done}")
            f.label(done)
            return
        start = row0 if depth == 0 else 0
        with f.loop(0, extent) as r:
            row = f.add(r, start)
            ok = inside
            if lo > 0 or start != 0:
                ok = f.let(f"and i1 {ok}, {f.let(f'icmp sge i64 {row}, {lo}')}")
            ok = f.let(f"and i1 {ok}, {f.let(f'icmp slt i64 {row}, {hi}')}")
            row_at = f.offset(at, f.mul(row, step * width))
            copy(depth + 1, row_at, f.offset(to, f.mul(r, layout.pitches[depth] * size)), ok, pair)

    with f.loop(0, outer.extent) as o:
        at_o = f.add(o, outer0)
        from_o = f.mul(at_o, coefficient(flat, outer) * width)
        to_o = f.add(f.mul(o, layout.chan_pitch * size), index * layout.plane * size)
        with f.loop(0, inners) as i:
            at_i = f.add(i, first)
            from_i = f.add(from_o, f.mul(at_i, coefficient(flat, inner) * width))
            to_i = f.add(to_o, f.mul(i, layout.image_pitch * size))
            pair = make_pair(module, f, conv, conv.image, at_o if outer.id == conv.chan.id else at_i)
            copy(0, f.offset(source, f.add(from_i, base * width)), f.offset(target, to_i), "true", pair)


def pack_weights(part: SumPart, f: Function, source: str, target: str, mr: int, panel: str | int, rows: int) -> None:
    """Emit a copy of one panel: [channel][tap][mr] from weights[panel * mr + i][channel][tap], i < rows."""
    conv, number = part.conv, part.number
    buffer, flat = conv.weights.buffer, conv.weights.flat()
    width, size = buffer.dtype.bytes, number.size
    start = f.add(f.mul(panel, mr * coefficient(flat, conv.filters) * width), flat.const * width)
    cursor = f.local("ptr")
    f.store("ptr", target, cursor)

    def nest(axes: list[Axis], at: str, pair: Pair | None) -> None:
        if axes:
            with f.loop(0, axes[0].extent) as i:
                nest(axes[1:], f.add(at, f.mul(i, coefficient(flat, axes[0]) * width)), pair)
            return
        address, to = f.offset(source, at), f.load("ptr", cursor)
        for row in range(rows):
            place = f.offset(address, row * coefficient(flat, conv.filters) * width)
            value = load_number(f, buffer, number, place)
            if pair is not None:
                value = pair.join(f, number, value, load_number(f, buffer, number, f.offset(place, pair.distance)), wide=False)
            f.store(number.type, value, f.offset(to, row * size), size)
        f.store("ptr", f.offset(to, rows * size), cursor)

    with f.loop(0, conv.chan.extent) as c:
        pair = make_pair(part.module, f, conv, conv.weights, c)
        nest([w.tap for w in conv.windows], f.add(start, f.mul(c, coefficient(flat, conv.chan) * width)), pair)


def pack_filter_vectors(
    part: SumPart, conv: Conv, name: str, f: Function, source: str, target: str, width: int, panel: str, filters: int,
) -> None:
    """Emit a copy of one panel of ``filters`` filters as [channel][tap][filter], padded to vectors.

    width: filters of a whole panel. name: of a function that is emitted for the copies. Taps may lie backwards in the source.
    """
    number, buffer, flat = part.number, conv.weights.buffer, conv.weights.flat()
    nbytes, pitch = buffer.dtype.bytes, -(-filters // number.lanes) * number.lanes
    axes = [conv.chan, *(w.tap for w in conv.windows)]
    outer = conv.paired is not None  # pairs of channels are not joined with taps
    axes = axes[:outer] + ([a for a in axes[outer:] if a.extent > 1] or axes[-1:])
    steps = [coefficient(flat, a) for a in axes]
    start = f.add(f.mul(panel, width * coefficient(flat, conv.filters)), flat.const)
    joined = len(axes) - 1  # axes from this one on are evenly spaced
    while joined > outer and steps[joined - 1] == steps[joined] * axes[joined].extent:
        joined -= 1
    run = prod(a.extent for a in axes[joined:])
    back = steps[-1] < 0
    if back:  # read forwards, written backwards
        start, target = f.add(start, (run - 1) * steps[-1]), f.offset(target, (run - 1) * pitch * number.size)
    packer = emit_packers(part, conv, name, filters, coefficient(flat, conv.filters), abs(steps[-1]), -pitch if back else pitch)
    cursor = f.local("ptr")
    f.store("ptr", target, cursor)

    def nest(depth: int, at: str, chan: str) -> None:
        if depth == joined:
            to = f.load("ptr", cursor)
            call_packer(f, conv, packer, chan, f"ptr {f.offset(source, f.mul(at, nbytes))}, ptr {to}, i64 {run}")
            f.store("ptr", f.offset(to, run * pitch * number.size), cursor)
            return
        with f.loop(0, axes[depth].extent) as i:
            nest(depth + 1, f.add(at, f.mul(i, steps[depth])), i if depth == 0 else chan)

    nest(0, start, "0")


# ---- sums along pixels: values at the image copy's pixel positions, with zeros in between


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


def zero_unused(f: Function, conv: Conv, layout: ImageLayout, number: Number, image: str, images: str) -> None:
    """Emit zeros where an image copy is unused but read by vectors, since uninitialised scratch may hold NaN.

    These positions are behind the last image of a block that is not full, and behind the last phase of a channel.
    """
    size, channels, phases = number.size, conv.free.extent, len(layout.phases)
    used = phases * layout.plane
    if conv.chan.extent % layout.images:
        few = f.let(f"icmp slt i64 {images}, {layout.images}")
        with f.when(few), f.loop(0, channels) as c, f.loop(0, phases) as p:
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


def add_and_clear(f: Function, number: Number, total: str, part: str, start: str, end: str) -> None:
    """Emit ``total += part`` and ``part = 0`` between two byte offsets, a multiple of 16 bytes apart."""
    size = number.size
    for lanes, first, last in _vector_ranges(f, number, start, end):
        vector = f"<{lanes} x {number.type}>"
        with f.loop(first, last, lanes * size) as at:
            here, more = f.offset(total, at), f.offset(part, at)
            f.store(vector, f.let(f"fadd {vector} {f.load(vector, here, size)}, {f.load(vector, more, size)}"), here, size)
            f.store(vector, "zeroinitializer", more, size)


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
