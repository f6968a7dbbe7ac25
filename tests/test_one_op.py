"""docs/one-op.md names what exists and shows what the code prints."""

from __future__ import annotations

import re
from pathlib import Path

import weft as wf
from weft.array import wrap
from weft.dtypes.formats import FLOAT32
from weft.graph.node import Graph
from weft.graph.primitives import input_leaf
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
    assert len({path for path in named if path.startswith("weft")}) == 12  # as the page says
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_functions_exist() -> None:
    pairs = re.findall(r"`(\w+)` (?:in |\()`(weft/[\w./-]+)`", PAGE)
    assert len(pairs) >= 7
    missing = [p for p in pairs if not re.search(rf"^(def|class) {p[0]}\b", (ROOT / p[1]).read_text(), re.M)]
    assert missing == []


def test_graph_and_kernel_are_what_the_code_prints() -> None:
    float32 = FLOAT32
    x, w, b = input_leaf((64, 100), float32), input_leaf((100, 30), float32), input_leaf((30,), float32)
    y = wf.tanh(wrap(x) @ wrap(w) + wrap(b))
    graph = Graph([x, w, b], [y.node])
    program = build(graph)
    assert repr(graph) == _shown("graph")
    assert len(program.steps) == 1
    assert print_kernel(program.steps[0].kernel).strip() == _shown("kernel")
