"""``weft launch``: what a script sees, and what comes out."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.dist.jobs import run_job

pytestmark = pytest.mark.xdist_group("jobs")
SCRIPT = """
import os, sys, threading
import helper
import weft as wf
rank, size = wf.dist.rank(), wf.dist.size()
print("rank", rank, "of", size, sys.argv[1:], __name__, helper.value, flush=True)
print("a line", "in pieces", rank)
print("threads", wf.get_num_threads())
print("error", rank, file=sys.stderr)
if not os.fork():
    sys.exit()  # a child that leaves must not take part in the end of the job
os.wait()
found = []
def ask():
    try:
        wf.dist.all_sum(wf.ones(2))
    except wf.errors.CollectiveError as error:
        found.append(str(error))
thread = threading.Thread(target=ask)
thread.start()
thread.join()
assert size == 1 or "another thread" in found[0], found
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
