"""Parts of small arrays by slices, index arrays and masks: random programs on views of one array, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.eager.native import NATIVE_ELEMENTS, load_parts

DTYPES = ("float32", "float64", "float16", "int8", "uint16", "int32", "int64", "bool")
PROGRAMS, STEPS = 40, 25


def _index(rng, shape: tuple[int, ...]):
    """Return a random index of slices and integers, of index arrays, or a mask."""
    kind = rng.integers(4)
    if kind == 0 and shape:
        mask = rng.random(shape) < 0.4
        return mask, wf.array(mask)
    if kind == 1 and shape and 0 not in shape:
        rows = [rng.integers(-n, n, 3) for n in shape[: rng.integers(1, len(shape) + 1)]]
        return tuple(rows), tuple(wf.array(r) for r in rows)
    parts = []
    for n in shape[: rng.integers(len(shape) + 1)]:
        if n and rng.random() < 0.4:
            parts.append(int(rng.integers(-n, n)))
        else:
            bounds = [None if rng.random() < 0.4 else int(rng.integers(-n - 1, n + 2)) for _ in range(2)]
            parts.append(slice(*bounds, int(rng.choice([-2, -1, 1, 1, 2]))))
    if rng.random() < 0.2:
        parts.insert(rng.integers(len(parts) + 1), None)
    index = tuple(parts) if rng.random() < 0.7 else (*parts, ...)
    return index, index


def _view(rng, x: np.ndarray, a: wf.ndarray):
    """Return the same random view of both arrays; the arrays themselves if it would be a copy."""
    kind = rng.integers(3)
    if kind == 0:
        return x.T, a.T
    if kind == 1 and x.flags.c_contiguous and x.size:
        return x.reshape(-1), a.reshape(-1)
    index = tuple(slice(int(rng.integers(0, max(1, n))), None, int(rng.choice([1, 2]))) for n in x.shape)
    return x[index], a[index]


def test_programs_on_views(rng) -> None:
    wf.zeros(1)
    load_parts()
    for _ in range(PROGRAMS):
        dtype = str(rng.choice(DTYPES))
        content = (9 * rng.random(tuple(rng.integers(0 if rng.random() < 0.1 else 1, 5, rng.integers(1, 4))))).astype(dtype)
        views, kept = [(content, wf.array(content))], []
        for _ in range(STEPS):
            x, a = views[rng.integers(len(views))]
            action = rng.integers(6)
            if action == 0 and x.ndim:
                views.append(_view(rng, x, a))
            elif action == 1:
                kept.append((np.array(x), a.numpy() if rng.random() < 0.5 else a.copy()))
            elif action == 2 and x.size:
                assert int(a.argmax()) == x.argmax() and a.max() == x.max() and [v.tolist() for v in a] == x.tolist()
            elif action == 3:
                y, b = views[rng.integers(len(views))]
                if x.shape == y.shape:
                    x[...], a[...] = y.copy(), b
                if x.ndim and x.shape[1:] == y.shape[1:]:
                    joined = wf.concatenate([a, b])
                    assert np.array_equal(joined.numpy(), np.concatenate([x, y])) and joined.dtype == x.dtype
            else:
                index, same = _index(rng, x.shape)
                part = x[index]
                shown = a[same]
                assert np.array_equal(shown.numpy(), part) and shown.shape == part.shape and shown.dtype == part.dtype
                if np.ndim(part) or not np.isscalar(part):
                    value = np.asarray(9 * rng.random(part.shape[int(rng.integers(part.ndim + 1)):])).astype(dtype)
                    number = rng.random() < 0.4 and part.size
                    x[index] = value.flat[0].item() if number else value
                    a[same] = value.flat[0].item() if number else wf.array(value)
            for y, b in views:
                assert np.array_equal(y, b.numpy() if rng.random() < 0.5 else np.array(b.tolist(), dtype).reshape(y.shape))
            for y, b in kept:
                assert np.array_equal(y, np.asarray(b))


def test_a_number_in_a_shape_fills_a_new_array() -> None:
    wf.zeros(1)
    load_parts()
    for shape in (3, (2, 0), (), (2, 3, 4), (200, 300), 0):
        for dtype in (None, "int8", "float16", "bool", "complex64"):
            for make in ("zeros", "ones", "empty"):
                made = getattr(wf, make)(shape, dtype)
                right = getattr(np, "zeros" if make == "empty" else make)(shape, dtype or "float32")
                assert np.array_equal(made.numpy(), right) and made.dtype == right.dtype and made.shape == right.shape


def test_positions_of_extremes(rng) -> None:
    """Ties, NaN, infinities and signed zeros, along every axis, of arrays and views."""
    wf.zeros(1)
    load_parts()
    for _ in range(300):
        x = rng.integers(-3, 4, tuple(rng.integers(1, 6, rng.integers(0, 4)))).astype(str(rng.choice(DTYPES)))
        if x.dtype.kind == "f":
            x = np.where(rng.random(x.shape) < 0.2, rng.choice([np.nan, -0.0, np.inf, -np.inf]), x).astype(x.dtype)
        a = wf.array(x)
        if x.ndim and rng.random() < 0.5:
            x, a = (x.T, a.T) if rng.random() < 0.5 else (x[::-1], a[::-1])
        for axis in (None, *range(-x.ndim, x.ndim)):
            for name in ("argmax", "argmin"):
                found, right = getattr(a, name)(axis), getattr(x, name)(axis)
                assert np.array_equal(found.numpy(), right) and found.shape == np.shape(right) and found.dtype == np.int64


def test_ctrl_c_while_memory_is_open_loses_no_content(rng, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal may come when native code has taken the memory of an array and its caller has not stored the result yet."""
    wf.zeros(1)
    load_parts()
    native, opened = NATIVE_ELEMENTS.open, []

    def interrupted(*args: Any) -> Any:
        opened.append(native(*args))
        raise KeyboardInterrupt

    for _ in range(20):
        content = (9 * rng.random(tuple(rng.integers(1, 5, rng.integers(1, 4))))).astype(str(rng.choice(DTYPES)))
        a = wf.array(content)
        part = a[1:] if rng.random() < 0.5 else a.T
        value = part.copy()
        held = a[:1] + 0 if rng.random() < 0.5 else a.numpy()  # the memory is its own, or shared
        with monkeypatch.context() as patch:
            patch.setattr(NATIVE_ELEMENTS, "open", interrupted)
            with pytest.raises(KeyboardInterrupt):
                part[...] = value
        assert np.array_equal(a.numpy(), content) and np.array_equal(part.numpy(), value.numpy()) and len(held)
        a[:1] = 0
        assert not a[:1].numpy().any() and np.array_equal(a[1:].numpy(), content[1:])
    assert any(opened)


@pytest.mark.parametrize("kind", [wf.Scalar, wf.ndarray])
def test_objects_without_content_raise(kind: type) -> None:
    """``object.__new__`` gives an object with empty slots, which native code must not follow."""
    wf.zeros(1)
    load_parts()
    x = wf.arange(3.0)
    uses: list[Callable[[Any], Any]] = [
        float, int, bool, hash, repr, list, memoryview, np.asarray, wf.array, wf.exp, wf.argmax, wf.jit(lambda o: o * 2),
        lambda o: o + 1, lambda o: x * o, lambda o: o @ x, lambda o: o.item(), lambda o: o[0], lambda o: o[1:], lambda o: o[...],
        lambda o: o.T, lambda o: o.reshape(1), lambda o: o.argmax(0), lambda o: x[o], lambda o: x[o:], lambda o: o.copy(),
        lambda o: x.__setitem__(0, o), lambda o: x.__setitem__(o, 0), lambda o: x.__setitem__(slice(1, None), o),
        lambda o: o.__setitem__(0, 1), lambda o: o.__setitem__(slice(None), 1), lambda o: o.__iadd__(1), lambda o: x.__iadd__(o),
    ]
    for use in uses:
        for _ in range(2):
            with pytest.raises((AttributeError, TypeError)):
                use(object.__new__(kind))
    assert x.tolist() == [0, 1, 2]
