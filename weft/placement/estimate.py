"""What a program takes on a device, by its figures: for each kernel the larger of memory and arithmetic, and what starts it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod

from weft.kernel.ir import Chain, Contraction, Kernel, size_of
from weft.placement.machine import Machine
from weft.schedule.program import Call, Copy, Host, Loop, Program, hosts

_NUMPY = 5e9  # bytes a second that an operation in NumPy goes through


@dataclass(frozen=True)
class Estimate:
    """Attributes
    ----------
    device : the name
    launches : kernels that are started
    launching, working, moving : seconds: of starting kernels, of what they do, of copies from the host and to it
    total : seconds; where starting a kernel does not wait for the one before, the longer of the first two
    """

    device: str
    launches: int
    launching: float
    working: float
    moving: float
    total: float

    def after(self, fetching: float) -> Estimate:
        """The same with so many seconds more, for copies of the arrays that lie elsewhere."""
        return replace(self, moving=self.moving + fetching, total=self.total + fetching)


def estimate(device: str, program: Program, machine: Machine, fetching: float = 0.0) -> Estimate:
    """fetching : seconds that copies of the arrays take which the program reads, and which lie elsewhere"""
    launches, launching, working, moving = _steps(program, machine, machine.launch)
    moving += fetching
    run = launching + working if machine.link is None else max(launching, working)
    return Estimate(device, launches, launching, working, moving, machine.call + run + moving)


def _steps(program: Program, machine: Machine, launch: float) -> tuple[int, float, float, float]:
    """(launches, launching, working, moving) of a program's steps; in a loop all is prepared, unless it is walked."""
    infos = iter(program.info)
    launches, launching, working, moving = 0, 0.0, 0.0, 0.0
    for step in program.steps:
        if isinstance(step, Call):
            info = next(infos)
            launches += 1
            launching += launch
            working += _kernel(step.kernel, info.flops, info.bytes, machine)
        elif isinstance(step, Loop):
            inner = _steps(step.body, machine, launch if hosts(step.body) else machine.replay)
            launches += step.length * inner[0]
            launching += step.length * inner[1]
            working += step.length * inner[2]
            moving += step.length * inner[3]
        elif isinstance(step, Host):
            sizes = [_nbytes(program, slot) for slot in (*step.args, step.out)]
            working += sum(sizes) / _NUMPY
            if machine.link is not None:
                moving += sum([moved(nbytes, machine.link) for nbytes in sizes])
        elif isinstance(step, Copy):
            nbytes = 2 * _nbytes(program, step.source)
            working += nbytes / machine.bandwidth_at(nbytes)
    return launches, launching, working, moving


def _kernel(kernel: Kernel, flops: int, nbytes: int, machine: Machine) -> float:
    stages = [s for phase in kernel.phases for s in phase.stages]
    measured = dict(machine.products)
    products = [(_format(s, measured), _flops(s)) for s in stages if isinstance(s, (Contraction, Chain))]
    arithmetic = sum([count / machine.product_rate(name, count) for name, count in products])
    rest = max(0, flops - sum([count for _, count in products]))
    return max(nbytes / machine.bandwidth_at(nbytes), arithmetic + rest / machine.flops)


def _format(product: Contraction | Chain, measured: Collection[str]) -> str:
    """In which format a product is multiplied, where that was measured: the one that both operands come in, or are shortened to;
    else the one that it adds up in."""
    accum = product.accum
    sides = [(i.a, i.b) for i in product.inner] if isinstance(product, Chain) else [(product.a, product.b)]
    stored = {v.args[0].dtype if v.op == "cast" and v.dtype == accum else v.dtype for pair in sides for v in pair}
    shorter = "float32" if isinstance(product, Chain) else product.precision
    found = shorter if shorter != "float32" else stored.pop().name if len(stored) == 1 else accum.name
    return found if found in measured else accum.name


def _flops(product: Contraction | Chain) -> int:
    if isinstance(product, Chain):
        middle = size_of((*product.batch, *product.rows, *product.columns))
        return 2 * middle * sum([size_of(i.k) for i in product.inner] + [size_of(o.n) for o in product.outer])
    return 2 * prod([axis.extent for axis in (*product.batch, *product.m, *product.n, *product.k)])


def made(program: Program, kept: int) -> int:
    """Bytes of memory that a run takes beside what it reads: of what is in between, and of results that are not written over
    that. kept : from this input on they stay from call to call, and may be written over"""
    written_over = {o for i, o in program.donate if i >= kept}
    results = [prod(shape) * form.bytes for k, (shape, form) in enumerate(program.outputs) if k not in written_over]
    return sum(results) + program.arena


def moved(nbytes: int, link: tuple[float, float]) -> float:
    """Seconds of a copy over a link."""
    return link[0] + nbytes / link[1]


def _nbytes(program: Program, slot: int) -> int:
    return prod(program.slots[slot].shape) * program.slots[slot].dtype.bytes
