"""``weft launch``: what a script sees, and what comes out."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.dist.jobs import LAUNCH, run_job
from weft.tools.cli import main

pytestmark = pytest.mark.xdist_group("jobs")
SCRIPT = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
import helper
import weft as wf
rank, size = wf.dist.rank(), wf.dist.size()
print("rank", rank, "of", size, sys.argv[1:], __name__, helper.value, flush=True)
print("a line", "in pieces", rank)
print("threads", wf.get_num_threads())
print("error", rank, file=sys.stderr)
beside = wf.jit(lambda x: wf.dist.all_sum(x) + x @ x)
beside(wf.ones(1 << 14))
def ask():
    found = []
    for function in (wf.dist.all_sum, beside):
        try:
            function(wf.ones(1 << 14))
        except wf.errors.CollectiveError as error:
            found.append(str(error))
    assert size == 1 or len(found) == 2 and all("another thread" in text for text in found), found
    return True
if not os.fork():
    ask()
    sys.exit()  # a child that leaves must not take part in the end of the job
assert os.wait()[1] == 0
with ThreadPoolExecutor() as pool:
    assert pool.submit(ask).result()
print("sum", wf.dist.all_sum(rank + 1).tolist())
"""


def test_a_script_runs_on_each_rank(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("value = 42\n")
    script = tmp_path / "a script.py"
    script.write_text(SCRIPT)
    result = run_job(2, script, "-n", "7", "--patience")
    assert result.code == 0, result.text
    for rank in range(2):
        assert f"[{rank}] rank {rank} of 2 ['-n', '7', '--patience'] __main__ 42\n" in result.text, result.text
        assert f"[{rank}] a line in pieces {rank}\n" in result.text and f"[{rank}] error {rank}\n" in result.text, result.text
        assert f"[{rank}] sum 3\n" in result.text, result.text
    threads = {int(n) for n in re.findall(r"threads (\d+)", result.text)}
    assert threads == {max(1, len(os.sched_getaffinity(0)) // 2)}
    assert set(re.findall(r"^\[.\]", result.text, re.M)) == {"[0]", "[1]"} and result.text.count("\n") == 10, result.text


def test_weft_train_on_two_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "digits", "--epochs", "1", "--batch-size", "512", "--shards", "2", "--save"]
    for ranks, file in (([], "one"), (["--ranks", "2"], "two")):
        done = subprocess.run([*LAUNCH[:-1], *command, tmp_path / file, *ranks], capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.count("test accuracy") == 1, done
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    for options, text in (
        (["--ranks", "2"], "train: --ranks needs --shards S, at least 2"),
        (["--ranks", "3", "--shards", "2"], "train: --shards is 2, but each of 3 ranks needs a shard"),
        (["--ranks", "0", "--shards", "2"], "train: --ranks is 0"),
        (["--ranks", "2", "--shards", "2", "--watch"], "train: --watch is for one process"),
    ):
        assert main(["train", "digits", *options]) == 1 and text in capsys.readouterr().err


def test_a_missing_script_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["launch", "-n", "2"])
    assert capsys.readouterr().err.endswith("are required: script\n")
