"""Compilation of LLVM text to an object file, in this process or in the helper process that recompiles hot kernels.

The helper process (``recompile.py``) runs this file as a program, so the file imports nothing of weft. It is a process rather
than a thread because LLVM cannot be interrupted: a thread inside LLVM would delay exit and fork, and a foreground compilation
waiting for LLVM's lock would delay Ctrl-C.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from functools import lru_cache
from typing import Any

LOW, HIGH = 0, 3  # levels of LLVM's code generation, equal results; LOW compiles in a third of the time and runs half as fast


def emitted(ir: str, features: str, level: int) -> tuple[bytes, list[str]]:
    """Compile LLVM text: SROA and code generation, no other pass. Return the object file and the exported names."""
    llvm = opened()
    passes, options = _passes()
    with (
        llvm.create_context() as context,  # a shared context would never free the types and constants of kernels
        machine(features, level) as target,
        llvm.parse_assembly(ir, context) as module,
        llvm.create_pass_builder(target, options) as builder,  # serves one run; llvmlite leaks 2 KB of each
    ):
        passes.run(module, builder)
        exports = [f.name for f in module.functions if not f.is_declaration and f.linkage == llvm.Linkage.external]
        return target.emit_object(module), exports


@lru_cache(maxsize=1)
def opened() -> Any:
    """Return llvmlite's bindings, initialised for this machine."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # a module with inline assembly aborts the process without it
    return llvm


def machine(features: str, level: int) -> Any:
    """Return a new target machine, owned by the caller."""
    return opened().Target.from_default_triple().create_target_machine(
        cpu="", features=features, opt=level, reloc="pic", codemodel="small"
    )


@lru_cache(maxsize=1)
def _passes() -> tuple[Any, Any]:
    """Return the pass manager and its options, shared by all compilations because llvmlite does not free them."""
    llvm = opened()
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    return passes, llvm.create_pipeline_tuning_options(speed_level=0)


# ---- messages between the two processes: the length in eight bytes, then the content


def send(file: int, message: bytes) -> None:
    rest = memoryview(len(message).to_bytes(8, "little") + message)
    while rest:
        rest = rest[os.write(file, rest) :]


def receive(file: int) -> bytes | None:
    """Read one message. Return None if the other process has ended."""
    head = _read_exactly(file, 8)
    return None if head is None else _read_exactly(file, int.from_bytes(head, "little"))


def _read_exactly(file: int, count: int) -> bytes | None:
    parts = []
    while count:
        part = os.read(file, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def serve() -> None:
    """Receive ``sys.path`` and the CPU's features, then compile texts and send objects until the main process ends."""
    setup = receive(0)
    if setup is None:
        return
    sys.path[:], features = json.loads(setup)
    while (text := receive(0)) is not None:
        send(1, emitted(zlib.decompress(text).decode(), features, HIGH)[0])


if __name__ == "__main__":
    serve()
