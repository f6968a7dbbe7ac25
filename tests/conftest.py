"""Shared set-up: every run starts from an empty cache folder, and a skip outside the committed list is a failure."""

from __future__ import annotations

import os
import random
import signal
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if "PYTEST_XDIST_WORKER" not in os.environ:  # the processes of one run share what they compile
    _cache = tempfile.TemporaryDirectory(prefix="weft-test-cache-")
    os.environ["WEFT_CACHE"] = _cache.name
from tests import oracle  # noqa: E402, F401  the table of primitives is complete; and the cache's folder is known before
from weft.runtime.context import CONTEXT  # noqa: E402

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it; the tests of Ctrl-C need it

ALLOWED_SKIPS = {
    line.split("#")[0].strip()
    for line in (Path(__file__).parent / "allowed_skips.txt").read_text().splitlines()
    if line.split("#")[0].strip()
}
_foreign_skips: list[str] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every-case", action="store_true", help="run all cases of the tests marked drawn(n), not n of each")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of each test marked ``drawn(n)`` run n cases, which every run draws anew; all of them if they are asked for by name."""
    if config.getoption("every_case") or any("::" in argument for argument in config.args):
        return
    seed = os.environ.get("PYTEST_XDIST_TESTRUNUID") or random.random()  # the processes of one run draw the same
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("drawn"):
            cases.setdefault(item.nodeid.split("[")[0], []).append(item)
    left: set[pytest.Item] = set()
    for name, found in cases.items():
        (count,) = found[0].get_closest_marker("drawn").args
        left.update(found)
        left.difference_update(random.Random(f"{seed} {name}").sample(found, min(count, len(found))))
    items[:] = [item for item in items if item not in left]
    config.hook.pytest_deselected(items=[*left])


@pytest.fixture
def rng(request) -> np.random.Generator:
    """Fresh random data for every run; the seed is printed when a test fails."""
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    request.node.add_report_section("call", "seed", f"seed {seed}")
    return np.random.default_rng(seed)


@pytest.fixture
def some(request: pytest.FixtureRequest, rng: np.random.Generator) -> Callable[[Iterable[Any], int], list[Any]]:
    """Return a function that draws n of a loop's cases, in their order; all of them with --every-case."""

    def draw(cases: Iterable[Any], count: int) -> list[Any]:
        found = list(cases)
        if request.config.getoption("every_case") or count >= len(found):
            return found
        return [found[k] for k in sorted(rng.choice(len(found), count, replace=False))]

    return draw


@pytest.fixture
def lazy() -> Iterator[None]:
    """However small or new, nothing runs but what is compiled at a look: what a test says of looks, kernels and counts."""
    before = CONTEXT.max_eager_bytes, CONTEXT.compile_threshold
    CONTEXT.max_eager_bytes = 0
    CONTEXT.compile_threshold = 0.0
    yield
    CONTEXT.max_eager_bytes, CONTEXT.compile_threshold = before


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail") and report.nodeid.split("[")[0] not in ALLOWED_SKIPS:
        _foreign_skips.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if _foreign_skips and session.exitstatus == 0:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter) -> None:
    for nodeid in _foreign_skips:
        terminalreporter.write_line(f"SKIPPED but not in tests/allowed_skips.txt: {nodeid}", red=True)
