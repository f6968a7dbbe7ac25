"""What NumPy makes at once of small arrays has the bits of compiled programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.cell import LOCAL
from weft.functions.known import at_hand, made

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint64", "bool")


def crossed(a: int, b: int, dtype: str) -> Callable[[Any], Any]:
    def call(rng: np.random.Generator) -> Any:
        x, y = (wf.array(rng.normal(size=(n, 5)) * 20).astype("int64").astype(dtype) * 3 for n in (a, b))
        return wf.cross(x / 7 if "float" in dtype else x, y, 0, 0, 0)
    return call


CALLS: list[Callable[[Any], Any]] = [
    *[lambda _, d=d, k=k: wf.eye(3, 5, k, d) for d in DTYPES for k in (-9, -1, 0, 2, 9)],
    *[lambda _, d=d: wf.ones((2, 3), d) for d in DTYPES], lambda _: wf.zeros(()), lambda _: wf.ones((0, 3)),
    *[lambda _, d=d, e=e, n=n: wf.linspace(-0.1, 1.3, n, e, dtype=d)
      for d in DTYPES[:4] for e in (True, False) for n in (0, 1, 2, 7, 100)],
    lambda _: wf.linspace(3, -7, 11, dtype="int8"), lambda _: wf.linspace(0, 1e308, 5) - wf.linspace(0, np.inf, 5, False),
    *[crossed(a, b, d) for a in (2, 3) for b in (2, 3) for d in ("float32", "float64", "bfloat16", "int8", "uint64")],
    lambda rng: wf.cross(rng.normal(size=3), rng.normal(size=(4, 3))), lambda _: wf.cross([1, 2], [3, 4]),
    lambda _: wf.arange(9)[::-2], lambda _: wf.arange(12.0).reshape(3, 4).T[1:], lambda _: wf.roll(wf.arange(7), 3),
]


def bits(x: Any) -> Any:
    return x.dtype.name, x.shape, x.numpy().tobytes(), type(x)


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_as_compiled(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    got = [bits(CALLS[number](np.random.default_rng(number))) for _ in range(2)]
    monkeypatch.setattr(LOCAL, "at_once", 0)
    monkeypatch.setattr(LOCAL, "patience", 0)
    assert [bits(CALLS[number](np.random.default_rng(number)))] * 2 == got


def test_a_content_of_its_own() -> None:
    x, y = wf.arange(5), wf.arange(5)
    x += 1
    assert y.tolist() == wf.arange(5).tolist() == [0, 1, 2, 3, 4]


def test_only_what_is_small_and_known() -> None:
    x, pending = wf.ones(3), wf.ones((1000, 1000)) + 1
    assert at_hand(x.node) is not None and at_hand(x.node, pending.node) is None
    found: list[Any] = []
    wf.jit(lambda y: found.extend([at_hand(y.node), made((2,), x.node.dtype, lambda: np.ones(2))]) or y)(x)
    wf.grad(lambda y: found.append(at_hand(y.node)) or y.sum())(x)
    assert found == [None] * 3
    assert made((1000, 1000), x.node.dtype, lambda: np.ones((1000, 1000), np.float32)) is None
