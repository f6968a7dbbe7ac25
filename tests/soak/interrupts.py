"""Ctrl-C at random moments: while a process begins (cold) and while it compiles and runs (warm).

    python tests/soak/interrupts.py cold 40
    python tests/soak/interrupts.py warm 200

A cold process is interrupted once, while it imports, traces and compiles, and must then be able to do all of it. A warm one is
interrupted again and again, and must raise KeyboardInterrupt each time, print nothing, and compute rightly.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]

_COLD = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)

def work():
    import weft as wf
    x = wf.arange(12, dtype="float32").reshape(3, 4)
    import numpy as np
    net = wf.nn.Sequential(wf.nn.Linear(4, 5), wf.nn.Tanh(), wf.nn.Linear(5, 2))
    loss, slopes = wf.jit(wf.value_and_grad(lambda net: (net(x) ** 2).mean()))(net)
    assert np.isfinite(float(loss))
    g = wf.grad(lambda w: (x @ w).sum())(wf.ones((4, 2)))
    assert (g.numpy() == x.numpy().sum(0)[:, None]).all()
    wf.random.seed(3)
    assert wf.random.normal(size=(3,)).numpy().std() > 0
    wf.train.fit(net, np.ones((8, 4), "f4"), np.zeros(8, "i4"), epochs=1, show=False)

print("begins", flush=True)
caught = 0
for attempt in range(3):
    try:
        work()
        if attempt == 0:
            print("first", flush=True)
    except KeyboardInterrupt:
        caught += 1
print("ends", caught, flush=True)
"""

_WARM = """
import random, signal, sys, time, warnings
warnings.simplefilter("ignore")  # every call has another shape: weft says that it is traced again
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
import weft as wf
from weft.devices import counters
SEED = int(sys.argv[1])
r = np.random.default_rng(SEED)
TABLE = r.normal(size=100_000).astype("f4")
jitted = wf.jit(lambda x: wf.tanh(x) * 2)

def work(n):
    x = TABLE[:n]
    got = (wf.asarray(x) * 2 + n).numpy()                   # a new shape: a new kernel
    assert np.array_equal(got, x * np.float32(2) + np.float32(n)), n
    got = jitted(wf.asarray(x)).numpy()
    assert np.allclose(got, np.tanh(x) * 2, atol=1e-6), n
    if n % 3 == 0:  # traces of all kinds, left in their middle
        a = wf.asarray(x)
        assert np.allclose(wf.jit(wf.grad(lambda v: (v * v).sum() + n))(a).numpy(), 2 * x)
        assert np.allclose(wf.grad(lambda v: (jitted(v) / 2).sum())(a).numpy(), 1 - np.tanh(x) ** 2, atol=1e-5)
        assert np.allclose(wf.vmap(lambda v: v * n)(a).numpy(), x * n)
        assert np.allclose(wf.fori_loop(0, 3, lambda i, v: v + 1, a).numpy(), x + 3, atol=1e-5)

n, caught = 10 + 50 * SEED, 0
wf.random.seed(1)
work(n)
for line in sys.stdin:
    if line == "end\\n":
        break
    try:
        print("works", flush=True)
        while True:
            n += 1
            work(n % 50_000 + 1)
    except KeyboardInterrupt:
        caught += 1
    print("caught", flush=True)
print(caught, counters()["compiles"] + counters()["cache_hits"], flush=True)
"""


def _start(code: str, cache: str, *args: str) -> subprocess.Popen[str]:
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-c", code, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "WEFT_CACHE": cache, "PYTHONPATH": paths}, cwd=tempfile.gettempdir(),
    )


def cold(times: int, longest: float = 0.9) -> int:
    """Interrupt so many processes; how many of them while they were at it for the first time. Raises where one is broken."""
    struck = 0
    with tempfile.TemporaryDirectory() as cache:
        for k in range(times):
            folder = cache if k % 4 else str(Path(cache) / str(k))  # mostly with compiled kernels at hand, sometimes without
            child = _start(_COLD, folder)
            _expect(child, "begins\n")
            time.sleep(random.uniform(0.0, longest if k % 4 == 0 else longest / 3))
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=300)
            late = child.returncode == -signal.SIGINT  # it came after everything
            if not late and (child.returncode or err or not out.rstrip().endswith(("ends 0", "ends 1"))):
                raise AssertionError(f"broken by Ctrl-C: {out}\n{err}")
            struck += out.rstrip().endswith("ends 1")
    return struck


def warm(times: int, longest: float = 0.15, seed: int = 0) -> tuple[int, int]:
    """Interrupt one process so often; how often that was caught, and how many kernels it loaded meanwhile."""
    with tempfile.TemporaryDirectory() as cache:
        child = _start(_WARM, cache, str(seed))
        assert child.stdin is not None
        for _ in range(times):
            _say(child.stdin, "go\n")
            _expect(child, "works\n")
            time.sleep(random.uniform(0.0, longest))
            child.send_signal(signal.SIGINT)
            _expect(child, "caught\n")
        _say(child.stdin, "end\n")
        out, err = child.communicate(timeout=300)
        if child.returncode or err:
            raise AssertionError(f"after {times} times Ctrl-C: {out}\n{err}")
        caught, kernels = map(int, out.split())
        return caught, kernels


def _say(stream: IO[str], text: str) -> None:
    stream.write(text)
    stream.flush()


def _expect(child: subprocess.Popen[str], wanted: str) -> None:
    """The child's next line; a child that says nothing for a minute is killed, and the line is then missing."""
    assert child.stdout is not None
    signal.signal(signal.SIGALRM, lambda *_: child.kill())
    signal.alarm(60)
    line = child.stdout.readline()
    signal.alarm(0)
    if line != wanted:
        raise AssertionError(f"expected {wanted!r}, got {line!r}\n{child.communicate()[1]}")


if __name__ == "__main__":
    count = int(sys.argv[2])
    if sys.argv[1] == "cold":
        print(f"cold: {count} processes interrupted, {cold(count)} of them at their first work; all of them went on")
    else:
        caught, kernels = warm(count)
        print(f"warm: {caught} of {count} caught, {kernels} kernels loaded meanwhile")
