"""What the runtime's native functions need of the machine beyond LLVM's own operations: denormals, waiting, a clock."""

from __future__ import annotations

import platform


def x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


def has_threads() -> bool:
    """The pool sleeps in futexes, so it is Linux only; elsewhere chunks run inline."""
    return platform.system() == "Linux" and platform.machine().lower() in ("x86_64", "aarch64")


def words() -> dict[str, str]:
    """What texts have in place of names.

    SAVE_MODE, LOAD_MODE : the mode of floating point (what becomes of denormals) to and from ``%mode``, LOAD_NEW: from
        ``%mode1``; where weft cannot set it, it stays as it is
    FUTEX : the number of the system call
    SINCE, NOW, SPIN, PATIENT : a clock, and how long by it an idle worker spins, without and with a program that runs
    """
    if x86():
        cycles = "call i64 @llvm.readcyclecounter()"
        return {
            "DECLARE_MODE": "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)",
            "SAVE_MODE": "call void @llvm.x86.sse.stmxcsr(ptr %mode)", "LOAD_MODE": "call void @llvm.x86.sse.ldmxcsr(ptr %mode)",
            "LOAD_NEW": "call void @llvm.x86.sse.ldmxcsr(ptr %mode1)",
            "DECLARE_PAUSE": "declare void @llvm.x86.sse2.pause()", "PAUSE": "call void @llvm.x86.sse2.pause()",
            "FUTEX": "202", "SINCE": cycles, "NOW": cycles, "SPIN": "150000", "PATIENT": "1000000",
        }
    return {
        "DECLARE_MODE": "", "SAVE_MODE": "store i32 0, ptr %mode", "LOAD_MODE": "", "LOAD_NEW": "",
        "DECLARE_PAUSE": "declare void @llvm.aarch64.hint(i32)", "PAUSE": "call void @llvm.aarch64.hint(i32 1)",
        "FUTEX": "98", "SINCE": "add i64 0, 0", "NOW": "add i64 %round, 0", "SPIN": "1000", "PATIENT": "10000",
    }
