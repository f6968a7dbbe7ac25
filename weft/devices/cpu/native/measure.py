"""Measurements with all of weft's threads: fused multiply-adds per second, and bytes per second by working set."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from weft.devices.cpu.native.compile import function
from weft.devices.cpu.native.describe import fastest, fma_text
from weft.devices.cpu.native.host_cpu import host

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


def _text(lanes: int, threads: int) -> str:
    """Return LLVM text of ``weft_measure_fma`` and ``weft_measure_copy``; each thread has its own part of the memory."""
    return fma_text(lanes, _ROUNDS).replace("define void", "define internal void") + """
declare i1 @weft_enter(i32)
declare void @weft_leave(i1)
declare void @weft_parallel(ptr, ptr, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal void @fma.body(ptr %args, i64 %chunk, i64 %worker) nounwind {
  %sink = load ptr, ptr %args
  %at = mul i64 %chunk, 4096
  %own = getelementptr i8, ptr %sink, i64 %at
  call void @weft_fma_peak(ptr %own)
  ret void
}

define internal void @copy.body(ptr %args, i64 %chunk, i64 %worker) nounwind {
entry:
  %source = load ptr, ptr %args
  %p1 = getelementptr i64, ptr %args, i64 1
  %target = load ptr, ptr %p1
  %p2 = getelementptr i64, ptr %args, i64 2
  %share = load i64, ptr %p2
  %p3 = getelementptr i64, ptr %args, i64 3
  %rounds = load i64, ptr %p3
  %at = mul i64 %chunk, %share
  %from = getelementptr i8, ptr %source, i64 %at
  %to = getelementptr i8, ptr %target, i64 %at
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %head ]
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %share, i1 false)
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %rounds
  br i1 %more, label %head, label %done
done:
  ret void
}
""" + "".join(f"""
define void @weft_measure_{name}(ptr %args) nounwind {{
  %owner = call i1 @weft_enter(i32 {threads})
  call void @weft_parallel(ptr @{name}.body, ptr %args, i64 {threads})
  call void @weft_leave(i1 %owner)
  ret void
}}
""" for name in ("fma", "copy"))
