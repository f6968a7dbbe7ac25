"""explain: the table, the kernels, and that nothing runs."""

from __future__ import annotations

import sys
import types

import numpy as np
import pytest
from making import array, normal

from weft.devices import counters
from weft.tools.explain import explain
from weft.transforms.jit import jit


def scaled(a):
    centred = a - a.mean(axis=1, keepdims=True)
    return centred / (a.var(axis=1, keepdims=True) + 1e-5) ** 0.5


@pytest.mark.usefixtures("lazy")
def test_one_kernel_and_its_lines(capsys):
    a = array(normal(128, 32)) * 2
    before = counters()
    found = explain(scaled, a)
    after = counters()
    assert after == before and a.node.value is None
    (kernel,) = found.kernels
    assert kernel.bytes == 2 * 128 * 32 * 4 and kernel.flops > 5 * 128 * 32 and kernel.phases >= 1
    assert any(line.endswith("test_explain.py:18") for line in kernel.lines)
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
    from weft.array import wrap_array
    from weft.graph.primitives.table import TABLE, bind

    found = explain(lambda x: wrap_array(bind(TABLE["argsort"], x.node, axis=0)), array(np.arange(5)))
    assert found.host == ("argsort",) and "1 in NumPy (argsort)" in capsys.readouterr().out


def test_a_terminal_shows_one_line_and_a_notebook_nothing_more(capsys) -> None:
    found = explain(lambda x: x + 1, array(np.ones(3)))
    assert repr(found) == "Explanation(<lambda>: 1 kernel)"
    assert found._ipython_display_() is None
    assert capsys.readouterr().out == str(found) + "\n"


def test_lines_in_a_notebook_are_named_by_their_cell(monkeypatch) -> None:
    """IPython gives each cell a file of its own; its compiler knows which cell it was."""
    compiler = types.SimpleNamespace(format_code_name=lambda name: ("Cell", "In[7]") if name == "/tmp/made_up_123.py" else None)
    shell = types.SimpleNamespace(compile=compiler)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    namespace = {"np": np}
    exec(compile("def f(x):\n    return np.tanh(x)\n", "/tmp/made_up_123.py", "exec"), namespace)
    exec(compile("def g(x):\n    return np.tanh(x)\n", "/tmp/own/train.py", "exec"), namespace)
    assert "In[7]:2" in str(explain(namespace["f"], array(np.ones(3))))
    assert "train.py:2" in str(explain(namespace["g"], array(np.ones(3))))


def test_derivatives_have_the_lines_of_what_they_derive():
    from weft.transforms.grad import grad

    def loss(w, x):
        hidden = (x @ w).clip(0)
        return (hidden @ w).sum()

    found = explain(grad(loss), array(normal(32, 32)), array(normal(64, 32)))
    first = loss.__code__.co_firstlineno
    lines = {int(line.rpartition(":")[2]) for k in found.kernels for line in k.lines}
    assert {first + 1, first + 2} <= lines <= set(range(first, first + 5))
