"""Run the kernels that fuse.py makes of a graph: checked, compiled, in place too, and by evaluate.py."""

from __future__ import annotations

import numpy as np
from harness import Compiled, fresh

from tests.kernel.evaluate import evaluate
from tests.kernel.verify import verify
from weft.devices.cpu.emit.isa import ISA, host_isa
from weft.devices.cpu.nest.kernel import generate_loops
from weft.dtypes.formats import FROM_NUMPY
from weft.graph.node import Graph, Node
from weft.graph.primitives import TABLE, bind, input_leaf
from weft.kernel.hazards import in_place
from weft.schedule.fuse import fuse
from weft.schedule.fusion_graph import strip


def leaf(array: np.ndarray) -> Node:
    return input_leaf(array.shape, FROM_NUMPY[array.dtype])


def kernels_of(inputs: list[Node], outputs: list[Node]):
    """(Fused kernels in order) of a graph."""
    _, fused = fuse(Graph(inputs, outputs))
    return fused


def run_both(inputs: list[Node], arrays: list[np.ndarray], outputs: list[Node], isa: ISA | None = None):
    """Yields (kernel, compiled outputs, evaluated outputs) for every kernel; both start from the same inputs.

    Each kernel is verified, and runs again once for each (input, output) pair that may be one piece of memory.
    """
    known = {n: np.ascontiguousarray(a) for n, a in zip(inputs, arrays, strict=True)}
    for f in kernels_of(inputs, outputs):
        if f.kernel is None:
            node = f.nodes[0]
            args = [known[strip(i)].reshape(i.shape) for i in node.inputs]
            known[node] = np.ascontiguousarray(node.op.reference(*args, **node.params))
            continue
        ins = [known[strip(n)].reshape(shape) for n, shape in f.inputs]
        scalars = [known[n][()] for n in f.scalars]
        verify(f.kernel)
        expected, _ = evaluate(f.kernel, ins, scalars)
        out = [fresh(n.dtype, n.shape) for n in f.outputs]
        compiled = Compiled(generate_loops(f.kernel, isa or host_isa()), f.kernel, isa)
        compiled(ins, out, scalars)
        for pair in in_place(f.kernel):
            check_in_place(compiled, ins, scalars, pair, out, expected)
        yield f.kernel, out, expected
        for n, e in zip(f.outputs, expected, strict=True):
            known[n] = e.reshape(n.shape)


def check_in_place(compiled: Compiled, ins, scalars, pair: tuple[int, int], out, expected) -> None:
    """The kernel gives the same bits where an input and an output share their memory."""
    i, o = pair
    kernel = compiled.kernel
    memory = fresh(ins[i].dtype, ins[i].shape)
    memory[...] = ins[i]
    given = [memory if k == i else a for k, a in enumerate(ins)]
    made = [fresh(b.dtype, b.shape) for b in kernel.outputs]
    made[o] = memory.view(kernel.outputs[o].dtype.numpy).reshape(made[o].shape)
    compiled(given, made, scalars)
    for got, want in zip(made, out, strict=True):
        assert got.tobytes() == np.ascontiguousarray(want).tobytes(), f"in place {pair}: {kernel}"
    if sum(b.nbytes for b in (*ins, *out)) <= 1 << 12:
        for got, want in zip(evaluate(kernel, ins, scalars, [pair])[0], expected, strict=True):
            assert got.tobytes() == want.tobytes(), f"evaluated in place {pair}: {kernel}"


__all__ = ["TABLE", "bind", "check_in_place", "kernels_of", "leaf", "run_both"]
