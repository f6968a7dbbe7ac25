"""The table of names: each of NumPy's, CuPy's and JAX's is in weft, or has a reason; the page is what the tool writes."""

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


@pytest.mark.parametrize("room", ["numpy", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.ndarray"])
def test_every_name_is_there_or_has_a_reason(tool: Any, room: str) -> None:
    have, lack = tool.names(room)
    why = tool.reasons(room)
    assert not [n for n in lack if n not in why], "give them to weft, or a reason to tools/numpy_names.py"
    assert not [n for n in why if n in have], "weft has them now: take the reasons out of tools/numpy_names.py"
    assert not [n for n in why if n not in lack], "neither NumPy nor CuPy nor JAX has such names"
    listed = [n for names in tool.REASONS[room].values() for n in names.split()]
    assert len(listed) == len(set(listed)), "two reasons for one name"


def test_the_page_is_written_by_its_tool(tool: Any) -> None:
    assert tool.PAGE.read_text() == tool.page(), "write it anew: python tools/numpy_names.py"


def test_what_is_left_out_is_what_was_meant(tool: Any) -> None:
    """Of NumPy's functions nothing but strings, dates, records, matrices, buffers and its own installation."""
    import numpy as np

    theirs, ours = tool.public("numpy")
    functions = {n for n in theirs if callable(getattr(np, n)) and not isinstance(getattr(np, n), type)}
    assert functions - ours == set("""
        asmatrix bmat busday_count busday_offset datetime_as_string datetime_data fromregex get_include getbufsize geterrcall
        info is_busday isnat nested_iters setbufsize seterrcall show_config show_runtime test""".split())


def test_the_peers_are_known_by_version(tool: Any) -> None:
    assert set(tool.PEERS) == {"cupy", "jax"}
    for kept in tool.PEERS.values():
        assert kept["version"].count(".") == 2 and set(kept["rooms"]) == set(tool.ROOMS)
        assert all(names == sorted(set(names)) and names for names in kept["rooms"].values())
    assert all("jit" not in kept["rooms"]["numpy"] and "einsum" in kept["rooms"]["numpy"] for kept in tool.PEERS.values())
