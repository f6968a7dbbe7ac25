"""Recompilation of hot kernels at the high level, by a helper process that a thread of this process feeds.

It never blocks the program: the thread waits for the helper without the interpreter lock, and holds its own lock only briefly.
A forked child has neither thread nor helper; jobs queued at the fork wait there until another job is added. At exit the helper
is killed.

Levels and numbers of runs before recompilation are chosen by estimates, never by a clock. Measured over the kernels of training
steps: compiling at level 3 of LLVM's code generation instead of 0 takes 0.2 to 0.5 us more per byte of text. Level 0 runs half as
fast. Estimates of a kernel's time are three times the actual time, so the loss is a third of the estimate (more for
gradients of convolutions).

A kernel with long estimated time starts at level 3 (convolutions, large products). A Program's kernels are compiled again after
2 to 256 runs, the fewer the more is lost. Both levels give equal bits, since only SROA changes the text, and it runs at both.
The old code stays as long as its kernel, because a thread may be running it. ``weft.devices.settle()`` waits for the better
code.
"""

from __future__ import annotations

import atexit
import json
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from weft.devices.cpu.native import emission
from weft.devices.cpu.native.emission import HIGH, LOW
from weft.devices.processes import python, started
from weft.process.signals import uninterrupted

MAX_FAILED_HELPERS = 3  # failed helpers after which no more are started
PATIENCE = 0.1  # seconds before the helper is started: shorter programs need none
FROM_DISK = 0.5  # the same if the code came from disk: most processes that compile nothing are short
US_PER_BYTE = 0.3
LEVEL_0_LOSS = 0.35  # share of the estimated time that level 0 loses
HELPER_START_US = 60_000.0  # microseconds to start the recompiling process
EARLY_FACTOR = 16  # recompile when the lost time is this fraction of the cost: a program that runs twice usually runs often
MIN_RUNS, MANY = 2, 256  # bounds of the number of runs
HELPER_LINGER_S = 0.5  # seconds that an idle helper is kept: starting one takes 0.1


def cost_of(ir: str) -> float:
    """Return the estimated extra microseconds of compiling at the high level."""
    return len(ir) * US_PER_BYTE


def level_of(us: float, cost: float) -> int:
    """Return the level at which to compile a kernel that takes ``us`` microseconds per run."""
    return HIGH if LEVEL_0_LOSS * us >= cost else LOW


def runs_until(costs: Iterable[float], us: float) -> int:
    """Return after how many runs to recompile kernels that together take ``us`` microseconds per run."""
    return max(MIN_RUNS, min(MANY, int((HELPER_START_US + sum(costs)) / (EARLY_FACTOR * LEVEL_0_LOSS * max(us, 1.0)))))


class Job(NamedTuple):
    """A recompilation. text: returns the compressed LLVM text. done: receives the object file, in the background thread."""

    text: Callable[[], bytes]
    done: Callable[[bytes], None]


class Recompiler:
    """The recompilation queue of one compiler.

    ``features()`` imports the modules that the thread needs and returns the CPU's features in LLVM's notation.
    """

    def __init__(self, features: Callable[[], str]) -> None:
        self.features = features
        self.possible = python() is not None  # if False, kernels are compiled at the high level at first
        self.starting = threading.Lock()  # held while a helper starts; acquired before ``state``
        self.state = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._current: Job | None = None
        self._thread: threading.Thread | None = None
        self._process: Any = None
        self._hurry = False
        self._failed = 0
        self._start_time = math.inf  # monotonic clock: when the thread may start a helper

    def add(self, jobs: Iterable[Job], patience: float = PATIENCE) -> None:
        """Queue jobs and return immediately. ``patience``: seconds to wait before a helper is started."""
        with uninterrupted(), self.state:
            self._waiting.extend(jobs)
            if self._waiting:
                self._start_time = min(self._start_time, time.monotonic() + patience)
            if self._thread is None and self._waiting:
                thread = threading.Thread(target=self._work, name="weft compiles again", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no more threads, or interpreter shutdown: keep the code as it is
                    self._waiting.clear()
                    return
                self._thread = thread
            self.state.notify_all()

    def settle(self) -> None:
        """Wait until all jobs are done and the helper has ended."""
        with self.state:
            self._hurry = True
            self.state.notify_all()
            try:
                while self._thread is not None:
                    self.state.wait()
            finally:
                self._hurry = False

    def in_child(self) -> None:
        """Reset the state in a forked child. The parent held ``starting`` and ``state`` at the fork."""
        if self._current is not None:
            self._waiting.appendleft(self._current)
        process, self._process, self._current, self._thread = self._process, None, None, None
        if process is not None:  # the parent's helper must see the pipes close when the parent ends
            process.stdin.close()
            process.stdout.close()
            process.returncode = 0
        self.starting, self.state = threading.Lock(), threading.Condition()

    def end(self) -> None:
        """Stop at interpreter shutdown: drop all jobs and kill the helper."""
        with self.starting, self.state:
            self._give_up()
            self._stop()

    def _work(self) -> None:
        with self.state:
            while not self._hurry and (left := self._start_time - time.monotonic()) > 0:
                self.state.wait(left)
        while True:
            with self.state:
                if not self._waiting and not self._hurry:
                    self.state.wait(HELPER_LINGER_S)
                if not self._waiting:
                    self._stop()
                    self._thread, self._start_time = None, math.inf
                    self.state.notify_all()
                    return
                self._current = job = self._waiting.popleft()
            try:
                self._ensure_process()
                code = self._compile(job.text())
                if code is not None:
                    job.done(code)
            except Exception:  # no process, no memory, not loadable: keep the code as it is
                pass
            with self.state:
                self._current = None

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()  # the helper has no state to save
            process.wait()
            process.stdin.close()
            process.stdout.close()

    def _ensure_process(self) -> None:
        """Start a helper unless one is running."""
        if self._process is not None or not self.possible:
            return
        with self.starting:  # delays a fork: a child would inherit half-imported modules and half-open pipes
            setup = json.dumps([[str(path) for path in sys.path], self.features()]).encode()
            if not self.possible:  # interpreter shutdown
                return
            try:
                process = _start()
            except OSError:
                with self.state:
                    self._give_up()
                raise
            atexit.unregister(self.end)
            atexit.register(self.end)
            emission.send(process.stdin.fileno(), setup)
            with self.state:
                self._process = process

    def _compile(self, text: bytes) -> bytes | None:
        """Return the object file that the helper compiles, or None if it fails."""
        process = self._process
        if process is None:
            return None
        try:
            emission.send(process.stdin.fileno(), text)
            code = emission.receive(process.stdout.fileno())
        except (OSError, ValueError):
            code = None
        if code is None:  # the helper was killed, or LLVM aborted
            with self.state:
                self._stop()
                self._failed += 1
                if self._failed >= MAX_FAILED_HELPERS:
                    self._give_up()
        return code

    def _give_up(self) -> None:
        self.possible = False
        self._waiting.clear()


def _start() -> Any:
    return started(emission.__file__)
