"""What the runtime's native functions need of the machine beyond LLVM's own operations: denormals, waiting, a clock."""

from __future__ import annotations

from weft.devices.cpu.native.host_cpu import x86
from weft.devices.cpu.native.routine import Body, Value

FUTEX = 202 if x86() else 98  # the number of the system call
SPIN, PATIENT = (150_000, 1_000_000) if x86() else (1_000, 10_000)  # how long an idle worker spins by ``clock``; in a program


def save_mode(f: Body) -> Value:
    """The mode of floating point: what becomes of denormals. 0 where weft cannot set it."""
    if not x86():
        return f.constant("i32", 0)
    mode = f.fixed_room("i32", 4)
    f.call("llvm.x86.sse.stmxcsr", mode)
    return f.array(mode, "i32")[0]


def load_mode(f: Body, value: Value) -> None:
    """Make ``value`` the mode, where weft can set it."""
    if x86():
        mode = f.fixed_room("i32", 4)
        f.array(mode, "i32")[0] = value
        f.call("llvm.x86.sse.ldmxcsr", mode)


def pause(f: Body) -> None:
    """Let the core's other thread work while this one spins."""
    if x86():
        f.call("llvm.x86.sse2.pause")
    else:
        f.call("llvm.aarch64.hint", 1)


def clock(f: Body, turn: Value) -> Value:
    """Cycles, or where nobody counts them the number of turns."""
    return f.call("llvm.readcyclecounter") if x86() else turn
