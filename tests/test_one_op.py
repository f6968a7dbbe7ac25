"""docs/one-op.md names what exists, shows what the code prints, and says which way a small and a large array go."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import weft as wf
from weft.array import wrap
from weft.dtypes.formats import FLOAT32
from weft.graph.node import Graph
from weft.graph.primitives import input_leaf
from weft.graph.primitives.table import INPUT
from weft.kernel.printer import print_kernel
from weft.schedule.build import build

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "one-op.md").read_text()


def _shown(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found.group(1).strip()


def test_files_exist() -> None:
    named = re.findall(r"`((?:weft|tests)/[\w./-]+)`", PAGE)
    assert len({path for path in named if path.startswith("weft")}) == 17  # as the page says
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_functions_exist() -> None:
    pairs = re.findall(r"`(\w+)` (?:in |\()`(weft/[\w./-]+)`", PAGE)
    assert len(pairs) >= 10
    missing = [p for p in pairs if not re.search(rf"^(def|class) {p[0]}\b", (ROOT / p[1]).read_text(), re.M)]
    assert missing == []


def test_graph_and_kernel_are_what_the_code_prints() -> None:
    x, w, b = input_leaf((20000, 100), FLOAT32), input_leaf((100, 30), FLOAT32), input_leaf((30,), FLOAT32)
    y = wf.tanh(wrap(x) @ wrap(w) + wrap(b))
    graph = Graph([x, w, b], [y.node])
    program = build(graph)
    assert repr(graph) == _shown("graph")
    assert len(program.steps) == 1
    assert print_kernel(program.steps[0].kernel).strip() == _shown("kernel")


def _operands(rows: int) -> tuple[wf.Array, wf.Array, wf.Array]:
    """Return arrays that have values."""
    shapes = ((rows, 100), (100, 30), (30,))
    x, w, b = (wf.array(np.random.default_rng(k).normal(0, 0.1, shape).astype("float32")) for k, shape in enumerate(shapes))
    return x, w, b


def _counted(names: tuple[str, ...], before: dict[str, int]) -> int:
    return sum(wf.counters()[name] - before[name] for name in names)


UNCOMPILED = ("sized_calls", "numpy_calls")


def test_a_small_array_is_computed_in_the_operators() -> None:
    x, w, b = _operands(64)
    for _ in range(6):  # by Python at first, then by native functions
        before = wf.counters()
        y = wf.tanh(x @ w + b)
        assert y.node.value is not None and y.node.op is INPUT and not y.node.inputs
        found = y.numpy()
        assert _counted(("kernels",), before) == 0
        assert _counted(UNCOMPILED, before) == 3
    np.testing.assert_allclose(found, np.tanh(x.numpy() @ w.numpy() + b.numpy()), rtol=1e-5, atol=1e-6)


def test_a_large_array_is_recorded_scheduled_and_compiled() -> None:
    x, w, b = _operands(20000)
    ways, first = [], None
    for _ in range(16):
        before = wf.counters()
        y = wf.tanh(x @ w + b)
        names, node = [], y.node
        while node.value is None:  # from the result down to x
            names.append(node.op.name)
            node = node.inputs[0]
        assert names == ["tanh", "add", "dot_general"]
        assert _counted(("kernels", *UNCOMPILED), before) == 0  # nothing has run
        found = y.numpy()
        assert y.node.value is not None and not y.node.inputs
        ways.append((_counted(("kernels",), before), _counted(UNCOMPILED, before)))
        first = found if first is None else first
        np.testing.assert_array_equal(found, first)  # the same bits on both ways
    # node by node while the graph is new, then one kernel
    assert ways == sorted(ways) and set(ways) <= {(0, 3), (1, 0)} and ways[-1] == (1, 0)


def test_jit_compiles_at_the_first_call() -> None:
    x, w, b = _operands(64)
    before = wf.counters()
    wf.jit(lambda x, w, b: wf.tanh(x @ w + b))(x, w, b).numpy()
    assert (_counted(("kernels",), before), _counted(UNCOMPILED, before)) == (1, 0)
