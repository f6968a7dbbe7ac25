"""The CPU generator's face: a Kernel in, LLVM text out."""

from __future__ import annotations

from dataclasses import dataclass

from weft.devices.cpu.emit.isa import ISA
from weft.kernel.ir import Contraction, Kernel


@dataclass(frozen=True, slots=True)
class Generated:
    """LLVM text of one kernel. scratch: bytes shared by all workers; worker_scratch: bytes a worker.

    paths: the ways of generating code that were entered, in words: what tests ask whether they have met them all.
    """

    symbol: str
    ir: str
    scratch: int
    worker_scratch: int
    paths: tuple[str, ...] = ()


def generate(kernel: Kernel, isa: ISA) -> Generated:
    """LLVM text of a kernel: a template where a contraction matches one, loop nests else."""
    from weft.devices.cpu.nest.kernel import generate_loops

    if any(isinstance(stage, Contraction) for phase in kernel.phases for stage in phase.stages):
        from weft.devices.cpu.convolution.conv import generate_conv
        from weft.devices.cpu.product.gemm import generate_gemm

        for template in (generate_conv, generate_gemm):
            found = template(kernel, isa)
            if found is not None:
                return found
    return generate_loops(kernel, isa)
