"""Random indices with arrays and masks, read and written through views and not, at once and pending: what NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.devices import counters
from weft.runtime.context import CONTEXT


def index_of(r: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """An index that may be out of range, or of shapes that do not broadcast."""
    if r.random() < 0.25:
        return r.random(shape[: r.integers(1, len(shape) + 1)]) < 0.5
    together = [(), (2,), (3, 1), (1, 2), (0,)][r.integers(5)]
    parts: list[Any] = []
    for extent in shape[: r.integers(1, len(shape) + 1)]:
        parts.append([
            slice(None, None, -1), slice(0, 2), np.int64(r.integers(-extent - (r.random() < 0.1), extent)),
            r.random(extent) < 0.5, r.integers(-extent, extent + (r.random() < 0.1), together if r.random() < 0.8 else (1,)),
        ][r.integers(5)])
    for more in (None, Ellipsis):
        if r.random() < 0.2:
            parts.insert(int(r.integers(len(parts) + 1)), more)
    return tuple(parts) if len(parts) > 1 or r.random() < 0.5 else parts[0]


def ours(r: np.random.Generator, index: Any) -> Any:
    """The same with some arrays and integers as weft's, some pending, some as lists and Python's."""
    if isinstance(index, tuple):
        return tuple([ours(r, part) for part in index])
    if isinstance(index, np.integer) and r.random() < 0.8:
        given = [int(index), wf.int64(index), wf.arange(index, index + 2)[0], wf.array([index]).sum()]
        return given[r.integers(4)]
    if not isinstance(index, np.ndarray) or r.random() < 0.2:
        return index
    if index.size and index.ndim and r.random() < 0.2:
        return index.tolist()
    given = wf.array(index)
    return given if r.random() < 0.5 or not index.ndim else given | given  # of which the latter would be a Scalar


def tried(function: Any) -> Any:
    try:
        return np.asarray(function())
    except (IndexError, TypeError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize("limit", [0, 64, 128 << 10])
def test_random_indices(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(CONTEXT, "max_eager_bytes", limit)
    for _ in range(250 if limit > 64 else 40):
        shape = tuple(rng.integers(1, 5, rng.integers(1, 4)).tolist())
        dtype = ["float32", "int64", "bool", "float16"][rng.integers(4)]
        base = (rng.standard_normal(shape) * 3).astype(dtype)
        array, turned = wf.array(base), rng.integers(3)
        want, got = [(base, array), (base.T, array.T), (base[::-1], array[::-1])][turned]
        index = index_of(rng, want.shape)
        mine = ours(rng, index)
        expected, found = tried(lambda want=want, index=index: want[index]), tried(lambda got=got, mine=mine: got[mine])
        if isinstance(expected, type):
            assert isinstance(found, type) and issubclass(found, expected | ValueError), (shape, index)
            continue
        assert found.dtype == expected.dtype and np.array_equal(found, expected), (shape, index)
        shapes = [expected.shape, expected.shape[1:], (7, 7)]
        assert np.shares_memory(expected, want) == (got[mine].base is array), (shape, index)
        value: Any = (rng.standard_normal(shapes[rng.choice(3, p=[0.6, 0.3, 0.1])]) * 3).astype(dtype)
        if rng.random() < 0.3:
            value = {"float32": 1.5, "float16": -2, "int64": 7, "bool": True}[dtype]
        before = base.copy()
        expected = tried(lambda want=want, index=index, value=value: want.__setitem__(index, value))
        if expected is TypeError:  # a mask's values in more dimensions than one, which NumPy does not take
            continue
        assigned = wf.array(value) if isinstance(value, np.ndarray) else value
        found = tried(lambda got=got, mine=mine, assigned=assigned: got.__setitem__(mine, assigned))
        assert isinstance(found, type) == isinstance(expected, type), (shape, index, np.shape(value))
        assert np.array_equal(array.numpy(), before if isinstance(expected, type) else base), (shape, index)


def test_others_who_hold_the_content_keep_theirs() -> None:
    a = wf.array(np.arange(6.0))
    b, double, rows = wf.asarray(a).copy(), a * 2, wf.array([1, 3])
    a[rows] = 9.0
    a[a > 4.5] = wf.array([1.0, 2.0, 3.0])
    assert a.numpy().tolist() == [0, 1, 2, 2, 4, 3] and b.numpy().tolist() == [0, 1, 2, 3, 4, 5]
    assert double.numpy().tolist() == [0, 2, 4, 6, 8, 10]
    a[rows] = a[rows[::-1]]
    assert a.numpy().tolist() == [0, 2, 2, 1, 4, 3]


def test_masks_that_differ_at_every_turn_compile_nothing(rng: np.random.Generator) -> None:
    a, content = wf.array(np.zeros((40, 30), np.float32)), np.zeros((40, 30), np.float32)
    before = counters()["kernels"]
    for k in range(20):
        mask = rng.random((40, 30)) < 0.3
        inside = wf.array(mask)
        a[inside] = a[inside] + float(k)
        content[mask] += k
    assert np.array_equal(a.numpy(), content) and counters()["kernels"] == before
