"""Measurements with all of weft's threads: fused multiply-adds per second, and bytes per second by working set."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from weft.devices.cpu.native import pool_ir
from weft.devices.cpu.native.compile import function
from weft.devices.cpu.native.describe import fastest, fma_text
from weft.devices.cpu.native.host_cpu import host
from weft.devices.cpu.native.routine import Body, Routine, Signature, Value, routine, text_of_all

SIZES = tuple(1 << k for k in (15, 17, 19, 21, 23, 25, 27))  # bytes read and written together
_ROUNDS = 1 << 15  # 0.1 ms: short enough to run undisturbed now and then on a busy machine


def measure(device: Any, clock: Callable[[], float] = time.perf_counter) -> dict[str, Any]:
    """Measure ``flops``, float32 operations per second, and ``bandwidth``, pairs (bytes touched, bytes per second).

    Takes about half a second. clock : for the bandwidth; with one thread, a process-time clock excludes other processes
    """
    threads = device.pool.threads
    lanes = host().bits // 32
    native = device.compiler.module(_text(lanes, device.native and threads))
    sink = device.allocate(threads * 4096)
    run = function(native["weft_measure_fma"], ctypes.c_void_p)
    args = (ctypes.c_int64 * 1)(sink.address)
    flops = threads * 24 * lanes * _ROUNDS / fastest(lambda: run(args), 100)
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
    return {"threads": threads, "flops": flops, "bandwidth": bandwidth}


@routine("void fma.body(ptr args, i64 chunk, i64 worker)")
def fma_body(f: Body, args: Value, chunk: Value, worker: Value) -> None:
    sink = f.array(f.array(args, "ptr")[0], "i8")
    f.call(_FMA, sink.at(chunk * 4096))


@routine("void copy.body(ptr args, i64 chunk, i64 worker)")
def copy_body(f: Body, args: Value, chunk: Value, worker: Value) -> None:
    pointers, words = f.array(args, "ptr"), f.array(args)
    source, target, share = f.array(pointers[0], "i8"), f.array(pointers[1], "i8"), words[2]
    at = chunk * share
    with f.each(words[3]):
        f.copy(target.at(at), source.at(at), share)


# of ``fma_text``; not exported, so that no declaration is emitted
_FMA = Routine(Signature.parsed("void weft_fma_peak(ptr sink)"), lambda f, sink: None, False, "nounwind")


def _text(lanes: int, threads: int) -> str:
    """Return LLVM text of ``weft_measure_fma`` and ``weft_measure_copy``; each thread has its own part of the memory."""

    def measured(name: str, body: Routine) -> Routine:
        @routine(f"void weft_measure_{name}(ptr args)", exported=True)
        def run(f: Body, args: Value) -> None:
            owner = f.call(pool_ir.enter, threads)
            f.call(pool_ir.parallel, f.address(body), args, threads)
            f.call(pool_ir.leave, owner)

        return run

    routines = (fma_body, copy_body, measured("fma", fma_body), measured("copy", copy_body))
    return fma_text(lanes, _ROUNDS).replace("define void", "define internal void") + text_of_all(routines)
