"""``weft launch``: start a job by the MPI's own launcher, watch it, and say what happened if it fails."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from weft.dist.failures import FAILED
from weft.dist.report import DONE, FAILURE, FOLDER_VARIABLE, WAITING, read_reports
from weft.dist.run_rank import CORES_VARIABLE
from weft.dist.world import PATIENCE_VARIABLE
from weft.errors import DeviceError
from weft.process.distribution import install_command

_POLL_S = 0.1
_GRACE_S = 2.0  # from a rank's failure, or Ctrl-C, to the end of its processes
_KILLED = re.compile(r"PID (\d+) RUNNING AT")  # in Hydra's message
_RULE = "=" * 20
_ABORT = re.compile(r"\[\d+\] Abort\(\d+\) on node ")
_BY_SIGNAL = re.compile(r"EXIT STRING: .*\(signal \d+\)")
_LAST_LINES = ("Please see the FAQ", "YOUR APPLICATION TERMINATED WITH THE EXIT CODE")


def launch(count: int, script: str, arguments: list[str], patience: float | None = None) -> int:
    """Run a script on ``count`` ranks of this machine and return the job's exit code.

    Raises
    ------
    ValueError
        ``count`` is less than 1, or ``patience`` not positive.
    FileNotFoundError
        There is no such script.
    DeviceError
        mpi4py or a launcher of MPI is missing.
    """
    if count < 1:
        raise ValueError(f"launch: -n is {count}, but a job has at least one rank")
    if patience is not None and not patience > 0:
        raise ValueError(f"launch: --patience is {patience:g}, but must be a positive number of seconds")
    if not os.path.isfile(script):
        raise FileNotFoundError(f"launch: there is no file {script}")
    command = [*_launcher(), "-n", str(count), sys.executable, "-m", "weft.dist.run_rank", script, *arguments]
    with tempfile.TemporaryDirectory(prefix="weft-job-") as folder:
        environment = {**os.environ, FOLDER_VARIABLE: folder, CORES_VARIABLE: str(_count_cores())}
        if patience is not None:
            environment[PATIENCE_VARIABLE] = str(patience)
        return _Job(command, environment, Path(folder), count).run()


def _launcher() -> list[str]:
    """Return the command of MPI's launcher, with the rank put before each line of output."""
    if find_spec("mpi4py") is None:
        raise DeviceError(f"launch: mpi4py is missing: {install_command('dist')}")
    own = Path(sys.executable).parent / "mpiexec"  # the wheel's
    path = str(own) if own.exists() else shutil.which("mpiexec")
    if path is None:
        raise DeviceError(f"launch: there is no mpiexec: {install_command('dist')}, or load the cluster's MPI")
    version = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
    if "Open MPI" in version or "OpenRTE" in version:
        return [path, "--tag-output", "--oversubscribe"]
    return [path, "-prepend-rank"]


def _count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Job:
    """A running job."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path, count: int) -> None:
        self._command, self._environment, self._folder, self._count = command, environment, folder, count
        self._by_signal = False  # whether MPI's launcher says that a signal ended it
        self._dead_pid = 0  # of the process that MPI's launcher names as the cause
        self._stop = 0  # the signal that ends this process

    def run(self) -> int:
        before = {number: signal.signal(number, self._note_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            process = subprocess.Popen(
                self._command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                preexec_fn=_die_with_parent,
            )
            pairs = (process.stdout, sys.stdout), (process.stderr, sys.stderr)
            readers = [threading.Thread(target=self._pass_on, args=pair) for pair in pairs]
            for reader in readers:
                reader.start()
            ended_here = self._watch(process)
            for reader in readers:
                reader.join()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._stop:
            print(f"weft: the job was ended by {signal.Signals(self._stop).name}", file=sys.stderr)
            return 128 + self._stop
        reports = read_reports(self._folder)
        code = process.returncode if process.returncode >= 0 else 128 - process.returncode
        told = [int(text.removeprefix(FAILURE)) for _, text in reports.values() if text.startswith(FAILURE)]
        if told and code not in told:  # two ranks ended the job at once, or MPI had not begun
            code = told[0]
        elif not code and (ended_here or any(text != DONE for _, text in reports.values())):
            code = FAILED
        if code:
            self._tell(code, reports)
        return code

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

    def _pass_on(self, source: IO[str], target: IO[str]) -> None:
        """Print the ranks' lines, and leave out those of MPICH about the end of the job: ``_tell`` says it with the rank."""
        hidden = False
        for line in source:
            hidden = hidden or line.startswith(_RULE)
            if hidden and (found := _KILLED.search(line)):
                self._dead_pid = self._dead_pid or int(found[1])
            self._by_signal = self._by_signal or hidden and bool(_BY_SIGNAL.search(line))
            if not hidden and line.strip() and not _ABORT.match(line):
                target.write(line)
                target.flush()
            hidden = hidden and not line.startswith(_LAST_LINES)

    def _tell(self, code: int, reports: dict[int, tuple[int, str]]) -> None:
        """Say which rank ended the job and what the others did."""
        spoke = any(text.startswith(FAILURE) for _, text in reports.values())
        cause = ""
        if not spoke and self._by_signal and code in signal.Signals._value2member_map_:
            # Hydra may name one of those that it ended itself: they wait for the rank that is at fault
            dead = [rank for rank, (_, text) in reports.items() if not text.startswith(WAITING)]
            if len(dead) != 1 and code != signal.SIGKILL:
                dead = [rank for rank, (pid, _) in reports.items() if pid == self._dead_pid]
            who = f"rank {dead[0]}" if len(dead) == 1 else "a rank"
            cause = f"{who} of {self._count} was ended by {signal.Signals(code).name}, "
        lines = [f"weft: the job failed: {cause}exit code {code}"]
        for rank, (_, text) in reports.items():
            if not text.startswith(FAILURE):
                lines.append(f"weft: rank {rank} {text}")
        print("\n".join(lines), file=sys.stderr)


def _die_with_parent() -> None:
    """Let the system end MPI's launcher, and so the ranks, if this process is killed (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
