"""What is computed at once, and node by node, has the bits of compiled kernels: every sample of every primitive."""

from __future__ import annotations

import numpy as np
import pytest
from test_dynamic_kernels import same
from test_primitives_native import Some, everyone, variants

from tests import oracle
from weft.eager import implementations, tiers
from weft.eager.implementations import specialise
from weft.graph.node import Graph, Primitive
from weft.graph.primitives import bind, input_leaf
from weft.runtime import execute


@everyone
@pytest.mark.parametrize("often", [0, 1 << 30], ids=["native", "in NumPy"])
def test_samples(op: Primitive, often: int, rng: np.random.Generator, some: Some, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(implementations, "COMPILE_AFTER_CALLS", often)
    monkeypatch.setattr(implementations, "KERNELS", {})
    monkeypatch.setattr(implementations, "_CALL_COUNTS", {})
    for s in variants(op, rng, some):
        leaves = oracle.leaves(s.arrays)
        node = bind(op, *leaves, **s.params)
        if node.op.kind not in implementations.IMPLEMENTATIONS:
            assert op.kind in ("window", "unwindow", "convolution", "attention", "attention_gradient", "loop", "result"), op.kind
            return
        buffers = [execute.to_buffer(np.asarray(a)) for a in s.arrays]
        (want,) = execute.run(Graph(leaves, [node]), buffers)
        there = [input_leaf(n.shape, n.dtype, b) for n, b in zip(leaves, buffers, strict=True)]
        pending = bind(op, *there, **s.params)
        (by_node,) = tiers.compute_nodes([*there, pending], [pending])
        for way, got in (("ready", specialise(node)(buffers)), ("node by node", by_node)):
            seen, expected = (execute.to_numpy(b, node.shape, node.dtype) for b in (got, want))
            try:
                same(seen, expected)
            except AssertionError as error:
                raise AssertionError(f"{way}: {op.name} {[(a.shape, a.dtype) for a in s.arrays]} {s.params}: {error}") from None
