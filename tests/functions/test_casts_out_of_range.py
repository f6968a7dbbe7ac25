"""Floats cast to integers that cannot hold them: one answer in every way that a cast runs, NumPy's for a single element.

NumPy's own loops disagree with each other for uint32: the vectorised one gives other numbers than the scalar one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.functions.cases import INTEGERS

rng = np.random.default_rng()


def _values(dtype: str) -> np.ndarray:
    """NaN, infinities, what lies on both sides of each bound of an integer, fractions, and numbers of every size."""
    bounds = np.array([sign * 2.0**bits + step for bits in (7, 8, 15, 16, 31, 32, 62, 63, 64) for sign in (1, -1)
                       for step in (-1, -0.5, 0, 0.5, 1)])
    sizes = rng.normal(size=60) * 2.0 ** rng.uniform(-3, 70, 60)
    with np.errstate(over="ignore"):
        wide = np.concatenate([[np.nan, np.inf, -np.inf], bounds, sizes])
        return wide.astype(wf.dtype(dtype))


def _repeated(x: np.ndarray, target: str) -> Any:
    """In a kernel of several chunks."""
    many = np.tile(x, 2000)
    return (wf.array(many) * 1).astype(target).reshape((2000, -1))[rng.integers(2000)]


WAYS: dict[str, Callable[[np.ndarray, str], Any]] = {
    "at once": lambda x, t: wf.array(x).astype(t),
    "one by one": lambda x, t: wf.stack([wf.array(x)[k].astype(t) for k in range(len(x))]),
    "from NumPy": lambda x, t: wf.array(x, dtype=t),
    "strided": lambda x, t: wf.array(np.repeat(x, 2))[::2].astype(t),
    "jitted": lambda x, t: wf.jit(lambda x: x.astype(t))(wf.array(x)),
    "fused": lambda x, t: wf.jit(lambda x: (x * 1).astype(t) + 0)(wf.array(x)),
    "constant": lambda x, t: wf.jit(lambda: wf.array(x).astype(t))(),
    "in a loop": lambda x, t: wf.scan(lambda c, row: (c, row.astype(t)), wf.zeros(()), wf.array(x))[1],
    "written": lambda x, t: _written(x, t),
    "many": _repeated,
}


def _written(x: np.ndarray, target: str) -> Any:
    out = wf.zeros(x.shape, dtype=target)
    out[:] = wf.array(x)
    return out


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("target", INTEGERS)
def test_every_way_gives_the_answer_for_one_element(target: str, way: str) -> None:
    for source in ("float16", "bfloat16", "float32", "float64"):
        x = _values(source)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = np.array([x[k : k + 1].astype(target)[0] for k in range(len(x))])
            found = np.asarray(WAYS[way](x, target))
        wrong = found != want
        assert found.dtype == want.dtype and not wrong.any(), (source, x[wrong], found[wrong], want[wrong])
