"""CPU properties that code generation depends on, derived from feature flags, never from the CPU's name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

LINE = 64  # bytes of a cache line


def round_to_line(nbytes: int) -> int:
    return -(-nbytes // LINE) * LINE


@dataclass(frozen=True, slots=True)
class ISA:
    """Vector registers and caches of one target.

    bits: vector width. registers: number of vector registers. fma: fused multiply-add in hardware.
    l1, l2: bytes of data cache per core. features: LLVM's feature string.
    dot: instruction that sums products of integers: "vnni" (four bytes), "madd" (two 16-bit integers), "" for none.
    """

    bits: int
    registers: int
    fma: bool
    l1: int
    l2: int
    features: str
    dot: str = ""

    @property
    def has_halves(self) -> bool:
        """Return whether an instruction converts float16 to float32."""
        return "+f16c" in self.features.split(",")

    @property
    def multiplies_bfloat16(self) -> bool:
        """Return whether an instruction sums products of pairs of bfloat16 in vectors of full width."""
        return self.bits == 512 and "+avx512bf16" in self.features.split(",")

    def lanes(self, itemsize: int) -> int:
        return self.bits // (8 * itemsize)


def _read_cache_bytes(level: int, default: int) -> int:
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if int((folder / "level").read_text()) != level or (folder / "type").read_text().strip() == "Instruction":
                continue
            text = (folder / "size").read_text().strip()
            return int(text.rstrip("KMG")) * {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1], 1)
        except (OSError, ValueError):
            continue
    return default


def isa_from_features(features: dict[str, bool], l1: int = 32 << 10, l2: int = 512 << 10) -> ISA:
    """Return the ISA that a set of feature flags describes."""
    arm = any(features.get(k) for k in ("neon", "asimd", "fp-armv8"))
    text = ",".join(("+" if on else "-") + name for name, on in sorted(features.items()))
    if all(features.get(k) for k in ("avx512f", "avx512bw", "avx512dq", "avx512vl")):
        return ISA(512, 32, True, l1, l2, text, "vnni" if features.get("avx512vnni") else "madd")
    if features.get("avx2"):
        return ISA(256, 16, bool(features.get("fma")), l1, l2, text, "vnni" if features.get("avxvnni") else "madd")
    dot = "madd" if features.get("sse2") else ""
    return ISA(128, 32 if arm else 16, arm or bool(features.get("fma")), l1, l2, text, dot)


@lru_cache(maxsize=1)
def host_isa() -> ISA:
    """Return the ISA of this machine. The first call imports llvmlite."""
    import platform

    import llvmlite.binding as llvm

    features = dict(llvm.get_host_cpu_features())
    if not features and platform.machine().lower() in ("arm64", "aarch64"):
        features = {"neon": True}
    return isa_from_features(features, _read_cache_bytes(1, 32 << 10), _read_cache_bytes(2, 512 << 10))
