"""LLVM text of the thread pool: whom it belongs to, fork and join. Offsets into the state are in :data:`STATE`.

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
from weft.devices.cpu.native.table_ir import filled

MAX_WORKERS = 256
STATE = {  # byte offsets; what different threads write lies on different cache lines
    "generation": 0, "sleepers": 4,
    "lock": 64, "busy": 72, "limit": 76, "threads": 80, "started": 84, "guests": 88,
    "body": 128, "context": 136, "mxcsr": 144, "workers": 148, "trace": 152, "trace_size": 160,
    "remaining": 192, "waiting": 200,
    "ranges": 256,
}
STATE_SIZE = STATE["ranges"] + 64 * MAX_WORKERS
# counters: kernel entries (written by kernels), program runs, parallel jobs, calls that ran inline
COUNTERS = {"kernels": 0, "entries": 1, "jobs": 2, "inline": 3}


def text() -> str:
    out = _TEXT if machine_ir.has_threads() else _INLINE_ONLY
    for name in sorted(STATE, key=len, reverse=True):
        out = out.replace(f"${name}", f"getelementptr (i8, ptr @weft_state, i64 {STATE[name]})")
    return filled(out, {**machine_ir.words(), "JOBS": 8 * COUNTERS["jobs"], "INLINE": 8 * COUNTERS["inline"]})


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
define i1 @weft_enter(i32 %limit) nounwind {
  ret i1 false
}

define void @weft_leave(i1 %owner) nounwind {
  ret void
}

define void @weft_parallel(ptr %body, ptr %context, i64 %chunks) nounwind {
  call void @weft_inline(ptr %body, ptr %context, i64 %chunks)
  ret void
}
"""

_TEXT = _COMMON + worker_ir.TEXT + """
; own the pool with at most %limit workers, unless another thread does
define internal i1 @weft_acquire(i32 %limit) nounwind {
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

define internal void @weft_release() nounwind {
  store atomic i64 0, ptr $lock release, align 8
  ret void
}

; a program begins, as the owner of the pool or as a guest, and ends
define i1 @weft_enter(i32 %limit) nounwind {
entry:
  %owner = call i1 @weft_acquire(i32 %limit)
  br i1 %owner, label %done, label %guest
guest:
  %old = load atomic i64, ptr $guests acquire, align 8
  %fewest = trunc i64 %old to i32
  %more = icmp slt i32 %limit, %fewest
  %first = icmp eq i64 %old, 0
  %mine = or i1 %more, %first
  %least = select i1 %mine, i32 %limit, i32 %fewest
  %low = zext i32 %least to i64
  %count = lshr i64 %old, 32
  %count1 = add i64 %count, 1
  %high = shl i64 %count1, 32
  %new = or i64 %high, %low
  %pair = cmpxchg ptr $guests, i64 %old, i64 %new acq_rel acquire, align 8
  %set = extractvalue { i64, i1 } %pair, 1
  br i1 %set, label %done, label %guest
done:
  ret i1 %owner
}

define void @weft_leave(i1 %owner) nounwind {
entry:
  br i1 %owner, label %free, label %guest
free:
  call void @weft_release()
  ret void
guest: ; the last one leaves nothing behind
  %old = load atomic i64, ptr $guests acquire, align 8
  %less = sub i64 %old, 4294967296
  %others = icmp ugt i64 %old, 8589934591
  %new = select i1 %others, i64 %less, i64 0
  %pair = cmpxchg ptr $guests, i64 %old, i64 %new acq_rel acquire, align 8
  %set = extractvalue { i64, i1 } %pair, 1
  br i1 %set, label %done, label %guest
done:
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
  %guests = load atomic i64, ptr $guests acquire, align 8
  %no.guests = icmp eq i64 %guests, 0
  %fewest = trunc i64 %guests to i32
  %few = icmp slt i32 %fewest, %threads
  %least = select i1 %few, i32 %fewest, i32 %threads
  %allowed = select i1 %no.guests, i32 %threads, i32 %least
  %got = call i1 @weft_acquire(i32 %allowed)
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
  !SAVE_MODE
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
