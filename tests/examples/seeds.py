"""Loads the programs of ``examples/seeds`` as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parents[2] / "examples" / "seeds"
sys.path.insert(0, str(FOLDER))  # as for a program that is started there


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"seed_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
