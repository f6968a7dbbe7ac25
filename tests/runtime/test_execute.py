"""Programs are kept while they are in use, and no more than a fixed number of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
import weft.schedule.build
from weft.devices import get_device
from weft.devices.cpu.native import compile
from weft.process.bounded_cache import BoundedCache
from weft.runtime import execute


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The first extent of each graph that is compiled, with room for 4 recent programs."""
    found: list[int] = []
    build = weft.schedule.build.build

    def counted(graph: Any, *rest: Any) -> Any:
        found.append(graph.outputs[0].shape[0])
        return build(graph, *rest)

    monkeypatch.setattr(weft.schedule.build, "build", counted)
    monkeypatch.setattr(execute, "PROGRAMS", BoundedCache(4, fewest=1))
    for name in ("MIN_PROGRAM", "NODE", "STEP"):
        monkeypatch.setattr(execute, name, 1.0 if name == "MIN_PROGRAM" else 0.0)
    return found


def look(n: int) -> None:
    x = np.random.default_rng().normal(size=(n, 3)).astype(np.float32)
    assert np.array_equal((wf.asarray(x) * 2 + 1).numpy(), x * 2 + 1)


@pytest.mark.usefixtures("lazy")
def test_programs_do_not_pile_up_and_what_is_dropped_is_made_again(built: list[int]) -> None:
    for n in range(1, 31):
        look(n)
        assert len(execute.PROGRAMS) <= 8
    assert built == list(range(1, 31))
    look(1)
    assert built[30:] == [1]


@pytest.mark.usefixtures("lazy")
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


@pytest.mark.usefixtures("lazy")
def test_ever_new_shapes_take_no_more_mappings_and_no_more_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """``tests/soak/shapes.py`` does it with 30,000."""
    known = get_device().compiler
    monkeypatch.setattr(execute, "PROGRAMS", BoundedCache(16 * execute.MIN_PROGRAM))
    monkeypatch.setattr(compile, "MAX_UNUSED_KERNELS", 20)
    known.sweep()
    kernels, used = len(known.kernels), known.memory.used_bytes()
    mappings, most = [], 0
    for n in range(1001, 1121):
        look(n)
        mappings.append(len(Path("/proc/self/maps").read_text().splitlines()))
        most = max(most, known.memory.used_bytes() - used)
    held = len(execute.PROGRAMS) + kernels  # programs elsewhere hold theirs
    assert len(execute.PROGRAMS) <= 33 and len(known.kernels) <= 2 * held + 20
    assert max(mappings[40:]) - min(mappings[40:]) <= 4
    assert most <= (2 * held + 20) * 4 * 4096
    execute.PROGRAMS.newest.clear()
    execute.PROGRAMS.older.clear()
    assert known.sweep() > 0 and known.memory.used_bytes() <= used
    look(1001)


def test_what_is_found_again_is_what_was_used_last() -> None:
    found = BoundedCache(3, fewest=1)
    for k in range(9):
        found.put(k, str(k))
        assert found.get(k) == str(k) and (k < 1 or found.get(k - 1) == str(k - 1))
    assert found.get(0) is None and found.get("x") is None
    heavy = BoundedCache(10, fewest=4)
    for k in range(20):
        heavy.put(k, k, 100)  # each weighs more than there is room
    assert sorted(heavy.newest | heavy.older) == list(range(12, 20)) and len(heavy) == 8  # the last 4, and 4 of before
