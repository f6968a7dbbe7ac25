"""LLVM text of the pool's workers: how one sleeps and wakes, takes chunks, lives as a thread, and is made."""

TEXT = """
declare i64 @syscall(i64, ...)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i64 @llvm.readcyclecounter()
!DECLARE_MODE
!DECLARE_PAUSE

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
  !LOAD_MODE
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
"""
