"""How well LLVM compiles a kernel at first, and after how many runs it does it again: by counts and estimates, never by a clock.

Measured over the kernels of training steps: the better code (level 3 of LLVM's code generation, not 0) takes 0.2 to 0.5
microseconds more for a byte of text. The lesser one takes twice the time; the estimates of a kernel's time are three times what
it takes, so that is a third of the estimate (gradients of convolutions lose more).
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.devices.cpu.native.emission import HIGH, LOW

US_PER_BYTE = 0.3
LOST = 0.35  # of the estimated time
START = 60_000.0  # microseconds that the process takes to start which compiles again
SOONER = 16  # times sooner than when the time lost has paid for it: what runs twice mostly runs for long
FEW, MANY = 2, 256  # runs; the first never asks for more


def cost_of(ir: str) -> float:
    """Microseconds that better code costs."""
    return len(ir) * US_PER_BYTE


def level_of(us: float, cost: float) -> int:
    """At which level a kernel is compiled that a program's run spends ``us`` microseconds in."""
    return HIGH if LOST * us >= cost else LOW


def runs_until(costs: Iterable[float], us: float) -> int:
    """After how many runs of a program the kernels are compiled again in which it spends ``us`` microseconds."""
    return max(FEW, min(MANY, int((START + sum(costs)) / (SOONER * LOST * max(us, 1.0)))))
