"""A process that never sees a shape twice: mappings and memory must stay as they are.

    python tests/soak/shapes.py 30000           # looks at expressions
    python tests/soak/shapes.py 30000 jit       # one jitted function, called with ever new arguments
"""

from __future__ import annotations

import gc
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
    found, used, start = [], [], time.monotonic()
    for n in range(1, count + 1):
        x = table[:n] if n % 2 else table[: n // 2 * 2].reshape(2, -1)
        got = (jitted(wf.asarray(x)) if kind == "jit" else wf.tanh(wf.asarray(x)) * 2 + 1).numpy()
        if n % 97 == 0:
            assert got.shape == x.shape and np.allclose(got, np.tanh(x) * 2 + 1, atol=1e-5), n
        if n in marks:
            found.append(memory())
            gc.collect()
            used.append(held())
            code = get_device().compiler.memory.used_bytes()
            tell(f"{n} shapes, {time.monotonic() - start:.0f} s: {found[-1][0]} mappings, {found[-1][1] / 1024:.0f} MB resident, "
                 f"{code / 1e6:.1f} MB of code, {counters()['loads']} kernels loaded")
    if count >= 12_000:
        check(used, count - first)
    return found


def held() -> tuple[int, int]:
    """Return the blocks that Python's allocator has given out, and the bytes that malloc has."""
    import ctypes

    class Info(ctypes.Structure):
        _fields_ = [(name, ctypes.c_size_t) for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]

    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Info
    return sys.getallocatedblocks(), int(ask().uordblks)


def check(found: list[tuple[int, int]], shapes: int) -> None:
    """Refuse what grows with the number of shapes once caches are full. Resident memory also counts what is free.

    llvmlite never frees some 2 KB of each compilation; a small program and what planning keeps of it are 20 KB.
    """
    (blocks, malloc), (most, later) = found[0], (max(b for b, _ in found), found[-1][1])
    assert most < 1.25 * blocks, f"{blocks} of Python's blocks became {most}"
    assert later - malloc < 3500 * shapes, f"{(later - malloc) / shapes:.0f} bytes of malloc's a shape"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["WEFT_CACHE"] = folder
        shapes(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "lazy", lambda line: print(line, flush=True))
