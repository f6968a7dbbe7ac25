"""The first optimisation level of a kernel, and the number of runs before recompilation: by estimates, never by a clock.

Measured over the kernels of training steps: compiling at level 3 of LLVM's code generation instead of 0 takes 0.2 to 0.5 us more
per byte of text. Code of level 0 takes twice the time. Estimates of a kernel's time are three times the actual time, so the loss
is a third of the estimate (more for gradients of convolutions).

A kernel with long estimated time starts at level 3 (convolutions, large products). A Program's kernels are compiled again after
2 to 256 runs, the fewer the more is lost. Both levels give equal bits, since only SROA changes the text, and it runs at both.
The old code stays as long as its kernel, because a thread may be running it. ``weft.devices.settle()`` waits for the better
code.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.devices.cpu.native.emission import HIGH, LOW

US_PER_BYTE = 0.3
LEVEL_0_LOSS = 0.35  # share of the estimated time that level 0 loses
HELPER_START_US = 60_000.0  # microseconds to start the recompiling process
EARLY_FACTOR = 16  # recompile when the lost time is this fraction of the cost: a program that runs twice usually runs often
MIN_RUNS, MANY = 2, 256  # bounds of the number of runs


def cost_of(ir: str) -> float:
    """Return the estimated extra microseconds of compiling at the high level."""
    return len(ir) * US_PER_BYTE


def level_of(us: float, cost: float) -> int:
    """Return the level at which to compile a kernel that takes ``us`` microseconds per run."""
    return HIGH if LEVEL_0_LOSS * us >= cost else LOW


def runs_until(costs: Iterable[float], us: float) -> int:
    """Return after how many runs to recompile kernels that together take ``us`` microseconds per run."""
    return max(MIN_RUNS, min(MANY, int((HELPER_START_US + sum(costs)) / (EARLY_FACTOR * LEVEL_0_LOSS * max(us, 1.0)))))
