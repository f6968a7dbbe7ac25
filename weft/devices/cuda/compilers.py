"""Texts compiled in several processes at once, this one among them; the others know Triton alone.

Triton takes about a second for a product and a fifth of one for small texts, and holds the interpreter while it works: threads
would not help. The others are started when there is more than one text, wait some seconds for more, and are killed at an exit.
Where none can be started, this process does all.
"""

from __future__ import annotations

import atexit
import os
import pickle
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from weft.devices.cuda import emission
from weft.devices.cuda.emission import CompileError, Job, told
from weft.devices.processes import python, started

MOST = 8  # processes beside this one: each has Triton in its memory
LINGER = 20.0  # seconds that they wait for more
PATIENCE = 2.0  # seconds before the user is told what takes so long


class Task:
    """A job on its way. answer : what was emitted; error : why there is none; process : that has it in hand"""

    __slots__ = ("answer", "dropped", "error", "job", "process", "tries")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.answer: Any = None
        self.error: str | None = None
        self.process: Any = None
        self.dropped, self.tries = False, 0

    @property
    def done(self) -> bool:
        return self.answer is not None or self.error is not None or self.dropped


class Pool:
    """The compilers of one process. emit : what this process does itself; most : processes beside it"""

    def __init__(
        self, emit: Callable[[Job], Any] = emission.here, most: int | None = None, file: str = emission.__file__,
    ) -> None:
        self._emit, self._file = emit, file
        self.most = min(_cores() - 1, MOST) if most is None else most
        self.state = threading.Condition()
        self._waiting: deque[Task] = deque()
        self._processes: list[Any] = []  # one a thread
        self._registered = False

    def asked(self, jobs: Sequence[Job], beside: int = 0) -> list[Task] | None:
        """Jobs for the other processes; None where there are none, and none can be started. beside : so many of the jobs the
        caller will do."""
        tasks = [Task(job) for job in jobs]
        with self.state:
            while len(self._processes) < min(self.most, len(self._waiting) + len(tasks) - beside):
                if not self._start():
                    break
            if not self._processes:
                return None
            self._waiting.extend(tasks)
            self.state.notify_all()
        return tasks

    def all(self, jobs: Sequence[Job], done: Callable[[int, Any], None], look: Callable[[], None] = lambda: None) -> None:
        """Emit all; ``done(number, what was emitted)`` is called in this thread as they come, ``look`` now and then.

        Raises
        ------
        CompileError
            One of them is refused; the others are dropped.
        """
        tasks = self.asked(jobs, beside=1) if len(jobs) > 1 else None
        if tasks is None:
            for k, job in enumerate(jobs):
                done(k, self._emit(job))
                look()
            return
        left = dict(enumerate(tasks))
        try:
            while left:
                for k, task in [(k, task) for k, task in left.items() if task.done]:
                    del left[k]
                    if task.error is not None:
                        raise CompileError(told(task.job, task.error))
                    done(k, task.answer)
                look()
                with self.state:
                    own = next((task for task in left.values() if self._free(task)), None)
                    if own is not None:
                        self._taken(own)
                    elif left and not any([task.done for task in left.values()]):
                        self.state.wait(0.25)
                if own is not None:
                    own.answer = self._emit(own.job)
        finally:  # an error, or Ctrl-C
            self.drop(left.values())

    def _free(self, task: Task) -> bool:
        """Whether nobody has it in hand, and it has ended no process yet, unless there is none left to try."""
        return not task.done and task.process is None and not (task.tries and self._processes)

    def _taken(self, task: Task) -> None:
        if task in self._waiting:
            self._waiting.remove(task)

    def over(self, tasks: Sequence[Task]) -> bool:
        """Whether nothing is to be expected of the others any more."""
        with self.state:
            return all([task.done or task.process is None and task not in self._waiting for task in tasks])

    def drop(self, tasks: Any) -> None:
        """Nobody wants them any more."""
        with self.state:
            for task in tasks:
                task.dropped = True
                self._taken(task)
                if task.process is not None:
                    task.process.kill()

    def _start(self) -> bool:
        """One process more, and the thread that feeds it; ``state`` is held."""
        if python() is None or len(self._processes) >= self.most:
            return False
        try:
            process = started(self._file)
            self._processes.append(process)
            threading.Thread(target=self._feed, args=(process,), name="weft compiles for GPUs", daemon=True).start()
        except (OSError, RuntimeError):  # no more processes, no more threads
            return False
        if not self._registered:
            atexit.register(self.end)
            self._registered = True
        return True

    def _feed(self, process: Any) -> None:
        state, answers = self.state, open(process.stdout.fileno(), "rb", closefd=False)
        try:
            _send(process, [str(path) for path in sys.path])
            while True:
                with state:
                    if not state.wait_for(lambda: self._waiting or not self.most, LINGER) or not self.most:
                        return
                    task = self._waiting.popleft()
                    task.process = process
                try:
                    _send(process, task.job)
                    answer = pickle.load(answers)
                except (OSError, EOFError, ValueError, pickle.UnpicklingError):  # it was killed, or ended by itself
                    answer = None
                    process.kill()
                    process.wait()
                with state:
                    task.process = None
                    if isinstance(answer, str):
                        task.error = answer
                    elif answer is not None:
                        task.answer = answer
                    elif not task.dropped:
                        self._again(task, process)
                    state.notify_all()
                if answer is None:
                    return
        except OSError:  # it ended before it was asked
            pass
        finally:
            with state:
                if process in self._processes:
                    self._processes.remove(process)
                if self._waiting and not self._processes and not self._start():
                    self._waiting.clear()  # who waits for them does them
                state.notify_all()
            _ended(process)

    def _again(self, task: Task, process: Any) -> None:
        """The process that had it has ended: another one tries, and who asked is told if that ends, too."""
        task.tries += 1
        if task.tries < 2:
            self._waiting.append(task)
        else:
            task.error = f"Triton's process ended with {process.returncode} while it compiled this, twice"

    def end(self) -> None:
        """The interpreter ends."""
        with self.state:
            self.most = 0
            self._waiting.clear()
            for process in self._processes:
                process.kill()
            self.state.notify_all()

    def in_child(self) -> None:
        """In a forked child: the processes are the parent's, and no thread is here."""
        processes, self._processes, self._waiting = self._processes, [], deque()
        self.state, self._registered = threading.Condition(), False
        for process in processes:
            process.stdin.close()  # they must see their pipes end when the parent does
            process.stdout.close()
            process.returncode = 0


class Word:
    """Tells the user, in a terminal, what takes so long."""

    def __init__(self, text: str) -> None:
        self._text: str | None = text if sys.stderr is not None and sys.stderr.isatty() else None
        self._when = time.monotonic() + PATIENCE

    def look(self) -> None:
        if self._text is not None and time.monotonic() > self._when:
            print(f"weft: {self._text} ...", file=sys.stderr, flush=True)
            self._text = None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _send(process: Any, message: Any) -> None:
    rest = memoryview(pickle.dumps(message))
    while rest:
        rest = rest[os.write(process.stdin.fileno(), rest) :]


def _ended(process: Any) -> None:
    process.kill()  # it holds nothing, and goes at once
    process.wait()
    process.stdin.close()
    process.stdout.close()


POOL = Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.in_child)
