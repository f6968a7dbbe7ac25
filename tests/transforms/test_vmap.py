"""vmap against a loop; axes; trees; errors."""

from __future__ import annotations

import numpy as np
import pytest
from making import array, normal

from weft.errors import AxisError, ShapeError, TraceError
from weft.transforms.jit import jit
from weft.transforms.vmap import vmap

W = normal(4, 3)

FUNCTIONS = {
    "sum": lambda x: x.sum(axis=0),
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True),
    "product": lambda x: x @ array(W),
    "views": lambda x: x[1, ::-1] + x.T[:, 0],
    "index": lambda x: x[[0, 2, 0]],
    "argmax": lambda x: x.argmax(axis=1),
    "write": lambda x: _written(x),
}


def _written(x):
    y = x.copy()
    y[0] = y[1] * 2
    return y


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_against_a_loop(name, axis):
    f = FUNCTIONS[name]
    x = normal(5, 3, 4)
    want = np.stack([f(array(row)).numpy() for row in x])
    moved = np.moveaxis(x, 0, axis)
    np.testing.assert_allclose(vmap(f, in_axes=axis)(array(moved)).numpy(), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        jit(vmap(f, in_axes=axis, out_axes=-1))(array(moved)).numpy(), np.moveaxis(want, 0, -1), rtol=1e-5, atol=1e-6
    )


def test_axes_and_trees():
    x, y = normal(5, 3), normal(3, 5)
    out = vmap(lambda t, y, k: {"a": t["x"] * y, "b": k * y.sum(), "c": array(1.0)}, in_axes=({"x": 0}, 1, None))(
        {"x": array(x)}, array(y), 2.0
    )
    np.testing.assert_allclose(out["a"].numpy(), x * y.T)
    np.testing.assert_allclose(out["b"].numpy(), 2 * y.sum(0), rtol=1e-5, atol=1e-6)
    assert out["c"].tolist() == [1.0] * 5
    two = vmap(lambda x: (x, x.sum()), out_axes=(1, 0))(array(x))
    assert two[0].shape == (3, 5) and two[1].shape == (5,)


def test_nested():
    x, y = normal(4, 3), normal(5, 3)
    outer = vmap(lambda a: vmap(lambda b: (a * b).sum())(array(y)))(array(x))
    np.testing.assert_allclose(outer.numpy(), x @ y.T, rtol=1e-5, atol=1e-6)
    pairs = vmap(vmap(lambda a, b: a * b, in_axes=(None, 0)), in_axes=(0, None))(array(x), array(y))
    np.testing.assert_allclose(pairs.numpy(), x[:, None] * y[None], rtol=1e-6)


def test_writes_outside():
    count, store = array(0.0), array(np.zeros(3, np.float32))

    def f(x):
        nonlocal count
        count += 1
        return x * count

    assert vmap(f)(array([1.0, 2.0])).tolist() == [1.0, 2.0] and float(count) == 1

    def g(x):
        store[...] = x
        return x

    with pytest.raises(ShapeError, match="writes an array from outside"):
        vmap(g)(array(normal(2, 3)))
    assert store.tolist() == [0.0, 0.0, 0.0]


def test_errors():
    x = array(normal(2, 3))
    with pytest.raises(ShapeError, match=r"2 \(argument 0\), 3 \(argument 1\)"):
        vmap(lambda a, b: a)(x, x.T)
    with pytest.raises(AxisError, match="no axis 2"):
        vmap(lambda a: a, in_axes=2)(x)
    with pytest.raises(ValueError, match="no argument is mapped"):
        vmap(lambda a: a, in_axes=None)(x)
    with pytest.raises(ValueError, match="in_axes has 1 entries for 2"):
        vmap(lambda a, b: a, in_axes=(0,))(x, x)
    with pytest.raises(ShapeError, match="give None for it"):
        vmap(lambda a, b: a)(x, 2.0)
    with pytest.raises(TraceError, match=r"test_vmap\.py:\d+.*wf.vmap"):
        vmap(lambda a: float(a.sum()))(x)
    with pytest.raises(ShapeError, match="out_axes is None"):
        vmap(lambda a: a, out_axes=None)(x)


def test_none_stays_none():
    """What a function gives as None belongs to no example; one that only writes gives nothing else."""
    x = array(normal(2, 3))
    assert vmap(lambda row: None)(x) is None
    nothing, found, tree = vmap(lambda row: (None, row * 2, {"a": None, "b": row}), out_axes=(0, 1, {"a": 0, "b": 1}))(x)
    assert nothing is None and tree["a"] is None and found.shape == tree["b"].shape == (3, 2)
    assert vmap(lambda pair: pair[1] * 2, in_axes=((0, 1),))((None, x)).shape == (3, 2)

    def zeroed(row):
        row[0] = 0

    assert vmap(zeroed)(x) is None and x[:, 0].tolist() == [0, 0]
    assert jit(lambda x: (vmap(zeroed)(x), x * 2)[1])(x)[:, 0].tolist() == [0, 0]
