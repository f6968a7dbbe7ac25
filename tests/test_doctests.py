"""Every example in a docstring runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import weft

_NOT_SHOWN = ("graph", "schedule", "exceptions", "polynomial", "typing")  # what users do not meet, and NumPy's own
MODULES = sorted(
    m.name for m in pkgutil.walk_packages(weft.__path__, "weft.")
    if m.name.split(".")[1] not in _NOT_SHOWN and not m.name.endswith(".__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0
