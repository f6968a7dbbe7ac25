"""``make fuzz``: random programs for some minutes; a mismatch is made small and printed, and the exit code is 1."""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections import Counter

from tests.fuzz.program import parse
from tests.fuzz.runner import Outcome, Runner, seeds
from tests.fuzz.shrink import shrunk


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long")
    parser.add_argument("--seed", type=int, default=None, help="the first seed; by default one of today's date")
    parser.add_argument("--count", type=int, default=None, help="how many programs at most")
    parser.add_argument("--family", default=None, help="programs of one family only")
    parser.add_argument("--shrink", type=float, default=90.0, help="seconds for making each new kind of mismatch small")
    parser.add_argument("--most", type=int, default=10, help="end after so many mismatches")
    asked = parser.parse_args()
    first = asked.seed if asked.seed is not None else int(datetime.date.today().strftime("%y%m%d")) * 100_000
    begun = time.monotonic()
    levels: Counter[str] = Counter()
    done = 0
    with Runner() as runner:
        for outcome in seeds(runner, first, asked.count, begun + 60 * asked.minutes, asked.family):
            done += 1
            if outcome.level is None:
                continue
            levels[outcome.level] += 1
            small = shrunk(runner, outcome, asked.shrink) if asked.shrink and levels[outcome.level] <= 4 else outcome
            report(small, done)
            if sum(levels.values()) >= asked.most:
                break
    print(summary(runner, done, time.monotonic() - begun, levels, first))
    return 1 if levels else 0


def report(outcome: Outcome, after: int) -> None:
    print(f"\n==== seed {outcome.seed} (program {after}): {outcome.level}\n{(outcome.message or '')[:3000]}\n")
    print(f"{outcome.program}\n\n# as a script\n{parse(outcome.program).python()}", flush=True)


def summary(runner: Runner, done: int, seconds: float, levels: Counter[str], first: int) -> str:
    counters = runner.record.counters
    lines = [f"{done} programs from seed {first} in {seconds:.0f} s: {sum(levels.values())} with a mismatch {dict(levels) or ''}"]
    for name in ("other", "results", "paths"):
        lines.append(f"{name}: " + ", ".join(f"{k} {v}" for k, v in sorted(counters[name].items())))
    for name in ("primitives", "functions"):
        lines.append(f"{name}: {len(counters[name])} different")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
