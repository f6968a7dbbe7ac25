"""Compile texts in several processes, this one included; the others load Triton only.

Triton takes about 1 s for a product and 0.2 s for a small text, and holds the GIL, so threads would not help. Other processes are
started for more than one text, stay some seconds for more, and are killed at exit. If none can be started, this process compiles
everything.
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
from weft.devices.cuda.emission import CompileError, Job, describe_failure
from weft.devices.processes import python, start_process

MAX_PROCESSES = 8  # processes besides this one: each loads Triton
IDLE_S = 20.0  # seconds that an idle process stays
NOTICE_AFTER_S = 2.0  # seconds before a terminal shows a message


class Task:
    """A submitted job. answer: the emitted code; error: why there is none; process: the one that compiles it."""

    __slots__ = ("answer", "is_dropped", "error", "job", "process", "tries")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.answer: Any = None
        self.error: str | None = None
        self.process: Any = None
        self.is_dropped, self.tries = False, 0

    @property
    def is_done(self) -> bool:
        """Return whether the task is finished or dropped."""
        return self.answer is not None or self.error is not None or self.is_dropped


class Pool:
    """The compiler processes. emit: compiles in this process; most: limit of other processes."""

    def __init__(
        self, emit: Callable[[Job], Any] = emission.compile_job, most: int | None = None, file: str = emission.__file__,
    ) -> None:
        self._emit, self._file = emit, file
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.max_processes = min(cores - 1, MAX_PROCESSES) if most is None else most
        self.state = threading.Condition()
        self._waiting: deque[Task] = deque()
        self._processes: list[Any] = []  # each has a thread
        self._has_exit_handler = False

    def submit(self, jobs: Sequence[Job], beside: int = 0) -> list[Task] | None:
        """Submit jobs to the other processes; return None if there are none and none can be started.

        beside: number of the jobs that the caller compiles itself.
        """
        tasks = [Task(job) for job in jobs]
        with self.state:
            while len(self._processes) < min(self.max_processes, len(self._waiting) + len(tasks) - beside):
                if not self._start():
                    break
            if not self._processes:
                return None
            self._waiting.extend(tasks)
            self.state.notify_all()
        return tasks

    def all(self, jobs: Sequence[Job], done: Callable[[int, Any], None], look: Callable[[], None] = lambda: None) -> None:
        """Compile all jobs. Calls ``done(number, code)`` in this thread as they finish, and ``look`` from time to time.

        Raises
        ------
        CompileError
            Triton rejects one of them; the others are dropped.
        """
        tasks = self.submit(jobs, beside=1) if len(jobs) > 1 else None
        if tasks is None:
            for k, job in enumerate(jobs):
                done(k, self._emit(job))
                look()
            return
        left = dict(enumerate(tasks))
        try:
            while left:
                for k, task in [(k, task) for k, task in left.items() if task.is_done]:
                    del left[k]
                    if task.error is not None:
                        raise CompileError(describe_failure(task.job, task.error))
                    done(k, task.answer)
                look()
                with self.state:
                    own = next((task for task in left.values() if self._can_take(task)), None)
                    if own is not None:
                        self._unqueue(own)
                    elif left and not any([task.is_done for task in left.values()]):
                        self.state.wait(0.25)
                if own is not None:
                    own.answer = self._emit(own.job)
        finally:  # an error, or Ctrl-C
            self.drop(left.values())

    def _can_take(self, task: Task) -> bool:
        """Return whether the caller may compile the task: no process has it, and none died of it unless none is left."""
        return not task.is_done and task.process is None and not (task.tries and self._processes)

    def _unqueue(self, task: Task) -> None:
        if task in self._waiting:
            self._waiting.remove(task)

    def is_abandoned(self, tasks: Sequence[Task]) -> bool:
        """Return whether no process will finish any of these tasks any more."""
        with self.state:
            return all([task.is_done or task.process is None and task not in self._waiting for task in tasks])

    def drop(self, tasks: Any) -> None:
        """Cancel tasks, killing the processes that compile them."""
        with self.state:
            for task in tasks:
                task.is_dropped = True
                self._unqueue(task)
                if task.process is not None:
                    task.process.kill()

    def _start(self) -> bool:
        """Start a process and the thread that feeds it; ``state`` is locked."""
        if python() is None or len(self._processes) >= self.max_processes:
            return False
        try:
            process = start_process(self._file)
            self._processes.append(process)
            threading.Thread(target=self._feed, args=(process,), name="weft compiles for GPUs", daemon=True).start()
        except (OSError, RuntimeError):  # the system's limit of processes or threads
            return False
        if not self._has_exit_handler:
            atexit.register(self.end)
            self._has_exit_handler = True
        return True

    def _feed(self, process: Any) -> None:
        """Send tasks to a process until it is idle for IDLE_S seconds, dies or the pool ends."""
        state, answers = self.state, open(process.stdout.fileno(), "rb", closefd=False)
        try:
            _send(process, [str(path) for path in sys.path])
            while True:
                with state:
                    if not state.wait_for(lambda: self._waiting or not self.max_processes, IDLE_S) or not self.max_processes:
                        return
                    task = self._waiting.popleft()
                    task.process = process
                try:
                    _send(process, task.job)
                    answer = pickle.load(answers)
                except (OSError, EOFError, ValueError, pickle.UnpicklingError):  # the process was killed or died
                    answer = None
                    process.kill()
                    process.wait()
                with state:
                    task.process = None
                    if isinstance(answer, str):
                        task.error = answer
                    elif answer is not None:
                        task.answer = answer
                    elif not task.is_dropped:
                        self._retry(task, process)
                    state.notify_all()
                if answer is None:
                    return
        except OSError:  # the process died before the first task
            pass
        finally:
            with state:
                if process in self._processes:
                    self._processes.remove(process)
                if self._waiting and not self._processes and not self._start():
                    self._waiting.clear()  # the callers compile them themselves
                state.notify_all()
            process.kill()  # it has no state to save
            process.wait()
            process.stdin.close()
            process.stdout.close()

    def _retry(self, task: Task, process: Any) -> None:
        """Give the task of a dead process to another one, once; then set its error."""
        task.tries += 1
        if task.tries < 2:
            self._waiting.append(task)
        else:
            task.error = f"Triton's process ended with {process.returncode} while it compiled this, twice"

    def end(self) -> None:
        """Kill all processes at exit."""
        with self.state:
            self.max_processes = 0
            self._waiting.clear()
            for process in self._processes:
                process.kill()
            self.state.notify_all()

    def in_child(self) -> None:
        """Reset the pool in a forked child: the processes belong to the parent, and threads do not survive a fork."""
        processes, self._processes, self._waiting = self._processes, [], deque()
        self.state, self._has_exit_handler = threading.Condition(), False
        for process in processes:
            process.stdin.close()  # the processes must see their pipes close when the parent exits
            process.stdout.close()
            process.returncode = 0


class SlowCompileNotice:
    """Prints a message in a terminal if compiling takes more than PATIENCE seconds."""

    def __init__(self, text: str) -> None:
        self._text: str | None = text if sys.stderr is not None and sys.stderr.isatty() else None
        self._when = time.monotonic() + NOTICE_AFTER_S

    def show_if_due(self) -> None:
        if self._text is not None and time.monotonic() > self._when:
            print(f"weft: {self._text} ...", file=sys.stderr, flush=True)
            self._text = None


def _send(process: Any, message: Any) -> None:
    rest = memoryview(pickle.dumps(message))
    while rest:
        rest = rest[os.write(process.stdin.fileno(), rest) :]


POOL = Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.in_child)
