"""LLVM text to an object file: in this process, and in a second one that compiles again what is hot (``recompile.py``).

The second one runs this file as a program, so nothing of weft is imported here. It is a process, not a thread: LLVM cannot be
interrupted, so a thread inside it would hold up an exit and a fork, and a foreground compilation that waits for its lock Ctrl-C.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from functools import lru_cache
from typing import Any

LOW, HIGH = 0, 3  # levels of LLVM's code generation: equal bits; LOW takes a third of the time and runs half as fast


def emitted(ir: str, features: str, level: int) -> tuple[bytes, list[str]]:
    """Compile for a CPU: locals into registers (SROA), then code generation, nothing else. The object, and what it exports."""
    llvm = opened()
    passes, options = _passes()
    with (
        llvm.create_context() as context,  # one for all would keep types and numbers of every kernel for ever
        machine(features, level) as target,
        llvm.parse_assembly(ir, context) as module,
        llvm.create_pass_builder(target, options) as builder,  # for one run; 2 KB of each are never freed by llvmlite
    ):
        passes.run(module, builder)
        exports = [f.name for f in module.functions if not f.is_declaration and f.linkage == llvm.Linkage.external]
        return target.emit_object(module), exports


@lru_cache(maxsize=1)
def opened() -> Any:
    """LLVM's bindings, ready to compile for this machine."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # a module with inline assembly aborts the process without it
    return llvm


def machine(features: str, level: int) -> Any:
    """A new target machine each time: it belongs to whoever uses it."""
    return opened().Target.from_default_triple().create_target_machine(
        cpu="", features=features, opt=level, reloc="pic", codemodel="small"
    )


@lru_cache(maxsize=1)
def _passes() -> tuple[Any, Any]:
    """What every compilation runs; made once, for llvmlite does not free it."""
    llvm = opened()
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    return passes, llvm.create_pipeline_tuning_options(speed_level=0)


# ---- messages between the two processes: eight bytes that tell the length, and so many bytes


def send(file: int, message: bytes) -> None:
    rest = memoryview(len(message).to_bytes(8, "little") + message)
    while rest:
        rest = rest[os.write(file, rest) :]


def receive(file: int) -> bytes | None:
    """None where the other side has ended."""
    head = _exactly(file, 8)
    return None if head is None else _exactly(file, int.from_bytes(head, "little"))


def _exactly(file: int, count: int) -> bytes | None:
    parts = []
    while count:
        part = os.read(file, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def serve() -> None:
    """First where modules are found and the CPU's features, then texts; objects back, until the first process ends."""
    begin = receive(0)
    if begin is None:
        return
    sys.path[:], features = json.loads(begin)
    while (text := receive(0)) is not None:
        send(1, emitted(zlib.decompress(text).decode(), features, HIGH)[0])


if __name__ == "__main__":
    serve()
