"""All results in one zip file, for machines that return few files. It is replaced atomically while steps run."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from weft.process.files import write_atomically

LOG_BYTES = 1 << 20  # of each log, its end: the file must stay small


class Pack:
    """The zip file of a folder with results. target : path of the file, None for no file"""

    def __init__(self, folder: Path, target: str | None) -> None:
        self._folder, self._target = folder, None if target is None else Path(target)
        self._packed: list[tuple[str, int]] = []  # names and times of the last write

    def write(self) -> None:
        """Write the file if the folder has changed since the last call.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        if self._target is None:
            return
        files = sorted([file for file in self._folder.iterdir() if file.suffix in (".json", ".log")])
        state = [(file.name, file.stat().st_mtime_ns) for file in files]
        if not files or state == self._packed:
            return
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                data = file.read_bytes()
                archive.writestr(file.name, data if file.suffix == ".json" else data[-LOG_BYTES:])
        write_atomically(self._target, content.getvalue(), "bench gpu: --zip")
        self._packed = state
