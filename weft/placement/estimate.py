"""Estimate the time of a program on a device.

Each kernel takes the larger of its memory time and its arithmetic time, and its launch.

Of 85 programs on one CPU the estimates are within a factor of 2 (``tests/placement/measured.json``, by
``benchmarks/placement.py``, which also fitted the figures). Every launch of a card's kernel is counted.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import prod

from weft.devices.cuda.generate import launches_of
from weft.kernel.ir import Chain, Contraction, Kernel
from weft.placement.device_figures import Machine
from weft.placement.work import work_of
from weft.schedule.program import Call, Copy, HostCall, Loop, Program, find_hosts

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
            working += _kernel_seconds(step.kernel, info.bytes, machine)
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
                moving += sum([moved(nbytes, machine.link) for nbytes in sizes])
        elif isinstance(step, Copy):
            nbytes = 2 * _nbytes(program, step.source)
            working += nbytes / machine.bandwidth_at(nbytes)
    return launches, launching, working, moving


def _kernel_seconds(kernel: Kernel, nbytes: int, machine: Machine) -> float:
    """Return the seconds of a kernel: the larger of memory and arithmetic time; on a CPU plus a share of the smaller."""
    work, measured = work_of(kernel), dict(machine.products)
    products = sum([count / _product_rate(product, count, machine, measured) for product, count in work.products])
    memory = nbytes / machine.bandwidth_at(nbytes)
    if machine.link is None:
        vectors = 1e-9 * work.vectors * CORE_FLOPS / machine.flops
        arithmetic = products + vectors + 1e-9 * (work.moves + work.calls + work.waits) / machine.threads
        if arithmetic * machine.threads < FEW_S:
            arithmetic *= machine.threads
        return max(memory, arithmetic) + NOT_OVERLAPPED * min(memory, arithmetic)
    return max(memory, products + 2 * (work.vectors / SIMPLE_NS + CALL_INSTRUCTIONS * work.called) / machine.flops)


def _product_rate(product: Contraction | Chain, count: int, machine: Machine, measured: Collection[str]) -> float:
    """Return the operations per second of a product of ``count`` operations."""
    if machine.link is not None or measured:
        return machine.product_rate(_product_format(product, measured), count)
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


def made(program: Program, kept: int) -> int:
    """Return the bytes that a run needs besides its inputs: its arena, and results that do not overwrite an input.

    kept: inputs from this number on may be overwritten, as they are kept from call to call.
    """
    written_over = {o for i, o in program.donate if i >= kept}
    results = [prod(shape) * form.bytes for k, (shape, form) in enumerate(program.outputs) if k not in written_over]
    return sum(results) + program.arena


def moved(nbytes: int, link: tuple[float, float]) -> float:
    """Return the seconds of a transfer over a link."""
    return link[0] + nbytes / link[1]


def _nbytes(program: Program, slot: int) -> int:
    return prod(program.slots[slot].shape) * program.slots[slot].dtype.bytes
