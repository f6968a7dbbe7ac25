"""What takes too long for every run of the tests: kills, interruptions, forks, shapes and damaged files, and what came of them.

    make soak                     # all of it, about an hour on two cores
    python tests/soak/run.py forks cold

Each part is a script of its own, which says how it is run with other numbers.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
PARTS = {
    "kills": ["../train/killed.py", "60"], "cold": ["interrupts.py", "cold", "40"], "warm": ["interrupts.py", "warm", "200"],
    "forks": ["forks.py", "20"], "readers": ["readers.py", "20000"], "shapes": ["shapes.py", "30000"],
    "shapes of jit": ["shapes.py", "30000", "jit"],
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in PARTS]
    if unknown:
        print(f"no part {unknown[0]!r}: there are {', '.join(PARTS)}")
        return 2
    failed = []
    for name in names or PARTS:
        script, *more = PARTS[name]
        print(f"-- {name}", flush=True)
        start = time.monotonic()
        if subprocess.run([sys.executable, str(HERE / script), *more]).returncode:
            failed.append(name)
        print(f"   {time.monotonic() - start:.0f} s", flush=True)
    print(f"failed: {', '.join(failed)}" if failed else "all held")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
