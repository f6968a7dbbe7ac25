"""Loops as native code: one function walks the steps of a body, as often as its descriptor says.

``weft_loop`` is called as a kernel is. Its slots: the descriptor, scratch, the body's arena, the run's record, then for each
carry (init, last, spare or tape), each stacked operand, each stacked result, each constant. The descriptor is a table
(``table_ir.py``); behind its named words: for each carry (has a tape, bytes); a stride an operand; a stride a result;
offsets; numbers; steps.

The body's slots: its inputs, its outputs, arena offsets, numbers, scratch, the record. What changes lies on the stack: loops
nest, and several threads may run one at once. A fault in the record (see ``table_ir.py``) ends the loop.
"""

from __future__ import annotations

import numpy as np

from weft.devices.cpu.native.table_ir import (
    FAULT,
    HEADER,
    LOOP,
    STEP,
    TableRow,
    addresses,
    filled,
    header,
    most_arguments,
    read,
    step_words,
)


class Descriptor:
    """The words of one loop, kept as long as the program that holds it."""

    def __init__(
        self, length: int, reverse: bool, carries: list[tuple[int, int]], xs: list[int], ys: list[int], constants: int,
        arena: list[int], numbers: list[int], steps: list[TableRow], every: int,
    ) -> None:
        words = header(
            LOOP, length=length, reverse=int(reverse), carries=len(carries), xs=len(xs), ys=len(ys), constants=constants,
            na=len(arena), numbers=len(numbers), ns=len(steps), most=most_arguments(steps), every=every,
            total=2 * len(carries) + len(xs) + constants + len(ys) + len(arena) + len(numbers) + 2,
        )
        for pair in carries:
            words += pair
        words += [*xs, *ys, *arena, *numbers, *step_words(steps)]
        self.words = np.array(words, dtype=np.int64)
        self.address = int(self.words.ctypes.data)


def text() -> str:
    return filled(_TEXT, {"HEADER": HEADER})


_TEXT = """
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)

; to[k] = from[k] + place * stride[k]
define internal void @weft_slices(ptr %to, ptr %from, ptr %strides, i64 %count, i64 %place) nounwind {
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %k1, %body ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %body, label %done
body:
  %from.p = getelementptr i64, ptr %from, i64 %k
  %base = load i64, ptr %from.p
  %stride.p = getelementptr i64, ptr %strides, i64 %k
  %stride = load i64, ptr %stride.p
  %far = mul i64 %stride, %place
  %address = add i64 %base, %far
  %to.p = getelementptr i64, ptr %to, i64 %k
  store i64 %address, ptr %to.p
  %k1 = add i64 %k, 1
  br label %head
done:
  ret void
}

define void @weft_loop(ptr %args) nounwind {
begin:
  %d = load ptr, ptr %args
""" + read("d", LOOP, *LOOP) + """
  %scratch.p = getelementptr i64, ptr %args, i64 1
  %scratch = load i64, ptr %scratch.p
  %base.p = getelementptr i64, ptr %args, i64 2
  %base = load i64, ptr %base.p
  %record.p = getelementptr i64, ptr %args, i64 3
  %record = load ptr, ptr %record.p
  %given = getelementptr i64, ptr %args, i64 4
  %n2 = shl i64 %carries, 1
  %n3 = add i64 %n2, %carries
  %given.x = getelementptr i64, ptr %given, i64 %n3
  %given.y = getelementptr i64, ptr %given.x, i64 %xs
  %given.c = getelementptr i64, ptr %given.y, i64 %ys
  %about = getelementptr i64, ptr %d, i64 !HEADER
  %stride.x = getelementptr i64, ptr %about, i64 %n2
  %stride.y = getelementptr i64, ptr %stride.x, i64 %xs
  %offsets = getelementptr i64, ptr %stride.y, i64 %ys
  %literal = getelementptr i64, ptr %offsets, i64 %na
  %first = getelementptr i64, ptr %literal, i64 %numbers
  %slots = alloca i64, i64 %total, align 16
  %packed = alloca i64, i64 %most, align 16
  %slot.x = getelementptr i64, ptr %slots, i64 %carries
  %slot.c = getelementptr i64, ptr %slot.x, i64 %xs
  %slot.out = getelementptr i64, ptr %slot.c, i64 %constants
  %slot.y = getelementptr i64, ptr %slot.out, i64 %carries
  %slot.a = getelementptr i64, ptr %slot.y, i64 %ys
  %slot.k = getelementptr i64, ptr %slot.a, i64 %na
  %slot.s = getelementptr i64, ptr %slot.k, i64 %numbers
  store i64 %scratch, ptr %slot.s
  %slot.r = getelementptr i64, ptr %slot.s, i64 1
  store ptr %record, ptr %slot.r
  %c.bytes = shl i64 %constants, 3
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %slot.c, ptr align 8 %given.c, i64 %c.bytes, i1 false)
  %k.bytes = shl i64 %numbers, 3
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %slot.k, ptr align 8 %literal, i64 %k.bytes, i1 false)
""" + addresses("begin", "base", "slot.a", "enter") + """
enter:
  %end = sub i64 %length, 1
  %backward = icmp ne i64 %reverse, 0
  %direction = select i1 %backward, i64 -1, i64 1
  br label %t.head
t.head:
  %t = phi i64 [ 0, %enter ], [ %t1, %t.next ]
  %since = phi i64 [ 0, %enter ], [ %since.next, %t.next ]
  %t.more = icmp slt i64 %t, %length
  br i1 %t.more, label %t.body, label %done
t.body:
  %left = sub i64 %end, %t
  %place = select i1 %backward, i64 %left, i64 %t
  %beyond = add i64 %place, %direction
  %is.first = icmp eq i64 %t, 0
  %is.last = icmp eq i64 %left, 0
  %odd = trunc i64 %left to i1
  br label %c.head
c.head:
  %c = phi i64 [ 0, %t.body ], [ %c1, %c.next ]
  %c.more = icmp slt i64 %c, %carries
  br i1 %c.more, label %c.body, label %slices
c.body:
  %c2 = shl i64 %c, 1
  %c3 = add i64 %c2, %c
  %init.p = getelementptr i64, ptr %given, i64 %c3
  %last.p = getelementptr i64, ptr %init.p, i64 1
  %other.p = getelementptr i64, ptr %init.p, i64 2
  %init = load i64, ptr %init.p
  %last = load i64, ptr %last.p
  %other = load i64, ptr %other.p
  %taped.p = getelementptr i64, ptr %about, i64 %c2
  %taped64 = load i64, ptr %taped.p
  %taped = icmp ne i64 %taped64, 0
  %nbytes.p = getelementptr i64, ptr %taped.p, i64 1
  %nbytes = load i64, ptr %nbytes.p
  br i1 %taped, label %c.tape, label %c.swap
c.tape:
  %here.off = mul i64 %place, %nbytes
  %here = add i64 %other, %here.off
  %there.off = mul i64 %beyond, %nbytes
  %there = add i64 %other, %there.off
  %tape.out = select i1 %is.last, i64 %last, i64 %there
  br i1 %is.first, label %c.fill, label %c.next
c.fill:
  %here.p = inttoptr i64 %here to ptr
  %init.from = inttoptr i64 %init to ptr
  call void @llvm.memcpy.p0.p0.i64(ptr %here.p, ptr %init.from, i64 %nbytes, i1 false)
  br label %c.next
c.swap:
  %swap.out = select i1 %odd, i64 %other, i64 %last
  %swap.rest = select i1 %odd, i64 %last, i64 %other
  %swap.in = select i1 %is.first, i64 %init, i64 %swap.rest
  br label %c.next
c.next:
  %in = phi i64 [ %here, %c.tape ], [ %here, %c.fill ], [ %swap.in, %c.swap ]
  %out = phi i64 [ %tape.out, %c.tape ], [ %tape.out, %c.fill ], [ %swap.out, %c.swap ]
  %in.p = getelementptr i64, ptr %slots, i64 %c
  store i64 %in, ptr %in.p
  %out.p = getelementptr i64, ptr %slot.out, i64 %c
  store i64 %out, ptr %out.p
  %c1 = add i64 %c, 1
  br label %c.head
slices:
  call void @weft_slices(ptr %slot.x, ptr %given.x, ptr %stride.x, i64 %xs, i64 %place)
  call void @weft_slices(ptr %slot.y, ptr %given.y, ptr %stride.y, i64 %ys, i64 %place)
  br label %step.head
step.head:
  %s = phi i64 [ 0, %slices ], [ %s1, %step.next ]
  %step = phi ptr [ %first, %slices ], [ %after, %step.next ]
  %s.more = icmp slt i64 %s, %ns
  br i1 %s.more, label %step.body, label %watch
""" + STEP + """
""" + filled(FAULT, {"NEXT": "step.next", "FAULTED": "done"}) + """
step.next:
  br label %step.head
watch:
  %t1 = add i64 %t, 1
  %since1 = add i64 %since, 1
  %watches = icmp ne i64 %every, 0
  %due = icmp sge i64 %since1, %every
  %looks = and i1 %watches, %due
  br i1 %looks, label %signals, label %t.next
signals: ; the driver has given the interpreter lock up; it finds the exception when the loop is left
  %state = call i32 @PyGILState_Ensure()
  %interrupted = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %state)
  %stop = icmp ne i32 %interrupted, 0
  br i1 %stop, label %done, label %t.next
t.next:
  %since.next = phi i64 [ %since1, %watch ], [ 0, %signals ]
  br label %t.head
done:
  ret void
}
"""
