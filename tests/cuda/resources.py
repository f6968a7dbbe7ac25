"""Resources that compiled code needs, as the tools of Triton report them."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from weft.devices.cuda.adapter import Code


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources of a thread: registers, and bytes of local memory (spills and arrays)."""

    registers: int
    stack: int


def usage(code: Code) -> Usage:
    """Return the resources of code, as reported by the cuobjdump that Triton includes."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code.binary)
        file.flush()
        output = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    match = re.search(r"REG:(\d+) STACK:(\d+)", output)
    if match is None:
        raise RuntimeError(f"cuobjdump reports no resource usage: {output!r}")
    return Usage(int(match[1]), int(match[2]))
