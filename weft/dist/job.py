"""A running job: its output, its end, and which rank was the cause if it fails."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from weft.dist.failures import FAILED, HUNG
from weft.dist.first_end import FirstEnd
from weft.dist.mpiexec import Mpiexec, Output
from weft.dist.report import DONE, FAILURE, WAITING, read_reports

_POLL_S = 0.1
_GRACE_S = 2.0  # from a rank's failure, or Ctrl-C, to the end of its processes


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    code : the exit code
    is_final : whether nothing failed, a signal ended the launcher, or a rank left with an exit code of its own
    is_killed : whether a signal ended a rank
    has_told : whether a rank has said why the job ended
    """

    code: int
    is_final: bool
    is_killed: bool
    has_told: bool


class Job:
    """The processes of one start of a job, and the folder of their reports."""

    def __init__(
        self, mpiexec: Mpiexec, command: Sequence[str], environment: dict[str, str], folder: Path, count: int,
    ) -> None:
        self._command, self._environment, self._folder, self._count = command, environment, folder, count
        self._outputs = mpiexec.output(), mpiexec.output()
        self._stop = 0  # the signal that ends this process

    def run(self) -> Outcome:
        """Run the job to its end, print its output, and say what happened if it fails."""
        before = {number: signal.signal(number, self._note_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            process = subprocess.Popen(
                self._command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                preexec_fn=_die_with_parent,
            )
            streams = zip((process.stdout, process.stderr), (sys.stdout, sys.stderr), self._outputs, strict=True)
            readers = [threading.Thread(target=_pass_on, args=stream) for stream in streams]
            for reader in readers:
                reader.start()
            first_end = FirstEnd(self._folder)
            ended_here = self._watch(process)
            first_end.stop()
            for reader in readers:
                reader.join()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._stop:
            print(f"weft: the job was ended by {signal.Signals(self._stop).name}", file=sys.stderr)
            return Outcome(128 + self._stop, True, False, False)
        return self._judge(process.returncode, ended_here, first_end.ranks)

    def _note_signal(self, number: int, frame: object) -> None:
        self._stop = number

    def _watch(self, process: subprocess.Popen[str]) -> bool:
        """Wait for the end. End the job if this process was told to, or if a rank failed and MPI does not end the job.

        Return whether it was ended here.
        """
        deadline = 0.0
        while True:
            try:
                process.wait(_POLL_S)
                return bool(deadline) and time.monotonic() >= deadline
            except subprocess.TimeoutExpired:
                pass
            if not deadline and any(text.startswith(FAILURE) for _, text in read_reports(self._folder).values()):
                deadline = time.monotonic() + _GRACE_S
            if self._stop and not deadline:
                deadline = time.monotonic()
            if deadline and time.monotonic() >= deadline:
                process.terminate() if time.monotonic() < deadline + _GRACE_S else process.kill()

    def _judge(self, returned: int, ended_here: bool, first: Collection[int]) -> Outcome:
        """Return the outcome, and print it if the job failed."""
        reports = read_reports(self._folder)
        by_signal = any(output.by_signal for output in self._outputs)
        code = returned if returned >= 0 else 128 - returned
        if by_signal and code > 128:  # Open MPI's code; MPICH's is the signal
            code -= 128
        told = [int(text.removeprefix(FAILURE)) for _, text in reports.values() if text.startswith(FAILURE)]
        if told and code not in told:  # two ranks ended the job at once, or MPI had not begun
            code = told[0]
        elif not code and (ended_here or any(text != DONE for _, text in reports.values())):
            code = FAILED
        is_killed = not told and by_signal and code in signal.Signals._value2member_map_
        if code:
            self._tell(code, reports, is_killed, first)
        return Outcome(code, not code or bool(told) and code not in (FAILED, HUNG), is_killed, bool(told))

    def _tell(self, code: int, reports: dict[int, tuple[int, str]], is_killed: bool, first: Collection[int]) -> None:
        """Say which rank ended the job and what the others did. first : the ranks that ended first"""
        cause = ""
        if is_killed:
            # MPI's launcher may name one of those that it ended itself: they wait for the rank that is at fault
            dead = [rank for rank in first if reports[rank][1] != DONE]
            if len(dead) != 1:
                dead = [rank for rank, (_, text) in reports.items() if not text.startswith(WAITING)]
            if len(dead) != 1 and code != signal.SIGKILL:
                pids = [output.dead_pid for output in self._outputs]
                dead = [rank for rank, (pid, _) in reports.items() if pid in pids]
            who = f"rank {dead[0]}" if len(dead) == 1 else "a rank"
            cause = f"{who} of {self._count} was ended by {signal.Signals(code).name}, "
        lines = [f"weft: the job failed: {cause}exit code {code}"]
        for rank, (_, text) in reports.items():
            if not text.startswith(FAILURE):
                lines.append(f"weft: rank {rank} {text}")
        print("\n".join(lines), file=sys.stderr)


def _pass_on(source: IO[str], target: IO[str], output: Output) -> None:
    """Print the ranks' lines, without those of MPI's launcher about the end of the job."""
    try:
        for line in source:
            if shown := output.read(line):
                target.write(shown)
                target.flush()
        target.write(output.rest())
        target.flush()
    except BrokenPipeError:  # nobody reads the output; the ranks must not wait for that
        for _ in source:
            pass


def _die_with_parent() -> None:
    """Let the system end MPI's launcher, and so the ranks, if this process is killed (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
