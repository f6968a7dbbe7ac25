"""A process that never sees a shape twice: mappings and memory must stay as they are.

    python tests/soak/shapes.py 30000           # looks at expressions
    python tests/soak/shapes.py 30000 jit       # one jitted function, called with ever new arguments
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]


def memory() -> tuple[int, int]:
    """(mappings, resident kilobytes) of this process."""
    status = Path("/proc/self/status").read_text()
    return len(Path("/proc/self/maps").read_text().splitlines()), int(status.split("VmRSS:")[1].split()[0])


def shapes(count: int, kind: str = "lazy", tell: Callable[[str], None] = lambda line: None) -> list[tuple[int, int]]:
    """:func:`memory` at 11 moments, evenly spaced; the first when caches are full, if ``count`` is large."""
    import numpy as np

    import weft as wf
    from weft.devices import counters, get_device

    jitted = wf.jit(lambda x: wf.tanh(x) * 2 + 1)
    table = np.random.default_rng().normal(size=count + 1).astype(np.float32)
    first = min(5000, count // 3)
    marks = {first + (count - first) * k // 10 for k in range(11)}
    found, start = [], time.monotonic()
    for n in range(1, count + 1):
        x = table[:n] if n % 2 else table[: n // 2 * 2].reshape(2, -1)
        got = (jitted(wf.asarray(x)) if kind == "jit" else wf.tanh(wf.asarray(x)) * 2 + 1).numpy()
        if n % 97 == 0:
            assert got.shape == x.shape and np.allclose(got, np.tanh(x) * 2 + 1, atol=1e-5), n
        if n in marks:
            found.append(memory())
            used = get_device().compiler.memory.used()
            tell(f"{n} shapes, {time.monotonic() - start:.0f} s: {found[-1][0]} mappings, {found[-1][1] / 1024:.0f} MB resident, "
                 f"{used / 1e6:.1f} MB of code, {counters()['loads']} kernels loaded")
    if count >= 15_000:
        growing(found, (count - first) // 10)
    return found


def growing(found: list[tuple[int, int]], step: int) -> None:
    """Refuse memory that grows once caches are full.

    2 KB of each compilation are never freed by llvmlite; what weft keeps of a small program is 4 KB or more.
    """
    for last in (2, 5, 10):
        grown = 1024 * (found[last][1] - found[0][1]) / (last * step)
        assert grown < 3500, f"{grown:.0f} bytes a shape, {found[0][1]} to {found[last][1]} kB"
    assert found[10][0] - found[0][0] < 100, "mappings pile up"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WEFT_CACHE"] = folder
        shapes(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "lazy", lambda line: print(line, flush=True))
