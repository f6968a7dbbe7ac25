"""What a program takes on a device, by its figures: for each kernel the larger of memory and arithmetic, and what starts it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod

from weft.devices.cuda.generate import launches_of
from weft.kernel.ir import Chain, Contraction, Kernel
from weft.placement.device_figures import Machine
from weft.placement.work import work_of
from weft.schedule.program import Call, Copy, Host, Loop, Program, hosts

# Of a step in NumPy, on a core of the host: bytes a second that it goes through, operations a second (LAPACK's at some hundred
# rows; costs of sorts are given in these), and seconds until it begins.
NUMPY_BYTES, NUMPY_FLOPS, NUMPY_S = 5e9, 18e9, 3e-6
CORE_FLOPS = 70e9  # float32 operations a second of the core of which kernel.ir.MACHINE tells nanoseconds
REACHED = 0.7  # of the peak: what products of a CPU reach, of which nothing was measured
TOGETHER = 0.5  # of the shorter of arithmetic and memory that a core does not do beside the longer
FEW_S = 20e-6  # a CPU's kernel that takes less on one thread runs on one
# On a card a simple operation takes an instruction, which could have been a multiplication with its addition; a function that a
# CPU calls from the C library is some forty.
SIMPLE_NS, CALLED = 0.05, 40


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
            count = 1 if machine.link is None else launches_of(step.kernel)
            launches += count
            launching += count * launch
            working += _kernel(step.kernel, info.bytes, machine)
        elif isinstance(step, Loop):
            inner = _steps(step.body, machine, launch if hosts(step.body) else machine.replay)
            launches += step.length * inner[0]
            launching += step.length * inner[1]
            working += step.length * inner[2]
            moving += step.length * inner[3]
        elif isinstance(step, Host):
            sizes = [_nbytes(program, slot) for slot in (*step.args, step.out)]
            working += NUMPY_S + max(sum(sizes) / NUMPY_BYTES, step.flops / NUMPY_FLOPS)
            if machine.link is not None:
                moving += sum([moved(nbytes, machine.link) for nbytes in sizes])
        elif isinstance(step, Copy):
            nbytes = 2 * _nbytes(program, step.source)
            working += nbytes / machine.bandwidth_at(nbytes)
    return launches, launching, working, moving


def _kernel(kernel: Kernel, nbytes: int, machine: Machine) -> float:
    """Seconds of a kernel: of going through memory, or of arithmetic where that is longer; on a CPU some of the other, too."""
    work, measured = work_of(kernel), dict(machine.products)
    products = sum([count / _rate(product, count, machine, measured) for product, count in work.products])
    memory = nbytes / machine.bandwidth_at(nbytes)
    if machine.link is None:
        vectors = 1e-9 * work.vectors * CORE_FLOPS / machine.flops
        arithmetic = products + vectors + 1e-9 * (work.moves + work.calls + work.waits) / machine.threads
        if arithmetic * machine.threads < FEW_S:
            arithmetic *= machine.threads
        return max(memory, arithmetic) + TOGETHER * min(memory, arithmetic)
    return max(memory, products + 2 * (work.vectors / SIMPLE_NS + CALLED * work.called) / machine.flops)


def _rate(product: Contraction | Chain, count: int, machine: Machine, measured: Collection[str]) -> float:
    """Operations a second of a product of so many."""
    if machine.link is not None or measured:
        return machine.product_rate(_format(product, measured), count)
    return machine.flops * REACHED / (1 if product.accum.bytes <= 4 else 2)


def _format(product: Contraction | Chain, measured: Collection[str]) -> str:
    """In which format a product is multiplied, where that was measured: the one that both operands come in, or are shortened to;
    else the one that it adds up in."""
    accum = product.accum
    sides = [(i.a, i.b) for i in product.inner] if isinstance(product, Chain) else [(product.a, product.b)]
    stored = {v.args[0].dtype if v.op == "cast" and v.dtype == accum else v.dtype for pair in sides for v in pair}
    shorter = "float32" if isinstance(product, Chain) else product.precision
    found = shorter if shorter != "float32" else stored.pop().name if len(stored) == 1 else accum.name
    return found if found in measured else accum.name


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
