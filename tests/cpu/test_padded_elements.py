"""Where a kernel chooses between an expression and something else, nothing of the expression shows beyond its elements: every
sample of every element-wise primitive, with one element and few, inside pads and joins."""

from __future__ import annotations

import numpy as np
import pytest
from test_dynamic_kernels import same
from test_primitives_native import PRIMITIVES

from tests import oracle
from tests.kernel.samples.table import draw_samples
from weft.eager import tiers
from weft.graph.node import Graph, Primitive
from weft.graph.primitives import TABLE, bind, input_leaf
from weft.graph.primitives.table import constant
from weft.runtime import execute

WAYS = ((1, 0, 1, 0), (3, 2, 15, 1))  # elements, how many before and behind them, what stands there


@pytest.mark.drawn(36)
@pytest.mark.parametrize("op", [op for op in PRIMITIVES if op.kind == "elementwise"], ids=lambda op: op.name)
def test_nothing_shows_beyond(op: Primitive, rng: np.random.Generator) -> None:
    met = set()
    for s in draw_samples(op, rng):
        kinds = tuple(a.dtype for a in s.arrays)
        if kinds in met or len({a.shape for a in s.arrays}) != 1 or s.arrays[0].size < 3:
            continue
        met.add(kinds)
        for n, before, behind, value in WAYS:
            cut = tuple(np.ascontiguousarray(a.reshape(-1)[:n]) for a in s.arrays)
            leaves = oracle.leaves(cut)
            node = bind(op, *leaves, **s.params)
            buffers = [execute.to_buffer(a) for a in cut]
            there = [input_leaf(x.shape, x.dtype, b) for x, b in zip(leaves, buffers, strict=True)]
            pending = bind(op, *there, **s.params)
            alone = execute.to_numpy(*tiers.compute_nodes([*there, pending], [pending]), node.shape, node.dtype)
            padded = bind(TABLE["pad"], node, low=(before,), high=(behind,), value=value)
            fill = bind(TABLE["broadcast_to"], constant(value, node.dtype), shape=(behind,))
            out = bind(TABLE["concat"], padded, fill, axis=0)
            want = np.concatenate([np.full(before, value, alone.dtype), alone, np.full(2 * behind, value, alone.dtype)])
            (got,) = execute.run(Graph(leaves, [out]), buffers)
            try:
                same(execute.to_numpy(got, out.shape, out.dtype), want)
            except AssertionError as error:
                raise AssertionError(f"{op.name} of {[(a.shape, a.dtype) for a in cut]} {s.params}: {error}") from None
