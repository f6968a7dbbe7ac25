"""SciPy with ``SCIPY_ARRAY_API=1``: what takes array libraries gives Arrays, the rest what it gives for NumPy's arrays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_scipy_takes_weft() -> None:
    script = Path(__file__).with_name("scipy_checks.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found) > 60 and not {name: said for name, said in found.items() if said}
