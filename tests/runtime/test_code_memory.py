"""Memory of code: given out and taken back without overlap or growth, never while it runs, never writable and executable."""

from __future__ import annotations

import ctypes
import random
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from handmade import F32, device, executable, scale_ir, scale_kernel, scale_twice

from weft.devices.cpu.device import CPUDevice
from weft.devices.cpu.emit.text import Generated
from weft.devices.cpu.native import code_memory, elf
from weft.devices.cpu.native.code_memory import PAGE, CodeMemory, FreeSpans
from weft.devices.cpu.native.compile import MAX_UNUSED_KERNELS, Compiler, function
from weft.devices.cpu.native.emission import emit_object
from weft.schedule.kernel_info import KernelInfo
from weft.schedule.program import Call, Program, Slot


def test_spans_neither_overlap_nor_leak() -> None:
    r = random.Random()
    spans, free, taken = FreeSpans(200), set(range(200)), []
    for _ in range(3000):
        if taken and (r.random() < 0.5 or len(free) < 10):
            start, count = taken.pop(r.randrange(len(taken)))
            spans.give(start, count)
            free |= set(range(start, start + count))
        else:
            count = r.choice((1, 1, 2, 3, 7, 30))
            start = spans.take(count)
            fits = any(set(range(k, k + count)) <= free for k in range(201 - count))
            assert (start is not None) == fits
            if start is not None:
                assert set(range(start, start + count)) <= free
                free -= set(range(start, start + count))
                taken.append((start, count))
        assert spans.free() == len(free)
    for start, count in taken:
        spans.give(start, count)
    assert spans.take(200) == 0 and spans.take(1) is None  # one stretch again


def test_regions_are_made_as_needed_and_code_is_where_it_was_put(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_memory, "CODE", 8 * PAGE)
    monkeypatch.setattr(code_memory, "DATA", 2 * PAGE)
    memory, r, held = CodeMemory(), random.Random(), []
    for _ in range(400):
        if held and r.random() < 0.48:
            place, code, data = held.pop(r.randrange(len(held)))
            assert ctypes.string_at(place.code_address, len(code)) == code
            assert ctypes.string_at(place.data_address, len(data)) == data
            memory.give(place)
        else:
            code, data = (r.randbytes(r.choice((0, 1, 70, n - 1, n, n + 1, 9 * PAGE))) for n in (PAGE, 2 * PAGE))
            place = memory.take(len(code), len(data))
            memory.fill(place, code, data)
            held.append((place, code, data))
    assert len(memory.regions) > 1
    for place, _, _ in held:
        memory.give(place)
    assert memory.used_bytes() == 0


def _maps() -> list[str]:
    return Path("/proc/self/maps").read_text().splitlines()


def _modes(memory: CodeMemory) -> list[tuple[int, str]]:
    """Where in the one region each mapping begins, and its protection."""
    (region,) = memory.regions
    found = []
    for line in _maps():
        begin, end = (int(x, 16) for x in line.split()[0].split("-"))
        if begin < region.address + len(region.memory) and end > region.address:
            found.append((max(begin, region.address) - region.address, line.split()[1]))
    return found


def _scale(name: str) -> Generated:
    return Generated(name, scale_ir(name, 4, 2), 0, 64)


@pytest.mark.parametrize("loader", ["own", "llvm"])
def test_dropped_kernels_give_their_memory_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loader: str) -> None:
    if loader == "llvm":
        monkeypatch.setattr(elf, "is_supported", lambda: False)
    be = device(tmp_path, threads=1)
    assert be.native["weft_run"]
    known = be.compiler
    fixed = known.memory.used_bytes()
    loaded = known.kernel("scale", lambda: _scale("scale"))
    entry = next(p for p in tmp_path.iterdir() if b'"symbol": "scale"' in p.read_bytes())
    bytes_of_it = known.cache.read(entry.stem)
    assert bytes_of_it is not None
    monkeypatch.setattr(type(known.cache), "read", lambda self, name: bytes_of_it)  # each further kernel is loaded, none compiled
    counts, sizes = [], []
    for k in range(6 * MAX_UNUSED_KERNELS):
        loaded = known.kernel(f"kernel {k}", lambda: _scale("scale"))
        if k >= 2 * MAX_UNUSED_KERNELS and k % 100 == 0:
            counts.append(len(_maps()))
            sizes.append(len(known.kernels))
    assert max(sizes) <= MAX_UNUSED_KERNELS + 4
    assert max(counts) - min(counts) <= (4 if loader == "own" else 4 * MAX_UNUSED_KERNELS)
    assert known.memory.used_bytes() - fixed <= (MAX_UNUSED_KERNELS + 4) * 3 * PAGE
    used = known.memory.used_bytes()
    assert known.sweep() > 0 and known.sweep() == 0
    assert list(known.kernels.values())[0].kernel_ref() is loaded
    assert known.memory.used_bytes() < used or loader == "llvm"
    x = np.random.default_rng().normal(size=8).astype(np.float32)
    program = Program(
        (((8,), F32), ((), F32)), (((8,), F32),), (Slot(0, "input", (8,), F32, 0), Slot(1, "output", (8,), F32, 0)),
        (Call(None, (0, 1), (1,)),), 0,  # type: ignore[arg-type]
    )
    out = executable(be, program, loaded)([be.upload(x), 3.0])[0]  # what is left can be run
    assert np.array_equal(be.download(out, (8,), F32), x * np.float32(3))


def test_what_is_held_stays_and_what_was_dropped_is_found_until_it_is_swept(tmp_path: Path) -> None:
    be = device(tmp_path, threads=1)
    assert be.native
    known = be.compiler
    first, second = (known.kernel(name, lambda name=name: _scale(name)) for name in ("one", "two"))  # type: ignore[misc]
    address, loads = second.address, known.counts.loads
    del second
    assert known.kernel("two", lambda: 1 / 0).address == address and known.counts.loads == loads
    assert known.sweep() == 1
    assert known.kernel("one", lambda: 1 / 0) is first
    again = known.kernel("two", lambda: 1 / 0)  # from disk
    assert known.counts.loads == loads + 1 and again.worker_scratch == 64


_WAIT = """
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


def _waiting(be: CPUDevice) -> Program:
    slots = (Slot(0, "input", (1,), F32, 0), Slot(1, "output", (1,), F32, 0))
    info = (KernelInfo("wait", 1, 10**9, 0, (), ()),)  # slow: the interpreter lock is given up
    return Program((((1,), F32),), (((1,), F32),), slots, (Call(None, (0,)),), 0, (), info)  # type: ignore[arg-type]


def test_code_that_a_thread_runs_is_not_freed(tmp_path: Path) -> None:
    be = device(tmp_path, threads=1)
    assert be.native
    flag = be.upload(np.zeros(1, np.float32))
    kernel = be.compiler.kernel("wait", lambda: Generated("wait", _WAIT, 0, 0))
    held = [executable(be, _waiting(be), kernel)]
    ended = []
    thread = threading.Thread(target=lambda: ended.append(held.pop()([flag])))
    thread.start()
    del kernel
    while held:
        time.sleep(0.001)
    time.sleep(0.05)
    assert be.compiler.sweep() == 0 and not ended
    be.download(flag, (1,), F32, writable=True)[:] = 1
    thread.join(60)
    assert len(ended) == 1 and be.compiler.sweep() == 1


def test_damaged_objects_are_refused_and_leave_nothing() -> None:
    """What is not refused is put into memory, inside its own pages, and not run."""
    code, _ = emit_object(scale_ir("damaged", 4, 2))
    memory, r, refused = CodeMemory(), random.Random(), 0
    placed = elf.load(code, lambda name: 4096, memory)
    size = memory.used_bytes()
    memory.give(placed[1])
    for _ in range(4000):
        bad = bytearray(code)
        for _ in range(r.choice((1, 1, 2, 8))):
            at = r.randrange(len(bad)) if r.random() < 0.5 else len(bad) - 1 - r.randrange(min(len(bad), 1200))
            bad[at] = r.choice((0, 1, 255, 128, r.randrange(256)))
        if r.random() < 0.2:
            bad = bad[: r.randrange(len(bad))]
        try:
            placed = elf.load(bytes(bad), lambda name: 4096, memory)
        except elf.UnsupportedObject:
            refused += 1
        else:
            assert memory.used_bytes() < size + (1 << 21)
            memory.give(placed[1])
        assert memory.used_bytes() == 0
    assert refused > 400
    assert _modes(memory) == [(0, "r-xp"), (code_memory.CODE, "rw-p")]


def test_pages_are_executable_or_writable(tmp_path: Path) -> None:
    be = device(tmp_path, threads=1)
    be.compiler.kernel("wait", lambda: Generated("wait", _WAIT, 0, 0))
    assert _modes(be.compiler.memory) == [(0, "r-xp"), (code_memory.CODE, "rw-p")]


def test_no_thread_meets_a_kernel_that_another_sweeps(tmp_path: Path) -> None:
    be = device(tmp_path, threads=1)
    kernel = scale_kernel(be)
    entry = be.compiler
    stop, failed = threading.Event(), []

    def sweep() -> None:
        while not stop.is_set():
            entry.sweep()

    def ask() -> None:
        try:
            for k in range(300):
                found = entry.kernel(f"k{k % 3}", lambda: Generated("scale", scale_ir("scale", 256, 16), 0, 64))
                x = np.full(4096, float(k), np.float32)
                out = executable(be, scale_twice(4096), found)([be.upload(x), 2.0, 1.0])[0]
                assert (be.download(out, (4096,), F32) == 2 * k).all()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    sweeper = threading.Thread(target=sweep)
    for t in (*threads, sweeper):
        t.start()
    for t in threads:
        t.join()
    stop.set()
    sweeper.join()
    assert not failed and kernel.address


@pytest.mark.parametrize("after", [0, 1, 2, 5])
def test_where_memory_cannot_be_made_executable_llvm_tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """After so many changes of protection the system refuses: at the region, when code is written, when it is closed."""
    real, count = code_memory._protect, [0]

    def protect(*args: int) -> int:
        count[0] += 1
        return real(*args) if count[0] <= after else -1

    monkeypatch.setattr(code_memory, "_protect", protect)
    be = device(tmp_path, threads=1)
    x = np.arange(4096, dtype=np.float32)
    out = executable(be, scale_twice(4096), scale_kernel(be))([be.upload(x), 2.0, 1.0])[0]
    assert np.array_equal(be.download(out, (4096,), F32), x * 2)
    assert count[0] > after and b'"llvm": true' in b"".join(p.read_bytes() for p in tmp_path.iterdir())


def test_code_of_modules_stays(tmp_path: Path) -> None:
    known = Compiler(device(tmp_path).compiler.cache)
    text = "define i32 @seven() nounwind {\n  ret i32 7\n}"
    address = known.module(text)["seven"]
    known.sweep()
    assert known.module(text)["seven"] == address and known.counts.loads == 1
    assert function(address, result=ctypes.c_int32)() == 7
