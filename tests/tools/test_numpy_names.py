"""The table of NumPy's names: each is in weft, or has a reason; the page is what the tool writes."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("numpy_names")


@pytest.mark.parametrize("room", ["numpy", "numpy.random", "numpy.ndarray"])
def test_every_name_is_there_or_has_a_reason(tool: Any, room: str) -> None:
    have, lack = tool.names(room)
    why = tool.reasons(room)
    assert not [n for n in lack if n not in why], "give them to weft, or a reason to tools/numpy_names.py"
    assert not [n for n in why if n in have], "weft has them now: take the reasons out of tools/numpy_names.py"
    assert not [n for n in why if n not in lack], "NumPy has no such names"


def test_the_page_is_written_by_its_tool(tool: Any) -> None:
    assert tool.PAGE.read_text() == tool.page(), "write it anew: python tools/numpy_names.py"


def test_most_functions_are_there(tool: Any) -> None:
    """Of NumPy's functions and ufuncs nine in ten, and its random distributions."""
    import numpy as np

    have, lack = tool.names("numpy")
    functions = [n for n in have + lack if callable(getattr(np, n)) and not isinstance(getattr(np, n), type)]
    assert len([n for n in functions if n in have]) > 0.9 * len(functions)
