"""Estimate the time of a program on a device.

Each kernel takes the larger of its memory time and its arithmetic time, and its launch. Its work is how often each machine
operation runs, and the size of its products: a value is computed once for each position along the axes that it depends on, and a
costly value that several stages of a phase need is computed once.

Of 85 programs on one CPU the estimates are within a factor of 2 (``tests/placement/measured.json``, by
``benchmarks/placement.py``, which also fitted the figures). Every launch of a card's kernel is counted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from weft.devices.cuda.generate import launches_of
from weft.kernel import ir
from weft.kernel.expressions import access_values, axes_of, dependencies, iterate_values, stores_of, values_outside_stores
from weft.kernel.ir import Chain, Contraction, Kernel
from weft.placement.device_figures import Machine
from weft.schedule.program import Call, Copy, HostCall, Loop, Program, find_hosts

CALL_NS = 2.0  # cost from which an operation is a call for each element and not a vector instruction
MOVE_NS = 0.015  # reading or writing an element in the nearest cache
FOLD_NS = 0.05  # adding an element to a sum
DIVIDED_NS = 0.15  # dividing an integer by a constant, which is a multiplication
ADDED_NS = 0.2  # adding an element to memory at a gathered index
RUNNING_NS = 0.5  # an element of a running fold: each waits for the previous one
STRIDED_NS = 1.3  # reading or writing an element with a large stride
LARGE_STRIDE = 16  # stride in elements from which APART_NS applies
CACHE_BYTES = 1 << 15  # bytes that fit into the nearest cache, where strides do not matter


@dataclass(frozen=True)
class Work:
    """Nanoseconds of one core, on the scale of :data:`weft.kernel.ir.MACHINE_OPERATIONS`, by the resource they scale with.

    vectors: vector instructions; they scale with the peak of arithmetic.
    moves: reads and writes of near memory, on a CPU.
    calls: functions of the C library, called for each element. call_count: the number of calls.
    waits: dependent or memory-latency-bound steps, element by element, on a CPU.
    products: (contraction or chain, operations) pairs.
    """

    vectors: float
    moves: float
    calls: float
    call_count: int
    waits: float
    products: tuple[tuple[ir.Contraction | ir.Chain, int], ...]


@lru_cache(maxsize=4096)
def work_of(kernel: ir.Kernel, in_order: bool = False) -> Work:
    """Return the work of a kernel. in_order: as if its memory were laid out in the order in which its loops read and write it"""
    counter = _Counter(kernel, in_order)
    for phase in kernel.phases:
        counter.count(phase)
    return Work(counter.vectors, counter.moves, counter.calls, counter.call_count, counter.waits, tuple(counter.products))


class _Counter:
    def __init__(self, kernel: ir.Kernel, in_order: bool) -> None:
        self._in_order = in_order
        self.vectors = self.moves = self.calls = self.waits = 0.0
        self.call_count = 0
        self.products: list[tuple[ir.Contraction | ir.Chain, int]] = []
        self._free: dict[int, frozenset[int]] = {}  # sum id -> axes along which the result varies
        self._dependencies: dict[int, frozenset] = {}
        self._extents: dict[int, int] = {}
        for phase in kernel.phases:
            for stage in phase.stages:
                own = (*phase.axes, *axes_of(stage))
                self._extents.update({a.id: a.extent for a in own})
                self._record_sums(stage, phase.axes)

    def _record_sums(self, stage: ir.Stage | ir.Contraction | ir.Chain, shared: tuple[ir.Axis, ...]) -> None:
        """Record the axes along which the results of a stage's sums vary."""

        def record(number: int, *groups: tuple[ir.Axis, ...]) -> None:
            self._free[number] = frozenset([a.id for axes in groups for a in axes])

        if isinstance(stage, ir.Contraction):
            record(stage.id, stage.batch, stage.m, stage.n)
        elif isinstance(stage, ir.Chain):
            for i in stage.inner:
                record(i.id, stage.batch, stage.rows, stage.columns)
            if stage.softmax is not None:
                record(stage.softmax.weight, stage.batch, stage.rows, stage.columns)
                for number in (stage.softmax.top, stage.softmax.total):
                    record(number, stage.batch, stage.rows)
            for o in stage.outer:
                record(o.id, stage.batch, stage.columns if o.sums_rows else stage.rows, o.n)
        else:
            for r in stage.reductions:
                record(r.id, tuple([a for a in (*shared, *stage.axes) if a not in r.axes or r.running]))

    def count(self, phase: ir.Phase) -> None:
        kept: set[int] = set()  # costly values that an earlier stage of the phase computes
        for stage in phase.stages:
            share, along = 1.0, None
            if isinstance(stage, (ir.Contraction, ir.Chain)):
                # a causal mask skips half of the intermediate matrix
                share = 0.5 if isinstance(stage, ir.Chain) and stage.guards else 1.0
                self.products.append((stage, int(share * product_operations(stage))))
                if isinstance(stage, ir.Chain) and stage.softmax is not None:
                    weights = ir.size_of((*stage.batch, *stage.rows, *stage.columns))
                    self.vectors += share * ir.MACHINE_OPERATIONS["exp"].ns * weights
            elif isinstance(stage, ir.Stage) and not stage.reductions:
                along = _fastest_axis(stage.stores, (*phase.axes, *stage.axes))
            self._count_values(stage, kept, along)
            if not isinstance(stage, ir.Stage):
                continue
            times = ir.size_of((*phase.axes, *stage.axes))
            for r in stage.reductions:
                if r.running:
                    self.waits += times * RUNNING_NS
                else:
                    self.vectors += times * FOLD_NS * _width(r.value)

    def _count_values(self, stage: ir.Stage | ir.Contraction | ir.Chain, kept: set[int], along: int | None) -> None:
        """Count the operations of a stage. along: the axis along which the stage steps through memory, if known."""
        stores = stores_of(stage)
        roots = [*values_outside_stores(stage), *[s.value for s in stores], *[v for s in stores for v in access_values(s.access)]]
        for v in iterate_values(roots):
            if v.op in ("const", "scalar", "acc", "index") or id(v) in kept:
                continue
            times = prod([self._extents[a] for a in self._axes_of(v)])
            operation = ir.MACHINE_OPERATIONS.get(v.op)
            if v.op == "load":
                self._count_access(v.attr, times, along)
            elif operation is None:  # an index check
                self.moves += times * MOVE_NS
            # casts of operands and biases are included in the product's rate
            elif operation.ns <= FOLD_NS and not isinstance(stage, ir.Stage):
                continue
            elif _divides_by_constant(v):
                self.vectors += times * DIVIDED_NS * _width(v)
            elif operation.ns >= CALL_NS and v.op not in ("philox", "philox_half") or (v.op == "erf" and v.dtype.bytes > 4):
                self.calls += times * max(operation.ns, ir.LIBRARY_NS if v.op == "erf" else 0.0)
                self.call_count += times
            else:
                self.vectors += times * operation.ns * _width(v)
            if operation is not None and operation.costly:
                kept.add(id(v))
        for s in stores:
            places = frozenset([a for a, _ in s.access.flat().terms])
            times = prod([self._extents[a] for a in self._axes_of(s.value) | places])
            self._count_access(s.access, times, along)
            if s.adds:
                self.waits += times * ADDED_NS

    def _count_access(self, access: ir.Access, times: int, along: int | None) -> None:
        flat, nbytes = access.flat(), access.buffer.dtype.bytes
        has_large_stride = along is not None and abs(dict(flat.terms).get(along, 0)) >= LARGE_STRIDE
        if has_large_stride and times * nbytes > CACHE_BYTES and not self._in_order:
            self.waits += times * STRIDED_NS
        else:
            self.moves += times * MOVE_NS * (4 if flat.gather else 1) * (1 if nbytes <= 4 else 2)

    def _axes_of(self, v: ir.Value) -> frozenset[int]:
        axes: set[int] = set()
        for d in dependencies(v, self._dependencies):
            if isinstance(d, tuple):
                axes |= self._free.get(d[1], frozenset())
            else:
                axes.add(d)
        return frozenset(axes)


def product_operations(product: ir.Contraction | ir.Chain) -> int:
    """Return the operations of a product: a multiplication with its addition counts as two."""
    if isinstance(product, ir.Chain):
        middle = ir.size_of((*product.batch, *product.rows, *product.columns))
        return 2 * middle * sum([ir.size_of(i.k) for i in product.inner] + [ir.size_of(o.n) for o in product.outer])
    return 2 * ir.size_of((*product.batch, *product.m, *product.n, *product.k))


def _fastest_axis(stores: Sequence[ir.Store], loops: Sequence[ir.Axis]) -> int | None:
    """Return the loop along which the memory written by a stage is contiguous, or None."""
    units = [a for s in stores for a, step in s.access.flat().terms if abs(step) == 1]
    return next((a for a in units if any(a == x.id for x in loops)), None)


def _divides_by_constant(v: ir.Value) -> bool:
    """Return whether an integer is divided by a constant of the kernel."""
    return v.op in ("floordiv", "rem") and v.args[1].op == "const" and v.dtype.kind in ("signed", "unsigned")


def _width(v: ir.Value) -> int:
    return 1 if v.dtype.bytes <= 4 else 2


# Figures of a step in NumPy on one core of the host: bytes per second of memory traffic, operations per second (LAPACK's at some
# hundred rows; costs of sorts are given in these units), and seconds of overhead.
NUMPY_BYTES, NUMPY_FLOPS, NUMPY_S = 5e9, 18e9, 3e-6
CORE_FLOPS = 70e9  # float32 operations per second of the core whose nanoseconds kernel.ir.MACHINE states
CPU_PRODUCT_SHARE = 0.7  # share of the peak that products on a CPU reach, if none was measured
NOT_OVERLAPPED = 0.5  # share of the shorter of arithmetic and memory time that a core does not overlap with the longer
FEW_S = 20e-6  # a CPU kernel that takes less on one thread runs on one thread
# On a card a simple operation takes one instruction, which could have been a multiplication with its addition. A function that a
# CPU calls from the C library takes about forty.
SIMPLE_NS, CALL_INSTRUCTIONS = 0.05, 40


@dataclass(frozen=True)
class Estimate:
    """The estimated time of a program on one device.

    Attributes
    ----------
    device : the name
    launches : number of kernels started
    launching, working, moving : seconds of starting kernels, of running them, of transfers from and to the host
    total : seconds; if launches do not wait for the previous kernel, the longer of the first two counts
    """

    device: str
    launches: int
    launching: float
    working: float
    moving: float
    total: float

    def after(self, fetching: float) -> Estimate:
        """Return the estimate with added seconds for transfers of arrays from other devices."""
        return replace(self, moving=self.moving + fetching, total=self.total + fetching)


def estimate(device: str, program: Program, machine: Machine, fetching: float = 0.0) -> Estimate:
    """Return the estimate of a program on a device.

    fetching: seconds of transferring the arrays that it reads from other devices.
    """
    launches, launching, working, moving = _steps(program, machine, machine.launch)
    moving += fetching
    run = launching + working if machine.link is None else max(launching, working)
    return Estimate(device, launches, launching, working, moving, machine.call + run + moving)


def _steps(program: Program, machine: Machine, launch: float) -> tuple[int, float, float, float]:
    """Return (launches, launching, working, moving) of a program's steps. ``launch``: seconds of one launch.

    In a loop without host steps all launches are prepared, so that each takes ``machine.replay``.
    """
    infos = iter(program.info)
    launches, launching, working, moving = 0, 0.0, 0.0, 0.0
    for step in program.steps:
        if isinstance(step, Call):
            info = next(infos)
            count = 1 if machine.link is None else launches_of(step.kernel)
            launches += count
            launching += count * launch
            working += kernel_seconds(step.kernel, info.bytes, machine)
        elif isinstance(step, Loop):
            inner = _steps(step.body, machine, launch if find_hosts(step.body) else machine.replay)
            launches += step.expected_steps * inner[0]
            launching += step.expected_steps * inner[1]
            working += step.expected_steps * inner[2]
            moving += step.expected_steps * inner[3]
        elif isinstance(step, HostCall):
            sizes = [_nbytes(program, slot) for slot in (*step.args, step.out)]
            working += NUMPY_S + max(sum(sizes) / NUMPY_BYTES, step.flops / NUMPY_FLOPS)
            if machine.link is not None:
                moving += sum([link_seconds(nbytes, machine.link) for nbytes in sizes])
        elif isinstance(step, Copy):
            nbytes = 2 * _nbytes(program, step.source)
            working += nbytes / machine.bandwidth_at(nbytes)
    return launches, launching, working, moving


def kernel_seconds(kernel: Kernel, nbytes: int, machine: Machine, in_order: bool = False) -> float:
    """Return the seconds of a kernel: the larger of memory and arithmetic time; on a CPU plus a share of the smaller.

    nbytes: of the elements that it reads and writes. in_order: see :func:`work_of`
    """
    work, measured = work_of(kernel, in_order), dict(machine.products)
    products = sum([count / _product_rate(product, count, machine, measured) for product, count in work.products])
    memory = nbytes / machine.bandwidth_at(nbytes)
    if machine.link is None:
        vectors = 1e-9 * work.vectors * CORE_FLOPS / machine.flops
        arithmetic = products + vectors + 1e-9 * (work.moves + work.calls + work.waits) / machine.threads
        if arithmetic * machine.threads < FEW_S:
            arithmetic *= machine.threads
        return max(memory, arithmetic) + NOT_OVERLAPPED * min(memory, arithmetic)
    return max(memory, products + 2 * (work.vectors / SIMPLE_NS + CALL_INSTRUCTIONS * work.call_count) / machine.flops)


def _product_rate(product: Contraction | Chain, count: int, machine: Machine, measured: Collection[str]) -> float:
    """Return the operations per second of a product of ``count`` operations."""
    if machine.link is not None or measured:
        return machine.product_rate(_product_format(product, measured), count)
    if isinstance(product, Contraction) and product.precision == "bfloat16" and machine.bfloat16_flops:
        return machine.bfloat16_flops * CPU_PRODUCT_SHARE
    return machine.flops * CPU_PRODUCT_SHARE / (1 if product.accum.bytes <= 4 else 2)


def _product_format(product: Contraction | Chain, measured: Collection[str]) -> str:
    """Return the measured format in which a product is multiplied.

    That is the format to which operands are shortened, or the one in which both are stored; if it was not measured, the
    accumulator's.
    """
    accum = product.accum
    operands = [(i.a, i.b) for i in product.inner] if isinstance(product, Chain) else [(product.a, product.b)]
    stored = {v.args[0].dtype if v.op == "cast" and v.dtype == accum else v.dtype for pair in operands for v in pair}
    shorter = "float32" if isinstance(product, Chain) else product.precision
    multiplied = shorter if shorter != "float32" else stored.pop().name if len(stored) == 1 else accum.name
    return multiplied if multiplied in measured else accum.name


def allocated_bytes(program: Program, kept: int) -> int:
    """Return the bytes that a run needs besides its inputs: its arena, and results that do not overwrite an input.

    kept: inputs from this number on may be overwritten, as they are kept from call to call.
    """
    written_over = {o for i, o in program.donate if i >= kept}
    results = [prod(shape) * form.bytes for k, (shape, form) in enumerate(program.outputs) if k not in written_over]
    return sum(results) + program.arena


def link_seconds(nbytes: int, link: tuple[float, float]) -> float:
    """Return the seconds of a transfer over a link."""
    return link[0] + nbytes / link[1]


def _nbytes(program: Program, slot: int) -> int:
    return prod(program.slots[slot].shape) * program.slots[slot].dtype.bytes
