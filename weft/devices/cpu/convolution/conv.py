"""The entry point of the convolution generator: match each phase and choose its driver, forward or one of weight gradients."""

from __future__ import annotations

from weft.devices.cpu.convolution.epilogue import ConvolutionPart, Fill, SumPart
from weft.devices.cpu.convolution.filter_weights import FilterGradient, is_efficient
from weft.devices.cpu.convolution.forward import Forward
from weft.devices.cpu.convolution.pairs import in_pairs
from weft.devices.cpu.convolution.weights import WeightGradient
from weft.devices.cpu.convolution.winograd_forward import WinogradForward
from weft.devices.cpu.convolution.winograd_transform import choose_outputs
from weft.devices.cpu.convolution.winograd_weights import WinogradGradient
from weft.devices.cpu.emit.chunks import count_entry
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.merge_similar import merge_similar_functions
from weft.devices.cpu.emit.tally import emit_tally_stores
from weft.devices.cpu.emit.text import Generated, Module
from weft.kernel.convolution import Conv, match_conv
from weft.kernel.ir import Kernel, Stage
from weft.kernel.tallies import contraction_of, reduces_tallies, split_last_phase


def choose_driver(conv: Conv, isa: ISA) -> type[SumPart]:
    """Return the generator of a convolution."""
    if choose_outputs(conv, isa):
        return WinogradGradient if conv.dot else WinogradForward
    if not conv.dot:
        return Forward
    return FilterGradient if is_efficient(conv, isa) else WeightGradient


def choose_pairs(conv: Conv, isa: ISA) -> Conv:
    """Return the convolution, in pairs if it may round its operands and gains by it."""
    pairs = None if choose_outputs(conv, isa) else in_pairs(conv, isa)
    return conv if pairs is None or pairs.dot and not is_efficient(pairs, isa) else pairs


def generate_conv(kernel: Kernel, isa: ISA) -> Generated | None:
    """Return LLVM text of a kernel whose phases are convolutions; None for any other kernel.

    The input gradient of a strided convolution has a phase for each remainder of the stride. A phase that no tap reaches is a
    stage without a sum.

    Example
    -------
    >>> from weft.devices.cpu.emit.isa import host_isa
    >>> generate_conv(Kernel("nothing", (), (), ()), host_isa()) is None
    True
    """
    module = Module()
    parts: list[ConvolutionPart] = []
    phases, tally_stores = split_last_phase(kernel)
    for number, phase in enumerate(phases):
        if phase.axes or kernel.scratch:
            return None
        stage, prefix = phase.stages[0], f"{kernel.name}.{number}"
        if isinstance(stage, Stage):
            if len(phase.stages) != 1 or not reduces_tallies(stage) or any(s.mode != "set" for s in stage.stores):
                return None
            parts.append(Fill(kernel, stage, isa, module, prefix))
            continue
        found = contraction_of(phase)
        conv = match_conv(found[0]) if found else None
        if found is None or conv is None:
            return None
        conv = choose_pairs(conv, isa)
        driver = choose_driver(conv, isa)
        parts.append(driver(kernel, conv, isa, module, prefix, found[1]))
    if all(isinstance(part, Fill) for part in parts):
        return None
    base = max(part.shared for part in parts)
    for part in parts:
        part.tallies_at = base
        base += part.storing * part.tallies.size
    for part in parts:
        module.took(part.path)
        if isinstance(part, SumPart) and part.conv.paired is not None:
            module.took("convolution of pairs")
        part.generate(base)
    merge_similar_functions(module, r"chunk|pack|copy|finish|run|tile[\d.]+|(?:turn|vectors)\d+")
    f = module.function(f"define void @{kernel.name}(ptr %args)")
    count_entry(module, f)
    for part in parts:
        f.do(f"call void {part.name('run')}(ptr %args)")
    if tally_stores:
        results: dict[int, str] = {}
        for part in parts:
            results |= part.tallies.join(f, part.storing, part.tallies_at)
        emit_tally_stores(f, module, isa, kernel, tally_stores, results)
    module.vectors = True
    return module.generated(kernel.name, base, max(part.worker for part in parts))
