"""What a kernel would gain from a setting, by placement's cost model: products in bfloat16, batch size, memory layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.array import Array
from weft.devices.cpu.product.dot import MAX_FMA_FLOPS
from weft.dtypes.formats import FLOAT32
from weft.functions.creation.fill import zeros
from weft.graph.node import Node
from weft.graph.primitives.settings import has_formats
from weft.kernel.ir import Contraction, Kernel
from weft.placement.device_figures import Machine
from weft.placement.estimate import kernel_seconds, work_of
from weft.runtime import execute
from weft.schedule.build import build
from weft.schedule.program import Call, Program
from weft.transforms.jit import JittedFunction

LEAST_GAIN = 1.05  # smaller factors are within what the estimates are off by
BFLOAT16, BATCH, LAYOUT = "bfloat16", "batch", "layout"
SETTINGS = {  # setting -> what to change
    BFLOAT16: 'wf.matmul_precision("bfloat16"): products and convolutions of float32 round their operands to bfloat16 (8 bits)',
    BATCH: "twice the batch, by time for each example",
    LAYOUT: "arrays stored in the order of axes in which kernels read and write them",
}


@dataclass(frozen=True)
class Gain:
    """An estimate by the cost model. ``setting``: "bfloat16", "batch" or "layout"; ``factor``: time now over time with it"""

    setting: str
    factor: float

    def __str__(self) -> str:
        return f"{self.setting} {self.factor:.2g}x"


def find_gains(
    kernel: Kernel, nbytes: int, nodes: Sequence[Node], machine: Machine, larger: tuple[Kernel, int] | None = None,
) -> tuple[Gain, ...]:
    """Return the settings from which a kernel of the CPU would gain, the best first.

    Parameters
    ----------
    kernel, nbytes, nodes : the kernel, the bytes that it reads and writes, and the nodes that it computes
    machine : the measured figures
    larger : the same kernel for twice the batch, and its bytes
    """
    now = kernel_seconds(kernel, nbytes, machine)
    seconds = {LAYOUT: kernel_seconds(kernel, nbytes, machine, in_order=True)}
    if machine.bfloat16_flops and may_round_operands(kernel, nodes):
        seconds[BFLOAT16] = kernel_seconds(round_operands(kernel), nbytes, machine)
    if larger is not None:
        now_with_launch, twice = (machine.launch + t for t in (now, kernel_seconds(*larger, machine)))
        seconds[BATCH] = now * twice / 2 / now_with_launch
    gains = [Gain(setting, now / t) for setting, t in seconds.items() if t and now / t >= LEAST_GAIN]
    return tuple(sorted(gains, key=lambda gain: -gain.factor))


def may_round_operands(kernel: Kernel, nodes: Sequence[Node]) -> bool:
    """Return whether ``wf.matmul_precision("bfloat16")`` changes a kernel: it has products of float32 alone, and large ones.

    It changes no convolution of one channel (of a weight gradient: one image), no attention that is one kernel, and no product
    whose formats the user chose.
    """
    products = [n for n in nodes if n.op.contracts]
    plain = all(n.dtype is FLOAT32 and not has_formats(n.params) and _makes_pairs(n) for n in products)
    counts = [count for _, count in work_of(kernel).products]
    exact = any(c.precision == "float32" and c.algorithm == "direct" for c in _contractions(kernel))
    return plain and bool(counts) and max(counts) > MAX_FMA_FLOPS and exact


def _makes_pairs(node: Node) -> bool:
    """Return whether a product adds up pairs of numbers: a convolution does if it has channels."""
    return node.op.name == "dot_general" or node.op.kind == "convolution" and node.inputs[1].shape[node.params["dims"][1][1]] > 1


def round_operands(kernel: Kernel) -> Kernel:
    """Return the kernel as ``wf.matmul_precision("bfloat16")`` makes it."""
    phases = [
        replace(p, stages=tuple([replace(s, precision=BFLOAT16) if isinstance(s, Contraction) else s for s in p.stages]))
        for p in kernel.phases
    ]
    return replace(kernel, phases=tuple(phases))


def _contractions(kernel: Kernel) -> Iterator[Contraction]:
    return (stage for phase in kernel.phases for stage in phase.stages if isinstance(stage, Contraction))


def plan_larger_batch(f: Callable, args: tuple, kwargs: dict[str, Any]) -> Program | None:
    """Return the Program of a call with twice the batch, without running it; None if ``f`` refuses one, or is not jitted.

    A function that is not jitted may keep arrays of a call in attributes, which a trace would fill with its own.

    The batch is the first axis of the first array among the arguments, and of all other arrays with this extent; if ``f`` refuses
    that, of the first array alone.
    """
    if not isinstance(f, JittedFunction):
        return None
    leaves, rebuild, _, _ = f.flat(args, kwargs)
    arrays = [k for k, x in enumerate(leaves) if isinstance(x, Array | np.ndarray) and x.ndim > 0 and len(x) > 0]
    alike = [k for k in arrays if len(leaves[k]) == len(leaves[arrays[0]])]
    for chosen in dict.fromkeys([tuple(alike), tuple(arrays[:1])]):
        larger = list(leaves)
        for k in chosen:
            larger[k] = zeros((2 * len(leaves[k]), *leaves[k].shape[1:]), dtype=leaves[k].dtype)
        try:
            positional, named = rebuild(larger)
            return build(f.trace(*positional, **named).graph, execute.device().target) if chosen else None
        except Exception:  # user's code may refuse other shapes in any way
            continue
    return None


def pair_kernels(program: Program, larger: Program | None) -> dict[int, tuple[Kernel, int]]:
    """Map the number of a step to the kernel for twice the batch and its bytes; {} unless both programs have the same steps."""
    if larger is None or [_describe(s) for s in program.steps] != [_describe(s) for s in larger.steps]:
        return {}
    infos = iter(larger.info)
    return {k: (s.kernel, next(infos).bytes) for k, s in enumerate(larger.steps) if isinstance(s, Call)}


def _describe(step: Any) -> tuple[type, str]:
    return type(step), step.kernel.name if isinstance(step, Call) else ""
