"""What each rank does, in a file of the launcher's folder, so that ``weft launch`` can tell after a rank was killed."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

FOLDER_VARIABLE = "WEFT_JOB_FOLDER"
DONE = "is done"
FAILURE = "failed with code "  # begins the text of a rank that has said itself why the job ends
WAITING = "waits for the others in "
_BYTES = 1024


class Report:
    """This rank's file. Without a folder of a launcher nothing is written."""

    def __init__(self, rank: int) -> None:
        folder = os.environ.get(FOLDER_VARIABLE, "")
        self._memory: mmap.mmap | None = None
        self._start = f"{os.getpid()}\n".encode()
        if folder and os.path.isdir(folder):  # else the launcher runs on another host
            with open(os.path.join(folder, f"rank-{rank}"), "w+b") as file:
                file.truncate(_BYTES)
                self._memory = mmap.mmap(file.fileno(), _BYTES)
        self.write("has begun")

    def find_late_ranks(self) -> dict[int, str]:
        """Return the text of each rank of this host that neither waits for others nor has failed. Without a folder: none."""
        if self._memory is None:
            return {}
        reports = read_reports(Path(os.environ[FOLDER_VARIABLE]))
        return {rank: text for rank, (_, text) in reports.items() if not text.startswith((WAITING, FAILURE))}

    def write(self, text: str) -> None:
        """Replace the text. It costs a microsecond: memory is written, the system writes the file."""
        if self._memory is not None:
            line = self._start + text.encode()[: _BYTES - 64] + b"\0"
            self._memory[: len(line)] = line


def read_reports(folder: Path) -> dict[int, tuple[int, str]]:
    """Return process id and text of each rank that has written one."""
    out = {}
    for path in folder.glob("rank-*"):
        pid, _, text = path.read_bytes().partition(b"\0")[0].decode(errors="replace").partition("\n")
        if pid:
            out[int(path.name[5:])] = int(pid), text
    return dict(sorted(out.items()))
