"""``weft launch``: start a job by the MPI's own launcher, and start it again if it fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from weft.dist.job import Job, Outcome
from weft.dist.mpi import launched_rank, slurm_tasks
from weft.dist.mpiexec import Mpiexec, cores_of_process, find_mpiexec, share_hosts
from weft.dist.report import FOLDER_VARIABLE
from weft.dist.run_rank import CORES_VARIABLE
from weft.dist.world import PATIENCE_VARIABLE

MOST_RANKS_PER_CORE = 32
_ANSWER_S = 30.0  # in which a host must start a process


def launch(
    count: int, script: str, arguments: list[str], patience: float | None = None, hosts: Sequence[str] = (), retries: int = 0,
    least: int | None = None, mpiexec: str | None = None,
) -> int:
    """Run a script on ``count`` ranks and return the job's exit code.

    hosts : names of the machines, which share the ranks; this one alone if empty
    retries : how often a job that fails is started again
    least : the fewest ranks of a job that is started again after a rank was killed or a host is gone; None: ``count``
    mpiexec : the program that starts the ranks; by default the one of the installed MPI

    Raises
    ------
    ValueError
        ``count``, ``patience``, ``hosts``, ``retries`` or ``least`` do not fit.
    FileNotFoundError
        There is no such script or program.
    DeviceError
        mpi4py or a launcher of MPI is missing.
    """
    if patience is not None and not patience > 0:
        raise ValueError(f"launch: --patience is {patience:g}, but must be a positive number of seconds")
    _check_counts(count, hosts, retries, least)
    if not os.path.isfile(script):
        raise FileNotFoundError(f"launch: there is no file {script}")
    rank = launched_rank()
    if rank is not None or slurm_tasks() > 1:
        place = f"rank {rank} of a job" if rank is not None else f"one of {slurm_tasks()} tasks of srun"
        raise ValueError(f"launch: this process is {place} already, and each of them would start a job: use `weft run`")
    program, fewest = find_mpiexec(mpiexec), count if least is None else least
    command = [sys.executable, "-m", "weft.dist.run_rank", script, *arguments]
    slots = share_hosts(count, hosts)
    for retry in range(retries + 1):
        if retry:
            _say(f"the job is started again on {count} rank{'s' * (count > 1)}, retry {retry} of {retries}")
        outcome = _run(program, command, count, slots, patience)
        if outcome.is_final:
            return outcome.code
        answers = {host: True for host in slots} if outcome.has_told and not retries else _ask_hosts(program, list(slots))
        if gone := [host for host, answered in answers.items() if not answered]:
            _say(f"no process can be started on {', '.join(gone)}")
        if retry == retries:
            break
        remaining = {host: slots[host] for host, answered in answers.items() if answered}
        if len(remaining) < len(slots):
            count, slots = sum(remaining.values()), remaining
        elif outcome.is_killed and count > fewest:
            count -= 1
            slots = {host: n for host, n in share_hosts(count, list(slots)).items() if n}
        if count < fewest:
            _say(f"the job is not started again: {count} rank{'s' * (count != 1)} left, fewer than --least {fewest}")
            break
    return outcome.code


def _say(text: str) -> None:
    print(f"weft: {text}", file=sys.stderr, flush=True)


def _check_counts(count: int, hosts: Sequence[str], retries: int, least: int | None) -> None:
    if count < 1:
        raise ValueError(f"launch: -n is {count}, but a job has at least one rank")
    most = MOST_RANKS_PER_CORE * cores_of_process()
    if not hosts and count > most:
        limit = f"at most {most} ranks, {MOST_RANKS_PER_CORE} for each core"
        raise ValueError(f"launch: -n is {count}, but this machine takes {limit}; --hosts names others")
    for host in hosts:
        if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", host):
            raise ValueError(
                f"launch: --hosts has {host!r}, which is no name of a host; give names or addresses with commas between them, "
                "as a,b: they share the ranks evenly"
            )
        if list(hosts).count(host) > 1:
            raise ValueError(f"launch: --hosts names {host} twice; hosts share the ranks evenly")
    if len(hosts) > count:
        raise ValueError(f"launch: -n is {count}, but --hosts names {len(hosts)} hosts, and each needs at least one rank")
    if retries < 0:
        raise ValueError(f"launch: --retries is {retries}, but must be 0 or more")
    if least is not None and not retries:
        raise ValueError(f"launch: --least {least} needs --retries, the number of times that a job that fails is started again")
    if least is not None and not 1 <= least <= count:
        raise ValueError(f"launch: --least is {least}, but must be from 1 to {count}, the number of ranks")


def _run(program: Mpiexec, command: list[str], count: int, slots: dict[str, int], patience: float | None) -> Outcome:
    """Run the job once."""
    with tempfile.TemporaryDirectory(prefix="weft-job-") as folder:
        environment = {**os.environ, FOLDER_VARIABLE: folder, CORES_VARIABLE: str(cores_of_process())}
        if program.library:
            environment.setdefault("MPI4PY_LIBMPI", program.library)
        if patience is not None:
            environment[PATIENCE_VARIABLE] = str(patience)
        start = program.command(count, slots, environment)
        return Job(program, [*start, *command], environment, Path(folder), count).run()


def _ask_hosts(program: Mpiexec, hosts: list[str]) -> dict[str, bool]:
    """Return for each host whether it starts a process of Python."""
    def starts_python(host: str) -> bool:
        command = [*program.command(1, {host: 1}, {}), sys.executable, "-c", ""]
        try:
            return subprocess.run(command, capture_output=True, timeout=_ANSWER_S).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    with ThreadPoolExecutor(8) as pool:
        return dict(zip(hosts, pool.map(starts_python, hosts), strict=True))
