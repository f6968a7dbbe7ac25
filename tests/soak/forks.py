"""Forks while other threads compile and run: every child must compile, load and compute.

    python tests/soak/forks.py 20
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def forks(times: int) -> int:
    """Fork so often; how many of the forks happened while a thread was inside LLVM or the compiler. Raises if a child fails."""
    import numpy as np

    import weft as wf
    from weft.devices import counters, get_device
    from weft.devices.cpu.native.emission import llvm_lock

    table = np.random.default_rng().normal(size=100_000).astype(np.float32)

    def work(n: int) -> None:
        x = table[:n]
        got = wf.jit(lambda v: v * 3 + n)(wf.asarray(x)).numpy()  # compiled each time
        assert np.array_equal(got, x * np.float32(3) + np.float32(n)), n
        y = table[: 50_000 + n]  # enough for all threads
        assert abs(float(wf.sum(wf.asarray(y))) - y.sum(dtype=np.float64)) < 0.1

    stop = threading.Event()
    failed: list[BaseException] = []

    def compile_on(first: int) -> None:
        try:
            n = first
            while not stop.is_set():
                n += 1
                work(n)
        except BaseException as error:
            failed.append(error)

    work(40_000)  # loads what compiles: a child cannot load a module that another thread was loading
    threads = [threading.Thread(target=compile_on, args=(1000 + 20_000 * k,)) for k in range(2)]
    for t in threads:
        t.start()
    children, busy = [], 0
    lock = get_device().compiler.lock
    try:
        for k in range(times):
            time.sleep(random.uniform(0.0, 0.05))
            busy += not lock.acquire(blocking=False) or bool(lock.release())
            child = os.fork()
            if child == 0:
                signal.alarm(120)
                status = 1
                try:
                    before = counters()["compiles"]
                    for n in range(3):
                        work(90_001 + 3 * k + n)
                    wf.jit(lambda a: a @ a)(wf.ones((17 + k, 17 + k))).numpy()
                    status = 0 if counters()["compiles"] > before and llvm_lock() is not None else 2
                finally:
                    os._exit(status)
            children.append(child)
        bad = [status for child in children if (status := os.waitpid(child, 0)[1])]
    finally:
        stop.set()
        for t in threads:
            t.join()
    if bad or failed:
        raise AssertionError(f"{len(bad)} of {times} children failed: {bad}; in the parent: {failed}")
    return busy


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WEFT_CACHE"] = folder
        count = int(sys.argv[1])
        print(f"forks: {count} children compiled and computed, {forks(count)} of them forked while a thread compiled")
