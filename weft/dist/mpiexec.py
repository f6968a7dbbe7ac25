"""MPI's own launcher: its command line, and the words of MPICH and Open MPI about the end of a job."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from weft.errors import DeviceError
from weft.process.distribution import install_command


@dataclass(frozen=True)
class Mpiexec:
    """A launcher of MPI.

    path : the program
    is_open_mpi : whether it belongs to Open MPI; the others take the options of MPICH
    library : the MPI that mpi4py is to load; "" for the one that it finds
    """

    path: str
    is_open_mpi: bool
    library: str = ""

    def command(self, count: int, slots: Mapping[str, int], environment: Mapping[str, str]) -> list[str]:
        """Return the beginning of a command that starts ``count`` processes, with the rank put before each line of output.

        slots : processes on each host; empty for this machine alone
        environment : variables of this process, of which the other hosts need some
        """
        hosts = ",".join(f"{host}:{n}" for host, n in slots.items())
        if not self.is_open_mpi:
            return [self.path, "-prepend-rank", *(["-hosts", hosts] if hosts else []), "-n", str(count)]
        passed = [name for name in environment if name.startswith(("WEFT_", "MPI4PY_")) or name == "PYTHONPATH"]
        exports = [word for name in passed for word in ("-x", name)]
        on_hosts = ["--host", hosts, *exports] if hosts else []
        return [self.path, "--tag-output", "--oversubscribe", *on_hosts, "-n", str(count)]

    def output(self) -> Output:
        """Return a new reader of this launcher's output."""
        return Output(_OPEN_MPI if self.is_open_mpi else _MPICH)


def find_mpiexec(path: str | None = None) -> Mpiexec:
    """Return the launcher of a path with its library, else that of the wheel beside Python, else the first of the system.

    Raises
    ------
    FileNotFoundError
        There is no such program.
    DeviceError
        mpi4py or a launcher of MPI is missing.
    """
    if find_spec("mpi4py") is None:
        raise DeviceError(f"launch: mpi4py is missing: {install_command('dist')}")
    if path is None:
        own = Path(sys.executable).parent / "mpiexec"
        found = str(own) if own.exists() else shutil.which("mpiexec")
        if found is None:
            raise DeviceError(f"launch: there is no mpiexec: {install_command('dist')}, or load the cluster's MPI")
    else:
        found = shutil.which(path)
        if found is None:
            raise FileNotFoundError(f"launch: --mpiexec is {path}, but there is no such program")
    try:
        version = subprocess.run([found, "--version"], capture_output=True, text=True, errors="replace").stdout
    except OSError as error:
        raise DeviceError(f"launch: {found} cannot be started: {error.strerror}") from None
    library = "" if path is None else _find_library(Path(found))
    return Mpiexec(found, any(name in version for name in ("Open MPI", "OpenRTE")), library)


def _find_library(program: Path) -> str:
    """Return the library in ``lib`` beside the folder of a launcher, "" if there is none. Wheels have text files for links."""
    paths = sorted((program.resolve().parents[1] / "lib").glob("libmpi.so*"))
    return next((str(path) for path in paths if path.is_file() and path.open("rb").read(4) == b"\x7fELF"), "")


def share_hosts(count: int, hosts: Sequence[str]) -> dict[str, int]:
    """Return how many of ``count`` ranks each host has: equally many, and one more on the first hosts."""
    size, more = divmod(count, len(hosts) or 1)
    return {host: size + (k < more) for k, host in enumerate(hosts)}


def cores_of_process() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class _Words:
    """What a launcher prints about the end of a job, as regular expressions.

    A message begins with a line ``first`` that is followed by a line ``second``, and ends with a line ``last``.
    """

    first: re.Pattern[str]
    second: re.Pattern[str]
    last: re.Pattern[str]
    single: re.Pattern[str]  # messages of one line
    pid: re.Pattern[str]  # of the process that ended the job
    by_signal: re.Pattern[str]
    prefix: re.Pattern[str]  # of a rank's line, if it is not the number in brackets


_MPICH = _Words(
    re.compile(r"={20}"), re.compile(r"= +BAD TERMINATION"),
    re.compile(r"Please see the FAQ|YOUR APPLICATION TERMINATED WITH THE EXIT CODE"),
    re.compile(r"\[\d+\] Abort\(\d+\) on node "), re.compile(r"PID (\d+) RUNNING AT"),
    re.compile(r"EXIT STRING: .*\(signal \d+\)"), re.compile(r"(?!)()"),
)
_OPEN_MPI = _Words(
    re.compile(r" *-{60,}$"),
    re.compile(r"MPI_ABORT was invoked|(prterun|mpirun|mpiexec|orterun) (noticed|detected|has exited)|Primary job  terminated"),
    re.compile(r" *-{60,}$"), re.compile(r"\[[^]]*\](<stderr>: ?\0$| \d+ more process(es)? (has|have) sent help message)"),
    re.compile(r"with PID (\d+) on node"), re.compile(r"(^| )signal \d+ \("), re.compile(r"\[\d+,(\d+)\]<std(?:out|err)>: ?"),
)


@dataclass
class Output:
    """Reader of a launcher's output: finds the process that ended the job, and leaves out the launcher's words about that.

    by_signal : whether the launcher says that a signal ended the process
    dead_pid : its process id, 0 if it is not named
    """

    _words: _Words
    by_signal: bool = False
    dead_pid: int = 0
    _begun: dict[str, str] = field(default_factory=dict)  # a first line of a rank's or the launcher's, before the second one
    _hidden: set[str] = field(default_factory=set)  # ranks whose lines are within a message

    def read(self, line: str) -> str:
        """Return what to print for a line: "", the line, or several."""
        words = self._words
        found = words.prefix.match(line)
        rank, text = (found[1], line[found.end() :]) if found else ("", line)
        shown = f"[{rank}] {text}" if found else text
        if rank in self._hidden:
            self._note(text)
            if words.last.match(text):
                self._hidden.discard(rank)
            return ""
        before = self._begun.pop(rank, "")
        if before and words.second.match(text):
            self._hidden.add(rank)
            self._note(text)
            return ""
        if words.first.match(text):
            self._begun[rank] = shown
            return before
        return before + ("" if words.single.match(line) or not line.strip() else shown)

    def rest(self) -> str:
        """Return the lines that have begun and have no end yet."""
        return "".join(self._begun.values())

    def _note(self, text: str) -> None:
        if found := self._words.pid.search(text):
            self.dead_pid = self.dead_pid or int(found[1])
        self.by_signal = self.by_signal or bool(self._words.by_signal.search(text))
