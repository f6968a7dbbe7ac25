"""The thread pool in emitted code: ownership, fork and join. Its state: ``layouts.POOL``.

The pool runs one job at a time. Each worker has a range of chunks; it takes chunks from its own range first, then from others'.
A range is one word, (generation << 32) | next chunk, advanced by compare-and-swap. The swap of a worker that wakes late fails
because the generation has changed, so the caller waits for chunks, not for workers. Idle workers spin for about 50 us, during a
program for 0.4 ms, then sleep.

``lock`` holds the thread pointer of the owner. A program owns the pool for its whole run; other threads, and calls from inside a
chunk, run their chunks inline as worker 0. A program that started without the pool is a guest: it takes the pool for a single
kernel if the pool is free, with no more workers than it has scratch for. ``guests`` is (number of guests << 32) | the smallest
number of workers that a guest has scratch for.

A call takes what it needs of its table before it releases the interpreter lock.
"""

from __future__ import annotations

from weft.devices.cpu.native import worker_ir
from weft.devices.cpu.native.host_cpu import has_threads
from weft.devices.cpu.native.layouts import COUNTERS
from weft.devices.cpu.native.routine import Body, Value, routine, text_of_all
from weft.devices.cpu.native.worker_ir import LOW, pool_state, range_of

PAUSES = 2000  # spins of the caller waiting for the last chunks, before it sleeps


def count_event(f: Body, what: str) -> None:
    counters = f.record(f.symbol("weft_counters"), COUNTERS)
    counters[what] = counters[what] + 1


@routine("void weft_inline(ptr body, ptr context, i64 chunks)")
def inline(f: Body, body: Value, context: Value, chunks: Value) -> None:
    """Run all chunks in this thread, as worker 0."""
    count_event(f, "inline")
    with f.count_to(chunks) as k:
        f.call_address(body, context, k, f.constant("i64", 0))


@routine("i1 weft_acquire(i32 limit)")
def acquire(f: Body, limit: Value) -> None:
    """Try to take the pool, with at most ``limit`` workers. Return whether this thread owns it now."""
    pool = pool_state(f)
    is_owner = pool.swap("lock", 0, f.call("llvm.thread.pointer").to("i64"))
    with f.when(is_owner):
        pool["limit"] = limit
    f.ret(is_owner)


@routine("void weft_release()")
def release(f: Body) -> None:
    pool_state(f).set_atomic("lock", 0, "release")


@routine("i1 weft_enter(i32 limit)", exported=True)
def enter(f: Body, limit: Value) -> None:
    """Start a program. Return whether it owns the pool; otherwise it is registered as a guest."""
    if not has_threads():
        return f.ret(False)
    f.ret_if(f.call(acquire, limit), True)
    pool = pool_state(f)
    with f.forever():
        old = pool.atomic("guests", "acquire")
        fewest = old.to("i32")
        least = ((old == 0) | (limit < fewest)).pick(limit, fewest)
        f.ret_if(pool.swap("guests", old, ((old >> 32) + 1 << 32) | least.to("i64")), False)


@routine("void weft_leave(i1 owner)", exported=True)
def leave(f: Body, owner: Value) -> None:
    """End a program: release the pool, or unregister the guest."""
    if not has_threads():
        return None
    with f.when(owner):
        f.call(release)
        f.ret()
    pool = pool_state(f)
    with f.forever():
        old = pool.atomic("guests", "acquire")
        new = (old >> 32 >= 2).pick(old - (1 << 32), 0)  # the last guest resets the word
        f.ret_if(pool.swap("guests", old, new))


@routine("void weft_parallel(ptr body, ptr context, i64 chunks)", exported=True)
def parallel(f: Body, body: Value, context: Value, chunks: Value) -> None:
    """Run ``body(context, chunk, worker)`` for each chunk, on as many threads as allowed."""

    def run_inline() -> None:
        f.call(inline, body, context, chunks)
        f.ret()

    if not has_threads():
        return run_inline()
    with f.when(chunks < 2):
        run_inline()
    pool = pool_state(f)
    is_temporary = pool.atomic("lock", "monotonic") != f.call("llvm.thread.pointer").to("i64")
    with f.when(is_temporary):
        threads, guests = pool["threads"], pool.atomic("guests", "acquire")
        allowed = (guests == 0).pick(threads, guests.to("i32").minimum(threads))
        with f.unless(f.call(acquire, allowed)):
            run_inline()
    with f.otherwise():
        with f.when(pool["busy"] != 0):
            run_inline()
    wanted = chunks.minimum(pool["limit"].to("i64")).to("i32")
    with f.when(pool["started"] < wanted - 1):
        f.call(worker_ir.start, wanted - 1)
    workers = (pool["started"] + 1).minimum(wanted)
    with f.when(workers < 2):
        with f.when(is_temporary):
            f.call(release)
        run_inline()
    f.call(fork, body, context, chunks, workers)
    with f.when(is_temporary):
        f.call(release)


@routine("void weft_fork(ptr body, ptr context, i64 chunks, i32 workers)")
def fork(f: Body, body: Value, context: Value, chunks: Value, workers: Value) -> None:
    """Run a job of the pool's owner: distribute the chunks, work on them and wait for the rest."""
    pool = pool_state(f)
    count_event(f, "jobs")
    pool["busy"] = 1
    generation = pool["generation"] + 1
    high = generation.to("i64") << 32
    mode = worker_ir.save_mode(f)
    # invalidate the ranges of the old generation before changing anything else
    n = workers.to("i64")
    old = pool["workers"].to("i64")
    with f.count_to((old < n).pick(n, old)) as k:
        range_of(f, k).set_atomic("word", high | LOW, "release")
    f.do("fence acq_rel")
    pool["mode"] = mode
    pool["body"] = body
    pool["context"] = context
    pool["workers"] = workers
    pool.set_atomic("remaining", chunks, "release")
    begin = f.variable("i64")
    with f.count_to(n) as k:
        range_, end = range_of(f, k), chunks * (k + 1) // n
        range_.set_atomic("end", end, "release")
        range_.set_atomic("word", high | begin.now, "release")
        begin.now = end
    pool.set_atomic("generation", generation, "seq_cst")
    with f.when(pool.atomic("sleepers", "seq_cst") != 0):
        f.call(worker_ir.wake, pool.at("generation"))
    f.call(worker_ir.take, 0, generation)
    turn = f.variable("i64")
    with f.forever():
        f.leave_if(pool.atomic("remaining", "acquire") == 0)
        worker_ir.pause(f)
        turn.now = turn.now + 1
        with f.when(turn.now > PAUSES):
            with f.forever():
                pool.set_atomic("waiting", 1, "seq_cst")
                left = pool.atomic("remaining", "seq_cst")
                f.leave_if(left == 0)
                f.call(worker_ir.sleep, pool.at("remaining"), left.to("i32"))
            pool.set_atomic("waiting", 0, "seq_cst")
            f.leave()
    pool["busy"] = 0


def text() -> str:
    if not has_threads():
        return text_of_all((inline, enter, leave, parallel))
    return text_of_all((*worker_ir.ROUTINES, inline, acquire, release, enter, leave, parallel, fork))
