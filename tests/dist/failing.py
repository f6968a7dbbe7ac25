"""A script whose last rank fails in the way that the first argument names: see ``test_failures.py``."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import weft as wf
from weft.dist.report import FOLDER_VARIABLE, WAITING, read_reports

MODE = sys.argv[1]
RANK, SIZE = wf.dist.rank(), wf.dist.size()
LAST = RANK == SIZE - 1
x = wf.ones(4)
wf.dist.all_sum(x)
wf.dist.init(patience=float(sys.argv[2]))  # from here on: processes may start at different times



def let_others_wait(line: str = "wf.dist.all_sum(x)", size: int = 4) -> None:
    """Return when the other ranks wait in the sum of a line, the last but one of such lines: they may be in the first one."""
    place = [k for k, text in enumerate(Path(__file__).read_text().split("\n"), 1) if text.strip() == line][-2:][0]
    text = f"{WAITING}all_sum of float32[{size}] (failing.py:{place})"
    while any(found != text for rank, (_, found) in read_reports(Path(os.environ[FOLDER_VARIABLE])).items() if rank != RANK):
        time.sleep(0.01)


if MODE == "import" and LAST:
    import a_module_that_does_not_exist  # noqa: F401
if MODE == "raise" and LAST:
    raise ValueError("bad data")
if MODE == "keyword" and LAST:
    x.sum(dim=0)
if MODE == "shapes" and LAST:
    x + wf.ones(5)
if MODE == "killed" and LAST:
    let_others_wait()
    os.kill(os.getpid(), signal.SIGKILL)
if MODE == "crashed" and LAST:
    let_others_wait()
    os.kill(os.getpid(), signal.SIGSEGV)
if MODE == "leaves" and LAST:
    sys.exit()
if MODE == "exits" and LAST:
    sys.exit(3)
if MODE == "vanishes" and LAST:
    os._exit(0)
if MODE == "vanishes with a code" and LAST:
    os._exit(3)
if MODE == "hangs" and LAST:
    time.sleep(1000)
if MODE == "stopped" and LAST:
    os.kill(os.getpid(), signal.SIGSTOP)
if MODE == "hangs at the end":
    if LAST:
        time.sleep(1000)
    sys.exit()
if MODE == "order" and LAST:
    wf.dist.all_gather(x)
if MODE == "shape" and LAST:
    wf.dist.all_sum(wf.ones(5))
if MODE == "other group":
    wf.dist.all_sum(x, group=wf.dist.group([0, 1, 2] if not LAST else [1, 2, 0]))
if MODE == "in jit" and LAST:
    wf.jit(wf.dist.all_gather)(x)
if MODE == "one rank" and LAST:
    print(wf.grad(lambda x: wf.dist.all_gather(x).sum())(x))
if MODE == "message" and SIZE > 1:
    if LAST:
        wf.dist.send(wf.ones(3), to=0)
    if RANK == 0:
        wf.dist.recv(wf.ones(4), source=SIZE - 1)
if MODE in ("unreceived", "unreceived long") and LAST:
    wf.dist.send(wf.ones(3 if MODE == "unreceived" else 10**6), to=0)
if MODE == "unreceived derivative" and SIZE > 1:
    if RANK == 0:
        wf.dist.send(x, to=SIZE - 1)
    if LAST:
        wf.grad(lambda x: wf.dist.recv(x, source=0).sum())(x)
if MODE == "no message" and RANK == 0:
    wf.dist.recv(x, source=SIZE - 1)
if MODE.startswith("beside"):
    if MODE == "beside killed" and LAST:
        let_others_wait("total = together(x * 2)", 8192)
        os.kill(os.getpid(), signal.SIGKILL)
    if MODE == "beside raise" and LAST:
        raise ValueError("bad rows")
    if MODE == "beside hangs" and LAST or MODE == "beside ctrl-c" and RANK > 0:
        time.sleep(1000)
    if MODE == "beside ctrl-c":
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    together = wf.dist.all_gather if MODE == "beside order" and LAST else wf.dist.all_sum
    index = wf.asarray(10_000 if MODE == "beside index" and LAST else 0)

    @wf.jit
    def beside(x, w, index):
        total = together(x * 2)
        for _ in range(3):
            w = wf.tanh(w @ w)
        return total, w, x[index]

    beside(wf.ones(8192), wf.ones((64, 64)), index)
if MODE == "caught" and LAST:
    try:
        wf.dist.all_gather(x)
    except wf.errors.CollectiveError:
        pass
    wf.dist.all_sum(x)  # refused: the interrupted collective may have left messages

wf.dist.all_sum(x)
wf.dist.all_sum(x)
