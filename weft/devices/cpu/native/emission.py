"""Machine code of LLVM text: SROA and code generation, no other pass. Several texts are compiled at once.

LLVM's contexts are independent, but llvmlite holds one lock in every call. The call that takes the time, code generation, is made
without it, by one thread for each further core.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from weft.devices.cpu.native.host_cpu import host
from weft.process.signals import defer_signals

MAX_THREADS = 8


class Emission:
    """Object code of one text, which is being compiled. LLVM parses the text at once and raises RuntimeError if it is wrong."""

    def __init__(self, ir: str) -> None:
        self.finished_event = threading.Event()
        self.code: bytes | RuntimeError = b""
        with defer_signals():  # llvmlite frees objects in destructors, where Ctrl-C would be lost
            llvm = open_llvm()
            passes, options = _passes()
            self.context = llvm.create_context()  # a shared context would never free the types and constants of kernels
            try:
                self.module = llvm.parse_assembly(ir, self.context)
            except BaseException:
                self.context.close()
                raise
            with _target() as target, llvm.create_pass_builder(target, options) as builder:  # serves one run; llvmlite leaks 2 KB
                passes.run(self.module, builder)
            self.exports = [
                f.name for f in self.module.functions if not f.is_declaration and f.linkage == llvm.Linkage.external]

    def run(self) -> None:
        """Generate the code."""
        with defer_signals():
            try:
                with _target() as target:
                    self.code = _emit(target, self.module)
            except RuntimeError as error:
                self.code = error
            self.module.close()
            self.context.close()
            self.finished_event.set()

    def result(self) -> tuple[bytes, list[str]]:
        """Return the object code and the names of its exported functions."""
        if isinstance(self.code, RuntimeError):
            raise self.code
        return self.code, self.exports


class Emitter:
    """Texts that wait for compilation, and the threads that compile them. A thread ends when no text is left."""

    def __init__(self) -> None:
        self.waiting: deque[Emission] = deque()
        self.threads: list[threading.Thread] = []

    def begin(self, ir: str) -> Emission:
        """Compile a text while the caller goes on. Call ``finish`` for the result."""
        emission = Emission(ir)
        self.waiting.append(emission)
        self.threads = [t for t in self.threads if t.is_alive()]
        if len(self.threads) < _spare_cores():
            thread = threading.Thread(target=self._work, name="weft-compile")
            try:
                thread.start()
            except RuntimeError:  # no further thread: finish() does the work
                return emission
            self.threads.append(thread)
        return emission

    def finish(self, emission: Emission) -> tuple[bytes, list[str]]:
        """Return the object code of a text, and the names of its exported functions."""
        try:
            self.waiting.remove(emission)
        except ValueError:  # another thread compiles it
            emission.finished_event.wait()
        else:
            emission.run()
        return emission.result()

    def drain(self) -> None:
        """Compile all texts and wait until the threads have ended. Meanwhile no text may be added."""
        while self._compile_one():
            pass
        for thread in self.threads:
            thread.join()

    def _work(self) -> None:
        while self._compile_one():
            pass

    def _compile_one(self) -> bool:
        try:
            emission = self.waiting.popleft()
        except IndexError:
            return False
        emission.run()
        return True


def emit_object(ir: str) -> tuple[bytes, list[str]]:
    """Compile LLVM text for this CPU. Return the object file and the names of its exported functions."""
    emission = Emission(ir)
    emission.run()
    return emission.result()


@lru_cache(maxsize=1)
def open_llvm() -> Any:
    """Return llvmlite's bindings, initialised for this machine."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # a module with inline assembly aborts the process without it
    return llvm


def target_machine() -> Any:
    """Return a new target machine, owned by the caller."""
    return open_llvm().Target.from_default_triple().create_target_machine(
        cpu="", features=host().features, opt=3, reloc="pic", codemodel="small"
    )


_TARGETS: list[Any] = []  # target machines that are not in use: the first compilation of one takes a millisecond more


@contextmanager
def _target() -> Iterator[Any]:
    """Lend a target machine. It serves one thread at a time."""
    try:
        target = _TARGETS.pop()
    except IndexError:
        target = target_machine()
    yield target
    _TARGETS.append(target)


@lru_cache(maxsize=1)
def _passes() -> tuple[Any, Any]:
    """Return the pass manager and its options, shared by all compilations because llvmlite does not free them."""
    llvm = open_llvm()
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    return passes, llvm.create_pipeline_tuning_options(speed_level=0)


def _emit(target: Any, module: Any) -> bytes:
    """Return a module's object code. The work is done without llvmlite's lock, and without the interpreter's."""
    llvm = open_llvm()
    lib = llvm.ffi.lib
    emit = (getattr(lib, "_lib_handle", None) or lib).LLVMPY_TargetMachineEmitToMemory
    with llvm.ffi.OutputString() as message:
        buffer = emit(target, module, 1, message)
        if not buffer:
            raise RuntimeError(str(message))
    try:
        return ctypes.string_at(lib.LLVMPY_GetBufferStart(buffer), lib.LLVMPY_GetBufferSize(buffer))
    finally:
        lib.LLVMPY_DisposeMemoryBuffer(buffer)


def llvm_lock() -> Any:
    """Return llvmlite's lock around LLVM calls, or None if llvmlite is not loaded or has no such lock."""
    ffi = sys.modules.get("llvmlite.binding.ffi")
    return getattr(getattr(getattr(ffi, "lib", None), "_lock", None), "_lock", None)


def _spare_cores() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MAX_THREADS) - 1
