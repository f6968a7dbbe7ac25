"""Kernels are compiled quickly first, and again when they are hot, behind the back of what runs: equal bits, and nobody waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from handmade import F32, device, executable, scale_ir, scale_twice

from tests import oracle
from tests.cpu.test_primitives_native import PRIMITIVES, variants
from weft.devices import get_device
from weft.devices.cache import decode
from weft.devices.cpu.device import CPUDevice
from weft.devices.cpu.emit.text import Generated
from weft.devices.cpu.native import emission, optimisation_levels, recompile, sized
from weft.devices.cpu.native.compile import emit_object
from weft.graph.node import Graph, Primitive
from weft.graph.primitives import bind, input_leaf
from weft.runtime import execute
from weft.schedule.build import build

X = np.random.default_rng(3).normal(size=4096).astype(np.float32)


@pytest.fixture
def be(tmp_path: Path) -> Iterator[CPUDevice]:
    get_device().settle()  # tests patch functions that the device of the other tests would call from its thread
    made = device(tmp_path, threads=2)
    assert made.native
    yield made
    made.compiler.again.end()


def _low(be: CPUDevice, name: str = "scale") -> object:
    return be.compiler.kernel(name, lambda: Generated(name, scale_ir(name, 256, 16), 0, 64, ("parallel",)), us=0.0)


def _product(n: int) -> Graph:
    x, y = input_leaf((n, n), F32), input_leaf((n, n), F32)
    return Graph([x, y], [bind(_table("dot_general"), x, y, contract=((1,), (0,)), batch=((), ()))])


def _table(name: str) -> Primitive:
    return next(op for op in PRIMITIVES if op.name == name)


def test_what_is_called_often_gets_better_code(be: CPUDevice, tmp_path: Path) -> None:
    graph = _product(40)
    program = build(graph)
    ex = be.compile(program)
    assert [k.later is None for k in ex._kernels] == [False]
    a = [be.upload(np.random.default_rng(k).normal(size=(40, 40)).astype(np.float32)) for k in range(2)]
    first = be.download(ex(a)[0], (40, 40), F32).copy()
    before, runs = be.counters(), 1
    old = ex._kernels[0].address
    while be.counters()["improved"] == 0 and runs < 100_000:
        assert np.array_equal(be.download(ex(a)[0], (40, 40), F32), first)
        runs += 1
    be.compiler.again.settle()
    after = be.counters()
    assert after["improved"] == 1 and ex._kernels[0].later is None and ex._kernels[0].address != old
    assert optimisation_levels.MIN_RUNS <= ex._hot.runs <= optimisation_levels.MANY and runs >= ex._hot.runs
    assert all(after[k] == before[k] for k in ("compiles", "loads", "cache_hits"))
    assert np.array_equal(be.download(ex(a)[0], (40, 40), F32), first)
    other = device(tmp_path, threads=1)  # another process gets the better code from disk
    assert other.native and [k.later for k in other.compile(program)._kernels] == [None]
    assert other.counters()["compiles"] == 0


def test_one_call_asks_for_nothing_and_counts_decide(be: CPUDevice) -> None:
    ex = be.compile(build(_product(24)))
    a = [be.upload(np.ones((24, 24), np.float32))] * 2
    asked = []
    be.compiler.again.add = lambda jobs, patience: asked.append(len(jobs))
    for run in range(1, ex._hot.runs + 3):
        ex(a)
        assert asked == ([1] if run >= ex._hot.runs else [])
    assert optimisation_levels.runs_until([1e9], 1.0) == optimisation_levels.MANY
    assert optimisation_levels.runs_until([1.0], 1e9) == optimisation_levels.MIN_RUNS > 1


def test_what_runs_for_long_is_compiled_well_at_once(be: CPUDevice) -> None:
    assert be.compile(build(_product(3000)))._kernels[0].later is None


def test_an_entry_of_lesser_code_serves_until_better_code_is_asked_for(be: CPUDevice, tmp_path: Path) -> None:
    def generate() -> Generated:
        return Generated("k", scale_ir("k", 256, 16), 0, 64, ("parallel",))

    assert be.compiler.kernel("k", generate, us=0.0).later is not None
    other = device(tmp_path, threads=1)
    assert other.native
    found = other.compiler.kernel("k", generate, us=0.0)
    assert other.counters()["compiles"] == 0 and found.later is not None
    other.settle()  # its text is made again
    assert found.later is None and other.counters()["improved"] == 1
    third = device(tmp_path, threads=1)
    assert third.native and third.compiler.kernel("k", lambda: 1 / 0, us=0.0).later is None
    assert _low(be, "m").later is not None
    well = device(tmp_path, threads=1)
    assert well.native and well.compiler.kernel("m", lambda: Generated("m", scale_ir("m", 256, 16), 0, 64)).later is None
    assert well.counters()["compiles"] == 1


def _multiply(be: CPUDevice) -> np.ndarray:
    """By the function of any size, whose code is there when the first is asked for."""
    x, out = X.reshape(64, 64), np.empty((64, 64), np.float32)
    be.sized.product(F32, x.ctypes.data, x.ctypes.data, out.ctypes.data, 64, 64, 64, 64, 1, 64, 1)
    return out


def test_what_a_short_process_left_on_disk_gets_better_code_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process ends before better code is there; a later one, which compiles nothing, has it made."""
    monkeypatch.setattr(recompile, "_start", lambda: (_ for _ in ()).throw(OSError("it ends first")))
    short = device(tmp_path, threads=1)
    first = _multiply(short)
    short.compiler.again.end()
    monkeypatch.undo()
    monkeypatch.setattr(sized, "FROM_DISK", 0.0)
    later = device(tmp_path, threads=1)
    assert np.array_equal(_multiply(later), first) and later.counters()["compiles"] == 0
    with later.compiler.again.state:  # nobody calls settle
        assert later.compiler.again.state.wait_for(lambda: later.compiler.again._thread is None, 120)
    assert later.counters()["improved"] > 0
    third = device(tmp_path, threads=1)
    assert np.array_equal(_multiply(third), first) and third.counters()["compiles"] == 0
    assert third.compiler.again._thread is None and all(k.later is None for k in third.sized._held)


def test_the_second_process_makes_what_this_one_would(be: CPUDevice, tmp_path: Path) -> None:
    kernel = _low(be)
    path = next(p for p in tmp_path.glob("*.weft") if b'"symbol": "scale"' in p.read_bytes())
    low = decode(path.read_bytes())
    be.settle()
    high = decode(path.read_bytes())
    assert kernel.later is None and low is not None and high is not None
    assert (low.meta["level"], high.meta["level"]) == (emission.LOW, emission.HIGH)
    assert high.code == emit_object(scale_ir("scale", 256, 16))[0] != low.code


def test_where_no_process_can_be_started_code_is_good_at_once(be: CPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = _low(be)
    monkeypatch.setattr(recompile, "_start", lambda: (_ for _ in ()).throw(OSError("no processes")))
    be.settle()
    assert kernel.later is not None and be.counters()["improved"] == 0
    assert _low(be, "next").later is None
    monkeypatch.setattr(sys, "executable", "/opt/editor/bin/editor")
    assert not recompile.Recompiler(lambda: "").possible


def test_a_process_that_dies_is_started_again(be: CPUDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = [_low(be, f"k{k}") for k in range(5)]
    real = emission.send

    def send(file: int, message: bytes) -> None:  # the process is killed while it has the first two texts
        real(file, message)
        if message[:1] == b"\x78" and (deaths := len(killed)) < 2:
            killed.append(deaths)
            be.compiler.again._process.kill()

    killed: list[int] = []
    monkeypatch.setattr(emission, "send", send)
    be.settle()
    assert [k.later is None for k in kernels] == [False, False, True, True, True] and be.counters()["improved"] == 3
    killed.clear()
    be.settle()  # once more: after the third death nobody tries again
    assert not be.compiler.again.possible and [k.later is None for k in kernels] == [False, False, True, True, True]


def test_better_code_comes_while_a_thread_runs(be: CPUDevice) -> None:
    kernels = [_low(be, f"k{k}") for k in range(4)]
    runs = [executable(be, scale_twice(4096), kernel) for kernel in kernels]
    given, stop, wrong, counts = be.upload(X), threading.Event(), [], [0]

    def run() -> None:
        while not stop.is_set():
            for ex in runs:
                if not np.array_equal(be.download(ex([given, 2.0, 0.25])[0], X.shape, F32), X * np.float32(0.5)):
                    wrong.append(1)
                counts[0] += 1

    threads = [threading.Thread(target=run) for _ in range(2)]
    for t in threads:
        t.start()
    before = [k.address for k in kernels]
    be.settle()
    at = counts[0]
    while counts[0] < at + 100:
        time.sleep(0.001)
    stop.set()
    for t in threads:
        t.join()
    assert not wrong and be.counters()["improved"] == 4
    assert all(k.later is None and k.address != old for k, old in zip(kernels, before, strict=True))


def test_code_of_both_levels_is_given_back(be: CPUDevice) -> None:
    fixed = be.compiler.memory.used()
    kernel = _low(be)
    be.settle()
    assert kernel.later is None
    del kernel
    assert be.compiler.sweep() == 1 and be.compiler.memory.used() == fixed


@pytest.mark.parametrize("op", PRIMITIVES, ids=lambda op: op.name)
def test_bits_are_equal(op: Primitive, rng: np.random.Generator, levelled: Callable[[Graph], list[np.ndarray]]) -> None:
    for s in variants(op, rng):
        nodes = oracle.leaves(s.arrays)
        levelled(Graph(nodes, [bind(op, *nodes, **s.params)]), s.arrays)


@pytest.fixture
def levelled(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """Compare a graph's results at both levels of code generation."""
    from weft.devices.cpu.device import _generate
    from weft.devices.cpu.native.executable import CPUExecutable
    from weft.kernel.printer import kernel_key
    from weft.schedule.program import calls

    be = get_device()

    def check(graph: Graph, values: list[np.ndarray]) -> None:
        program = build(graph)
        got = []
        for us in (0.0, float("inf")):
            kernels = [
                be.compiler.kernel(f"{us} {kernel_key(c.kernel)}", lambda c=c: _generate(c.kernel), us) for c in calls(program)
            ]
            assert all((k.later is None) == (us > 0.0) for k in kernels)
            ex = CPUExecutable(program, kernels, be.pool, be.allocator, be.native)
            got.append(ex([execute.to_buffer(np.asarray(v)) for v in values]))
        for low, high, node in zip(*got, graph.outputs, strict=True):
            one, two = (execute.to_numpy(b, node.shape, node.dtype) for b in (low, high))
            assert one.tobytes() == two.tobytes(), graph.outputs

    return check


_BUSY = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
import numpy as np
import weft as wf
from weft.devices import get_device
be = get_device()
def products(count, first=0):
    return [wf.jit(lambda x, n=n: wf.tanh(x @ x) * n) for n in range(first, first + count)]
x = wf.array(np.ones((48, 48), "f4"))
made = products(30)
for f in made:
    f(x).numpy()
kernels = [k for known in be.compiler.kernels.values() if (k := known.loaded()) is not None]
be.compiler.improve(kernels)
while not wf.counters()["improved"]:
    time.sleep(0.001)
assert be.compiler.again._process is not None, "the background had ended"
begin = time.perf_counter()
"""


def _busy(script: str, tmp_path: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _BUSY + script], capture_output=True, text=True, timeout=120,
        cwd=Path(__file__).parents[2], env={**os.environ, "WEFT_CACHE": str(tmp_path / "c")},
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def test_an_exit_waits_for_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    out = _busy("""
import atexit
atexit.register(lambda: print(be.compiler.again._process.pid, time.perf_counter() - begin, flush=True))
""", tmp_path)
    process, seconds = out.split()
    assert float(seconds) < 1.0
    with pytest.raises(ProcessLookupError):
        os.kill(int(process), 0)


def test_a_second_process_ends_with_one_that_is_killed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BUSY + "print(be.compiler.again._process.pid, flush=True); os.kill(os.getpid(), 9)"],
        capture_output=True, text=True, timeout=120, cwd=Path(__file__).parents[2],
        env={**os.environ, "WEFT_CACHE": str(tmp_path / "c")},
    )
    assert done.returncode == -signal.SIGKILL
    end = time.monotonic() + 60
    while Path(f"/proc/{done.stdout.strip()}/cmdline").exists() and emission.__file__ in _command(done.stdout.strip()):
        assert time.monotonic() < end
        time.sleep(0.01)


def _command(process: str) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


def test_a_fork_waits_for_nothing_and_the_child_compiles(tmp_path: Path) -> None:
    out = _busy("""
for k in range(5):
    begin = time.perf_counter()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        status = 1
        try:
            (f,) = products(1, 1000 + k)
            before = wf.counters()["compiles"]
            f(x).numpy()
            status = 2 if wf.counters()["compiles"] == before else 3
            be.settle()  # what waited in the parent waits here, too
            left = [k for known in be.compiler.kernels.values() if (k := known.loaded()) is not None and k.later]
            status = 4 if left else 0
        finally:
            os._exit(status)
    print(time.perf_counter() - begin, flush=True)
    assert os.waitpid(child, 0)[1] == 0
be.settle()
assert all(k.later is None for k in kernels)
""", tmp_path)
    assert sorted(float(s) for s in out.split())[2] < 0.1


def test_an_interrupt_is_raised_at_once_and_the_background_goes_on(tmp_path: Path) -> None:
    out = _busy("""
import threading
worst = 0.0
for k in range(10):
    threading.Timer(0.02, lambda: (sent.append(time.perf_counter()), os.kill(os.getpid(), signal.SIGINT))).start()
    sent = []
    try:
        while True:
            made[k](x).numpy()
    except KeyboardInterrupt:
        worst = max(worst, time.perf_counter() - sent[0])
be.settle()
assert all(k.later is None for k in kernels), "a signal reached the second process"
print(worst, flush=True)
""", tmp_path)
    assert float(out) < 0.5
