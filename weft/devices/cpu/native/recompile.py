"""What is hot is compiled again, better, by a second process that a thread of this one feeds.

Nothing here holds up the program: the thread waits for the second process without the interpreter lock, and holds its own lock
for moments only. A forked child has neither; what waited then waits there until something else is hot. At the end of the program
the second process is killed.
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
from weft.devices.processes import python, started
from weft.process.signals import uninterrupted

TRIES = 3  # processes that end by themselves before no more are started
PATIENCE = 0.1  # seconds before the first process is started: what ends sooner pays for none
FROM_DISK = 0.5  # the same for code that this process found on disk: most processes that compile nothing are short
LINGER = 0.5  # seconds that the second process waits for more: it takes 0.1 to start


class Job(NamedTuple):
    """text: LLVM's, compressed. done: is given the object, in the thread."""

    text: Callable[[], bytes]
    done: Callable[[bytes], None]


class Again:
    """One a compiler. ``features()`` loads what the thread will need, and gives the CPU's features, as LLVM names them."""

    def __init__(self, features: Callable[[], str]) -> None:
        self.features = features
        self.possible = python() is not None  # where no process can be started, everything is compiled well at once
        self.starting = threading.Lock()  # held while a process is started, before ``state`` where both are
        self.state = threading.Condition()
        self._waiting: deque[Job] = deque()
        self._now: Job | None = None
        self._thread: threading.Thread | None = None
        self._process: Any = None
        self._hurry = False
        self._failed = 0
        self._begins = math.inf  # by the monotonic clock, while the thread waits for it

    def add(self, jobs: Iterable[Job], patience: float = PATIENCE) -> None:
        """Queue jobs and return at once. ``patience``: seconds before a process is started for them."""
        with uninterrupted(), self.state:
            self._waiting.extend(jobs)
            if self._waiting:
                self._begins = min(self._begins, time.monotonic() + patience)
            if self._thread is None and self._waiting:
                thread = threading.Thread(target=self._work, name="weft compiles again", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no more threads, or the interpreter ends: what runs goes on as it is
                    self._waiting.clear()
                    return
                self._thread = thread
            self.state.notify_all()

    def settle(self) -> None:
        """Wait until nothing waits any more, and the second process has ended."""
        with self.state:
            self._hurry = True
            self.state.notify_all()
            try:
                while self._thread is not None:
                    self.state.wait()
            finally:
                self._hurry = False

    def in_child(self) -> None:
        """In a forked child, whose parent held ``starting`` and ``state`` at the fork."""
        if self._now is not None:
            self._waiting.appendleft(self._now)
        process, self._process, self._now, self._thread = self._process, None, None, None
        if process is not None:  # the parent's: it must see its pipes end when the parent does
            process.stdin.close()
            process.stdout.close()
            process.returncode = 0
        self.starting, self.state = threading.Lock(), threading.Condition()

    def end(self) -> None:
        """The interpreter ends."""
        with self.starting, self.state:
            self._give_up()
            self._stop()

    def _work(self) -> None:
        with self.state:
            while not self._hurry and (left := self._begins - time.monotonic()) > 0:
                self.state.wait(left)
        while True:
            with self.state:
                if not self._waiting and not self._hurry:
                    self.state.wait(LINGER)
                if not self._waiting:
                    self._stop()
                    self._thread, self._begins = None, math.inf
                    self.state.notify_all()
                    return
                self._now = job = self._waiting.popleft()
            try:
                self._begin()
                code = self._asked(job.text())
                if code is not None:
                    job.done(code)
            except Exception:  # no process, no memory, no loader: what runs goes on as it is
                pass
            with self.state:
                self._now = None

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()  # it holds nothing, and goes at once
            process.wait()
            process.stdin.close()
            process.stdout.close()

    def _begin(self) -> None:
        """See that there is a process."""
        if self._process is not None or not self.possible:
            return
        with self.starting:  # a fork waits: in a child, modules that were being loaded and pipes half made would stay so
            first = json.dumps([[str(path) for path in sys.path], self.features()]).encode()
            if not self.possible:  # the interpreter ends
                return
            try:
                process = _start()
            except OSError:
                with self.state:
                    self._give_up()
                raise
            atexit.unregister(self.end)
            atexit.register(self.end)
            emission.send(process.stdin.fileno(), first)
            with self.state:
                self._process = process

    def _asked(self, text: bytes) -> bytes | None:
        """The object, or None: a kernel that cannot be compiled again stays as it is."""
        process = self._process
        if process is None:
            return None
        try:
            emission.send(process.stdin.fileno(), text)
            code = emission.receive(process.stdout.fileno())
        except (OSError, ValueError):
            code = None
        if code is None:  # it was killed, or LLVM ended it
            with self.state:
                self._stop()
                self._failed += 1
                if self._failed >= TRIES:
                    self._give_up()
        return code

    def _give_up(self) -> None:
        self.possible = False
        self._waiting.clear()


def _start() -> Any:
    return started(emission.__file__)
