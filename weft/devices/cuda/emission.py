"""Compile Triton text to machine code, in this process or in others that load Triton only (``compilers.py``).

The other processes run this file as a script, so it imports nothing of weft.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import pickle
import sys
from typing import Any

# text; (name, type, divisibility) of each argument; warps; stages; capability; alignment of addresses
Job = tuple[str, tuple[tuple[str, str, int], ...], int, int, int, int]


def functions(text: str, names: dict[str, Any]) -> Any:
    """Return the function ``kernel`` of a text. The text is put into linecache, where Triton reads the source."""
    file = f"<weft {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    space = {"__name__": "weft.generated", **names}
    exec(compile(text, file, "exec"), space)
    return space["kernel"]


def compile_text(job: Job) -> tuple[bytes, str, int, int, int, str]:
    """Compile a job: return binary, entry, warps, bytes of shared memory, bytes of scratch, assembly."""
    import triton
    import triton.language as tl
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.language.extra.cuda import libdevice
    from triton.runtime.jit import JITFunction

    text, arguments, warps, stages, capability, aligned = job
    kernel = functions(text, {"tl": tl, "ld": libdevice, "jit": JITFunction})
    signature = {name: kind for name, kind, _ in arguments}
    divisors = [aligned if kind.startswith("*") else d for _, kind, d in arguments]
    attributes = {(k,): [["tt.divisibility", d]] for k, d in enumerate(divisors) if d > 1}
    source = ASTSource(fn=kernel, signature=signature, constexprs={}, attrs=attributes)
    options = {"num_warps": warps, "num_stages": stages, "enable_fp_fusion": False}
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    metadata = compiled.metadata
    scratch = getattr(metadata, "global_scratch_size", 0) or 0
    return compiled.asm["cubin"], metadata.name, metadata.num_warps, metadata.shared, scratch, compiled.asm["ptx"]


class CompileError(RuntimeError):
    """Triton rejects a text; the message contains the text."""


def describe_failure(job: Job, error: str) -> str:
    """Return an error message with the text that caused it."""
    text, arguments, warps, stages, capability, aligned = job
    signature = ", ".join([f"{name}: {kind}" for name, kind, _ in arguments])
    return (
        f"Triton does not compile a kernel for compute capability {capability / 10:.1f}: {error}\n"
        f"{warps} warps, {stages} stages, addresses are multiples of {aligned}, {signature}\n{text}"
    )


def compile_job(job: Job) -> tuple[bytes, str, int, int, int, str]:
    """Compile a job like :func:`compile_text`; errors contain the text."""
    try:
        return compile_text(job)
    except ImportError:  # Triton is missing or broken
        raise
    except Exception as error:
        raise CompileError(describe_failure(job, f"{type(error).__name__}: {error}")) from error


def serve() -> None:
    """Read module paths, then jobs, from stdin until it ends; answer each with its code or an error text."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # keeps what Triton prints out of the answers
    sys.path[:] = pickle.load(sys.stdin.buffer)
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer: Any = compile_text(job)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    serve()
