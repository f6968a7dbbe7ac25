"""A fixed set of random programs, the matrix of ways of writing code, and what the fuzzer has found before.

`make fuzz` goes on where this ends. All of it runs in a worker process, so that a crash or a hang is a failed program.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import weft as wf
from tests.fuzz import paths, tour
from tests.fuzz.elementwise import SMALL
from tests.fuzz.families import FAMILIES, grown
from tests.fuzz.grow import BELOW_A_BYTE, FLOATS
from tests.fuzz.program import Program, parse, parse_many
from tests.fuzz.runner import Outcome, Runner
from weft.graph.primitives import TABLE
from weft.graph.primitives.table import LAZY_ENTRIES

pytestmark = pytest.mark.xdist_group("fuzz")  # what the programs have met is counted in one process

# of expressions there is one for each public function
COUNTS = {"derivative": 22, "mutation": 40, "alias": 15, "state": 60, "large": 4}
CORPUS = parse_many((Path(__file__).parent / "corpus.txt").read_text())
SHARE = 5  # every dtype and every monoid is met in each case, but one in so many of the pairs


class Done:
    """What the programs of this file came to: each set of them runs once, for whoever asks first."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.sets: dict[str, list[Outcome]] = {}

    def __call__(self, name: str) -> list[Outcome]:
        if name not in self.sets:
            self.sets[name] = list(SETS[name](self.runner))
        return self.sets[name]


@pytest.fixture(scope="module")
def done() -> Iterator[Done]:
    with Runner() as runner:
        yield Done(runner)


def found(runner: Runner) -> Iterator[Outcome]:
    """What was found once."""
    return (runner.program(str(program)) for _, program in CORPUS)


def public(runner: Runner) -> Iterator[Outcome]:
    """A program for each public function that no program before it has called."""
    met: set[str] = set()
    for name in tour.public():
        if name not in met:
            outcome = runner.seed(0, None, name)
            met |= tour.called(parse(outcome.program))
            assert name in met, f"the program for wf.{name} does not call it:\n{outcome.program}"
            yield outcome


def formats(runner: Runner) -> Iterator[Outcome]:
    """A program for each float format and each integer below a byte."""
    names = [*(f"'{form}'" for form in (*FLOATS, *SMALL)), *(f"), '{form}')" for form in BELOW_A_BYTE)]
    for name in names:
        yield runner.seed(next(k for k in itertools.count() if name in str(grown(k, "expression"))), "expression")


def matrix() -> list[tuple[str, str, str]]:
    """Cases of the matrix: with each dtype, and with each monoid, but only a part of the pairs."""
    names = list(paths.REDUCTIONS)
    return [
        (name, monoid, dtype) for name, monoid, dtype in paths.cases()
        if not monoid or (names.index(name) + paths.MONOIDS.index(monoid) + paths.DTYPES.index(dtype)) % SHARE == 0
    ]


def ways(runner: Runner) -> Iterator[Outcome]:
    """Each program fails where no kernel went the way that it is meant for."""
    return (runner.program(str(paths.program(*case, seed=0))) for case in matrix())


def seeds(family: str, count: int) -> Callable[[Runner], Iterator[Outcome]]:
    return lambda runner: (runner.seed(k, family) for k in range(count))


SETS: dict[str, Callable[[Runner], Iterator[Outcome]]] = {
    "found once": found, "public functions": public, "formats": formats, "ways of writing code": ways,
    **{family: seeds(family, count) for family, count in COUNTS.items()},
}


@pytest.mark.parametrize("name", SETS)
def test_programs(done: Done, name: str) -> None:
    outcomes = done(name)
    wrong = [o for o in outcomes if o.level is not None]
    assert not wrong, f"{len(wrong)} of {len(outcomes)}\n\n" + "\n\n".join(map(failed, wrong))


def failed(outcome: Outcome) -> str:
    return f"{outcome.level}: {outcome.message}\n\n{outcome.program}\n\n# as a script\n{parse(outcome.program).python()}"


def test_the_matrix_has_all_cases_monoids_and_dtypes() -> None:
    every, some = paths.cases(), matrix()
    assert {(n, d) for n, _, d in every if n not in paths.REDUCTIONS} <= {(n, d) for n, _, d in some}
    assert {(n, m) for n, m, _ in every} == {(n, m) for n, m, _ in some}
    assert {(m, d) for _, m, d in every} == {(m, d) for _, m, d in some}


def test_every_primitive_dtype_and_way_is_met(done: Done, request: pytest.FixtureRequest) -> None:
    """By the programs above, with results that prove something."""
    alone = "PYTEST_XDIST_WORKER" not in os.environ
    assert alone or request.node.nodeid.endswith("@fuzz"), "pytest-xdist does not know the group: its processes run all twice"
    for name in SETS:
        done(name)
    done.runner.restart()  # what a worker has met it says at its end
    counters = done.runner.record.counters
    met = {name.split()[0] for name in counters["primitives"]}
    hosted = {name for names in LAZY_ENTRIES.values() for name in names.split()}  # run by NumPy, and tested by themselves
    marks = {"guard", "after_step"}  # of loops under vmap: tests/transforms/test_batched_loops.py
    assert {name for name, op in TABLE.items() if op.kind != "leaf" and name not in hosted | marks} <= met
    dtypes = {name.split()[1] for name in counters["primitives"]}
    dtypes = {name for name in dtypes if not name.startswith("float_")}  # without those that programs make
    assert dtypes == {d.name for d in wf.dtypes.ALL}
    good, poor = counters["results"]["good"], counters["results"]["poor"]
    assert good > 9 * poor, f"{poor} programs gave zeros or NaN, {good} did not"
    assert WAYS <= set(counters["paths"]), sorted(WAYS - set(counters["paths"]))


TABLES = paths.REDUCTIONS, paths.MAPS, paths.PRODUCTS, paths.ROUNDED_PRODUCTS, paths.CONVOLUTIONS
WAYS = {way for cases in TABLES for way, *_ in cases.values()
        if way and way not in ("tile running", "convolution")} | {"scatter", "parallel", "chunks"}


def test_programs_are_plain_text() -> None:
    """What is printed is read again, and is the same program; seeds grow the same program every time."""
    for family in FAMILIES:
        for seed in (1, 2):
            program = grown(seed, family)
            assert parse(str(program)) == program and grown(seed, family) == program
    assert all(isinstance(p, Program) and p.lines and comment for comment, p in CORPUS)
