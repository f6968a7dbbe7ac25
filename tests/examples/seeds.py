"""Loads the programs of ``examples/seeds`` as modules."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "examples" / "seeds"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"seed_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
