"""The entry point of the CPU code generator: a Kernel in, LLVM text out.

ABI. A kernel is ``void @symbol(ptr args)``. ``args`` is an array of 8-byte slots: the addresses of ``kernel.inputs`` and
``kernel.outputs``, the run-time scalars (each in its own dtype in the low bytes), the address of the scratch memory
(``scratch`` bytes shared, then ``worker_scratch`` bytes, 64-byte aligned, for each worker), and, if the kernel checks indices,
the address of the run's record. Imported symbols: ``weft_parallel(body, context, chunks)`` runs ``body(context, chunk,
worker)`` for each chunk and returns when all are done; ``weft_counters``: each kernel adds 1 to element 0. The number of chunks
depends on extents only.
"""

from __future__ import annotations

from weft.devices.cpu.convolution.conv import generate_conv
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.text import Generated
from weft.devices.cpu.nest.kernel import generate_loops
from weft.devices.cpu.product.gemm import generate_gemm
from weft.kernel.ir import Chain, Contraction, Kernel


def generate(kernel: Kernel, isa: ISA) -> Generated:
    """Return LLVM text of a kernel: from a template for attention, convolutions and products, else as loop nests."""
    stages = [stage for phase in kernel.phases for stage in phase.stages]
    if any(isinstance(stage, Chain) for stage in stages):
        from weft.devices.cpu.attention.chain import generate_chain  # imported lazily: few programs need it

        return generate_chain(kernel, isa)
    if any(isinstance(stage, Contraction) for stage in stages):
        for template in (generate_conv, generate_gemm):
            result = template(kernel, isa)
            if result is not None:
                return result
    return generate_loops(kernel, isa)
