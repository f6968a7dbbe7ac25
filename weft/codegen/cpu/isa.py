"""What the generator must know of a CPU, from its feature flags, never from its name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ISA:
    """One target.

    bits: vector width. registers: number of vector registers. fma: fused multiply-add in hardware.
    l1, l2: bytes of data cache a core. features: LLVM's feature string.
    """

    bits: int
    registers: int
    fma: bool
    l1: int
    l2: int
    features: str

    def lanes(self, itemsize: int) -> int:
        return self.bits // (8 * itemsize)
