"""LLVM text of the thread pool: fork, join and the workers' loop. Offsets into the state are in :data:`STATE`.

One job at a time. Chunks are cut into a range a worker; each worker takes chunks from its own range first and
then from the others'. A range is one word, (generation << 32) | next chunk, advanced by compare-and-swap: a
worker that wakes late fails to swap, since the generation moved on, so nobody waits for sleepers: the caller
waits for chunks, not for workers. Idle workers spin for about 50 us, inside a program 0.4 ms, then sleep.

``lock`` holds the thread pointer of the thread that owns the pool. A program takes it for its whole run; any
other thread, and a call from inside a chunk, runs its chunks inline as worker 0.
"""

from __future__ import annotations

import platform

MAX_WORKERS = 256
STATE = {  # byte offsets; what different threads write lies on different cache lines
    "generation": 0, "sleepers": 4,
    "lock": 64, "busy": 72, "limit": 76, "threads": 80, "started": 84,
    "body": 128, "context": 136, "mxcsr": 144, "workers": 148, "trace": 152, "trace_size": 160,
    "remaining": 192, "waiting": 200,
    "ranges": 256,
}
STATE_SIZE = STATE["ranges"] + 64 * MAX_WORKERS
# counters: kernel entries (written by kernels), program runs, parallel jobs, calls that ran inline
COUNTERS = {"kernels": 0, "entries": 1, "jobs": 2, "inline": 3}


def x86() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64")


def has_threads() -> bool:
    """The pool sleeps in futexes, so it is Linux only; elsewhere chunks run inline."""
    return platform.system() == "Linux" and platform.machine().lower() in ("x86_64", "aarch64")


def text() -> str:
    out = _TEXT if has_threads() else _INLINE_ONLY
    for name in sorted(STATE, key=len, reverse=True):
        out = out.replace(f"${name}", f"getelementptr (i8, ptr @weft_state, i64 {STATE[name]})")
    cycles = "call i64 @llvm.readcyclecounter()"
    machine = {
        "FUTEX": "202", "SPIN": "150000", "PATIENT": "1000000", "SINCE": cycles, "NOW": cycles,
        "PAUSE": "call void @llvm.x86.sse2.pause()",
        "SAVE": "call void @llvm.x86.sse.stmxcsr(ptr %mode)", "RESTORE": "call void @llvm.x86.sse.ldmxcsr(ptr %mode)",
        "DECLARE": _X86,
    } if x86() else {
        "FUTEX": "98", "SPIN": "1000", "PATIENT": "10000", "SINCE": "add i64 0, 0", "NOW": "add i64 %round, 0",
        "PAUSE": "call void @llvm.aarch64.hint(i32 1)", "SAVE": "store i32 0, ptr %mode", "RESTORE": "store i32 0, ptr %mode",
        "DECLARE": "declare void @llvm.aarch64.hint(i32)",
    }
    machine |= {"JOBS": str(8 * COUNTERS["jobs"]), "INLINE": str(8 * COUNTERS["inline"])}
    for key, value in machine.items():
        out = out.replace(f"!{key}", value)
    return out


_X86 = """declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse2.pause()"""

_COMMON = """
@weft_state = external global i8
@weft_counters = external global i8
declare ptr @llvm.thread.pointer()

define internal void @weft_inline(ptr %body, ptr %context, i64 %chunks) nounwind {
entry:
  %n = load i64, ptr getelementptr (i8, ptr @weft_counters, i64 !INLINE)
  %n1 = add i64 %n, 1
  store i64 %n1, ptr getelementptr (i8, ptr @weft_counters, i64 !INLINE)
  %none = icmp slt i64 %chunks, 1
  br i1 %none, label %done, label %head
head:
  %c = phi i64 [ 0, %entry ], [ %c1, %head ]
  call void %body(ptr %context, i64 %c, i64 0)
  %c1 = add i64 %c, 1
  %more = icmp slt i64 %c1, %chunks
  br i1 %more, label %head, label %done
done:
  ret void
}
"""

_INLINE_ONLY = _COMMON + """
define i1 @weft_acquire(i32 %limit) nounwind {
  ret i1 false
}

define void @weft_release() nounwind {
  ret void
}

define void @weft_parallel(ptr %body, ptr %context, i64 %chunks) nounwind {
  call void @weft_inline(ptr %body, ptr %context, i64 %chunks)
  ret void
}
"""

_TEXT = _COMMON + """
declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i64 @llvm.readcyclecounter()
!DECLARE

; wait while *word == value (private futex 128), or wake everybody who waits
define internal void @weft_sleep(ptr %word, i32 %value) nounwind {
  %r = call i64 (i64, ...) @syscall(i64 !FUTEX, ptr %word, i64 128, i32 %value, ptr null, ptr null, i64 0)
  ret void
}

define internal void @weft_wake(ptr %word) nounwind {
  %r = call i64 (i64, ...) @syscall(i64 !FUTEX, ptr %word, i64 129, i64 2147483647, ptr null, ptr null, i64 0)
  ret void
}

; take chunks of generation %gen until none is left
define internal void @weft_take(i64 %id, i32 %gen) nounwind {
entry:
  %mode = alloca i32
  %body = load ptr, ptr $body
  %context = load ptr, ptr $context
  %count32 = load i32, ptr $workers
  %count = zext i32 %count32 to i64
  %trace = load ptr, ptr $trace
  %trace.size = load i64, ptr $trace_size
  %mxcsr = load i32, ptr $mxcsr
  %worker = icmp ne i64 %id, 0
  br i1 %worker, label %set, label %victim
set:
  store i32 %mxcsr, ptr %mode
  !RESTORE
  br label %victim
victim:
  %k = phi i64 [ 0, %entry ], [ 0, %set ], [ %k1, %next ]
  %did = phi i64 [ 0, %entry ], [ 0, %set ], [ %did1, %next ]
  %sum = add i64 %id, %k
  %over = icmp uge i64 %sum, %count
  %wrapped = sub i64 %sum, %count
  %v = select i1 %over, i64 %wrapped, i64 %sum
  %shift = shl i64 %v, 6
  %range = getelementptr i8, ptr $ranges, i64 %shift
  %endp = getelementptr i8, ptr %range, i64 8
  br label %claim
claim:
  %did1 = phi i64 [ %did, %victim ], [ %did1, %try ], [ %did2, %ran ]
  %word = load atomic i64, ptr %range acquire, align 8
  %high = lshr i64 %word, 32
  %tag = trunc i64 %high to i32
  %live = icmp eq i32 %tag, %gen
  br i1 %live, label %look, label %out
look:
  %chunk = and i64 %word, 4294967295
  %end = load atomic i64, ptr %endp acquire, align 8
  %some = icmp ult i64 %chunk, %end
  br i1 %some, label %try, label %next
try:
  %word1 = add i64 %word, 1
  %pair = cmpxchg ptr %range, i64 %word, i64 %word1 acq_rel acquire, align 8
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %run, label %claim
run:
  call void %body(ptr %context, i64 %chunk, i64 %id)
  %did2 = add i64 %did1, 1
  %traced = icmp ult i64 %chunk, %trace.size
  br i1 %traced, label %note, label %ran
note:
  %cell = getelementptr i32, ptr %trace, i64 %chunk
  %id32 = trunc i64 %id to i32
  store i32 %id32, ptr %cell
  br label %ran
ran:
  br label %claim
next:
  %k1 = add i64 %k, 1
  %again = icmp ult i64 %k1, %count
  br i1 %again, label %victim, label %out
out:
  %total = phi i64 [ %did1, %claim ], [ %did1, %next ]
  %any = icmp ne i64 %total, 0
  br i1 %any, label %report, label %done
report:
  %before = atomicrmw sub ptr $remaining, i64 %total seq_cst, align 8
  %last = icmp eq i64 %before, %total
  br i1 %last, label %ask, label %done
ask:
  %waits = load atomic i32, ptr $waiting seq_cst, align 4
  %asleep = icmp ne i32 %waits, 0
  br i1 %asleep, label %wake, label %done
wake:
  call void @weft_wake(ptr $remaining)
  br label %done
done:
  ret void
}

; a worker thread: argument (generation << 32) | id
define internal ptr @weft_worker(ptr %argument) nounwind {
entry:
  %seen.p = alloca i32
  %arg = ptrtoint ptr %argument to i64
  %first64 = lshr i64 %arg, 32
  %first = trunc i64 %first64 to i32
  %id = and i64 %arg, 4294967295
  store i32 %first, ptr %seen.p
  br label %idle
idle:
  %seen = load i32, ptr %seen.p
  %since = !SINCE
  br label %spin
spin:
  %round = phi i64 [ 0, %idle ], [ %round1, %pause ]
  %gen = load atomic i32, ptr $generation acquire, align 4
  %new = icmp ne i32 %gen, %seen
  br i1 %new, label %work, label %pause
pause:
  !PAUSE
  %round1 = add i64 %round, 1
  %now = !NOW
  %passed = sub i64 %now, %since
  %owner = load atomic i64, ptr $lock monotonic, align 8
  %running = icmp ne i64 %owner, 0
  %patience = select i1 %running, i64 !PATIENT, i64 !SPIN
  %long = icmp ugt i64 %passed, %patience
  br i1 %long, label %sleep, label %spin
sleep:
  %a = atomicrmw add ptr $sleepers, i32 1 seq_cst, align 4
  call void @weft_sleep(ptr $generation, i32 %seen)
  %b = atomicrmw sub ptr $sleepers, i32 1 seq_cst, align 4
  br label %idle
work:
  store i32 %gen, ptr %seen.p
  %workers32 = load i32, ptr $workers
  %workers = zext i32 %workers32 to i64
  %wanted = icmp ult i64 %id, %workers
  br i1 %wanted, label %take, label %idle
take:
  call void @weft_take(i64 %id, i32 %gen)
  br label %idle
}

; make worker threads until %count of them (besides the caller) exist; they block all signals
define internal void @weft_start(i32 %count) nounwind noinline {
entry:
  %thread = alloca i64
  %all = alloca [128 x i8], align 8
  %old = alloca [128 x i8], align 8
  %f = call i32 @sigfillset(ptr %all)
  %m = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  %gen = load i32, ptr $generation
  %gen64 = zext i32 %gen to i64
  %high = shl i64 %gen64, 32
  br label %head
head:
  %have = load i32, ptr $started
  %few = icmp slt i32 %have, %count
  br i1 %few, label %make, label %done
make:
  %next = add i32 %have, 1
  %id = zext i32 %next to i64
  %packed = or i64 %high, %id
  %argument = inttoptr i64 %packed to ptr
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @weft_worker, ptr %argument)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %done, label %made
made:
  %t = load i64, ptr %thread
  %d = call i32 @pthread_detach(i64 %t)
  store i32 %next, ptr $started
  br label %head
done:
  %r = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  ret void
}

; own the pool with at most %limit workers, unless another thread does
define i1 @weft_acquire(i32 %limit) nounwind {
  %me = call ptr @llvm.thread.pointer()
  %me64 = ptrtoint ptr %me to i64
  %pair = cmpxchg ptr $lock, i64 0, i64 %me64 acq_rel acquire, align 8
  %mine = extractvalue { i64, i1 } %pair, 1
  br i1 %mine, label %set, label %done
set:
  store i32 %limit, ptr $limit
  ret i1 true
done:
  ret i1 false
}

define void @weft_release() nounwind {
  store atomic i64 0, ptr $lock release, align 8
  ret void
}

define void @weft_parallel(ptr %body, ptr %context, i64 %chunks) nounwind {
entry:
  %mode = alloca i32
  %single = icmp slt i64 %chunks, 2
  br i1 %single, label %inline, label %own
own:
  %me = call ptr @llvm.thread.pointer()
  %me64 = ptrtoint ptr %me to i64
  %owner = load atomic i64, ptr $lock monotonic, align 8
  %mine = icmp eq i64 %owner, %me64
  br i1 %mine, label %nested, label %try
nested:
  %busy = load i32, ptr $busy
  %inside = icmp ne i32 %busy, 0
  br i1 %inside, label %inline, label %go
try:
  %threads = load i32, ptr $threads
  %got = call i1 @weft_acquire(i32 %threads)
  br i1 %got, label %go, label %inline
go:
  %taken = phi i1 [ false, %nested ], [ true, %try ]
  %limit32 = load i32, ptr $limit
  %limit = sext i32 %limit32 to i64
  %fewer = icmp slt i64 %chunks, %limit
  %wish = select i1 %fewer, i64 %chunks, i64 %limit
  %wish32 = trunc i64 %wish to i32
  %others = sub i32 %wish32, 1
  %started = load i32, ptr $started
  %enough = icmp sge i32 %started, %others
  br i1 %enough, label %sized, label %start
start:
  call void @weft_start(i32 %others)
  br label %sized
sized:
  %alive = load i32, ptr $started
  %alive1 = add i32 %alive, 1
  %short = icmp slt i32 %alive1, %wish32
  %n32 = select i1 %short, i32 %alive1, i32 %wish32
  %n = zext i32 %n32 to i64
  %alone = icmp slt i32 %n32, 2
  br i1 %alone, label %alone.release, label %fork
alone.release:
  br i1 %taken, label %alone.free, label %inline
alone.free:
  call void @weft_release()
  br label %inline
fork:
  %j = load i64, ptr getelementptr (i8, ptr @weft_counters, i64 !JOBS)
  %j1 = add i64 %j, 1
  store i64 %j1, ptr getelementptr (i8, ptr @weft_counters, i64 !JOBS)
  store i32 1, ptr $busy
  %gen0 = load i32, ptr $generation
  %gen = add i32 %gen0, 1
  %gen64 = zext i32 %gen to i64
  %high = shl i64 %gen64, 32
  %closed = or i64 %high, 4294967295
  !SAVE
  %mxcsr = load i32, ptr %mode
  br label %close
close:  ; first no range can be claimed under the old generation, then everything else changes
  %x = phi i64 [ 0, %fork ], [ %x1, %close ]
  %x.shift = shl i64 %x, 6
  %x.range = getelementptr i8, ptr $ranges, i64 %x.shift
  store atomic i64 %closed, ptr %x.range release, align 8
  %x1 = add i64 %x, 1
  %x.old = load i32, ptr $workers
  %x.old64 = zext i32 %x.old to i64
  %x.in = icmp ult i64 %x1, %x.old64
  %x.new = icmp ult i64 %x1, %n
  %x.any = or i1 %x.in, %x.new
  br i1 %x.any, label %close, label %publish
publish:
  fence acq_rel
  store i32 %mxcsr, ptr $mxcsr
  store ptr %body, ptr $body
  store ptr %context, ptr $context
  store i32 %n32, ptr $workers
  store atomic i64 %chunks, ptr $remaining release, align 8
  br label %cut
cut:
  %w = phi i64 [ 0, %publish ], [ %w1, %cut ]
  %w1 = add i64 %w, 1
  %a = mul i64 %chunks, %w
  %b = mul i64 %chunks, %w1
  %first = udiv i64 %a, %n
  %last = udiv i64 %b, %n
  %shift = shl i64 %w, 6
  %range = getelementptr i8, ptr $ranges, i64 %shift
  %endp = getelementptr i8, ptr %range, i64 8
  %word = or i64 %high, %first
  store atomic i64 %last, ptr %endp release, align 8
  store atomic i64 %word, ptr %range release, align 8
  %more = icmp ult i64 %w1, %n
  br i1 %more, label %cut, label %open
open:
  store atomic i32 %gen, ptr $generation seq_cst, align 4
  %sleepers = load atomic i32, ptr $sleepers seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %wake, label %work
wake:
  call void @weft_wake(ptr $generation)
  br label %work
work:
  call void @weft_take(i64 0, i32 %gen)
  br label %wait
wait:
  %r = phi i64 [ 0, %work ], [ %r1, %pause ]
  %left = load atomic i64, ptr $remaining acquire, align 8
  %done = icmp eq i64 %left, 0
  br i1 %done, label %join, label %pause
pause:
  !PAUSE
  %r1 = add i64 %r, 1
  %long = icmp ugt i64 %r1, 2000
  br i1 %long, label %sleep, label %wait
sleep:
  store atomic i32 1, ptr $waiting seq_cst, align 4
  %still = load atomic i64, ptr $remaining seq_cst, align 8
  %ready = icmp eq i64 %still, 0
  br i1 %ready, label %awake, label %doze
doze:
  %still32 = trunc i64 %still to i32
  call void @weft_sleep(ptr $remaining, i32 %still32)
  br label %sleep
awake:
  store atomic i32 0, ptr $waiting seq_cst, align 4
  br label %join
join:
  store i32 0, ptr $busy
  br i1 %taken, label %free, label %return
free:
  call void @weft_release()
  br label %return
return:
  ret void
inline:
  call void @weft_inline(ptr %body, ptr %context, i64 %chunks)
  ret void
}
"""
