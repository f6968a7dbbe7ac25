"""Programs are kept while they are in use, and no more than a fixed number of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
import weft.schedule.build
from weft import execute
from weft.recent import Recent


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The first extent of each graph that is compiled, with room for 4 recent programs."""
    found: list[int] = []
    build = weft.schedule.build.build

    def counted(graph: Any) -> Any:
        found.append(graph.outputs[0].shape[0])
        return build(graph)

    monkeypatch.setattr(weft.schedule.build, "build", counted)
    monkeypatch.setattr(execute, "PROGRAMS", Recent(4, fewest=1))
    for name in ("LEAST", "NODE", "STEP"):
        monkeypatch.setattr(execute, name, 1.0 if name == "LEAST" else 0.0)
    return found


def look(n: int) -> None:
    x = np.random.default_rng().normal(size=(n, 3)).astype(np.float32)
    assert np.array_equal((wf.asarray(x) * 2 + 1).numpy(), x * 2 + 1)


def test_programs_do_not_pile_up_and_what_is_dropped_is_made_again(built: list[int]) -> None:
    for n in range(1, 31):
        look(n)
        assert len(execute.PROGRAMS) <= 8
    assert built == list(range(1, 31))
    look(1)
    assert built[30:] == [1]


def test_the_last_used_are_found_again_whatever_their_age(built: list[int]) -> None:
    for n in range(1, 41):
        look(100)  # among the last two used all the time
        look(n)
    assert built.count(100) == 1
    for start in range(200, 212):
        recent = range(start, start + 4)
        for n in recent:
            look(n)
        before = len(built)
        for n in recent:
            look(n)
        assert len(built) == before
