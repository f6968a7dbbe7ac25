"""Integers at the edges of machine words in every argument: an error or NumPy's value, in a process with little memory."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.functions.integer_lines import sample

CALLS = 5000
ORDINARY = {"ValueError", "TypeError", "IndexError", "OverflowError", "LinAlgError", "ZeroDivisionError", "MemoryError"}
FINISHES = 30.0  # seconds for a call of weft; they take less than a millisecond on an idle machine
COMPARED = 0.4  # seconds for a call of NumPy, which counts to 2**31 in some
NOT_COMPARED = re.compile("|".join((
    "random", r"mean=|ddof=|correction=|[ar]tol=",  # int64 wraps in NumPy, floats of weft do not
    r"searchsorted\(\[|interp",  # the points are not sorted then
    r"ravel_multi_index\(.*mode=|roll\(",  # 2**63 wraps in NumPy
    "matrix_power|lstsq|density=",  # rounding decides
)))


def answers(library: str, calls: list[str], seconds: float) -> dict[str, list[Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.functions.integer_lines", library, str(seconds)], input=json.dumps(calls),
        capture_output=True, text=True, timeout=1500, cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return {call: answer for call, *answer in map(json.loads, done.stdout.splitlines())}


def numbers(found: list[str]) -> list[complex]:
    return [complex(n) if n not in ("True", "False") else n == "True" for n in found]


def is_same(got: Any, want: Any) -> bool:
    """Whether shapes and integers are equal, and floats close to each other: those of weft are float32."""
    if not (isinstance(got, list) and isinstance(want, list)):
        return bool(got == want)
    if len(got) != 3 or len(want) != 3 or not isinstance(got[1], str):
        return len(got) == len(want) and all(map(is_same, got, want))
    if got[0] != want[0] or {got[1], want[1]} <= set("biu"):
        return bool(got[0] == want[0] and got[2] == want[2])
    a, b = numbers(got[2]), numbers(want[2])
    most = max([abs(n) for n in b if math.isfinite(abs(n))], default=0)
    return all(x == y or (x != x and y != y) or abs(x - y) <= 2e-5 * most or abs(y) > 3e38 for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("seed", [0])
def test_integers_beyond_every_size(seed: int) -> None:
    calls = sample(seed, CALLS)
    found = answers("weft", calls, FINISHES)
    assert found.keys() == set(calls)
    ended = {call: answer for call, answer in found.items() if answer[0] == "ended"}
    assert not ended
    odd = {call: answer for call, answer in found.items() if answer[0] == "raised" and not ORDINARY.intersection(answer[1])}
    assert not odd
    asked = [call for call, answer in found.items() if answer[0] == "gave" or "MemoryError" in answer[1]]
    wanted = answers("numpy", [call for call in asked if not NOT_COMPARED.search(call)], COMPARED)
    compared = {call: (found[call][1], want[1]) for call, want in wanted.items() if want[0] == "gave"}
    wrong = {call: pair for call, pair in compared.items() if not is_same(*pair)}
    assert not wrong
    assert len(compared) > len(calls) // 10
