"""Every sample of every primitive, and its derivative, in compiled kernels against the NumPy references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests import oracle
from tests.kernel.samples.sample import Sample
from tests.kernel.samples.table import draw_samples
from weft.devices import counters
from weft.graph.gradient import backward
from weft.graph.interpret import interpret
from weft.graph.node import Graph, Node, Primitive
from weft.graph.primitives import TABLE, bind, input_leaf
from weft.graph.primitives.table import LAZY_ENTRIES
from weft.runtime import execute
from weft.schedule.build import build
from weft.schedule.program import Call, HostCall

PRIMITIVES = [op for op in TABLE.values() if op.kind != "leaf"]
TOLERANCE = {1: 4e-1, 2: 4e-2, 4: 3e-5, 8: 1e-12}
Some = Callable[[Sequence[Any], int], list[Any]]
everyone = pytest.mark.parametrize("op", PRIMITIVES, ids=lambda op: op.name)


def variants(op: Primitive, rng: np.random.Generator, some: Some) -> list[Sample]:
    """The samples, and the floats among them once in float64 and in four narrow formats."""
    samples = draw_samples(op, rng)
    if op.name in ("bitcast", "cast"):
        return samples
    hosted = any(op.name in names.split() for names in LAZY_ENTRIES.values())  # LAPACK's, and of complex numbers
    for dtype in (np.float64,) if hosted and not op.chains else (np.float64, *some(oracle.NARROW, 4)):
        tags = {"prime", "special"} if op.kind == "elementwise" else {"prime"}
        for s in list(samples):
            if s.tag in tags and any(a.dtype == np.float32 for a in s.arrays):
                arrays = tuple(oracle.in_format(a, dtype) if a.dtype == np.float32 else a for a in s.arrays)
                samples.append(Sample(arrays, s.params, s.tag))
    return samples


def compare(inputs: Sequence[Node], outputs: Sequence[Node], values: Sequence[np.ndarray], message: str) -> None:
    graph = Graph(inputs, outputs)
    expected = interpret(graph, values)
    before = counters()
    got = execute.run(graph, [execute.to_buffer(np.asarray(v)) for v in values])
    steps = build(execute.copy_structure(graph)).steps
    entered = counters()["kernels"] - before["kernels"]
    assert entered >= sum(isinstance(s, Call) for s in steps), f"{message}: kernels were not entered"
    native = not any(isinstance(s, HostCall) for s in steps)
    assert native or any(n.op.kind == "host" for n in graph.order), f"{message}: ran in Python"
    for buffer, want, node in zip(got, expected, outputs, strict=True):
        result = execute.to_numpy(buffer, node.shape, node.dtype)
        if not oracle.is_float(node.dtype):
            np.testing.assert_array_equal(result, want, err_msg=message)
            continue
        bound = TOLERANCE[node.dtype.bytes]
        want = oracle.widened(want)
        largest = float(np.max(np.abs(want[np.isfinite(want)]), initial=1.0))
        np.testing.assert_allclose(oracle.widened(result), want, rtol=bound, atol=bound * min(largest, 100.0), err_msg=message)


@everyone
def test_values(op: Primitive, rng: np.random.Generator, some: Some) -> None:
    for s in variants(op, rng, some):
        nodes = oracle.leaves(s.arrays)
        compare(nodes, [bind(op, *nodes, **s.params)], s.arrays, f"{op.name} {[(a.shape, a.dtype) for a in s.arrays]} {s.params}")


@everyone
def test_derivatives(op: Primitive, rng: np.random.Generator) -> None:
    for s in draw_samples(op, rng):
        nodes = oracle.leaves(s.arrays)
        out = bind(op, *nodes, **s.params)
        floats = [n for n in nodes if oracle.is_float(n.dtype)]
        if s.tag == "special" or not floats or not oracle.is_float(out.dtype):
            continue
        cotangent = input_leaf(out.shape, out.dtype)
        values = [*s.arrays, oracle.random(rng, out.shape, out.dtype)]
        message = f"derivative of {op.name} {[(a.shape, a.dtype) for a in s.arrays]} {s.params}"
        compare([*nodes, cotangent], backward([out], [cotangent], floats), values, message)
