"""explain: the table, the kernels, and that nothing runs."""

from __future__ import annotations

import numpy as np
from making import array, normal

from weft.runtime import counters
from weft.tools.explain import explain
from weft.transforms.jit import jit


def scaled(a):
    centred = a - a.mean(axis=1, keepdims=True)
    return centred / (a.var(axis=1, keepdims=True) + 1e-5) ** 0.5


def test_one_kernel_and_its_lines(capsys):
    a = array(normal(128, 32)) * 2
    before = counters()
    found = explain(scaled, a)
    after = counters()
    assert after == before and a.node.value is None
    (kernel,) = found.kernels
    assert kernel.bytes == 2 * 128 * 32 * 4 and kernel.flops > 5 * 128 * 32 and kernel.phases >= 1
    assert any(line.endswith("test_explain.py:14") for line in kernel.lines)
    printed = capsys.readouterr().out
    assert "scaled: 1 kernel" in printed and kernel.name in printed and "test_explain.py:1" in printed


def test_boundaries_are_explained(capsys):
    x, w = array(normal(64, 32)), array(normal(32, 32))
    found = explain(jit(lambda x: ((x @ w).clip(0) @ w).sum()), x)
    assert len(found.kernels) >= 2 and any(k.boundary for k in found.kernels)
    assert "not fused with what follows: " in capsys.readouterr().out


def test_counts_agree_with_the_counter():
    x = array(normal(64, 32))
    found = explain(scaled, x)
    run = jit(scaled)
    run(x)
    before = counters()["kernels"]
    run(x)
    assert counters()["kernels"] - before == len(found.kernels)


def test_host_operations_are_named(capsys):
    from weft.graph.primitives.table import TABLE, bind

    found = explain(lambda x: x._new(bind(TABLE["argsort"], x.node, axis=0)), array(np.arange(5)))
    assert found.host == ("argsort",) and "1 in NumPy (argsort)" in capsys.readouterr().out
