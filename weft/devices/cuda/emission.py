"""Triton text to machine code: in this process, and in others that know Triton alone (``compilers.py``).

Those run this file as a program, so nothing of weft is imported here.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import pickle
import sys
from typing import Any

# text; (name, type, divisibility) of each argument; warps, stages; capability; what addresses are multiples of
Job = tuple[str, tuple[tuple[str, str, int], ...], int, int, int, int]


def functions(text: str, names: dict[str, Any]) -> Any:
    """The function ``kernel`` of a text. Triton reads a function's source where Python looks for it."""
    file = f"<weft {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space = {"__name__": "weft.generated", **names}
    exec(compile(text, file, "exec"), space)
    return space["kernel"]


def emitted(job: Job) -> tuple[bytes, str, int, int, int, str]:
    """Binary, entry, warps, bytes of shared memory and of scratch, assembly."""
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.language.extra.cuda import libdevice
    from triton.runtime.jit import JITFunction

    text, arguments, warps, stages, capability, aligned = job
    kernel = functions(text, {"tl": tl, "ld": libdevice, "jit": JITFunction})
    signature = {name: kind for name, kind, _ in arguments}
    known = [aligned if kind.startswith("*") else d for _, kind, d in arguments]
    attributes = {(k,): [["tt.divisibility", d]] for k, d in enumerate(known) if d > 1}
    source = ASTSource(fn=kernel, signature=signature, constexprs={}, attrs=attributes)
    options = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": False}
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    about = made.metadata
    scratch = getattr(about, "global_scratch_size", 0) or 0
    return made.asm["cubin"], about.name, about.num_warps, about.shared, scratch, made.asm["ptx"]


class CompileError(RuntimeError):
    """Triton refuses a text; the error has it."""


def told(job: Job, error: str) -> str:
    """An error with the text that it is about."""
    text, arguments, warps, stages, capability, aligned = job
    given = ", ".join([f"{name}: {kind}" for name, kind, _ in arguments])
    return (
        f"Triton does not compile a kernel for compute capability {capability / 10:.1f}: {error}\n"
        f"{warps} warps, {stages} stages, addresses are multiples of {aligned}, {given}\n{text}"
    )


def here(job: Job) -> tuple[bytes, str, int, int, int, str]:
    """:func:`emitted`, with errors that have the text."""
    try:
        return emitted(job)
    except ImportError:  # of Triton
        raise
    except Exception as error:
        raise CompileError(told(job, f"{type(error).__name__}: {error}")) from error


def serve() -> None:
    """First where modules are found, then jobs; for each what was emitted, or an error as text, until the first process ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever Triton prints is no answer
    sys.path[:] = pickle.load(sys.stdin.buffer)
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: Any = emitted(job)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    serve()
