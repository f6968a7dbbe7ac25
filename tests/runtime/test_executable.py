"""Programs: one native entry a run, donation, scalars, Python steps, two threads, signals, denormals."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from handmade import F32, device, executable, scale_ir, scale_kernel, scale_twice, with_host

from weft.devices.cpu.device import CPUDevice
from weft.devices.cpu.native.allocator import BorrowedBuffer
from weft.devices.cpu.native.compile import LoadedKernel
from weft.devices.cpu.native.executable import CPUExecutable
from weft.devices.cpu.native.layouts import POOL, offset
from weft.dtypes.parse import parse_dtype
from weft.schedule.program import Call, Copy, KernelInfo, Program, Slot

N = 4096


@pytest.fixture(scope="module")
def be(tmp_path_factory: pytest.TempPathFactory) -> CPUDevice:
    return device(tmp_path_factory.mktemp("cache"), threads=2)


def _x(seed: int, n: int = N) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=n).astype(np.float32)


def test_one_native_entry_and_no_new_memory_a_run(be: CPUDevice) -> None:
    ex = executable(be, scale_twice(N), scale_kernel(be))
    x = _x(1)
    buffer = be.upload(x)
    before = be.counters()
    for i in range(50):
        out = be.download(ex([buffer, 2.0 + i, 0.25])[0], (N,), F32)
        assert np.array_equal(out, x * np.float32(2 + i) * np.float32(0.25))
        del out
        if i == 5:
            warm = be.counters()
    after = be.counters()
    assert after["entries"] - before["entries"] == 50
    assert after["kernels"] - before["kernels"] == 100
    assert after["allocator_misses"] == warm["allocator_misses"]
    assert after["compiles"] == before["compiles"]


def test_changing_the_number_of_threads_to_and_fro_keeps_no_more_memory(be: CPUDevice) -> None:
    ex = executable(be, scale_twice(N), scale_kernel(be))
    x = _x(14)
    try:
        for k in range(40):
            be.pool.set_threads(1 + k % 3)
            out = be.download(ex([be.upload(x), 3.0, 0.5])[0], (N,), F32)
            assert np.array_equal(out, x * np.float32(1.5)) and ex.direct()
    finally:
        be.pool.set_threads(2)
    assert len(ex._tables) == 3


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_same_bits_with_any_number_of_threads(be: CPUDevice, threads: int) -> None:
    ex = executable(be, scale_twice(N), scale_kernel(be))
    x = _x(2)
    be.pool.set_threads(threads)
    try:
        for _ in range(20):
            out = be.download(ex([be.upload(x), 3.0, 0.5])[0], (N,), F32)
            assert np.array_equal(out, x * np.float32(3) * np.float32(0.5))
    finally:
        be.pool.set_threads(2)


@pytest.mark.parametrize(("dtype", "values"), [
    (np.float32, [0.1, -1.0, 3, True, float("inf"), np.float64(0.3)]), (np.float64, [0.1, -1.0, 1e300]),
    (np.float16, [0.1, -1.0, 2049]), (ml_dtypes.bfloat16, [0.1, -1.0, 1e38]),
    (np.int64, [-1, 2**62, np.int8(5)]), (np.int8, [-1, 127]), (np.uint64, [2**64 - 1]), (np.int32, [-(2**31)]),
    (np.bool_, [True, False]),
])
def test_numbers_reach_the_kernel_in_its_dtype(be: CPUDevice, dtype: type, values: list) -> None:
    dt = parse_dtype(dtype)
    ir = f"""
define void @put_{dt.name}(ptr %args) nounwind {{
  %out = load ptr, ptr %args
  %s.p = getelementptr i64, ptr %args, i64 1
  %s = load i{dt.bits}, ptr %s.p
  store i{dt.bits} %s, ptr %out
  ret void
}}"""
    kernel = LoadedKernel(be.compiler.module(ir)[f"put_{dt.name}"], 0, 0, False)
    program = Program((((), dt),), (((), dt),), (Slot(0, "output", (), dt, 0),), (Call(None, (0,), (0,)),), 0)  # type: ignore[arg-type]
    ex = executable(be, program, kernel)
    for value in values:
        out = be.download(ex([value])[0], (), dt)
        assert out.tobytes() == np.asarray(value).astype(dtype).tobytes(), value


def test_what_is_no_number_raises(be: CPUDevice) -> None:
    ex = executable(be, scale_twice(N), scale_kernel(be))
    x = be.upload(_x(3))
    with pytest.raises(TypeError):
        ex([x, "a", 1.0])
    with pytest.raises(AttributeError, match="address"):
        ex([3.0, 1.0, 1.0])
    with pytest.raises(TypeError):
        ex([x, 1.0])
    assert np.isfinite(be.download(ex([x, 1.0, 1.0])[0], (N,), F32)).all()


def test_donation_only_when_nobody_else_holds_or_sees(be: CPUDevice) -> None:
    ex = executable(be, scale_twice(N, donate=True), scale_kernel(be))
    x = _x(4)
    free = [False, False, False]

    def run(held: list[bool] | None, buffer: object) -> tuple[bool, np.ndarray]:
        out = ex([buffer, 2.0, 0.5], held)[0]
        return out is buffer, be.download(out, (N,), F32).copy()

    taken, out = run(free, be.upload(x))
    assert taken and np.array_equal(out, x)
    for held in (None, [True, False, False]):
        buffer = be.upload(x)
        taken, out = run(held, buffer)
        assert not taken and np.array_equal(out, x)
        assert np.array_equal(be.download(buffer, (N,), F32), x)
    seen = be.upload(x)
    view = be.download(seen, (N,), F32)
    assert not run(free, seen)[0] and np.array_equal(view, x)
    del view
    assert run(free, seen)[0]
    assert not run(free, BorrowedBuffer(x.ctypes.data, x.nbytes, x))[0]
    short = be.upload(np.zeros(N + 1, np.float32))
    assert not run(free, short)[0]
    with pytest.raises(TypeError):
        ex([be.upload(x), 2.0, 0.5], [False])


def test_one_buffer_given_twice_is_not_donated(be: CPUDevice) -> None:
    slots = tuple(Slot(i, "input" if i < 2 else "output", (N,), F32, i % 2) for i in range(4))
    program = Program((((N,), F32),) * 2, (((N,), F32),) * 2, slots, (Copy(0, 2), Copy(1, 3)), 0, ((0, 0), (1, 1), (0, 1)))
    ex = executable(be, program, scale_kernel(be))
    a, b = be.upload(_x(5)), be.upload(_x(6))
    out = ex([a, a], [False, False])
    assert out[0] is not a and out[1] is not a and out[0] is not out[1]
    out = ex([a, b], [False, False])
    assert out == [a, b]
    out = ex([a, b], [False, True])
    assert out[0] is a and out[1] is not b
    assert np.array_equal(be.download(out[1], (N,), F32), be.download(b, (N,), F32))


def test_a_python_step_between_native_ones(be: CPUDevice) -> None:
    ex = executable(be, with_host(N), scale_kernel(be))
    x = _x(7)
    entries = be.counters()["entries"]
    out = be.download(ex([be.upload(x), 3.0])[0], (N,), F32)
    assert np.array_equal(out, np.sort(x * np.float32(3)) * np.float32(3))
    assert be.counters()["entries"] - entries == 3  # the outputs, and a segment on either side


def test_a_failing_python_step_leaves_the_executable_usable(be: CPUDevice) -> None:
    program = with_host(N)
    fail = [True]

    def sort(a: np.ndarray) -> np.ndarray:
        if fail[0]:
            raise FloatingPointError("no")
        return np.sort(a)

    steps = (program.steps[0], replace(program.steps[1], fn=sort), program.steps[2])  # type: ignore[type-var]
    ex = executable(be, replace(program, steps=steps), scale_kernel(be))
    x = _x(8)
    with pytest.raises(FloatingPointError):
        ex([be.upload(x), 1.0])
    idle = be.allocator.misses
    fail[0] = False
    assert np.array_equal(be.download(ex([be.upload(x), 1.0])[0], (N,), F32), np.sort(x))
    assert be.allocator.misses <= idle + 2


def test_copies_aliases_and_numbers_as_outputs(be: CPUDevice) -> None:
    slots = (
        Slot(0, "input", (2, 6), F32, 0), Slot(1, "alias", (12,), F32, of=0), Slot(2, "output", (12,), F32, 0),
        Slot(3, "input", (), F32, 1), Slot(4, "output", (), F32, 1),
        Slot(5, "input", (0,), F32, 2), Slot(6, "output", (0,), F32, 2),
    )
    inputs, outputs = (((2, 6), F32), ((), F32), ((0,), F32)), (((12,), F32), ((), F32), ((0,), F32))
    program = Program(inputs, outputs, slots, (Copy(1, 2), Copy(3, 4), Copy(5, 6)), 0)
    ex = CPUExecutable(program, [], be.pool, be.allocator, be.native)
    x = _x(9, 12)
    for number in (2.5, be.upload(np.float32(2.5).reshape(()))):
        out = ex([be.upload(x.reshape(2, 6)), number, be.upload(np.zeros(0, np.float32))])
        assert np.array_equal(be.download(out[0], (12,), F32), x)
        assert be.download(out[1], (), F32) == 2.5
        assert be.download(out[2], (0,), F32).shape == (0,)


def test_two_threads_call_one_executable(be: CPUDevice) -> None:
    ex = executable(be, scale_twice(1 << 18), scale_kernel(be, 4096, 64, "wide"))
    assert ex._slow  # gives up the interpreter lock: the two really overlap
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = _x(seed, 1 << 18)
        buffer = be.upload(x)
        for i in range(60):
            out = be.download(ex([buffer, 1.0 + i, 0.5])[0], x.shape, F32)
            if not np.array_equal(out, x * np.float32(1 + i) * np.float32(0.5)):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(s,)) for s in (10, 11)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_program_that_began_without_the_pool_never_has_more_workers_than_scratch(be: CPUDevice) -> None:
    wait = """
define void @wait(ptr %args) nounwind {
entry:
  %flag = load ptr, ptr %args
  br label %head
head:
  %set = load volatile i32, ptr %flag
  %go = icmp ne i32 %set, 0
  br i1 %go, label %done, label %head
done:
  ret void
}"""
    scale = scale_kernel(be)
    kernels = [LoadedKernel(be.compiler.module(wait)["wait"], 0, 0, False), scale]
    slots = (
        Slot(0, "input", (1,), F32, 0), Slot(1, "input", (N,), F32, 1), Slot(2, "output", (N,), F32, 0),
    )
    steps = (Call(None, (0,)), Call(None, (1, 2), (2,)))  # type: ignore[arg-type]
    info = (KernelInfo("wait", 1, 10**9, 0, (), ()), KernelInfo("scale", 1, 0, 0, (), ()))  # slow: others may run meanwhile
    program = Program((((1,), F32), ((N,), F32), ((), F32)), (((N,), F32),), slots, steps, 0, (), info)
    ex = CPUExecutable(program, kernels, be.pool, be.allocator, be.native)
    x, flag = _x(13), be.upload(np.zeros(1, np.float32))
    lock, guests = (ctypes.c_int64.from_address(be.pool.state + offset(POOL, name)) for name in ("lock", "guests"))
    out: list[np.ndarray] = []
    thread = threading.Thread(target=lambda: out.append(be.download(ex([flag, be.upload(x), 3.0])[0], (N,), F32)))
    lock.value = 1  # as if another thread's program had the pool
    try:
        thread.start()
        while not guests.value:
            time.sleep(0.001)
        lock.value = 0
        be.pool.set_threads(4)
        jobs = be.counters()["parallel_jobs"]
        be.download(flag, (1,), F32, writable=True)[:] = 1
        thread.join()
        assert be.counters()["parallel_jobs"] == jobs + 1  # it takes the pool where it finds it free
        assert be.pool.field("workers").value == 2 and guests.value == 0
    finally:
        lock.value = 0
        be.pool.set_threads(2)
    assert np.array_equal(out[0], x * np.float32(3))


def test_denormals_are_flushed_only_when_asked_on_workers_too(be: CPUDevice) -> None:
    x = np.full(N, 2e-38, np.float32)
    kernel = scale_kernel(be)
    for _ in range(20):
        kept = be.download(executable(be, scale_twice(N), kernel)([be.upload(x), 0.25, 1.0])[0], (N,), F32)
        flushed = be.download(executable(be, scale_twice(N), kernel, flush=True)([be.upload(x), 0.25, 1.0])[0], (N,), F32)
        assert (kept == np.float32(5e-39)).all() and (flushed == 0).all()
    assert np.float32(2e-38) * np.float32(0.25) != 0  # this thread's own mode is as it was


def test_ctrl_c_between_kernels(be: CPUDevice) -> None:
    """A Program of many kernels stops after the kernel that runs, with the pool free again."""
    spin = """
define void @spin(ptr %args) nounwind {
entry:
  %p = alloca i64
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %head ]
  store volatile i64 %i, ptr %p
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, 3000000
  br i1 %more, label %head, label %done
done:
  ret void
}"""
    kernel = LoadedKernel(be.compiler.module(spin)["spin"], 0, 0, False)
    steps = tuple(Call(None, (0,)) for _ in range(4000))  # type: ignore[arg-type]
    info = tuple(KernelInfo("spin", 1, 10**9, 0, (), ()) for _ in steps)
    program = Program((), (((1,), F32),), (Slot(0, "output", (1,), F32, 0),), steps, 0, (), info)
    ex = executable(be, program, kernel)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        ex([])
    timer.join()
    free = executable(be, scale_twice(N), scale_kernel(be))
    jobs = be.counters()["parallel_jobs"]
    free([be.upload(_x(12)), 1.0, 1.0])
    assert be.counters()["parallel_jobs"] == jobs + 2


def test_a_program_without_steps(be: CPUDevice) -> None:
    program = Program((), (((0, 3), F32),), (Slot(0, "output", (0, 3), F32, 0),), (), 0)
    ex = CPUExecutable(program, [], be.pool, be.allocator, be.native)
    assert be.download(ex([])[0], (0, 3), F32).shape == (0, 3)


def test_the_compiler_remembers_a_kernel(be: CPUDevice) -> None:
    from weft.devices.cpu.emit.text import Generated

    assert be.native
    made: list[int] = []

    def generate() -> Generated:
        made.append(1)
        return Generated("again", scale_ir("again", 4, 2), 0, 64, ("parallel",))

    first = be.compiler.kernel("a kernel's printed text", generate)
    assert be.compiler.kernel("a kernel's printed text", generate) == first and made == [1]
    assert first.parallel and first.worker_scratch == 64
