"""Helpers of the fusion tests: graphs by hand, kernels run by the IR's meaning against the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.kernel.evaluate import Traffic, evaluate
from tests.kernel.verify import verify
from weft.dtypes.formats import BOOL, FLOAT32, FLOAT64, FLOATS, INTEGERS, Format
from weft.dtypes.parse import parse_dtype
from weft.graph.interpret import interpret
from weft.graph.node import Graph, Node
from weft.graph.primitives import TABLE, bind, constant, input_leaf
from weft.kernel.expressions import loads, roots
from weft.kernel.ir import Kernel
from weft.schedule.build import build
from weft.schedule.program import Call, Copy, HostCall, Program

F32, F64 = FLOAT32, FLOAT64


def op(name: str, *nodes: Node, **params: Any) -> Node:
    return bind(TABLE[name], *nodes, **params)


def leaf(*shape: int, dtype: Format = F32) -> Node:
    return input_leaf(tuple(shape), parse_dtype(dtype))


def number(value: Any, dtype: Format = F32) -> Node:
    return constant(value, parse_dtype(dtype))


def mean(x: Node, *axes: int, keepdims: bool = True) -> Node:
    n = int(np.prod([x.shape[a] for a in axes]))
    return op("divide", op("reduce_sum", x, axes=axes, keepdims=keepdims), number(n, x.dtype))


def kernels(program: Program) -> list[Kernel]:
    return [s.kernel for s in program.steps if isinstance(s, Call)]


def run(program: Program, values: Sequence[Any]) -> tuple[list[np.ndarray], list[list[Traffic]]]:
    """Run a Program in Python: a real arena and aliases, kernels by evaluate.py."""
    arena = np.full(program.arena, 0xA5, np.uint8)
    inputs = [np.ascontiguousarray(v, d.numpy).reshape(s) for v, (s, d) in zip(values, program.inputs, strict=True)]
    outputs = [np.zeros(s, d.numpy) for s, d in program.outputs]

    def memory(i: int) -> np.ndarray:
        slot = program.slots[i]
        root = slot
        while root.kind == "alias":
            root = program.slots[root.of]
        if root.kind == "arena":
            size = int(np.prod(root.shape)) * root.dtype.bytes
            return arena[root.offset: root.offset + size].view(root.dtype.numpy).reshape(slot.shape)
        return (inputs if root.kind == "input" else outputs)[root.position].reshape(slot.shape)

    traffic = []
    for step in program.steps:
        if isinstance(step, Call):
            verify(step.kernel)
            count = len(step.kernel.inputs)
            done, seen = evaluate(step.kernel, [memory(a) for a in step.args[:count]], [values[p] for p in step.scalars])
            traffic.append(seen)
            for a, result in zip(step.args[count:], done, strict=True):
                memory(a)[...] = result
        elif isinstance(step, HostCall):
            memory(step.out)[...] = step.fn(*map(memory, step.args), **step.params)
        elif isinstance(step, Copy):
            memory(step.target)[...] = memory(step.source).reshape(memory(step.target).shape)
    return outputs, traffic


def random(node: Node, rng: np.random.Generator) -> Any:
    if node.dtype is BOOL:
        return rng.random(node.shape) < 0.5
    if node.dtype in INTEGERS:
        return rng.integers(0, 5, node.shape).astype(node.dtype.numpy)
    return np.asarray(rng.standard_normal(node.shape), node.dtype.numpy)


def check(
    inputs: Sequence[Node], outputs: Sequence[Node], values: Sequence[Any] | None = None, count: int | None = None, seed: int = 0,
    tolerance: float | None = None, special: bool = False,
) -> Program:
    """Build, verify, run and compare with the interpreter in float64; bytes against what was really touched."""
    rng = np.random.default_rng(seed)
    values = [random(n, rng) for n in inputs] if values is None else list(values)
    graph = Graph(inputs, outputs)
    program = build(graph)
    if count is not None:
        assert len(kernels(program)) == count, "\n".join(str(k.name) for k in kernels(program))
    got, traffic = run(program, values)
    want = interpret(graph, values)
    for g, w, node in zip(got, want, outputs, strict=True):
        w = np.asarray(w)
        assert g.shape == node.shape and g.dtype == node.dtype.numpy
        if node.dtype not in FLOATS:
            np.testing.assert_array_equal(g, w)
        else:
            bound = tolerance or {1: 0.3, 2: 2e-2, 4: 2e-5, 8: 1e-11}[node.dtype.bytes]
            np.testing.assert_allclose(g.astype(np.float64), w.astype(np.float64), rtol=bound, atol=bound)
            if not special:
                assert node.size < 8 or np.count_nonzero(w) > node.size // 10, "mostly zeros: a test of nothing"
    for kernel, seen, info in zip(kernels(program), traffic, program.info, strict=True):
        real = sum(t.touched * b.dtype.bytes for t, b in zip(seen, (*kernel.inputs, *kernel.outputs), strict=True))
        if not _gathered(kernel):  # what is touched depends on the data
            assert info.bytes == real, f"{kernel.name}: {info.bytes} bytes are promised, {real} were touched"
    return program


def _gathered(kernel: Kernel) -> bool:
    accesses = [a for p in kernel.phases for s in p.stages for a in loads(roots([s]))]
    accesses += [s.access for p in kernel.phases for stage in p.stages for s in stage.stores]
    return any(i.gather for a in accesses for i in a.index)
