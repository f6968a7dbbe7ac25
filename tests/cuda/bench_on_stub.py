"""A step of ``weft bench gpu`` in a process in which the device "gpu" is the recording stub.

``$BENCH_ROWS`` names a function (module:name) whose rows take the place of the step's own.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import SimpleNamespace

from benchmarks.gpu import __main__ as child
from tests.cuda.stub import made
from weft.devices import names
from weft.devices.cuda import device as card_device

if __name__ == "__main__":
    device, _ = made()
    card_device.open_device = lambda name, number: device  # type: ignore[assignment]
    original = names.why_not
    for module in [m for m in list(sys.modules.values()) if getattr(m, "why_not", None) is original]:
        module.why_not = lambda name: None if names.canonical_name(name) == "gpu" else original(name)  # type: ignore[attr-defined]
    if named := os.environ.get("BENCH_ROWS"):
        module, _, function = named.partition(":")
        rows = getattr(importlib.import_module(module), function)
        child.importlib = SimpleNamespace(  # type: ignore[attr-defined]
            import_module=lambda name: SimpleNamespace(rows=rows, load=rows, check=rows, scatters=rows)
        )
    sys.exit(child.main())
