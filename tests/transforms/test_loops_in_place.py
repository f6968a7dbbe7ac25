"""Loops that read and write one array: NumPy's answers, and nothing is copied from turn to turn."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.schedule.build import build
from weft.schedule.program import Loop

# statements of a loop's turn k on a table t, each of which changes a few of its elements
VECTOR = (
    "t[k] = 1", "t[k] = t[k] * 2", "t[k] = t[k - 1] * 2", "t[k] = t[k - 1] + t[k - 2]", "t[k] = t[k - 1] + t[k + 1]",
    "t[k] += t[k - 1]", "t[k] = t[3]", "t[3] = t[k]", "t[1] = t[2] + t[3]", "t[1:4] = t[2:5] * 2", "t[k] = t[(k * 7) % 60]",
    "xp.add.at(t, k, t[k - 1])", "t[xp.stack([k, k + 2])] = t[xp.stack([k + 1, k - 1])]",
    "t[k + xp.arange(3)] = t[k - xp.arange(3)]",
    "t[k] = xp.where(t[k - 1] > 0, t[k - 1], t[k])", "t[k], t[k + 1] = t[k + 1], t[k]", "t[k] = t[k - 1]; t[k + 1] = t[k] * 2",
    "t[k] = t[k - 1]; t[k - 1] = 0", "t[k] = 1; t[k + 1] = 2; t[k - 1] = t[0]", "t[2:8:3] = t[k]",
    "t[k] = t[k - xp.arange(2)].sum()",
)
ROWS = (
    "t[k] = 1", "t[k] = t[k - 1] * 2", "t[k] = t[k - 1] + t[k - 2]", "t[k, 1:] = t[k - 1, :-1]",
    "t[k, 1:] = t[k - 1, :-1] + t[k, 1:]",
    "t[k, 0] = t[k - 1, 1]", "t[k] = t[k - 1].sum()", "t[k] = t[k - 1] @ xp.ones((4, 4), dtype=t.dtype)",
    "t[k] = xp.cumsum(t[k - 1])",
    "t[k] = t[k - 1, ::-1]", "t[k, 1] = t[k - 1, 1]; t[k, 2] = t[k, 1]", "t[k] = t[k - 1, 0]",
    "t[k, :2] = t[k - 1, 2:]; t[k, 2:] = t[k - 1, :2]",
    "t[k], t[k - 1] = t[k - 1] + 0, t[k] + 0", "t[k] = t[:4, 2] + 0", "t[k + xp.arange(2)] = t[k - xp.arange(2)]",
)
COLUMNS = (
    "t[:, k] = t[:, k - 1] * 2", "t[:, k] = t[:, k - 1].sum()", "t[1, k] = t[0, k] + t[1, k - 1]", "t[1:, k] = t[:-1, k - 1]",
    "t[::2, k] = t[::-2, k - 1]", "t[:, k] = t[2, k - 1]; t[0, k] = t[1, k]",
)
SHAPES = {(60,): VECTOR, (60, 4): ROWS, (4, 60): COLUMNS}
CASES = [(shape, line) for shape, lines in SHAPES.items() for line in lines]


def turn(lines: list[str], xp: Any) -> Callable[[Any, Any], Any]:
    names: dict[str, Any] = {"xp": xp}
    text = "\n".join(f"    {line}" for line in lines)
    exec(f"def turn(k, t):\n{text}\n    return t", names)
    made: Callable[[Any, Any], Any] = names["turn"]
    return made


def check(lines: list[str], shape: tuple[int, ...], start: np.ndarray) -> Loop:
    """Compare the loop with Python's, jitted and not, given away and kept; the step of its Program."""
    want = start.copy()
    own = turn(lines, np)
    for k in range(2, 57):
        with np.errstate(all="ignore"):
            own(k, want)

    def run(t: Any) -> Any:
        return wf.fori_loop(2, 57, turn(lines, wf), t)

    given = wf.array(start)
    for found in (run(given), wf.jit(run)(given), wf.jit(run)(wf.array(start))):
        np.testing.assert_array_equal(found.numpy(), want, err_msg="; ".join(lines))
    np.testing.assert_array_equal(given.numpy(), start)
    state = wf.array(start)

    @wf.jit
    def update() -> None:
        state[...] = run(state)

    update()
    np.testing.assert_array_equal(state.numpy(), want)
    program = build(wf.jit(run).trace(given).graph)
    (loop,) = [s for s in program.steps if isinstance(s, Loop)]
    return loop


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize(("shape", "line"), CASES)
def test_each_statement(shape: tuple[int, ...], line: str, dtype: str) -> None:
    start = np.random.default_rng().integers(-4, 5, shape).astype(dtype)
    loop = check([line], shape, start)
    assert 0 in loop.in_place, line


def test_random_turns() -> None:
    """Several statements after one another, which read and write what the others do."""
    r = random.Random()
    for _ in range(60):
        shape = r.choice(list(SHAPES))
        lines = [r.choice(SHAPES[shape]) for _ in range(r.choice((2, 2, 3)))]
        start = np.random.default_rng(r.getrandbits(32)).integers(-4, 5, shape).astype("int64")
        loop = check(lines, shape, start)
        assert 0 in loop.in_place, lines


def test_a_turn_does_work_by_what_it_writes() -> None:
    """The bytes that explain counts do not grow with the table."""
    def run(t: Any) -> Any:
        return wf.fori_loop(2, 57, turn(["t[k] = t[k - 1] + t[k - 2]; t[k, 1:] = t[k, :-1]"], wf), t)

    few, many = (sum(k.bytes for k in wf.explain(run, wf.zeros((n, 4))).kernels) for n in (60, 6000))
    assert few == many


def test_writes_in_a_row_share_the_memory_of_the_result() -> None:
    def run(t: Any) -> Any:
        t[1], t[2], t[5] = t[0] * 2, t[1] + 1, 3.0
        t[wf.argmax(t)] = 0.0
        t[wf.argmin(t)] = 1.0
        return t

    given = wf.zeros(1000)
    program = build(wf.jit(run).trace(given).graph)
    assert program.arena < 1000  # no second table
    want = np.zeros(1000, "f")
    want[[1, 2, 5]] = 0, 1, 3
    want[want.argmax()] = 0
    want[want.argmin()] = 1
    np.testing.assert_array_equal(wf.jit(run)(wf.zeros(1000)).numpy(), want)
