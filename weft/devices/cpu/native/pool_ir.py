"""The thread pool in emitted code: whom it belongs to, fork and join. Its memory: ``layouts.POOL``.

One job at a time. Chunks are cut into a range a worker; each worker takes chunks from its own range first and
then from the others'. A range is one word, (generation << 32) | next chunk, advanced by compare-and-swap: a
worker that wakes late fails to swap, since the generation moved on, so nobody waits for sleepers: the caller
waits for chunks, not for workers. Idle workers spin for about 50 us, inside a program 0.4 ms, then sleep.

``lock`` holds the thread pointer of the thread that owns the pool. A program takes it for its whole run; any
other thread, and a call from inside a chunk, runs its chunks inline as worker 0. A program that began without the
pool, a guest, takes it for a kernel when it is free, with no more workers than the program has scratch for:
``guests`` is (how many << 32) | the fewest workers that one of them is made for.
"""

from __future__ import annotations

from weft.devices.cpu.native import machine_ir, worker_ir
from weft.devices.cpu.native.host_cpu import has_threads
from weft.devices.cpu.native.layouts import COUNTERS
from weft.devices.cpu.native.routine import Body, Value, routine, text_of_all
from weft.devices.cpu.native.worker_ir import LOW, pool_state, range_of

PAUSES = 2000  # the caller waits for the last chunks, then sleeps


def _count(f: Body, what: str) -> None:
    counters = f.record(f.symbol("weft_counters"), COUNTERS)
    counters[what] = counters[what] + 1


@routine("void weft_inline(ptr body, ptr context, i64 chunks)")
def inline(f: Body, body: Value, context: Value, chunks: Value) -> None:
    """One chunk after another, as worker 0."""
    _count(f, "inline")
    with f.each(chunks) as k:
        f.call_address(body, context, k, f.constant("i64", 0))


@routine("i1 weft_acquire(i32 limit)")
def acquire(f: Body, limit: Value) -> None:
    """Own the pool with at most ``limit`` workers, unless another thread does."""
    pool = pool_state(f)
    mine = pool.swap("lock", 0, f.call("llvm.thread.pointer").to("i64"))
    with f.when(mine):
        pool["limit"] = limit
    f.ret(mine)


@routine("void weft_release()")
def release(f: Body) -> None:
    pool_state(f).set_atomic("lock", 0, "release")


@routine("i1 weft_enter(i32 limit)", exported=True)
def enter(f: Body, limit: Value) -> None:
    """A program begins: whether as the owner of the pool, or as a guest."""
    if not has_threads():
        return f.ret(False)
    with f.when(f.call(acquire, limit)):
        f.ret(True)
    pool = pool_state(f)
    with f.forever():
        old = pool.atomic("guests", "acquire")
        fewest = old.to("i32")
        least = ((old == 0) | (limit < fewest)).pick(limit, fewest)
        with f.when(pool.swap("guests", old, ((old >> 32) + 1 << 32) | least.to("i64"))):
            f.ret(False)


@routine("void weft_leave(i1 owner)", exported=True)
def leave(f: Body, owner: Value) -> None:
    """A program ends."""
    if not has_threads():
        return None
    with f.when(owner):
        f.call(release)
        f.ret()
    pool = pool_state(f)
    with f.forever():
        old = pool.atomic("guests", "acquire")
        new = (old >> 32 >= 2).pick(old - (1 << 32), 0)  # the last one leaves nothing behind
        with f.when(pool.swap("guests", old, new)):
            f.ret()


@routine("void weft_parallel(ptr body, ptr context, i64 chunks)", exported=True)
def parallel(f: Body, body: Value, context: Value, chunks: Value) -> None:
    """``body(context, chunk, worker)`` for each chunk, by as many threads as may."""

    def alone() -> None:
        f.call(inline, body, context, chunks)
        f.ret()

    if not has_threads():
        return alone()
    with f.when(chunks < 2):
        alone()
    pool = pool_state(f)
    taken = pool.atomic("lock", "monotonic") != f.call("llvm.thread.pointer").to("i64")
    with f.when(taken):
        threads, guests = pool["threads"], pool.atomic("guests", "acquire")
        allowed = (guests == 0).pick(threads, guests.to("i32").least(threads))
        with f.unless(f.call(acquire, allowed)):
            alone()
    with f.otherwise():
        with f.when(pool["busy"] != 0):
            alone()
    wish = chunks.least(pool["limit"].to("i64")).to("i32")
    with f.when(pool["started"] < wish - 1):
        f.call(worker_ir.start, wish - 1)
    workers = (pool["started"] + 1).least(wish)
    with f.when(workers < 2):
        with f.when(taken):
            f.call(release)
        alone()
    f.call(fork, body, context, chunks, workers)
    with f.when(taken):
        f.call(release)


@routine("void weft_fork(ptr body, ptr context, i64 chunks, i32 workers)")
def fork(f: Body, body: Value, context: Value, chunks: Value, workers: Value) -> None:
    """A job of the pool's owner: cut, worked on, and joined."""
    pool = pool_state(f)
    _count(f, "jobs")
    pool["busy"] = 1
    generation = pool["generation"] + 1
    high = generation.to("i64") << 32
    mode = machine_ir.save_mode(f)
    # first no range can be claimed under the old generation, then everything else changes
    n = workers.to("i64")
    old = pool["workers"].to("i64")
    with f.each((old < n).pick(n, old)) as k:
        range_of(f, k).set_atomic("word", high | LOW, "release")
    f.do("fence acq_rel")
    pool["mode"] = mode
    pool["body"] = body
    pool["context"] = context
    pool["workers"] = workers
    pool.set_atomic("remaining", chunks, "release")
    begin = f.variable("i64")
    with f.each(n) as k:
        mine, end = range_of(f, k), chunks * (k + 1) // n
        mine.set_atomic("end", end, "release")
        mine.set_atomic("word", high | begin.now, "release")
        begin.now = end
    pool.set_atomic("generation", generation, "seq_cst")
    with f.when(pool.atomic("sleepers", "seq_cst") != 0):
        f.call(worker_ir.wake, pool.at("generation"))
    f.call(worker_ir.take, 0, generation)
    turn = f.variable("i64")
    with f.forever():
        with f.when(pool.atomic("remaining", "acquire") == 0):
            f.leave()
        machine_ir.pause(f)
        turn.now = turn.now + 1
        with f.when(turn.now > PAUSES):
            with f.forever():
                pool.set_atomic("waiting", 1, "seq_cst")
                left = pool.atomic("remaining", "seq_cst")
                with f.when(left == 0):
                    f.leave()
                f.call(worker_ir.sleep, pool.at("remaining"), left.to("i32"))
            pool.set_atomic("waiting", 0, "seq_cst")
            f.leave()
    pool["busy"] = 0


def text() -> str:
    if not has_threads():
        return text_of_all((inline, enter, leave, parallel))
    return text_of_all((*worker_ir.ROUTINES, inline, acquire, release, enter, leave, parallel, fork))
