"""Machine-specific operations of the runtime's native functions: denormal mode, spinning, a clock."""

from __future__ import annotations

from weft.devices.cpu.native.host_cpu import x86
from weft.devices.cpu.native.routine import Body, Value

FUTEX = 202 if x86() else 98  # the number of the system call
# time by ``clock`` that an idle worker spins before it sleeps: outside a program, inside a program
SPIN, PATIENT = (150_000, 1_000_000) if x86() else (1_000, 10_000)


def save_mode(f: Body) -> Value:
    """Return the floating-point mode, which includes the treatment of denormals; 0 on machines where weft cannot set it."""
    if not x86():
        return f.constant("i32", 0)
    mode = f.fixed_room("i32", 4)
    f.call("llvm.x86.sse.stmxcsr", mode)
    return f.array(mode, "i32")[0]


def load_mode(f: Body, value: Value) -> None:
    """Set the floating-point mode, on machines where weft can."""
    if x86():
        mode = f.fixed_room("i32", 4)
        f.array(mode, "i32")[0] = value
        f.call("llvm.x86.sse.ldmxcsr", mode)


def pause(f: Body) -> None:
    """Yield the core to its other hardware thread while this one spins."""
    if x86():
        f.call("llvm.x86.sse2.pause")
    else:
        f.call("llvm.aarch64.hint", 1)


def clock(f: Body, turn: Value) -> Value:
    """Return a cycle count, or ``turn``, the number of spins, on machines without a cycle counter."""
    return f.call("llvm.readcyclecounter") if x86() else turn
