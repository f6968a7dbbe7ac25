"""Compiling in several processes: who does what, what becomes of errors, of processes that end, and of Ctrl-C."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.cuda.stub import Compiler, StubDriver
from weft.devices import processes
from weft.devices.cache import Cache
from weft.devices.cuda import adapter, compilers
from weft.devices.cuda.compilers import Pool, SlowCompileNotice
from weft.devices.cuda.device import CardDevice
from weft.devices.cuda.emission import CompileError
from weft.devices.cuda.generate import generate
from weft.dtypes.formats import FLOAT32
from weft.graph.node import Graph
from weft.graph.primitives import bind
from weft.graph.primitives.table import TABLE, input_leaf
from weft.kernel.target import Target
from weft.schedule.build import build
from weft.schedule.program import calls

pytest.importorskip("triton")

WORKER = '''
import os, pickle, sys, time
answers = os.fdopen(os.dup(1), "wb")
sys.path[:] = pickle.load(sys.stdin.buffer)
while True:
    try:
        text, *_ = job = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    word, _, rest = text.partition(" ")
    if word == "die" or word == "stumble" and not os.path.exists(rest):
        if rest:
            open(rest, "w").close()
        os._exit(3)
    time.sleep(float(rest) if word == "slow" else 0)
    pickle.dump("ValueError: bad text" if word == "bad" else (text.encode(), str(os.getpid()), 4, 0, 0, ""), answers)
    answers.flush()
'''
Make = Callable[..., Pool]


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """Pools with such processes; what this process does itself takes a moment, and is known by its number."""
    file = tmp_path / "worker.py"
    file.write_text(WORKER)
    pools: list[Pool] = []

    def pool(most: int = 2, here: Callable[[Any], Any] | None = None) -> Pool:
        def emit(job: Any) -> Any:
            time.sleep(0.02)
            return job[0].encode(), str(os.getpid()), 4, 0, 0, ""

        pools.append(Pool(here or emit, most, str(file)))
        return pools[-1]

    yield pool
    for each in pools:
        running = list(each._processes)
        each.end()
        for process in running:
            process.wait(5)


def jobs(*texts: str) -> list[Any]:
    return [(text, (("b0", "*fp32", 1),), 4, 3, 90, 16) for text in texts]


def emitted(pool: Pool, *texts: str) -> dict[int, Any]:
    found: dict[int, Any] = {}
    pool.all(jobs(*texts), lambda k, made: found.__setitem__(k, made))
    return found


def test_each_text_is_emitted_once_by_several_processes(make: Make) -> None:
    pool = make()
    texts = [f"slow 0.01{k}" for k in range(40)]
    found = emitted(pool, *texts)
    assert sorted(found) == list(range(40)) and [found[k][0].decode() for k in range(40)] == texts
    assert len({made[1] for made in found.values()}) == 3 and len(pool._processes) == 2
    before = [p.pid for p in pool._processes]
    assert len(emitted(pool, *texts)) == 40 and [p.pid for p in pool._processes] == before
    assert len(emitted(pool, "one")) == 1 and emitted(pool) == {}


def test_one_text_starts_nothing(make: Make) -> None:
    pool = make()
    assert emitted(pool, "one")[0][1] == str(os.getpid()) and pool._processes == []


@pytest.mark.parametrize("reason", ["no interpreter", "no processes", "one core"])
def test_where_no_process_can_be_started_this_one_does_all(make: Make, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason == "no interpreter":
        monkeypatch.setattr(processes.sys, "executable", "/usr/bin/program")
    elif reason == "no processes":
        monkeypatch.setattr(compilers, "start_process", lambda file: (_ for _ in ()).throw(OSError("none")))
    pool = make(most=0 if reason == "one core" else 2)
    found = emitted(pool, *[f"text {k}" for k in range(5)])
    assert len(found) == 5 and {made[1] for made in found.values()} == {str(os.getpid())}
    assert pool.submit(jobs("text")) is None


@pytest.mark.parametrize("count", [1, 5])
def leave_to_others(pool: Pool) -> None:
    """Wait until the other processes have taken all jobs, so that this one gets none that ends a process or fails."""
    end = time.monotonic() + 30
    while pool._waiting and time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.parametrize("count", [1, 5])
def test_an_error_comes_with_the_text(make: Make, count: int) -> None:
    def emit(job: Any) -> Any:
        leave_to_others(pool)
        return job[0].encode(), "here", 4, 0, 0, ""

    pool = make(1, emit)
    with pytest.raises(CompileError, match=r"^Triton does not compile a kernel for compute capability 9\.0: ValueError: bad text"
                                           r"\n4 warps, 3 stages, addresses are multiples of 16, b0: \*fp32\nbad text"):
        emitted(pool, "slow 0.1", *["bad text"] * count, *["slow 0.1"] * 3)
    assert not pool._waiting
    assert len(emitted(pool, *["text"] * 6)) == 6


def test_a_process_that_ends_is_replaced_and_one_that_ends_again_is_told(make: Make, tmp_path: Path) -> None:
    def emit(job: Any) -> Any:
        leave_to_others(pool)
        assert not job[0].startswith(("stumble", "die")), "what has ended a process is not tried here"
        return job[0].encode(), "here", 4, 0, 0, ""

    pool = make(1, emit)
    found = emitted(pool, "slow 0", f"stumble {tmp_path / 'flag'}", "slow 0.1")
    assert len(found) == 3 and found[1][1] != "here"
    with pytest.raises(CompileError, match=r"Triton's process ended with 3 while it compiled this, twice\n(?s:.*)\ndie"):
        emitted(pool, "slow 0", "die", "slow 0.1")
    assert len(emitted(pool, "slow 0", "text", "text")) == 3


def test_ctrl_c_ends_it(make: Make) -> None:
    def emit(job: Any) -> Any:
        while pool._waiting and len([p for p in busy if p]) < 2:
            busy[:] = [task.process for task in tasks()]
        raise KeyboardInterrupt

    def tasks() -> list[Any]:
        return [x for x in gc.get_objects() if type(x) is compilers.Task]

    busy: list[Any] = []
    pool = make(2, emit)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        emitted(pool, *["slow 30"] * 8)
    assert time.monotonic() - begin < 10 and not pool._waiting
    while pool._processes:
        assert time.monotonic() - begin < 10
        time.sleep(0.01)
    assert {p.returncode for p in busy if p} == {-9}
    pool._emit = lambda job: (b"", "here", 4, 0, 0, "")
    assert len(emitted(pool, *["text"] * 6)) == 6


def test_some_are_done_while_nobody_waits(make: Make) -> None:
    pool = make(1)
    tasks = pool.submit(jobs("slow 0.01", "bad text", "slow 0.02"))
    assert tasks is not None
    with pool.state:
        assert pool.state.wait_for(lambda: all(task.is_done for task in tasks), 10)
    assert tasks[0].answer[0] == b"slow 0.01" and tasks[1].error == "ValueError: bad text" and tasks[2].answer is not None


def test_in_a_forked_child(make: Make) -> None:
    pool = make(1)
    emitted(pool, "slow 0", "slow 0", "slow 0")
    child = os.fork()
    if not child:
        try:
            pool.in_child()
            os._exit(0 if len(emitted(pool, *["slow 0.05"] * 4)) == 4 and len(pool._processes) == 1 else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert len(emitted(pool, *["slow 0"] * 4)) == 4


def test_they_end_with_the_program(make: Make, tmp_path: Path) -> None:
    code = (
        "import sys; from weft.devices.cuda.compilers import Pool; pool = Pool(lambda job: None, 1, sys.argv[1])\n"
        "tasks = pool.submit([('slow 60', (), 4, 3, 90, 16)]); print(pool._processes[0].pid)"
    )
    said = subprocess.run([sys.executable, "-c", code, str(tmp_path / "worker.py")], capture_output=True, text=True, timeout=60)
    pid = int(said.stdout)
    for _ in range(500):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]:
            return
        time.sleep(0.01)
    raise AssertionError(f"process {pid} is still there: {said.stderr}")


# ---- with Triton, and in the device


def launches(*names: str) -> list[Any]:
    x = input_leaf((300,), FLOAT32)
    programs = [build(Graph([x], [bind(TABLE[name], x)]), Target("gpu")) for name in names]
    return [launch for p in programs for call in calls(p) for launch in generate(call.kernel).launches]


def test_other_processes_emit_what_this_one_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "here"))
    found = launches("exp", "negative")
    own = [adapter.compile_launch(launch, 90) for launch in found]
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "there"))
    pool = Pool(most=1)
    tasks = pool.submit([adapter.job(launch, 90, 16) for launch in found])
    assert tasks is not None
    with pool.state:
        assert pool.state.wait_for(lambda: all(task.is_done for task in tasks), 100)
    pool.end()
    there = [adapter.Code(*task.answer) for task in tasks]
    assert [(c.binary, c.entry, c.shared) for c in there] == [(c.binary, c.entry, c.shared) for c in own]


def test_an_error_of_triton_has_the_text() -> None:
    (launch,) = launches("exp")
    wrong = adapter.Launch(("x = tl.nothing(b0)",), launch.arguments, launch.grid)
    with pytest.raises(CompileError, match=r"compute capability 9\.0: (?s:.*)def kernel\((?s:.*)tl\.nothing"):
        adapter.compile_launch(wrong, 90)


class Recorded(Pool):
    """Notes what is asked for together."""

    def __init__(self, compiler: Compiler) -> None:
        super().__init__(most=0)
        self.compiler, self.rounds = compiler, list[int]()

    def all(self, jobs: Any, done: Any, look: Any = None) -> None:
        self.rounds.append(len(jobs))
        for k in reversed(range(len(jobs))):
            code = self.compiler(next(x for x in self.wanted if adapter.job(x, 90, 16) == jobs[k]), 90, 16)
            done(k, (code.binary, code.entry, code.warps, code.shared, code.scratch, code.assembly))

    wanted: list[Any]


def test_all_texts_of_a_program_are_compiled_together(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    x = input_leaf((40, 40), FLOAT32)
    sorted_ = bind(TABLE["sort"], bind(TABLE["exp"], x), axis=0)
    total = bind(TABLE["dot_general"], sorted_, x, contract=((1,), (0,)), batch=((), ()))
    twice = bind(TABLE["dot_general"], total, total, contract=((1,), (0,)), batch=((), ()))
    for output in (bind(TABLE["reduce_sum"], bind(TABLE["tanh"], twice), axes=(0,), keepdims=False), twice):
        program = build(Graph([x], [output]), Target("gpu"))
        wanted = [launch for call in calls(program) for launch in generate(call.kernel).launches]
        texts = {(launch.text, launch.signature) for launch in wanted}
        compiler = Compiler()
        folder = tmp_path / str(len(wanted))
        for turn in range(2):
            driver, pool = StubDriver(compiler), Recorded(compiler)
            pool.wanted = wanted
            device = CardDevice(driver, "gpu", Cache(folder), compiler, 4096, pool)
            run = device.compile(program)
            assert pool.rounds == ([len(texts)] if turn == 0 else [])
            assert (device.codes.compiles, device.codes.hits) == ((len(texts), 0) if turn == 0 else (0, len(texts)))
            device.compile(program)
            assert len(pool.rounds) == 1 - turn
            given = device.upload(np.eye(40, dtype=np.float32))
            assert np.isfinite(device.download(run([given])[0], output.shape, FLOAT32)).all()
            assert device.codes.compiles == (len(texts) if turn == 0 else 0)


def test_a_word_where_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    told = "weft: compiling 3 kernels ...\n"
    for kind, patience, said in ((Terminal, 0.0, told), (Terminal, 60.0, ""), (io.StringIO, 0.0, "")):
        monkeypatch.setattr(compilers, "NOTICE_AFTER_S", patience)
        monkeypatch.setattr(sys, "stderr", kind())
        word = SlowCompileNotice("compiling 3 kernels")
        for _ in range(3):
            time.sleep(0.001)
            word.show_if_due()
        assert sys.stderr.getvalue() == said  # type: ignore[attr-defined]
    monkeypatch.setattr(sys, "stderr", None)
    SlowCompileNotice("nothing").show_if_due()
    monkeypatch.undo()
    assert wf.ones(2).tolist() == [1.0, 1.0]
