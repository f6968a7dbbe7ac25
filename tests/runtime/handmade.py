"""Hand-written kernels and Programs: the runtime's tests do not depend on the code generator."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from weft.devices.cache import Cache
from weft.devices.cpu.device import CPUDevice
from weft.devices.cpu.native.compile import LoadedKernel
from weft.devices.cpu.native.executable import CPUExecutable
from weft.dtypes.formats import FLOAT32
from weft.schedule.program import Call, HostCall, Program, Slot

F32 = FLOAT32

_HEAD = """
@weft_counters = external global i64
declare void @weft_parallel(ptr, ptr, i64)
"""

# args: x, out, scale (low 4 bytes), scratch. out = x * scale, chunk by chunk; each worker leaves a mark in its scratch
_SCALE = """
define internal void @body_NAME(ptr %args, i64 %chunk, i64 %worker) nounwind {
entry:
  %x = load ptr, ptr %args
  %out.p = getelementptr i64, ptr %args, i64 1
  %out = load ptr, ptr %out.p
  %s.p = getelementptr i64, ptr %args, i64 2
  %s = load float, ptr %s.p
  %scratch.p = getelementptr i64, ptr %args, i64 3
  %scratch = load ptr, ptr %scratch.p
  %w = mul i64 %worker, 64
  %mark = getelementptr i8, ptr %scratch, i64 %w
  store i64 %chunk, ptr %mark
  %first = mul i64 %chunk, CHUNK
  %last = add i64 %first, CHUNK
  br label %head
head:
  %i = phi i64 [ %first, %entry ], [ %i1, %head ]
  %a.p = getelementptr float, ptr %x, i64 %i
  %a = load float, ptr %a.p
  %v = fmul float %a, %s
  %o.p = getelementptr float, ptr %out, i64 %i
  store float %v, ptr %o.p
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %last
  br i1 %more, label %head, label %done
done:
  ret void
}

define void @NAME(ptr %args) nounwind {
  %c = load i64, ptr @weft_counters
  %c1 = add i64 %c, 1
  store i64 %c1, ptr @weft_counters
  call void @weft_parallel(ptr @body_NAME, ptr %args, i64 CHUNKS)
  ret void
}
"""


def scale_ir(name: str, chunk: int, chunks: int) -> str:
    text = _HEAD + _SCALE.replace("NAME", name)
    return text.replace("CHUNKS", str(chunks)).replace("CHUNK", str(chunk))


def device(folder: Path, threads: int | None = None) -> CPUDevice:
    return CPUDevice(Cache(folder), threads)


def scale_kernel(be: CPUDevice, chunk: int = 256, chunks: int = 16, name: str = "scale") -> LoadedKernel:
    assert be.native
    return LoadedKernel(be.compiler.module(scale_ir(name, chunk, chunks))[name], 0, 64, True)


def scale_twice(n: int, donate: bool = False) -> Program:
    """out = (x * s) * t through the arena."""
    slots = (Slot(0, "input", (n,), F32, 0), Slot(1, "arena", (n,), F32, offset=0), Slot(2, "output", (n,), F32, 0))
    calls = (Call(None, (0, 1), (1,)), Call(None, (1, 2), (2,)))  # type: ignore[arg-type]
    return Program((((n,), F32), ((), F32), ((), F32)), (((n,), F32),), slots, calls, 4 * n, ((0, 0),) if donate else ())


def with_host(n: int) -> Program:
    """out = sort(x * s), the sort in NumPy between two native parts; then * s again."""
    slots = (
        Slot(0, "input", (n,), F32, 0), Slot(1, "arena", (n,), F32, offset=0), Slot(2, "arena", (n,), F32, offset=4 * n),
        Slot(3, "output", (n,), F32, 0),
    )
    steps = (
        Call(None, (0, 1), (1,)), HostCall("sort", np.sort, (1,), 2), Call(None, (2, 3), (1,)),  # type: ignore[arg-type]
    )
    return Program((((n,), F32), ((), F32)), (((n,), F32),), slots, steps, 8 * n)


def executable(be: CPUDevice, program: Program, kernel: LoadedKernel, flush: bool = False) -> CPUExecutable:
    calls = sum(isinstance(s, Call) for s in program.steps)
    return CPUExecutable(program, [kernel] * calls, be.pool, be.allocator, be.native, flush)
