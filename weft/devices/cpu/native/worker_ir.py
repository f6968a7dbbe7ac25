"""The pool's workers in emitted code: sleeping and waking, taking chunks, the thread's main loop, and its creation.

Denormal mode, spinning and the clock differ between machines.
"""

from __future__ import annotations

from weft.devices.cpu.native.host_cpu import x86
from weft.devices.cpu.native.imported_symbols import FUTEX_WAIT, FUTEX_WAKE, SIG_SETMASK, SIGSET_ROOM
from weft.devices.cpu.native.layouts import CHUNKS, POOL, RANGE
from weft.devices.cpu.native.routine import Body, Record, Value, routine

FUTEX = 202 if x86() else 98  # the number of the system call
# time by ``clock`` that an idle worker spins before it sleeps: outside a program, inside a program
SPIN, PATIENT = (150_000, 1_000_000) if x86() else (1_000, 10_000)
LOW = (1 << 32) - 1  # the lower half of a word that holds two numbers
EVERYBODY = (1 << 31) - 1


def save_mode(f: Body) -> Value:
    """Return the floating-point mode, which includes the treatment of denormals; 0 on machines where weft cannot set it."""
    if not x86():
        return f.constant("i32", 0)
    mode = f.allocate_fixed("i32", 4)
    f.call("llvm.x86.sse.stmxcsr", mode)
    return f.array(mode, "i32")[0]


def load_mode(f: Body, value: Value) -> None:
    """Set the floating-point mode, on machines where weft can."""
    if x86():
        mode = f.allocate_fixed("i32", 4)
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


def pool_state(f: Body) -> Record:
    return f.record(f.symbol("weft_state"), POOL)


def range_of(f: Body, worker: Value) -> Record:
    """Return a worker's own range of chunks."""
    return f.record(f.array(pool_state(f).at("ranges"), "i8").at(worker * RANGE), CHUNKS)


@routine("void weft_sleep(ptr word, i32 value)")
def sleep(f: Body, word: Value, value: Value) -> None:
    """Wait while *word == value."""
    arguments = (f.constant("i64", FUTEX_WAIT), value, f.constant("ptr", None), f.constant("ptr", None), f.constant("i64", 0))
    f.call("syscall", FUTEX, word, *arguments)


@routine("void weft_wake(ptr word)")
def wake(f: Body, word: Value) -> None:
    """Wake all threads that sleep on a word."""
    how = (FUTEX_WAKE, EVERYBODY)
    rest = (f.constant("ptr", None), f.constant("ptr", None), f.constant("i64", 0))
    f.call("syscall", FUTEX, word, *(f.constant("i64", n) for n in how), *rest)


@routine("void weft_take(i64 id, i32 generation)")
def take(f: Body, id_: Value, generation: Value) -> None:
    """Run chunks of a generation until none is left: first of the worker's own range, then of others'."""
    pool = pool_state(f)
    body, context, count = pool["body"], pool["context"], pool["workers"].to("i64")
    trace, trace_size, mode = pool["trace"], pool["trace_size"], pool["mode"]
    with f.when(id_ != 0):
        load_mode(f, mode)
    done = f.variable("i64")
    with f.count_to(count) as k:
        at = id_ + k
        chunks = range_of(f, (at >= count).pick(at - count, at))
        with f.forever():
            word = chunks.atomic("word", "acquire")
            with f.unless((word >> 32).to("i32") == generation):
                f.call(report, done.now)
                f.ret()
            chunk = word & LOW
            f.leave_if(~(chunk < chunks.atomic("end", "acquire")))
            with f.when(chunks.swap("word", word, word + 1)):
                f.call_address(body, context, chunk, id_)
                done.now = done.now + 1
                with f.when(chunk < trace_size):
                    f.array(trace, "i32")[chunk] = id_.to("i32")
    f.call(report, done.now)


@routine("void weft_report(i64 did)")
def report(f: Body, did: Value) -> None:
    """Subtract ``did`` finished chunks from the remaining ones; wake the caller after the last chunk if it sleeps."""
    f.ret_if(did == 0)
    pool = pool_state(f)
    with f.when(pool.atomic_add("remaining", f.constant("i64", 0) - did) == did):
        with f.when(pool.atomic("waiting", "seq_cst") != 0):
            f.call(wake, pool.at("remaining"))


@routine("ptr weft_worker(ptr argument)")
def worker(f: Body, argument: Value) -> None:
    """Run a worker thread. argument: (generation << 32) | id."""
    pool = pool_state(f)
    word = argument.to("i64")
    id_ = word & LOW
    last_generation = f.variable("i32", (word >> 32).to("i32"))
    with f.forever():
        turn = f.variable("i64")
        since = clock(f, turn.now)
        with f.forever():
            generation = pool.atomic("generation", "acquire")
            with f.when(generation != last_generation.now):
                last_generation.now = generation
                with f.when(id_ < pool["workers"].to("i64")):
                    f.call(take, id_, generation)
                f.leave()
            pause(f)
            turn.now = turn.now + 1
            passed = clock(f, turn.now) - since
            running = pool.atomic("lock", "monotonic") != 0
            with f.when(passed > running.pick(PATIENT, SPIN)):
                pool.atomic_add("sleepers", 1)
                f.call(sleep, pool.at("generation"), last_generation.now)
                pool.atomic_add("sleepers", -1)
                f.leave()


@routine("void weft_start(i32 count)", attributes="nounwind noinline")
def start(f: Body, count: Value) -> None:
    """Create worker threads until ``count`` exist besides the caller. They block all signals."""
    pool = pool_state(f)
    thread = f.allocate_fixed("i64", 8)
    everything, old = f.allocate_fixed(f"[{SIGSET_ROOM} x i8]", 8), f.allocate_fixed(f"[{SIGSET_ROOM} x i8]", 8)
    f.call("sigfillset", everything)
    f.call("pthread_sigmask", SIG_SETMASK, everything, old)
    generation = pool["generation"].to("i64") << 32
    with f.forever():
        have = pool["started"]
        f.leave_if(have >= count)
        more = have + 1
        argument = (generation | more.to("i64")).to("ptr")
        f.leave_if(f.call("pthread_create", thread, None, f.address(worker), argument) != 0)
        f.call("pthread_detach", f.array(thread)[0])
        pool["started"] = more
    f.call("pthread_sigmask", SIG_SETMASK, old, None)


ROUTINES = (sleep, wake, take, report, worker, start)
