"""Run the kernels that fuse.py makes of a graph: compiled and by evaluate.py."""

from __future__ import annotations

import numpy as np
from harness import Compiled, fresh

from weft.codegen.cpu.isa import host_isa
from weft.codegen.cpu.nest_kernel import generate_loops
from weft.graph.node import Graph, Node
from weft.graph.primitives import TABLE, bind, input_leaf
from weft.schedule.evaluate import evaluate
from weft.schedule.fuse import fuse
from weft.schedule.view import strip


def leaf(array: np.ndarray) -> Node:
    return input_leaf(array.shape, array.dtype)


def kernels_of(inputs: list[Node], outputs: list[Node]):
    """(Fused kernels in order) of a graph."""
    _, fused = fuse(Graph(inputs, outputs))
    return fused


def run_both(inputs: list[Node], arrays: list[np.ndarray], outputs: list[Node], compile_=None):
    """Yields (kernel, compiled outputs, evaluated outputs) for every kernel; both start from the same inputs."""
    known = {n: np.ascontiguousarray(a) for n, a in zip(inputs, arrays, strict=True)}
    for f in kernels_of(inputs, outputs):
        if f.kernel is None:
            node = f.nodes[0]
            args = [known[strip(i)].reshape(i.shape) for i in node.inputs]
            known[node] = np.ascontiguousarray(node.op.reference(*args, **node.params))
            continue
        ins = [known[strip(n)].reshape(shape) for n, shape in f.inputs]
        scalars = [known[n][()] for n in f.scalars]
        expected, _ = evaluate(f.kernel, ins, scalars)
        out = [fresh(n.dtype, n.shape) for n in f.outputs]
        compiled = Compiled(generate_loops(f.kernel, host_isa()), f.kernel)
        compiled(ins, out, scalars)
        yield f.kernel, out, expected
        for n, e in zip(f.outputs, expected, strict=True):
            known[n] = e.reshape(n.shape)


__all__ = ["TABLE", "bind", "kernels_of", "leaf", "run_both"]
