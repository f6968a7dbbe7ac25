"""The CPU's part of `weft info`: features, threads, cache, versions, and two measured figures."""

from __future__ import annotations

import ctypes
import platform
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from weft.devices.cpu.native.code_key import cpu_model
from weft.devices.cpu.native.compile import function
from weft.devices.cpu.native.host_cpu import host

_CHAINS = 12  # independent sums: enough to hide the latency of fma on two units


def describe(device: Any, measure: bool = False) -> dict[str, Any]:
    """Describe the CPU. ``measure`` adds one core's fused multiply-add peak and copy bandwidth (about 0.2 s)."""
    isa = host()
    cache = device.compiler.cache
    entries, size = cache.size()
    out = {
        "device": "cpu",
        "model": cpu_model(),
        "machine": platform.machine(),
        "vector_bits": isa.bits,
        "vector_registers": isa.registers,
        "fma": isa.fma,
        "l1_bytes": isa.l1,
        "l2_bytes": isa.l2,
        "features": [f[1:] for f in isa.features.split(",") if f.startswith("+")],
        "threads": device.pool.threads,
        "cache_folder": str(cache.folder),
        "cache_entries": entries,
        "cache_bytes": size,
        "memory_idle_bytes": device.allocator.idle_bytes(),
        "versions": {name: _version(name) for name in ("weft", "numpy", "llvmlite", "ml_dtypes")} | {
            "python": platform.python_version(), "llvm": _llvm_version(),
        },
    }
    if measure:
        out["fma_peak_flops"] = fma_peak(device, isa)
        out["copy_bytes_per_second"] = copy_bandwidth(device)
    return out


def fma_peak(device: Any, isa: Any) -> float:
    """Measure float32 operations per second of one core, in a loop of fused multiply-adds."""
    rounds = 1 << 20
    run = function(device.compiler.module(fma_text(isa.bits // 32, rounds))["weft_fma_peak"], ctypes.c_void_p)
    sink = device.allocate(4096)
    return 2 * _CHAINS * (isa.bits // 32) * rounds / fastest(lambda: run(sink.address))


def copy_bandwidth(device: Any, nbytes: int = 64 << 20) -> float:
    """Measure bytes read and written per second by one core that copies memory far larger than its caches."""
    source, target = device.allocate(nbytes), device.allocate(nbytes)
    args = (ctypes.c_int64 * 3)(source.address, target.address, nbytes)
    run = function(device.native["weft_copy"], ctypes.c_void_p)
    ctypes.memset(source.address, 1, nbytes)
    run(args)  # touches the pages
    return 2 * nbytes / fastest(lambda: run(args))


def fastest(run: Callable[[], Any], times: int = 5, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the seconds of the fastest of ``times`` runs."""
    best = float("inf")
    for _ in range(times):
        start = clock()
        run()
        best = min(best, clock() - start)
    return best


def fma_text(lanes: int, rounds: int) -> str:
    """Return LLVM text of ``weft_fma_peak(sink)``: a loop of fused multiply-adds, whose sums tend to 1.

    The operands are constants: uninitialised memory sometimes contained denormal numbers, which take 300 times as long.
    """
    v = f"<{lanes} x float>"
    half = f"{v} <{', '.join(['float 0.5'] * lanes)}>"
    start = "\n".join(f"  %p{i} = phi {v} [ zeroinitializer, %entry ], [ %q{i}, %head ]" for i in range(_CHAINS))
    step = "\n".join(f"  %q{i} = call {v} @llvm.fma.v{lanes}f32({v} %p{i}, {v} %a, {v} %b)" for i in range(_CHAINS))
    end = "\n".join(
        f"  %o{i} = getelementptr {v}, ptr %sink, i64 {i}\n  store {v} %q{i}, ptr %o{i}, align 4" for i in range(_CHAINS)
    )
    return f"""
@weft_fma_operand = internal constant {half}
declare {v} @llvm.fma.v{lanes}f32({v}, {v}, {v})
define void @weft_fma_peak(ptr %sink) nounwind {{
entry:
  %a = load volatile {v}, ptr @weft_fma_operand, align 4
  %b = load volatile {v}, ptr @weft_fma_operand, align 4
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %head ]
{start}
{step}
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, {rounds}
  br i1 %more, label %head, label %done
done:
{end}
  ret void
}}
"""


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _llvm_version() -> str:
    import llvmlite.binding as llvm

    return ".".join(map(str, llvm.llvm_version_info))
