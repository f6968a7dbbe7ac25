"""The generator of convolutions: recognise one (conv_match), then the driver for its direction."""

from __future__ import annotations

from weft.codegen.cpu.conv_forward import Forward
from weft.codegen.cpu.conv_match import match_conv
from weft.codegen.cpu.conv_weights import WeightGradient
from weft.codegen.cpu.generate import Generated
from weft.codegen.cpu.isa import ISA
from weft.schedule.kernel import Kernel


def generate_conv(kernel: Kernel, isa: ISA) -> Generated | None:
    """LLVM text of a kernel whose one Contraction is a convolution; None if it is not."""
    conv = match_conv(kernel)
    if conv is None:
        return None
    return WeightGradient(kernel, conv, isa).generate() if conv.dot else Forward(kernel, conv, isa).generate()
