"""The base class of the generators of phases, and the stores of a convolution, which run on finished sums."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from weft.devices.cpu.convolution.tile import Number
from weft.devices.cpu.emit.affine import first_mask
from weft.devices.cpu.emit.check import record_slot
from weft.devices.cpu.emit.chunks import divide_all, run_chunks, share
from weft.devices.cpu.emit.emit import Env, Level, ValueEmitter, emit_store, key_of
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.load import pointer_of
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.storage_formats import cast, load_scalar
from weft.devices.cpu.emit.store import emit_fence
from weft.devices.cpu.emit.tally import Tallies
from weft.devices.cpu.emit.text import Function, Module
from weft.kernel.convolution import Conv, coefficient
from weft.kernel.expressions import access_values, iterate_values, walk
from weft.kernel.ir import Access, Axis, Kernel, Reduction, Stage, Store, size_of
from weft.kernel.stages import Epilogue, join_axes

FILL_CHUNKS = 16  # aimed number of chunks of a Fill
MIN_PARALLEL_FILL = 1 << 15  # elements above which a Fill runs in parallel
JOINED_AXIS_ID = 1 << 30  # the id of the axis that stands for several joined ones


class ConvolutionPart:
    """Base class of the generators of one phase.

    shared, worker: bytes of scratch for all workers, and for each; path: the name of the code path, for ``Generated.paths``.
    storing: number of chunks that store; tallies_at: offset of their states of tallies in scratch, set before ``generate``.
    """

    shared = worker = 0
    path = ""
    tallies: Tallies
    storing = tallies_at = 0

    def __init__(
        self, kernel: Kernel, isa: ISA, module: Module, prefix: str, tallies: tuple[Reduction, ...] = (), lanes: int = 0,
    ) -> None:
        self.kernel, self.isa, self.module, self.prefix = kernel, isa, module, prefix
        self.tallies = Tallies(module, isa, kernel, tallies, lanes)
        self.scratch_slot = len(kernel.inputs) + len(kernel.outputs) + len(kernel.scalars)

    def name(self, part: str) -> str:
        return f"@{self.prefix}.{part}"

    def argument(self, f: Function, slot: int) -> str:
        return f.load("ptr", f.offset("%args", 8 * slot))

    def operand(self, f: Function, access: Access, axis: Axis, index: str) -> str:
        """Return the address of an operand at an index of one axis."""
        step = coefficient(access.flat(), axis) * access.buffer.dtype.bytes
        return f.offset(self.argument(f, access.buffer.id), f.mul(index, step))

    def generate(self, base: int) -> None:
        """Emit ``void @prefix.run(ptr args)``. base: offset of the workers' scratch."""
        raise NotImplementedError

    def run_storing(self, f: Function, body: str, parallel: bool) -> None:
        """Emit the chunks that store and update the tallies."""
        body = self.tallies.wrap(body, self.tallies_at) if self.tallies else body
        run_chunks(self.module, f, body, self.storing, parallel)

    def env(self, f: Function, stores: tuple[Store, ...]) -> Env:
        """Return an Env with all pointers and run-time scalars, loaded at the start of a function."""
        kernel = self.kernel
        pointers = {key_of(b): self.argument(f, b.id) for b in (*kernel.inputs, *kernel.outputs)}
        first = len(kernel.inputs) + len(kernel.outputs)
        scalars = {i: load_scalar(f, dtype, f.offset("%args", 8 * (first + i))) for i, dtype in enumerate(kernel.scalars)}
        values = [s.value for s in stores] + [v for s in stores for v in access_values(s.access)] + self.tallies.values
        checks = any(v.op == "check" for v in walk(values))
        return Env(pointers=pointers, scalars=scalars, record=self.argument(f, record_slot(kernel)) if checks else "")


class Stores:
    """The stores and tallies inside one function.

    Create it at the function's start, where it reads arguments; emit when sums are ready; call ``end`` at the function's end.
    epilogue: what ``join_axes`` made of the convolution's. aligned: whether vectors start at multiples of the lanes, so that they
    may bypass the caches.
    """

    def __init__(
        self, f: Function, part: ConvolutionPart, conv: Conv, number: Number, epilogue: Epilogue | None = None,
        aligned: bool = False,
    ) -> None:
        self.f, self.module, self.isa, self.conv, self.number = f, part.module, part.isa, conv, number
        self.stores, reduced = epilogue or (conv.contraction.stores, part.tallies.tallies)
        self.base = part.env(f, self.stores)
        if aligned and "+sse2" in part.isa.features.split(","):
            self.base.streamed = set()
        self.tallies = part.tallies.of(reduced)
        self.cells = self.tallies.begin(f)
        sums = [v for v in iterate_values([*(s.value for s in self.stores), *(r.value for r in reduced)]) if v.op == "acc"]
        loads = {v.attr: None for s in self.stores for v in walk([s.value]) if v.op == "load" and not v.attr.guard}
        self.ahead = [
            access for access in loads
            if prod(access.buffer.shape) * access.buffer.dtype.bytes > part.isa.l2 and not access.flat().gather
        ]
        self.narrow = next((v.dtype for v in sums if v.dtype.narrow), None)

    def emit(self, axes: dict[Axis, str], along: Axis, at: str | int, sums: str, live: int, outer: Level | None = None) -> None:
        """Emit all stores at ``live`` neighbours from ``at`` on along one axis; ``sums`` is their vector."""
        lanes = self.number.lanes
        if self.narrow is not None:  # float16 and bfloat16 are summed in float32
            sums = cast(Ops(self.f, self.module, self.isa, lanes), sums, self.conv.contraction.accum, self.narrow)
        one = along.extent == 1  # scalar: a store need not depend on an axis of extent 1
        if one:
            sums = self.f.let(f"extractelement {self.number.vector} {sums}, i64 0")
        env = self._env(axes, along, at, live, outer)
        env.accs = {self.conv.contraction.id: sums}
        self.tallies.add(self.f, env, self.cells)
        for store in self.stores:
            emit_store(self.f, self.module, self.isa, store, env)

    def _env(self, axes: dict[Axis, str], along: Axis, at: str | int, live: int, outer: Level | None) -> Env:
        lanes, one = self.number.lanes, along.extent == 1
        env = replace(
            self.base, axes={**{axis.id: value for axis, value in axes.items()}, along.id: str(at)}, memo={}, lanes=lanes,
            vector=None if one else along.id, mask=first_mask(lanes, live) if live < lanes and not one else None,
        )
        if outer is not None:
            env.levels = [outer, Level(self.f.lines)]
            env.level_of = {axis.id: 0 for axis in axes} | {along.id: 1}
        return env

    def prefetch(self, axes: dict[Axis, str], along: Axis, at: str, outer: Level) -> None:
        """Prefetch what the stores read along ``along``, a vector, from large arrays: the sums take longer than memory does."""
        e = ValueEmitter(self.f, self.module, self.isa, self._env(axes, along, at, self.number.lanes, outer))
        for access in self.ahead:
            self.module.prefetch(self.f, pointer_of(e, access, access.flat()))

    def end(self) -> None:
        self.tallies.end(self.f, self.cells)
        if self.base.streamed:
            emit_fence(self.f, self.module)

    def row(self, axes: dict[Axis, str], along: Axis, sums: str) -> None:
        """Emit all stores at ``axes`` along the whole of ``along``; ``sums``: address of contiguous sums, padded to vectors."""
        f, number = self.f, self.number
        outer = Level(f.lines)
        f.lines = []
        whole = along.extent // number.lanes * number.lanes
        if whole == number.lanes:
            self.emit(axes, along, 0, f.load(number.vector, sums, number.size), number.lanes, outer)
        elif whole:
            with f.loop(0, whole, number.lanes) as c:
                vector = f.load(number.vector, f.element(sums, number.type, c), number.size)
                self.emit(axes, along, c, vector, number.lanes, outer)
        if along.extent > whole:
            last = f.load(number.vector, f.offset(sums, whole * number.size), number.size)
            self.emit(axes, along, whole, last, along.extent - whole, outer)
        outer.lines.extend(f.lines)
        f.lines = outer.lines


class ColumnStores:
    """The stores of a weight gradient inside one function, filter by filter, over columns (channel, tap).

    Create it at the function's start; call ``end`` at the function's end.
    """

    def __init__(self, f: Function, part: ConvolutionPart, conv: Conv, number: Number) -> None:
        self.f, self.number = f, number
        self.columns = (conv.free, *(w.tap for w in conv.windows))
        self.joined = Axis(JOINED_AXIS_ID, size_of(self.columns))
        self.together = join_axes((conv.contraction.stores, part.tallies.tallies), self.columns, self.joined)
        self.stores = Stores(f, part, conv, number, self.together)

    def emit(self, axes: dict[Axis, str], row: str) -> None:
        """Emit all stores of one filter; ``row``: address of the sums of all columns, padded to vectors."""
        if self.together is not None:
            self.stores.row(axes, self.joined, row)
        else:
            self._nest(dict(axes), self.columns, row)

    def _nest(self, axes: dict[Axis, str], columns: tuple[Axis, ...], at: str) -> None:
        if len(columns) == 1:
            self.stores.row(axes, columns[0], at)
            return
        with self.f.loop(0, columns[0].extent) as i:
            axes[columns[0]] = i
            self._nest(axes, columns[1:], self.f.offset(at, self.f.mul(i, size_of(columns[1:]) * self.number.size)))

    def end(self) -> None:
        self.stores.end()


class SumPart(ConvolutionPart):
    """Base class of the generators of a convolution itself. number: the type of its sums."""

    def __init__(
        self, kernel: Kernel, conv: Conv, isa: ISA, module: Module, prefix: str, tallies: tuple[Reduction, ...] = (),
    ) -> None:
        size = conv.contraction.accum.bytes
        self.conv, self.number = conv, Number("float" if size == 4 else "double", size, isa.lanes(size), conv.paired is not None)
        super().__init__(kernel, isa, module, prefix, tallies, self.number.lanes)


class Fill(ConvolutionPart):
    """A stage without reductions next to convolutions: the positions of a strided gradient that no tap reaches."""

    path = "convolution fill"

    def __init__(self, kernel: Kernel, stage: Stage, isa: ISA, module: Module, prefix: str) -> None:
        super().__init__(kernel, isa, module, prefix, stage.reductions, isa.lanes(4))
        self.stage = stage
        self.axes = stage.axes
        if stage.stores:  # in the order of the result in memory
            flat = stage.stores[0].access.flat()
            self.axes = tuple(sorted(stage.axes, key=lambda axis: -abs(coefficient(flat, axis))))
        outer = 0
        while outer < len(self.axes) - 1 and size_of(self.axes[:outer]) < FILL_CHUNKS:
            outer += 1
        self.outer = self.axes[:outer]
        self.units = size_of(self.outer)
        self.storing = min(self.units, FILL_CHUNKS)

    def generate(self, base: int) -> None:
        f = self.module.function(f"define internal void {self.name('fill')}(ptr %args, i64 %chunk, i64 %worker)")
        env = self.env(f, self.stage.stores)
        cells = self.tallies.begin(f)

        lanes, along = self.tallies.lanes, self.axes[-1] if self.axes else None

        def emit(at: dict[int, str], live: int) -> None:
            """Emit the stores at ``live`` neighbours along the last axis."""
            vector = None if along is None or along.extent == 1 else along.id
            mask = first_mask(lanes, live) if vector is not None and live < lanes else None
            here = replace(env, axes=at, memo={}, lanes=lanes, vector=vector, mask=mask)
            self.tallies.add(f, here, cells)
            for store in self.stage.stores:
                emit_store(f, self.module, self.isa, store, here)

        def nest(axes: tuple[Axis, ...], at: dict[int, str]) -> None:
            if not axes:
                emit(at, 1)
                return
            if len(axes) > 1:
                with f.loop(0, axes[0].extent) as i:
                    nest(axes[1:], {**at, axes[0].id: i})
                return
            whole = axes[0].extent // lanes * lanes
            if whole:
                with f.loop(0, whole, lanes) as i:
                    emit({**at, axes[0].id: i}, lanes)
            if axes[0].extent > whole:
                emit({**at, axes[0].id: str(whole)}, axes[0].extent - whole)

        start, end = share(f, "%chunk", self.units, self.storing)
        with f.loop(start, end) as unit:
            _, indices = divide_all(f, unit, [axis.extent for axis in self.outer])
            nest(self.axes[len(self.outer) :], {axis.id: i for axis, i in zip(self.outer, indices, strict=True)})
        self.tallies.end(f, cells)
        f = self.module.function(f"define internal void {self.name('run')}(ptr %args)")
        self.run_storing(f, self.name("fill"), size_of(self.axes) > MIN_PARALLEL_FILL)
