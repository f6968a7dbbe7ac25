"""Descriptions and measurements of the CPU: features, threads, cache, versions; operations and bytes per second."""

from __future__ import annotations

import ctypes
import platform
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from weft.devices.cpu.native import pool_ir
from weft.devices.cpu.native.code_key import cpu_model
from weft.devices.cpu.native.compile import function
from weft.devices.cpu.native.host_cpu import host
from weft.devices.cpu.native.routine import Body, Routine, Value, routine, text_of_all

_CHAINS = 12  # independent sums: enough to hide the latency of fma on two units
SIZES = tuple(1 << k for k in (15, 17, 19, 21, 23, 25, 27))  # bytes read and written together
_ROUNDS = 1 << 15  # 0.1 ms: short enough to run undisturbed now and then on a busy machine


def describe(device: Any, measure: bool = False) -> dict[str, Any]:
    """Describe the CPU. ``measure`` adds one core's fused multiply-add peak and copy bandwidth (half a second)."""
    import llvmlite.binding as llvm

    isa, cache = host(), device.compiler.cache
    entries, size = cache.size()
    out = {
        "device": "cpu", "model": cpu_model(), "machine": platform.machine(), "vector_bits": isa.bits,
        "vector_registers": isa.registers, "fma": isa.fma, "l1_bytes": isa.l1, "l2_bytes": isa.l2,
        "features": [f[1:] for f in isa.features.split(",") if f.startswith("+")], "threads": device.pool.threads,
        "cache_folder": str(cache.folder), "cache_entries": entries, "cache_bytes": size,
        "memory_idle_bytes": device.allocator.idle_bytes(),
        "versions": {name: _version(name) for name in ("weft", "numpy", "llvmlite", "ml_dtypes")} | {
            "python": platform.python_version(), "llvm": ".".join(map(str, llvm.llvm_version_info)),
        },
    }
    if measure:
        figures = measure_speed(device, 1)
        out |= {"fma_peak_flops": figures["flops"], "copy_bytes_per_second": figures["bandwidth"][-1][1]}
    return out


def measure_speed(device: Any, threads: int, clock: Callable[[], float] = time.perf_counter) -> dict[str, Any]:
    """Measure ``flops``, float32 operations per second, and ``bandwidth``, pairs (bytes touched, bytes per second).

    A CPU that multiplies bfloat16 also has ``bfloat16_flops``, operations on bfloat16 per second. Takes about half a second.
    clock : for the bandwidth; with one thread, a process-time clock excludes other processes
    """
    lanes, pairs = host().bits // 32, host().multiplies_bfloat16
    native = device.compiler.module(_text(lanes, device.native and threads, pairs))
    sink = device.allocate(threads * 4096)
    args = (ctypes.c_int64 * 1)(sink.address)
    rates = {}
    for name, key, operations in (("fma", "flops", 2), *[("pairs", "bfloat16_flops", 4)] * pairs):
        run = function(native[f"weft_measure_{name}"], ctypes.c_void_p)
        rates[key] = threads * operations * _CHAINS * lanes * _ROUNDS / fastest(partial(run, args), 100)
    copy = function(native["weft_measure_copy"], ctypes.c_void_p)
    source, target = device.allocate(SIZES[-1] // 2), device.allocate(SIZES[-1] // 2)
    ctypes.memset(source.address, 1, SIZES[-1] // 2)
    ctypes.memset(target.address, 1, SIZES[-1] // 2)
    bandwidth = []
    for size in SIZES:
        share = size // 2 // threads // 64 * 64
        rounds = max(1, (1 << 21) // size)
        words = (ctypes.c_int64 * 4)(source.address, target.address, share, rounds)
        copy(words)
        best = fastest(partial(copy, words), 6 if size > 1 << 23 else 50, clock)
        bandwidth.append((size, 2 * share * threads * rounds / best))
    return {"threads": threads, "bandwidth": bandwidth, **rates}


@routine("void fma.body(ptr args, i64 chunk, i64 worker)")
def fma_body(f: Body, args: Value, chunk: Value, worker: Value) -> None:
    sink = f.array(f.array(args, "ptr")[0], "i8")
    f.call_address(Value(f, "ptr", "@weft_fma_peak"), sink.at(chunk * 4096))  # of ``fma_text``


@routine("void pairs.body(ptr args, i64 chunk, i64 worker)")
def pairs_body(f: Body, args: Value, chunk: Value, worker: Value) -> None:
    sink = f.array(f.array(args, "ptr")[0], "i8")
    f.call_address(Value(f, "ptr", "@weft_pairs_peak"), sink.at(chunk * 4096))  # of ``pairs_text``


@routine("void copy.body(ptr args, i64 chunk, i64 worker)")
def copy_body(f: Body, args: Value, chunk: Value, worker: Value) -> None:
    pointers, words = f.array(args, "ptr"), f.array(args)
    source, target, share = f.array(pointers[0], "i8"), f.array(pointers[1], "i8"), words[2]
    at = chunk * share
    with f.count_to(words[3]):
        f.copy(target.at(at), source.at(at), share)


def _text(lanes: int, threads: int, pairs: bool) -> str:
    """Return LLVM text of ``weft_measure_fma``, ``weft_measure_copy`` and, if ``pairs``, ``weft_measure_pairs``.

    Each thread has its own part of the memory.
    """

    def measured(name: str, body: Routine) -> Routine:
        @routine(f"void weft_measure_{name}(ptr args)", exported=True)
        def run(f: Body, args: Value) -> None:
            owner = f.call(pool_ir.enter, threads)
            f.call(pool_ir.parallel, f.address(body), args, threads)
            f.call(pool_ir.leave, owner)

        return run

    routines = [fma_body, copy_body, measured("fma", fma_body), measured("copy", copy_body)]
    routines += [pairs_body, measured("pairs", pairs_body)] if pairs else []
    loops = fma_text(lanes, _ROUNDS) + (pairs_text(lanes, _ROUNDS) if pairs else "")
    return loops.replace("define void", "define internal void") + text_of_all(routines)


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
    return _loop_text("fma", rounds, v, v, f"@llvm.fma.v{lanes}f32({v}, {v}, {v})", f"({v} {{sum}}, {v} %a, {v} %b)")


def pairs_text(lanes: int, rounds: int) -> str:
    """Return LLVM text of ``weft_pairs_peak(sink)``: a loop that adds products of pairs of bfloat16 to float32."""
    v, p = f"<{lanes} x float>", f"<{2 * lanes} x bfloat>"
    name = f"@llvm.x86.avx512bf16.dpbf16ps.{32 * lanes}({v}, {p}, {p})"
    return _loop_text("pairs", rounds, v, p, name, f"({v} {{sum}}, {p} %a, {p} %b)")


def _loop_text(name: str, rounds: int, v: str, operand: str, intrinsic: str, arguments: str) -> str:
    """Return LLVM text of ``weft_{name}_peak(sink)``, a loop that computes ``_CHAINS`` independent sums of type ``v``.

    operand : type of ``%a`` and ``%b``, whose elements are 0.5. arguments : of the intrinsic, with ``{sum}``
    """
    count, element = operand.strip("<>").split(" x ")
    half = f"{operand} <{', '.join([f'{element} 0.5'] * int(count))}>"
    called = intrinsic.partition("(")[0]
    start = "\n".join(f"  %p{i} = phi {v} [ zeroinitializer, %entry ], [ %q{i}, %head ]" for i in range(_CHAINS))
    step = "\n".join(f"  %q{i} = call {v} {called}{arguments.format(sum=f'%p{i}')}" for i in range(_CHAINS))
    end = "\n".join(
        f"  %o{i} = getelementptr {v}, ptr %sink, i64 {i}\n  store {v} %q{i}, ptr %o{i}, align 4" for i in range(_CHAINS)
    )
    return f"""
@weft_{name}_operand = internal constant {half}
declare {v} {intrinsic}
define void @weft_{name}_peak(ptr %sink) nounwind {{
entry:
  %a = load volatile {operand}, ptr @weft_{name}_operand, align 4
  %b = load volatile {operand}, ptr @weft_{name}_operand, align 4
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
