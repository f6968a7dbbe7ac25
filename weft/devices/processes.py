"""Helper processes: run one file of weft in a second Python interpreter."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any


def python() -> str | None:
    """Return the path of the Python interpreter, or None in a program that embeds Python."""
    name = sys.executable or ""
    if getattr(sys, "frozen", False) or not re.match(r"(python|pypy)", os.path.basename(name), re.IGNORECASE):
        return None
    return name


def start_process(file: str) -> Any:
    """Start a process that runs a file and communicates through stdin and stdout. Raises OSError if that is impossible."""
    import subprocess

    name = python()
    if name is None:
        raise OSError("this program has no interpreter that could be started again")
    return subprocess.Popen(
        [name, "-I", "-S", str(Path(file))], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True,  # Ctrl-C must interrupt only the main process
    )
