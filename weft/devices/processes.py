"""Second processes that run one file of weft, with the Python of this one."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any


def python() -> str | None:
    """The interpreter, unless this is a program that has one inside."""
    name = sys.executable or ""
    if getattr(sys, "frozen", False) or not re.match(r"(python|pypy)", os.path.basename(name), re.IGNORECASE):
        return None
    return name


def started(file: str) -> Any:
    """A process that runs a file by itself, spoken to by its input and output. Raises OSError where there is no interpreter, or
    none can be started."""
    import subprocess

    name = python()
    if name is None:
        raise OSError("this program has no interpreter that could be started again")
    return subprocess.Popen(
        [name, "-I", "-S", str(Path(file))], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True,  # Ctrl-C is for the program alone
    )
