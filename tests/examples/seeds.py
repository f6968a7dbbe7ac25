"""Loads the programs of ``examples`` as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES / "seeds"))  # as for a program that is started there


def load(name: str, folder: str = "seeds") -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{folder}_{name}", EXAMPLES / folder / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
