"""Completed docstrings: what is copied, in what order, and what is not."""

from __future__ import annotations

import re

import numpy as np
import pytest

from weft.process.docstrings import complete_docs, complete_module

WORDS = ("a", "b", "axis", "out", "keepdims", "where", "dtype")


def made(parameters: tuple[str, ...], described: tuple[str, ...], sections: str = "") -> object:
    """Return a function with these parameters, some of which its docstring describes."""
    lines = "\n".join(f"    {name} : {name}'s type\n        About {name} of {len(described)}." for name in described)
    head = f"\n    Parameters\n    ----------\n{lines}\n" if described else ""
    space: dict[str, object] = {}
    exec(f"def f({', '.join(parameters)}) -> int: pass", space)
    f = space["f"]
    f.__doc__ = f"Compute something.\n{head}{sections}    "
    return f


def names(doc: str) -> list[str]:
    return re.findall(r"^(\w+) : ", doc, re.MULTILINE)


def test_random_functions() -> None:
    r = np.random.default_rng()
    for _ in range(50):
        parameters = tuple(r.permutation(WORDS)[: r.integers(1, 7)])
        own = tuple(name for name in parameters if r.random() < 0.4)
        head, other = made(WORDS, WORDS, RAISES), made(parameters, own)
        complete_docs(head, other)
        assert names(other.__doc__) == list(parameters)
        assert all(f"About {name} of {len(own) if name in own else len(WORDS)}." in other.__doc__ for name in parameters)
        assert "Raises\n------\nValueError\n" in other.__doc__


RAISES = """
    Raises
    ------
    ValueError
        Always.

    Examples
    --------
    >>> wf.ones(1)
"""


def test_own_sections_win_and_examples_are_not_copied() -> None:
    own = "\n    Raises\n    ------\n    TypeError\n        Never.\n"
    head, other = made(("a",), ("a",), RAISES), made(("a",), (), own)
    complete_docs(head, other)
    assert "TypeError" in other.__doc__ and "ValueError" not in other.__doc__ and "Examples" not in other.__doc__
    shown = made(("a",), (), "\n    Examples\n    --------\n    >>> wf.zeros(1)\n")
    complete_docs(head, shown)
    assert "Examples\n--------\n>>> import weft as wf\n>>> wf.zeros(1)" in shown.__doc__


def test_a_parameter_without_a_description_is_refused() -> None:
    with pytest.raises(KeyError, match=r"f: neither its docstring nor that of f describes \['b'\]"):
        complete_docs(made(("a",), ("a",)), made(("a", "b"), ("a",)))


def test_a_module_is_completed() -> None:
    """Common parameters, the title of Examples and the import are added; docstrings without sections stay."""
    head = made(("a", "out", "axis"), ("axis",), "\n    >>> wf.ones(1)\n")
    other, plain = made(("a", "axis"), ()), made(("a",), ())
    room = {"__name__": "room", "f": head, "g": other, "h": plain}
    for f in (head, other, plain):
        f.__module__ = "room"
    complete_module(room, (head, other))
    assert (names(head.__doc__), names(other.__doc__)) == (["a", "out", "axis"], ["a", "axis"])
    assert "Examples\n--------\n>>> import weft as wf\n>>> wf.ones(1)" in head.__doc__ and "Returns\n-------\nint" in head.__doc__
    assert plain.__doc__ == "Compute something.\n    "
