"""The pool: every chunk once, on several workers, from two threads, after a fork, and nested."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from handmade import device

from weft import devices as runtime
from weft.devices.cpu import device as device_module
from weft.devices.cpu.device import CPUDevice
from weft.devices.cpu.native.compile import function
from weft.devices.cpu.native.threads import Pool, default_threads

# one(ctx, chunks): ctx[chunk] += 1 for every chunk, with some work in it; nest(ctx, chunks): a parallel loop inside each chunk
_IR = """
declare void @weft_parallel(ptr, ptr, i64)

define void @body(ptr %ctx, i64 %chunk, i64 %worker) nounwind {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i1, %head ]
  %p = getelementptr i64, ptr %ctx, i64 %chunk
  %v = load volatile i64, ptr %p
  store volatile i64 %v, ptr %p
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, 2000
  br i1 %more, label %head, label %done
done:
  %u = load i64, ptr %p
  %u1 = add i64 %u, 1
  store i64 %u1, ptr %p
  ret void
}

define void @one(ptr %ctx, i64 %chunks) nounwind {
  call void @weft_parallel(ptr @body, ptr %ctx, i64 %chunks)
  ret void
}

define void @outer(ptr %ctx, i64 %chunk, i64 %worker) nounwind {
  %row = mul i64 %chunk, 64
  %p = getelementptr i64, ptr %ctx, i64 %row
  call void @weft_parallel(ptr @body, ptr %p, i64 8)
  ret void
}

define void @nest(ptr %ctx, i64 %chunks) nounwind {
  call void @weft_parallel(ptr @outer, ptr %ctx, i64 %chunks)
  ret void
}
"""


@pytest.fixture(scope="module")
def be(tmp_path_factory: pytest.TempPathFactory) -> CPUDevice:
    return device(tmp_path_factory.mktemp("cache"), threads=4)


def _run(be: CPUDevice, name: str, counts: np.ndarray, chunks: int) -> None:
    assert be.native
    f = function(be.compiler.module(_IR)[name], ctypes.c_void_p, ctypes.c_int64)
    f(counts.ctypes.data, chunks)


@pytest.mark.parametrize("chunks", [0, 1, 2, 3, 7, 64, 1000])
def test_every_chunk_runs_once(be: CPUDevice, chunks: int) -> None:
    counts = np.zeros(1000, np.int64)
    for _ in range(20):
        _run(be, "one", counts, chunks)
    assert (counts[:chunks] == 20).all() and (counts[chunks:] == 0).all()


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_two_or_more_workers_share_the_chunks(be: CPUDevice, threads: int) -> None:
    be.pool.set_threads(threads)
    try:
        seen: set[int] = set()
        for _ in range(3000):  # other programs may keep the second core busy for a while
            counts = np.zeros(256, np.int64)
            with be.pool.record(256) as workers:
                _run(be, "one", counts, 256)
            assert (counts == 1).all()
            assert workers.max() < threads
            seen |= set(workers.tolist())
            if len(seen) >= 2:
                break
        assert len(seen - {-1}) >= 2
    finally:
        be.pool.set_threads(4)


def test_there_is_one_pool_however_many_threads_ask_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Pool] = []

    def slow(threads: int | None) -> Pool:
        time.sleep(0.02)
        made.append(Pool(threads))
        return made[-1]

    monkeypatch.setattr(device_module, "Pool", slow)
    be, found = device(tmp_path, threads=1), []
    threads = [threading.Thread(target=lambda: found.append(be.pool)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(made) == 1 and found == made * 4


def test_a_nested_loop_runs_inline(be: CPUDevice) -> None:
    counts = np.zeros((16, 64), np.int64)
    before = be.pool.counter("inline")
    _run(be, "nest", counts, 16)
    assert (counts[:, :8] == 1).all() and (counts[:, 8:] == 0).all()
    assert be.pool.counter("inline") > before


def test_four_python_threads_at_once(be: CPUDevice) -> None:
    counts = [np.zeros(100, np.int64) for _ in range(4)]

    def work(mine: np.ndarray) -> None:
        for _ in range(200):
            _run(be, "one", mine, 100)

    threads = [threading.Thread(target=work, args=(c,)) for c in counts]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all((c == 200).all() for c in counts)


def test_the_pool_survives_fork(be: CPUDevice) -> None:
    counts = np.zeros(64, np.int64)
    _run(be, "one", counts, 64)
    assert be.pool.field("started").value == 3
    child = os.fork()
    if child == 0:
        ok = be.pool.field("started").value == 0
        mine = np.zeros(64, np.int64)
        for _ in range(50):
            _run(be, "one", mine, 64)
        ok = ok and bool((mine == 50).all()) and be.pool.field("started").value == 3
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    _run(be, "one", counts, 64)
    assert (counts == 2).all()


def test_the_interpreter_ends_cleanly_with_workers_alive(tmp_path: Path) -> None:
    code = f"""
import sys, numpy as np
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from test_threads import _run, device
from weft.dtypes.formats import FLOAT32
be = device(Path({str(tmp_path)!r}), threads=4)
counts = np.zeros(64, np.int64)
_run(be, "one", counts, 64)
assert (counts == 1).all()
import threading, weft.devices.cpu.native.allocator
kept = be.allocate(100)
threading.kept = view = be.download(be.allocate(100), (25,), FLOAT32)  # outlives this module
weft.devices.cpu.native.allocator.kept = [be.allocate(64) for _ in range(100)]
sys.kept = be.allocate(64)
loop = [be.allocate(64)]
loop.append(loop)
_run(be, "one", counts, 64)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    before = runtime.get_num_threads()
    try:
        runtime.set_num_threads(3)
        assert runtime.get_num_threads() == 3
        with pytest.raises(ValueError, match="from 1 to 256, got 0"):
            runtime.set_num_threads(0)
        with pytest.raises(TypeError, match="must be an int, got float"):
            runtime.set_num_threads(2.0)  # type: ignore[arg-type]
    finally:
        runtime.set_num_threads(before)
    monkeypatch.delenv("WEFT_THREADS", raising=False)
    assert default_threads() == len(os.sched_getaffinity(0))
    monkeypatch.setenv("WEFT_THREADS", "5")
    assert default_threads() == 5 and Pool().threads == 5
    monkeypatch.setenv("WEFT_THREADS", "many")
    with pytest.raises(ValueError, match="WEFT_THREADS must be a positive integer, got 'many'"):
        default_threads()


def test_importing_the_runtime_opens_no_llvm() -> None:
    code = "import sys, weft.devices, weft.devices.cpu; sys.exit('llvmlite' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], timeout=60).returncode == 0
