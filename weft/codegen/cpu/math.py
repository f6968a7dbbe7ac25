"""Mathematical functions: own vector polynomials where they exist, else the C library."""

from __future__ import annotations

from weft.codegen.cpu.libm import libm
from weft.codegen.cpu.machine import Ops

__all__ = ["function", "libm"]


def function(o: Ops, op: str, t: str, args: list[str]) -> str:
    """One of kernel.MACHINE's functions on float or double registers."""
    return libm(o, op, t, args)
