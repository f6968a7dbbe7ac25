"""Jobs of several ranks for the tests: ``weft launch`` as a process, and scripts that find the ranks' programs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
LAUNCH = [sys.executable, "-c", "from weft.tools.cli import main; raise SystemExit(main())", "launch"]


class Result(NamedTuple):
    """How a job ended. ``text``: both outputs."""

    code: int
    text: str
    seconds: float


def run_job(
    ranks: int, script: Path | str, *arguments: object, patience: float = 30, options: Sequence[str] = (), **environment: str,
) -> Result:
    """Run a script on several ranks."""
    start = time.monotonic()
    done = subprocess.run(
        [*LAUNCH, "-n", str(ranks), "--patience", str(patience), *options, str(script), *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, env={**os.environ, **environment},
    )
    return Result(done.returncode, done.stdout, time.monotonic() - start)


def processes_of(marker: str) -> list[str]:
    """Return the command lines of running processes that contain a text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if marker in line and str(os.getpid()) != path.parent.name:
            found.append(line)
    return found
