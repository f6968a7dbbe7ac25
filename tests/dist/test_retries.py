"""``weft launch`` on hosts and with retries: a job that fails goes on from its checkpoint, on as many ranks as are left."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.dist.jobs import HERE, LAUNCH, run_job
from weft.dist.mpiexec import Mpiexec, share_hosts

pytestmark = pytest.mark.xdist_group("jobs")
AGAIN = HERE / "again.py"
SSH = """#!/bin/bash
# In place of ssh: a host is this machine, unless the file says that it is dead.
while [[ "$1" == -* ]]; do shift; done
grep -qx "$1" {folder}/dead 2>/dev/null && exit 255
shift
exec bash -c "$*"
"""


def tries_of(folder: Path) -> list[int]:
    """Return the number of ranks of each try, and forget them."""
    files = sorted(folder.glob("try-*"))
    counts = [int(file.read_text()) for file in files]
    for file in (*files, *folder.glob("run*"), *folder.glob("dead")):
        file.unlink()
    return counts


def test_a_failed_job_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    whole = run_job(1, AGAIN, tmp_path, "none", 0)
    (bits,) = re.findall(r"bits \w+", whole.text)
    assert tries_of(tmp_path) == [1]
    for options, mode, failures, counts in (
        (["--retries", "1"], "killed", 1, [2, 2]),
        (["--retries", "3", "--least", "2"], "killed", 2, [3, 2, 2]),
        (["--retries", "1", "--least", "1"], "raises", 1, [2, 2]),
    ):
        result = run_job(counts[0], AGAIN, tmp_path, mode, failures, options=options)
        assert result.code == 0 and re.findall(r"bits \w+", result.text) == [bits] * counts[-1], result.text
        assert tries_of(tmp_path) == counts, result.text
        assert f"started again on {counts[-1]} ranks, retry {failures} of {options[1]}" in result.text, result.text


def test_failures_that_end_a_job(tmp_path: Path) -> None:
    for options, mode, code, counts in ((["--retries", "2"], "exits", 5, [2]), (["--retries", "1"], "killed", 9, [2, 2])):
        result = run_job(2, AGAIN, tmp_path, mode, 9, options=options)
        assert result.code == code and tries_of(tmp_path) == counts, result.text


def test_hosts_share_the_ranks_and_one_of_them_goes(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH.format(folder=tmp_path))
    ssh.chmod(0o755)
    for options, counts in ((["--retries", "1", "--least", "2"], [3, 2]), (["--retries", "1"], [3])):
        options = ["--hosts", "alpha,beta", *options]
        result = run_job(3, AGAIN, tmp_path, "host", 1, options=options, HYDRA_LAUNCHER_EXEC=str(ssh))
        assert "weft: no process can be started on beta" in result.text, result.text
        if len(counts) == 2:
            assert result.code == 0 and result.text.count("] bits") == 2, result.text
        else:
            assert result.code and "2 ranks left, fewer than --least 3" in result.text, result.text
        assert tries_of(tmp_path) == counts, result.text


def test_each_mpi_gets_its_own_words_for_hosts() -> None:
    assert share_hosts(7, ["a", "b", "c"]) == {"a": 3, "b": 2, "c": 2} and share_hosts(4, []) == {}
    slots, environment = {"a": 2, "b": 1}, {"WEFT_PATIENCE": "3", "HOME": "/", "PYTHONPATH": "x"}
    assert Mpiexec("m", False).command(3, slots, environment) == ["m", "-prepend-rank", "-hosts", "a:2,b:1", "-n", "3"]
    assert Mpiexec("m", True).command(3, slots, environment) == [
        "m", "--tag-output", "--oversubscribe", "--host", "a:2,b:1", "-x", "WEFT_PATIENCE", "-x", "PYTHONPATH", "-n", "3",
    ]
    assert "--host" not in Mpiexec("m", True).command(3, {}, environment)


RULE = 74 * "-" + "\n"
OPEN_MPI = f"""[1,0]<stdout>: first
[1,1]<stdout>: {RULE}[1,1]<stdout>: a table of rank 1
[1,2]<stderr>: {RULE}[1,2]<stderr>: MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD
[1,0]<stdout>: between
[1,2]<stderr>:   Errorcode: 70
[1,2]<stderr>: {RULE}[1,2]<stderr>: \0
{RULE}prterun noticed that process rank 1 with PID 26726 on node vm exited on
signal 9 (Killed).
{RULE}{RULE}There are not enough slots available in the system
{RULE}[1,1]<stdout>: {RULE}"""
OPEN_MPI_SHOWN = f"""[0] first
[1] {RULE}[1] a table of rank 1
[0] between
{RULE}There are not enough slots available in the system
{RULE}[1] {RULE}"""
MPICH = """[0] ===================================================================================
[0] =   BAD TERMINATION of a script's own

===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 31712 RUNNING AT vm
=   EXIT CODE: 9
===================================================================================
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)
This typically refers to a problem with your application.
Please see the FAQ page for debugging suggestions
[1] Abort(70) on node 1
[1] last
"""


@pytest.mark.parametrize(
    ("is_open_mpi", "text", "shown", "pid"),
    [
        (True, OPEN_MPI, OPEN_MPI_SHOWN, 26726),
        (False, MPICH, "".join(MPICH.splitlines(True)[:2]) + "[1] last\n", 31712),
    ],
)
def test_words_of_mpi_about_the_end_are_left_out(is_open_mpi: bool, text: str, shown: str, pid: int) -> None:
    output = Mpiexec("m", is_open_mpi).output()
    assert "".join(output.read(line) for line in text.splitlines(True)) + output.rest() == shown
    assert output.dead_pid == pid and output.by_signal


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("-n 2 --hosts a,,b", "--hosts has '', which is no name of a host"),
        ("-n 2 --hosts a:2,b", "--hosts has 'a:2', which is no name of a host"),
        ("-n 2 --hosts -x,b", "argument --hosts: expected one argument"),
        ("-n 2 --hosts=-x,b", "--hosts has '-x'"),
        ("-n 2 --hosts a,a", "--hosts names a twice"),
        ("-n 1 --hosts a,b", "-n is 1, but --hosts names 2 hosts"),
        ("-n 2 --retries -1", "--retries is -1, but must be 0 or more"),
        ("-n 2 --least 1", "--least 1 needs --retries"),
        ("-n 2 --retries 1 --least 3", "--least is 3, but must be from 1 to 2"),
        ("-n 2 --retries 1 --least 0", "--least is 0, but must be from 1 to 2"),
        ("-n 2 --mpiexec no-such-mpiexec", "--mpiexec is no-such-mpiexec, but there is no such program"),
        ("-n 0 --retries 3", "-n is 0, but a job has at least one rank"),
    ],
)
def test_options_that_do_not_fit(arguments: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    from weft.tools.cli import main

    try:
        assert main(["launch", *arguments.split(), str(AGAIN)]) == 1
    except SystemExit as error:  # argparse
        assert error.code == 2
    out = capsys.readouterr()
    assert text in out.err and not out.out, out


SCRIPT = "import sys, weft as wf\nprint('rank', wf.dist.rank(), 'of', wf.dist.size(), sys.argv[1:])\n"


def test_tasks_of_srun(tmp_path: Path) -> None:
    script, run = tmp_path / "script.py", [*LAUNCH[:-1], "run"]
    script.write_text(SCRIPT)

    def start(command: list[object], **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(list(map(str, command)), capture_output=True, text=True, env={**os.environ, **variables})

    alone = start([*run, script, "-n", "7"], SLURM_NTASKS="16", SLURM_PROCID="0")  # a batch script has these, too
    assert alone.returncode == 0 and alone.stdout == "rank 0 of 1 ['-n', '7']\n", alone
    lost = start([*run, script], SLURM_STEP_NUM_TASKS="4", SLURM_PROCID="1")
    assert lost.returncode == 70 and "srun started 4 tasks without PMI" in lost.stderr and "--mpi=pmix" in lost.stderr, lost
    plain = start([LAUNCH[0], script], SLURM_STEP_NUM_TASKS="4", SLURM_PROCID="1")
    assert plain.returncode and "srun started 4 tasks without PMI" in plain.stderr, plain
    nested = start([*LAUNCH, "-n", 2, script], SLURM_STEP_NUM_TASKS="4")
    assert nested.returncode == 1 and "one of 4 tasks of srun already" in nested.stderr, nested
    nested = start([*LAUNCH, "-n", 2, script], PMI_RANK="2")
    assert nested.returncode == 1 and "this process is rank 2 of a job already" in nested.stderr, nested


def test_ranks_of_mpiexec_itself_run_a_script(tmp_path: Path) -> None:
    from weft.dist.mpiexec import find_mpiexec

    script = tmp_path / "script.py"
    script.write_text(SCRIPT + "if wf.dist.rank():\n    import nothing_there\nwf.dist.barrier()\n")
    done = subprocess.run(
        [find_mpiexec().path, "-n", "2", *LAUNCH[:-1], "run", str(script), "a"], capture_output=True, text=True, timeout=60,
    )
    assert done.returncode == 70 and "rank 0 of 2 ['a']" in done.stdout, done
    assert "rank 1 of 2 raised ModuleNotFoundError" in done.stderr, done
