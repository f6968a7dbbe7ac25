"""A rank that fails ends the job: in time, with an exit code, a message with rank and line, and no process left."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.dist.jobs import HERE, LAUNCH, processes_of, run_job
from weft.dist.first_end import FirstEnd
from weft.dist.report import DONE, FAILURE, FOLDER_VARIABLE, WAITING, Report
from weft.dist.world import World
from weft.errors import CollectiveError

pytestmark = pytest.mark.xdist_group("jobs")  # one looks for processes that another has left
FAILING = HERE / "failing.py"
PATIENCE = 2.0
START_S = 20.0  # of processes on a busy machine, which patience does not count
FIRST, NEXT, _ = (k for k, line in enumerate(FAILING.read_text().split("\n"), 1) if line == "wf.dist.all_sum(x)")


def line_of(text: str) -> str:
    return next(f"failing.py:{k}" for k, line in enumerate(FAILING.read_text().split("\n"), 1) if text in line)


WAITS = f"waits for the others in all_sum of float32[4] (failing.py:{NEXT})"
PAST = f"rank 2 is past all_sum of float32[4] (failing.py:{FIRST})"
SENDS = line_of('if MODE == "unreceived" else')
TOGETHER = line_of("        total = together(x * 2)")
CASES = {  # mode: exit code and texts
    "import": (70, ["rank 2 of 3 raised ModuleNotFoundError", line_of("import a_module"), "weft: rank 0 " + WAITS]),
    "raise": (70, ["rank 2 of 3 raised ValueError: bad data", line_of("raise ValueError"), "weft: rank 0 " + WAITS]),
    "keyword": (70, ["unexpected keyword argument 'dim'; in weft: axis="]),
    "shapes": (70, ["ShapeError", line_of("wf.ones(5)"), "weft's own frames are hidden"]),
    "killed": (9, ["rank 2 of 3 was ended by SIGKILL", PAST, "weft: rank 1 " + WAITS]),
    "crashed": (11, ["rank 2 of 3 was ended by SIGSEGV", "weft: rank 1 " + WAITS]),
    "leaves": (70, ["rank 2 is at the end of its script"]),
    "exits": (3, ["rank 2 of 3 left with exit code 3", "weft: rank 0 " + WAITS]),
    "vanishes": (70, ["rank 2 of 3 left by os._exit(0)"]),
    "vanishes with a code": (3, ["rank 2 of 3 left by os._exit(3)"]),
    "hangs": (75, [f"has waited 2 s for rank 2 in all_sum of float32[4] (failing.py:{NEXT})", "rank 2 is past all_sum"]),
    "stopped": (75, [f"has waited 2 s for rank 2 in all_sum of float32[4] (failing.py:{NEXT})"]),
    "hangs at the end": (75, ["for rank 2 in the end of the script"]),
    "order": (70, [f"asks for all_gather of float32[4] ({line_of('wf.dist.all_gather')})", "the same, in the same order"]),
    "shape": (70, ["asks for all_sum of float32[5]", "all_sum of float32[4]"]),
    "other group": (70, ["asks for all_sum of float32[4] among ranks [1, 2, 0]"]),
    "in jit": (70, [f"all_gather of float32[4] ({line_of('wf.jit')})"]),
    "one rank": (70, [f"all_gather of float32[4] ({line_of('wf.grad')})"]),
    "message": (70, ["expects float32[4] from rank 2", "but it sends float32[3]", line_of("wf.ones(3), to=0")]),
    "unreceived": (70, ["rank 0 of 3 is at the end of its script, but has not received a message of rank 2: float32[3]", SENDS]),
    "unreceived long": (70, ["has not received a message of rank 2: float32[1000000]", SENDS]),
    "unreceived derivative": (70, ["has not received a derivative of rank 2: float32[4]", line_of("wf.dist.recv(x, source=0)")]),
    "no message": (75, ["rank 0 of 3 has waited 2 s for rank 2 in recv from rank 2"]),
    "beside killed": (9, ["rank 2 of 3 was ended by SIGKILL"]),
    "beside raise": (70, ["rank 2 of 3 raised ValueError: bad rows", line_of('raise ValueError("bad rows")')]),
    "beside hangs": (75, [f"has waited 2 s for rank 2 in all_sum of float32[8192] ({TOGETHER})"]),
    "beside order": (70, [f"asks for all_gather of float32[8192] ({TOGETHER})", "the same, in the same order"]),
    "beside index": (70, ["rank 2 of 3 raised IndexError", line_of("x[index]")]),
    "beside ctrl-c": (130, ["rank 0 of 3 raised KeyboardInterrupt"]),
    "caught": (70, ["no all_sum of float32[4]", "was interrupted by CollectiveError"]),
}


@pytest.mark.parametrize("mode", CASES)
def test_a_failing_rank_ends_the_job(mode: str) -> None:
    code, texts = CASES[mode]
    result = run_job(3, FAILING, mode, PATIENCE if code == 75 else 30)
    for text in texts:
        assert text in result.text, (text, result.text)
    assert result.code == code, result
    for line in result.text.split("\n"):
        is_late = "has waited" in line and mode in ("hangs", "stopped", "hangs at the end")
        assert not is_late or "rank 2" in line.partition("has waited")[2], "the rank that is late"
    assert result.seconds < PATIENCE + 5 + START_S, result
    assert not processes_of(str(FAILING))
    assert "BAD TERMINATION" not in result.text and "Abort(" not in result.text, "MPI's own words"


def test_late_ranks_are_those_that_neither_wait_nor_have_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Report(0).find_late_ranks() == {}, "no folder of a launcher"
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    texts = [WAITING + "barrier", "is past barrier", f"{FAILURE}75", "has begun", DONE]
    reports = [Report(rank) for rank in range(len(texts))]
    for report, text in zip(reports, texts, strict=True):
        report.write(text)
    assert reports[0].find_late_ranks() == {rank: texts[rank] for rank in (1, 3, 4)}


def test_the_rank_that_ends_first_is_found(tmp_path: Path) -> None:
    ranks = [subprocess.Popen(["sleep", "100"]) for _ in range(3)]
    for rank, process in enumerate(ranks):
        (tmp_path / f"rank-{rank}").write_text(f"{process.pid}\n{WAITING}barrier\0")
    first_end = FirstEnd(tmp_path)
    ranks[1].kill()
    end = time.monotonic() + 60
    while not first_end.ranks and time.monotonic() < end:
        time.sleep(0.01)
    for process in ranks:
        process.kill()
        process.wait()
    first_end.stop()
    assert first_end.ranks == {1}


class Broken:
    """A message of which the library says that the other rank has ended."""

    def Test(self) -> bool:
        raise RuntimeError("Other MPI error")


def test_an_error_of_the_library_names_the_other_ranks() -> None:
    with pytest.raises(CollectiveError, match="rank 0 of 1 cannot reach ranks 1, 2 in a sum: Other MPI error"):
        World().wait([(Broken(), 2), (Broken(), 1), (Broken(), 2)], "a sum")


def test_a_rank_that_cannot_begin_mpi_ends_the_job(tmp_path: Path) -> None:
    package = tmp_path / "mpi4py"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os, sys\n"
        "if os.environ.get('PMI_RANK') == '1': raise ImportError('a broken installation')\n"
        f"sys.path.remove({str(tmp_path)!r}); del sys.modules['mpi4py']\n"
        "import mpi4py\n"
    )
    result = run_job(3, FAILING, "nothing", 30, PYTHONPATH=f"{tmp_path}:{Path.cwd()}")
    assert result.code == 70, result
    assert "rank 1 of 3 raised DeviceError" in result.text and "a broken installation" in result.text, result
    assert not processes_of(str(FAILING))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_to_the_launcher_end_all_ranks(number: int) -> None:
    process = subprocess.Popen([*LAUNCH, "-n", "2", str(FAILING), "hangs", "60"], stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while len(processes_of(f"run_rank {FAILING}")) < 2 and time.monotonic() < end:
        time.sleep(0.1)
    process.send_signal(number)
    assert process.wait(20) == (-9 if number == signal.SIGKILL else 128 + number)
    while processes_of(str(FAILING)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not processes_of(str(FAILING))


def test_refusals(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print(1)")
    for arguments, text in (
        (["-n", "0", str(script)], "-n is 0, but a job has at least one rank"),
        (["-n", "1000000", str(script)], "-n is 1000000, but this machine takes at most"),
        (["-n", "-2", str(script)], "-n is -2"),
        (["-n", "2", str(tmp_path / "nothing.py")], "there is no file"),
        (["-n", "2", "--patience", "0", str(script)], "--patience is 0, but must be a positive number"),
    ):
        done = subprocess.run([*LAUNCH, *arguments], capture_output=True, text=True)
        assert done.returncode == 1 and text in done.stderr and done.stderr.count("\n") == 1, done


def test_the_launcher_of_another_mpi_is_refused() -> None:
    code = "import os; os.environ.update(OMPI_COMM_WORLD_RANK='0', OMPI_COMM_WORLD_SIZE='4'); import weft as wf; wf.dist.rank()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode and "the launcher started 4 ranks, but" in done.stderr and "two kinds of MPI" in done.stderr
