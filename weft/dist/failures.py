"""Exit codes of a job, and the line that says which rank raised."""

from __future__ import annotations

import os
import traceback

from weft.errors import is_own_file

FAILED, HUNG = 70, 75  # exit codes of the job


def describe_error(rank: int, size: int, error: BaseException) -> str:
    """Return which rank raised what, at which line of the user's."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not is_own_file(f.filename)]
    line = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    text = str(error).split("\n")[0]
    return f"rank {rank} of {size} raised {type(error).__name__}{': ' * bool(text)}{text}{line}"
