"""The stores of a convolution, applied to finished sums."""

from __future__ import annotations

from weft.devices.cpu.convolution.tile import Number
from weft.devices.cpu.emit.check import record_slot
from weft.devices.cpu.emit.emit import Env, Level, emit_store, key_of
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.masks import first_mask
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.storage_formats import cast, load_scalar
from weft.devices.cpu.emit.text import Function, Module
from weft.kernel.convolution import Conv
from weft.kernel.expressions import access_values, each, walk
from weft.kernel.ir import Axis, Kernel, Stage, Store, Value


class Stores:
    """The stores inside one function. Create it at the function's start, where it reads arguments; emit when sums are ready."""

    def __init__(
        self, f: Function, module: Module, isa: ISA, kernel: Kernel, conv: Conv, number: Number,
        stores: tuple[Store, ...] | None = None,
    ) -> None:
        self.stores = stores or conv.contraction.stores
        self.f, self.module, self.isa, self.conv, self.number = f, module, isa, conv, number
        self.pointers, self.scalars = arguments(f, kernel)
        self.record = _record(f, kernel, self.stores)
        self.halves = [v.dtype for s in self.stores for v in _sums(s.value) if v.dtype.narrow][:1]

    def emit(self, axes: dict[Axis, str], along: Axis, at: str | int, sums: str, live: int, outer: Level | None = None) -> None:
        """Emit all stores at ``live`` neighbours from ``at`` on along one axis; ``sums`` is their vector."""
        lanes = self.number.lanes
        mask = first_mask(lanes, live) if live < lanes else None
        sums = self._round_sums(sums)
        one = along.extent == 1  # scalar: a store need not depend on an axis of extent 1
        if one:
            sums = self.f.let(f"extractelement {self.number.vector} {sums}, i64 0")
        env = Env(
            axes={**{axis.id: value for axis, value in axes.items()}, along.id: str(at)},
            vector=None if one else along.id, lanes=lanes, mask=None if one else mask,
            accs={self.conv.contraction.id: sums}, pointers=self.pointers, scalars=self.scalars, record=self.record,
        )
        if outer is not None:
            env.levels = [outer, Level(self.f.lines)]
            env.level_of = {axis.id: 0 for axis in axes} | {along.id: 1}
        for store in self.stores:
            emit_store(self.f, self.module, self.isa, store, env)

    def _round_sums(self, sums: str) -> str:
        """Round sums to the contraction's dtype: float16 and bfloat16 are summed in float32."""
        for dtype in self.halves:
            ops = Ops(self.f, self.module, self.isa, self.number.lanes)
            return cast(ops, sums, self.conv.contraction.accum, dtype)
        return sums

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


class Fill:
    """A stage without reductions next to convolutions: the positions of a strided gradient that no tap reaches."""

    shared = worker = 0
    path = "convolution fill"

    def __init__(self, kernel: Kernel, stage: Stage, isa: ISA, module: Module, prefix: str) -> None:
        self.kernel, self.stage, self.isa, self.module, self.prefix = kernel, stage, isa, module, prefix

    def name(self, part: str) -> str:
        return f"@{self.prefix}.{part}"

    def generate(self, base: int) -> None:
        """Emit ``void @prefix.run(ptr args)``."""
        f = self.module.function(f"define internal void {self.name('run')}(ptr %args)")
        pointers, scalars = arguments(f, self.kernel)
        record = _record(f, self.kernel, self.stage.stores)

        def nest(axes: tuple[Axis, ...], at: dict[int, str]) -> None:
            if axes:
                with f.loop(0, axes[0].extent) as i:
                    nest(axes[1:], {**at, axes[0].id: i})
                return
            for store in self.stage.stores:
                emit_store(f, self.module, self.isa, store, Env(axes=at, pointers=pointers, scalars=scalars, record=record))

        nest(self.stage.axes, {})
        f.do("ret void")


def arguments(f: Function, kernel: Kernel) -> tuple[dict[int, str], dict[int, str]]:
    """Return the pointers (by buffer key) and run-time scalars of a kernel, loaded from ``%args``."""
    pointers = {key_of(b): f.load("ptr", f.offset("%args", 8 * b.id)) for b in (*kernel.inputs, *kernel.outputs)}
    first = len(kernel.inputs) + len(kernel.outputs)
    return pointers, {i: load_scalar(f, dtype, f.offset("%args", 8 * (first + i))) for i, dtype in enumerate(kernel.scalars)}


def _record(f: Function, kernel: Kernel, stores: tuple[Store, ...]) -> str:
    """Return the address of the fault record if the stores check an index, else an empty text."""
    values = [s.value for s in stores] + [v for s in stores for v in access_values(s.access)]
    if not any(v.op == "check" for v in walk(values)):
        return ""
    return f.load("ptr", f.offset("%args", 8 * record_slot(kernel)))


def _sums(value: Value) -> list[Value]:
    """Return the reads of the contraction's result in an expression."""
    return [v for v in each([value]) if v.op == "acc"]
