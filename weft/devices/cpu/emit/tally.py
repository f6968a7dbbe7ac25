"""Tallies in the chunks of a kernel: see ``weft/kernel/tallies.py``.

Each chunk has a slot in shared scratch, with one vector of states for each tally. A loop nest, or a tile of a product, merges its
elements in registers and then its states into the chunk's slot. When all chunks are done, the slots are merged and the results
are stored.

In products and convolutions the address of the slot is one more argument: the chunk runs with a copy of the kernel's arguments
that ends with it, so the functions between a chunk and its tiles need no parameter for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.devices.cpu.emit import reduce
from weft.devices.cpu.emit.check import record_slot, return_if_fault
from weft.devices.cpu.emit.emit import Env, emit_store, emit_value, kernel_env
from weft.devices.cpu.emit.isa import ISA, LINE, round_to_line
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import llvm_type, wide
from weft.dtypes.formats import BOOL, INT32
from weft.kernel.expressions import access_values, iterate_values, roots, walk
from weft.kernel.ir import Kernel, Reduction, Store, size_of


@dataclass(frozen=True, slots=True)
class Cell:
    """A variable with the states of a tally while a function runs. ``tally`` accumulates in the variable's dtype."""

    tally: Reduction
    type_: str
    pointer: str
    align: int


class TallyStates:
    """Emit the states of tallies, on vectors of ``lanes`` elements, in variables of a function and in the slots of chunks."""

    def __init__(self, module: Module, isa: ISA, tallies: tuple[Reduction, ...], lanes: int) -> None:
        self.module, self.isa, self.tallies, self.lanes = module, isa, tallies, lanes
        self.in_registers = [_narrow_counts(r) for r in tallies]
        self.values = list(iterate_values([r.value for r in tallies]))
        self.places = {}
        size = 0
        for r in tallies:
            self.places[r.id] = size
            size += round_to_line(lanes * r.accum.bytes)
        self.size = size

    def __bool__(self) -> bool:
        return bool(self.tallies)

    def _vector(self, r: Reduction) -> tuple[str, int]:
        """Return the type of a tally's states, and their alignment."""
        return wide(llvm_type(r.accum), self.lanes), min(self.lanes * r.accum.bytes, LINE)

    def begin(self, f: Function) -> list[Cell]:
        """Return variables for the states of all tallies, set to their identities."""
        cells = []
        for r in self.in_registers:
            type_, align = self._vector(r)
            cells.append(Cell(r, type_, f.local(type_, align), align))
            f.store(type_, reduce.identity(r, self.lanes)[0], cells[-1].pointer, align)
        return cells

    def add(self, f: Function, env: Env, cells: list[Cell]) -> None:
        """Merge the elements of an Env into the variables. Emit this before the stores, which may overwrite operands."""
        ops = Ops(f, self.module, self.isa, self.lanes)
        for cell in cells:
            r, none = cell.tally, reduce.identity(cell.tally, self.lanes)[0]
            value = emit_value(f, self.module, self.isa, r.value, env)
            if env.vector is None:
                value = f.let(f"insertelement {cell.type_} {none}, {llvm_type(r.accum)} {value}, i32 0")
            elif env.mask is not None:
                value = f.let(f"select {wide('i1', self.lanes)} {env.mask}, {cell.type_} {value}, {cell.type_} {none}")
            (value,) = reduce.merge(ops, r, [f.load(cell.type_, cell.pointer, cell.align)], [value])
            f.store(cell.type_, value, cell.pointer, cell.align)

    def clear(self, f: Function, slot: str) -> None:
        """Set the states in a slot to their identities."""
        for r in self.tallies:
            type_, align = self._vector(r)
            f.store(type_, reduce.identity(r, self.lanes)[0], f.offset(slot, self.places[r.id]), align)

    def merge_into(self, f: Function, cells: list[Cell], slot: str) -> None:
        """Merge the variables into a slot."""
        for r, cell in zip(self.tallies, cells, strict=True):
            type_, align = self._vector(r)
            value = f.load(cell.type_, cell.pointer, cell.align)
            if type_ != cell.type_:
                value = f.let(f"zext {cell.type_} {value} to {type_}")
            at = f.offset(slot, self.places[r.id])
            ops = Ops(f, self.module, self.isa, self.lanes)
            f.store(type_, reduce.merge(ops, r, [f.load(type_, at, align)], [value])[0], at, align)

    def join_slots(self, f: Function, chunks: int, scratch: str) -> dict[int, str]:
        """Merge the slots of all chunks, the first of which is at ``scratch``. Return the result of each tally."""
        ops = Ops(f, self.module, self.isa, self.lanes)
        states = []
        for r in self.tallies:
            type_, align = self._vector(r)
            states.append((r, type_, align, f.local(type_, align)))
            f.store(type_, reduce.identity(r, self.lanes)[0], states[-1][3], align)
        with f.loop(0, chunks) as chunk:
            slot = f.offset(scratch, f.mul(chunk, self.size))
            for r, type_, align, state in states:
                new = f.load(type_, f.offset(slot, self.places[r.id]), align)
                f.store(type_, reduce.merge(ops, r, [f.load(type_, state, align)], [new])[0], state, align)
        results = {}
        for r, type_, align, state in states:
            one = Ops(f, self.module, self.isa, None)
            results[r.id] = reduce.finish(one, r, reduce.fold_lanes(one, r, [[f.load(type_, state, align)]], self.lanes))
        return results


class Tallies(TallyStates):
    """Emit the tallies of one contraction."""

    def __init__(self, module: Module, isa: ISA, kernel: Kernel, tallies: tuple[Reduction, ...], lanes: int) -> None:
        super().__init__(module, isa, tallies, lanes)
        self.kernel = kernel
        self.slot = record_slot(kernel) + 1

    def of(self, tallies: tuple[Reduction, ...]) -> Tallies:
        """Return the same for ``tallies``, whose values are expressions over other axes."""
        return self if tallies is self.tallies else Tallies(self.module, self.isa, self.kernel, tallies, self.lanes)

    def end(self, f: Function, cells: list[Cell]) -> None:
        """Merge the variables into the slot of the chunk."""
        self.merge_into(f, cells, f.argument(self.slot) if cells else "")

    def wrap(self, body: str, base: int) -> str:
        """Return the name of a function that runs ``body(args, chunk, worker)`` with the chunk's slot as one more argument.

        base: offset of the first slot in scratch.
        """
        kernel = self.kernel
        self.module.took("tallies")
        f = self.module.function(f"define internal void {body}.tally(ptr %args, i64 %chunk, i64 %worker)")
        first = len(kernel.inputs) + len(kernel.outputs) + len(kernel.scalars)
        count = record_slot(kernel) + _checks(kernel)
        args = f.local(f"[{8 * self.slot + 8} x i8]", 8)
        for k in range(count):
            f.store("i64", f.load("i64", f.offset("%args", 8 * k), 8), f.offset(args, 8 * k), 8)
        slot = f.offset(f.argument(first), f.add(f.mul("%chunk", self.size), base))
        f.store("ptr", slot, f.offset(args, 8 * self.slot), 8)
        self.clear(f, slot)
        f.do(f"call void {body}(ptr {args}, i64 %chunk, i64 %worker)")
        return f"{body}.tally"

    def join(self, f: Function, chunks: int, base: int) -> dict[int, str]:
        """Merge the slots of all chunks. Return the result of each tally."""
        return self.join_slots(f, chunks, f.offset(f.argument(record_slot(self.kernel) - 1), base))


def emit_tally_stores(
    f: Function, module: Module, isa: ISA, kernel: Kernel, stores: tuple[Store, ...], results: dict[int, str],
) -> None:
    """Emit the last phase of a kernel, which computes results from the tallies and stores them."""
    if _checks(kernel):
        return_if_fault(f, f.argument(record_slot(kernel)))
    values = list(iterate_values([v for s in stores for v in (s.value, *access_values(s.access))]))
    env = kernel_env(f, kernel, values, stores, {}, accs=results, uniform=frozenset(results))
    for store in stores:
        emit_store(f, module, isa, store, env)


def _checks(kernel: Kernel) -> bool:
    return any(v.op == "check" for phase in kernel.phases for v in walk(roots(phase.stages)))


def _narrow_counts(r: Reduction) -> Reduction:
    """Return a tally that adds up bools in 32 bits, if these hold its result; any other tally as it is."""
    counts = r.monoid == "sum" and r.value.op == "cast" and r.value.args[0].dtype is BOOL
    if not counts or r.accum.bytes < 8 or size_of(r.axes) >= 1 << 31:
        return r
    return replace(r, value=replace(r.value, dtype=INT32), accum=INT32, dtype=INT32)
