"""Code of a kernel's entry function, which counts the launch and runs the chunks in the thread pool or one after another.

A kernel of less than about 20 us of work runs its chunks on the calling thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.devices.cpu.emit.text import Function, Module
from weft.kernel.ir import Kernel


def count_entry(m: Module, entry: Function) -> None:
    """Add one to weft_counters[0]. The addition is not atomic: a concurrent kernel may lose one, which costs less than a lock."""
    m.declare("weft_counters", "@weft_counters = external global i64")
    entry.store("i64", entry.let(f"add i64 {entry.load('i64', '@weft_counters', 8)}, 1"), "@weft_counters", 8)


def run_chunks(m: Module, f: Function, body: str, chunks: int, parallel: bool, context: str = "%args") -> None:
    """Emit ``body(context, chunk, worker)`` for each chunk. A small kernel runs its chunks on this thread, as worker 0."""
    if chunks > 1:
        m.took("parallel" if parallel else "chunks")
    if parallel and chunks > 1:
        m.declare("weft_parallel", "declare void @weft_parallel(ptr, ptr, i64)")
        f.do(f"call void @weft_parallel(ptr {body}, ptr {context}, i64 {chunks})")
    elif chunks == 1:
        f.do(f"call void {body}(ptr {context}, i64 0, i64 0)")
    else:
        with f.loop(0, chunks) as chunk:
            f.do(f"call void {body}(ptr {context}, i64 {chunk}, i64 0)")


def run_units(
    m: Module, kernel: Kernel, units: int, chunks: int, worker_scratch: int, shared: int = 0,
    wrap: Callable[[str], str] = str,
) -> Function:
    """Emit the entry of a product: each chunk runs its share of the calls ``unit(args, unit, work)``. Return the entry.

    shared: bytes of scratch before that of the workers. wrap: returns the name of the function that runs a chunk's function.
    """
    symbol = kernel.name
    slots = len(kernel.inputs) + len(kernel.outputs) + len(kernel.scalars)
    f = m.function(f"define internal void @{symbol}.chunk(ptr %args, i64 %chunk, i64 %worker)")
    work = "null"
    if worker_scratch:
        work = f.offset(f.load("ptr", f.offset("%args", 8 * slots), 8), f.add(f.mul("%worker", worker_scratch), shared))
    lo, hi = share(f, "%chunk", units, chunks)
    with f.loop(lo, hi) as unit:
        f.do(f"call void @{symbol}.unit(ptr %args, i64 {unit}, ptr {work})")
    body = wrap(f"@{symbol}.chunk")
    f = m.function(f"define void @{symbol}(ptr %args)")
    count_entry(m, f)
    run_chunks(m, f, body, chunks, parallel=True)
    return f


def divide(f: Function, value: str, by: int) -> tuple[str, str]:
    """Emit a division. Return (quotient, remainder)."""
    if by == 1:
        return value, "0"
    return f.let(f"udiv i64 {value}, {by}"), f.let(f"urem i64 {value}, {by}")


def divide_all(f: Function, value: str, extents: Sequence[int]) -> tuple[str, list[str]]:
    """Emit a division by each extent in turn, the last one first. Return (quotient, remainders)."""
    out: list[str] = []
    for extent in reversed(extents):
        value, index = divide(f, value, extent)
        out.insert(0, index)
    return value, out


def share(f: Function, index: str, total: int, parts: int) -> tuple[str, str]:
    """Return the bounds [from, to) of share ``index`` of ``total`` items, divided evenly into ``parts``."""
    if parts == 1:
        return "0", str(total)
    after = f.let(f"add i64 {index}, 1")
    return f.let(f"udiv i64 {f.mul(index, total)}, {parts}"), f.let(f"udiv i64 {f.mul(after, total)}, {parts}")
