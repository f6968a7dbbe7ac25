"""Elements and parts of small arrays, without Python and as Python reads and writes them."""

from __future__ import annotations

import operator
import weakref

import numpy as np
import pytest
from native_cases import NUMBERS, content, same

import weft as wf
from weft.array.core import Array
from weft.dtypes.formats import FORMATS
from weft.eager import implementations


@pytest.fixture(autouse=True)
def often(monkeypatch) -> None:
    """Functions are made when first asked for."""
    monkeypatch.setattr(implementations, "COMPILE_AFTER_CALLS", 0)


@pytest.mark.parametrize("dtype", FORMATS)
def test_reading_elements(dtype: str, rng) -> None:
    x, grid, zero = (wf.array(content(rng, s, dtype)) for s in ((5,), (3, 4), ()))
    part = grid[1]
    part.numpy()
    indices = [
        0, 4, -1, -5, 5, -6, 2**70, True, (1,), (-1,), (), (1, 2), (-3, -4), (3, 0), (1, True), 1.0, None, slice(1, 3), ..., "a",
    ]
    for form in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool", "float32", "complex64"):
        values = wf.array([1, 0, 3]).astype(form)
        values.numpy()
        indices += [values[0], values[2], (values[0], -2), (values[1], values[0]), (values[1] + values[0], 1), (1, values[:1])]
    for wide in (wf.int8(-1), wf.uint8(255), wf.uint64(2**64 - 1), wf.int64(-5), wf.int64(-(2**63))):
        indices += [wide, (wide,), (1, wide), (wide, wide)]
    for array in (x, grid, zero, zero[()], part):
        for index in indices:
            same(lambda a, i: a[i], array, index)
    for one in (x[1], x[:1], grid[1, 2], zero, x, wf.array(content(rng, (1, 1), dtype))):
        for f in (float, int, bool, operator.index, complex, Array.item, str):
            same(f, one)


@pytest.mark.parametrize("dtype", FORMATS)
def test_writing_elements(dtype: str, rng) -> None:
    start = content(rng, (3, 4), dtype)

    def write(index, value):
        a = wf.array(start)
        a[index] = value
        return a

    def flat(index, value):
        a = wf.array(start.reshape(-1))
        a[index] = value
        return a

    numbers = [*NUMBERS[:33], wf.array(content(rng, (2,), dtype))[1], wf.array(content(rng, (), dtype)), wf.array([1.5])[0]]
    for value in numbers:
        same(write, (1, -2), value)
        same(flat, 7, value)
        same(flat, -12, value)
    for index in (12, -13, (1, 2), True, 2**70, slice(2), None):
        same(flat, index, 1)


def test_writes_are_seen_by_nobody_else() -> None:
    a = wf.array([1.0, 2.0, 3.0])
    copy, exported, shared = a.copy(), a.numpy(), wf.array(a)
    node = a.node
    a[0] = 5.0
    assert [float(x[0]) for x in (a, copy, shared)] == [5.0, 1.0, 1.0] and exported[0] == 1.0
    assert node.value is not a.node.value
    view = a[:2]
    assert float(view[0]) == 5.0
    a[0] = 6.0
    assert float(view[0]) == 6.0 and float(view.sum()) == 8.0
    f = wf.jit(lambda x: x + a)
    for k in range(4):
        a[1] = float(k)
        assert f(copy).tolist() == [7.0, 2.0 + k, 6.0]
    for s in (a[0], wf.array(1.0)[()]):
        with pytest.raises(TypeError):
            s[()] = 1.0
    memory = memoryview(a.numpy())
    a[0] = 9.0
    assert memory[0] == 6.0


def test_views_are_followed_and_then_native(rng) -> None:
    grid, row = wf.array(content(rng, (6, 5), "float32")), wf.array(content(rng, (5,), "float32"))
    ways = (
        lambda g: g[1] + row, lambda g: g[1] * g[2], lambda g: row - g[3], lambda g: g[:, 1:2] + g, lambda g: 2 - g[1:3],
        lambda g: wf.tanh(g[2]), lambda g: wf.maximum(g[1:3], 0), lambda g: g[2] @ g.T, lambda g: g[1:4].sum(axis=1),
        lambda g: g[1] ** 2, lambda g: g[:, :] + g,
    )
    for way in ways:
        for _ in range(6):
            same(way, grid)

    def written(y):
        a = wf.array(np.arange(12, dtype=np.float32).reshape(3, 4))
        part = a[1]
        first = part + 1
        a[1] = y
        second = part + 1  # the view shows what is there now
        a[1, 2] = 9.0
        part[0] = 7.0
        return wf.stack([first, second, part + 1, a[1]])

    for y in (1.0, wf.array(2.0), wf.arange(4.0), np.ones(4)):
        same(written, y)


def test_slices_are_told_apart() -> None:
    x = np.arange(24).reshape(4, 6)
    a = wf.array(x)
    for index in (
        slice(1, 3), slice(None, None, 2), slice(-1, None, -1), slice(True, 3), (slice(1, 3), 2), (slice(1, 3), slice(2, None)),
        (2, slice(1)), (slice(0, 3), -1), (slice(np.int64(1), 3), 0), (None, slice(1, 2)), (slice(1, 2), None),
        (slice(1, 2), ...), (1, 3), (slice(1, 2), slice(None)), (slice(1, 2), True),
    ):
        for _ in range(2):
            assert a[index].tolist() == x[index].tolist(), index
            b, y = wf.array(x), x.copy()
            b[index] = 5
            y[index] = 5
            assert b.tolist() == y.tolist()
    for index in ((slice(1.0, 2),), (slice(0, 2), 9), ((0, 2, None), 1.5)):
        with pytest.raises((TypeError, IndexError, ValueError)):
            a[index]


def test_dying_scalars_leave_others_alone(rng) -> None:
    """The memory of a Scalar that dies is used for the next one, unless something else refers to it."""
    contents = [(9 * rng.random(20)).astype(dtype) for dtype in ("float32", "float64", "int8", "int64", "complex64", "bool")]
    arrays = [wf.array(content) for content in contents]
    kept: list = []
    for _ in range(2000):
        k, i = int(rng.integers(len(arrays))), int(rng.integers(20))
        scalar, right = arrays[k][i], contents[k][i]
        action = rng.integers(7)
        if action == 0:
            kept.append((scalar, right))
        elif action == 1:
            kept.append((scalar.numpy(), right))
        elif action == 2:
            kept.append((wf.asarray(scalar).reshape(1), right))
        elif action == 3:
            kept.append((memoryview(scalar.numpy()), right))
        elif action == 4:
            kept.append((scalar + scalar, right + right))
        elif action == 5:
            reference = weakref.ref(scalar)
            assert reference() is scalar
            del scalar
            assert reference() is None
        while len(kept) > rng.integers(10, 50):
            kept.pop(rng.integers(len(kept)))
        scalar = None
        assert arrays[k][i] == right and arrays[k][i].dtype == right.dtype
    for found, right in kept:
        assert np.array_equal(np.asarray(found).reshape(()), right)
