"""Record the public names of CuPy or JAX in tools/peer_names.json, for the table of names: run where that library is installed.

    python tools/peer_names.py cupy
    python tools/peer_names.py jax
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_suffix(".json")
ROOMS = {  # NumPy's room -> where a peer has its like; the last part may be a class
    "cupy": {
        "numpy": "cupy", "numpy.linalg": "cupy.linalg", "numpy.fft": "cupy.fft", "numpy.random": "cupy.random",
        "numpy.ndarray": "cupy.ndarray",
    },
    "jax": {
        "numpy": "jax.numpy", "numpy.linalg": "jax.numpy.linalg", "numpy.fft": "jax.numpy.fft", "numpy.random": "jax.random",
        "numpy.ndarray": "jax.Array",
    },
}


def there(path: str) -> Any:
    """A module, or a class in one."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        home, _, name = path.rpartition(".")
        return getattr(importlib.import_module(home), name)


def recorded(peer: str) -> dict[str, Any]:
    """The version, and the names of each room."""
    rooms = {
        room: sorted(n for n in dir(there(path)) if not n.startswith("_") and n != "annotations")
        for room, path in ROOMS[peer].items()
    }
    return {"version": importlib.import_module(peer).__version__, "rooms": rooms}


if __name__ == "__main__":
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    known.update({peer: recorded(peer) for peer in sys.argv[1:]})
    lines = [
        f'  "{peer}": {{"version": "{kept["version"]}", "rooms": {{\n'
        + ",\n".join(f'    "{room}": {json.dumps(names)}' for room, names in kept["rooms"].items())
        + "\n  }}"
        for peer, kept in sorted(known.items())
    ]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
