"""Kernels and random programs on ``gpu-sim``: each kernel is given what ``evaluate`` was given, and has to give the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import weft as wf
from tests.fuzz import derivatives, expressions
from tests.fuzz.expressions import graph_of
from tests.fuzz.levels import Mismatch, near, overflowing, perform
from tests.fuzz.program import Program
from tests.kernel.evaluate import lying, shown
from weft.devices.cuda.simulator import DeviceMemory
from weft.errors import TraceError
from weft.graph.node import Graph
from weft.kernel.hazards import in_place
from weft.kernel.ir import Kernel
from weft.kernel.printer import kernel_key
from weft.runtime import execute
from weft.schedule.build import build


def run_kernel(
    device: Any, kernel: Kernel, inputs: Sequence[np.ndarray], scalars: Sequence[Any],
    shared: Sequence[tuple[int, int]] = (),
) -> list[np.ndarray]:
    """The outputs of a kernel; ``shared``: (input, output) positions that are one piece of memory."""
    memories = [device.upload(lying(a, b)) for a, b in zip(inputs, kernel.inputs, strict=True)]
    lies = {o: i for i, o in shared}
    outputs = [
        memories[lies[k]] if k in lies else device.allocate(int(np.prod(b.shape)) * b.dtype.bytes)
        for k, b in enumerate(kernel.outputs)
    ]
    told = [m.memory if isinstance(m, DeviceMemory) else m.pointer for m in (*memories, *outputs)]
    wrong = device.run_kernel(kernel, told, scalars)
    assert wrong is None, f"index {wrong} is out of range"
    return [
        shown(np.array(device.download(m, b.memory_extents, b.dtype)), b) for m, b in zip(outputs, kernel.outputs, strict=True)
    ]


def check_kernel(
    device: Any, kernel: Kernel, inputs: Sequence[np.ndarray], scalars: Sequence[Any], expected: list[np.ndarray],
) -> None:
    """A kernel in memory of its own, and once for each pair that may share memory."""
    beyond = overflowing(kernel, inputs, scalars)
    pairs = in_place(kernel, device.target.kept_orders)
    for shared in ((), *[(pair,) for pair in pairs]):
        try:
            got = run_kernel(device, kernel, inputs, scalars, shared)
            near(kernel, got, expected, beyond, inputs)
        except Exception as error:
            texts = "\n".join(f"{launch.grid} {launch.text}" for launch in device.print_kernel(kernel).launches)
            raise Mismatch(f"on {device.name}", f"{error} (shared: {shared})\n{kernel_key(kernel)}\n{texts}") from error


def graph_of_program(program: Program) -> tuple[Graph, list[Any]] | None:
    """The graph of a random program, and the values of its leaves; None for one that looks where weft refuses that."""
    arrays = [i.array() for i in program.inputs]
    if program.family != "derivative":
        return graph_of(list(expressions.function(program)(*map(wf.array, arrays))))
    if any(".numpy()" in line for line in program.lines):
        return None
    scope = derivatives.space()
    exec(derivatives.source(program), scope)
    try:
        return graph_of(list(scope["derived"](*map(wf.array, arrays))))
    except TraceError:
        return None


def check_program(device: Any, program: Program, seen: Callable[[Kernel], None] = lambda kernel: None) -> int:
    """Every kernel of a random program; how many there were."""
    found = graph_of_program(program)
    if found is None:
        return 0
    graph, values = found
    calls: list[tuple[Kernel, list[np.ndarray], list[Any], list[np.ndarray]]] = []
    perform(build(execute.copy_structure(graph), device.target), values, lambda *call: calls.append(call))
    for call in calls:
        seen(call[0])
        check_kernel(device, *call)
    return len(calls)
