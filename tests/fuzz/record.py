"""What programs have covered: primitives and dtypes, public functions, ways of generating code, and results worth a test."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracle import is_float
from weft.graph.node import Graph


class Record:
    """Counters of a process; ``data`` and ``add`` carry them from a worker to who started it."""

    def __init__(self) -> None:
        self.counters: dict[str, Counter[str]] = {
            "primitives": Counter(), "functions": Counter(), "paths": Counter(), "results": Counter(), "other": Counter(),
        }

    def graph(self, graph: Graph) -> None:
        for node in graph.order:
            if node.op.kind != "leaf":
                self.counters["primitives"][f"{node.op.name} {node.dtype.name}"] += 1
            if node.op.name == "scan":
                self.graph(node.params["body"].graph)

    def kernel(self, kernel: Any) -> None:
        from tests.fuzz.native import native

        for path in getattr(native(kernel).generated, "paths", ()):
            self.counters["paths"][path] += 1

    def results(self, program: Any, arrays: Sequence[np.ndarray]) -> None:
        """Count a program by whether its results prove something."""
        for name in set(re.findall(r"wf\.((?:nn\.|losses\.|linalg\.|random\.)?\w+)\(", " ".join(program.lines))):
            self.counters["functions"][name] += 1
        for name in set(re.findall(r"\.(\w+)\(", " ".join(program.lines))):
            self.counters["functions"]["." + name] += 1
        self.counters["results"][
            "poor" if all(poor(a) for a in arrays) else "empty" if not any(a.size for a in arrays) else "good"
        ] += 1
        self.counters["other"][f"programs of {program.family}"] += 1

    def count(self, what: str) -> None:
        self.counters["other"][what] += 1

    def data(self) -> dict[str, dict[str, int]]:
        return {k: dict(v) for k, v in self.counters.items()}

    def add(self, data: dict[str, dict[str, int]]) -> None:
        for k, v in data.items():
            self.counters[k].update(v)


def poor(array: np.ndarray) -> bool:
    """Whether a result is made mostly of zeros or NaN: a test of nothing."""
    if not array.size:
        return True
    if is_float(array.dtype):
        array = np.asarray(array, np.float64)
        return np.count_nonzero(np.isfinite(array) & (array != 0)) * 2 < array.size
    return array.size > 8 and (np.count_nonzero(array) * 8 < array.size)


RECORD = Record()
