"""The Array: laziness, operators, conversions."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from making import array, normal

import weft as wf
from weft.array import Array
from weft.errors import AxisError, DTypeError, ShapeError
from weft.runtime.context import CONTEXT, PendingList


@pytest.mark.usefixtures("lazy")
def test_nothing_runs_until_a_look():
    a = array(normal(3, 4))
    b = a * 2 + 1
    assert b.node.value is None
    content = b.numpy()
    assert b.node.value is not None and b.node.inputs == ()
    assert b.numpy().base is not None
    np.testing.assert_array_equal(content, a.numpy() * 2 + 1)


@pytest.mark.usefixtures("lazy")
def test_a_look_computes_what_live_handles_hold():
    a = array(normal(5))
    held = a * 3
    dropped = a * 4
    node = dropped.node
    del dropped
    out = held + array(1.0)
    _ = node
    out.numpy()
    assert held.node.value is not None
    assert node.value is None


def test_long_chains_are_cut():
    a = array(np.zeros(3, np.float32))
    for _ in range(5000):
        a = a + 1
    assert a.tolist() == [5000.0] * 3


def test_large_pending_graphs_are_cut(monkeypatch):
    monkeypatch.setattr(CONTEXT, "pending", PendingList())  # what other tests have left pending does not count
    a = array(np.zeros(1 << 22, np.float32))  # 16 MB
    values = []
    for _ in range(64):
        a = a + 1
        values.append(a.node.value is not None)
    assert any(values) and a.sum().item() == 64 << 22


OPERATORS = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a // b, lambda a, b: a % b,
    lambda a, b: a > b, lambda a, b: a >= b, lambda a, b: a < b, lambda a, b: a <= b, lambda a, b: a == b, lambda a, b: a != b,
]


@pytest.mark.parametrize("number", range(len(OPERATORS)))
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
def test_operators_as_numpy(number, dtype):
    f = OPERATORS[number]
    x = np.random.default_rng().integers(1, 50, (3, 4)).astype(dtype)
    y = np.random.default_rng().integers(1, 50, (4,)).astype(dtype)
    want = f(x, y)
    if want.dtype == np.float64 and dtype != "float64":
        want = want.astype(np.float32)
    for got in (f(array(x), array(y)), f(array(x), y), f(x, array(y))):
        assert isinstance(got, Array) and got.dtype == want.dtype
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    want = f(x, 3)
    got = f(array(x), 3)
    assert got.dtype == (np.float32 if want.dtype == np.float64 and dtype != "float64" else want.dtype)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_integer_operators():
    x, y = np.array([5, 6, 7]), np.array([1, 2, 3])
    bits = (lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: a << b, lambda a, b: a >> b)
    for f in (*bits, lambda a, b: a**b):
        np.testing.assert_array_equal(f(array(x), array(y)).numpy(), f(x, y))
    np.testing.assert_array_equal((~array(x)).numpy(), ~x)
    np.testing.assert_array_equal((~array(x > 5)).numpy(), ~(x > 5))


def test_python_numbers_are_weak():
    assert (array([1, 2]) + 1).dtype == np.int64
    assert (array([1, 2]) + 1.5).dtype == np.float32
    assert (array([1.0], np.float16) + 1.5).dtype == np.float16
    assert (array([1.0], np.float64) * 2.5).dtype == np.float64
    assert (array([True]) + 1).dtype == np.int64
    assert (array([1], np.int32) / array([2], np.int32)).dtype == np.float32
    assert (array([1], np.int64) + array([2], np.float32)).dtype == np.float32
    with pytest.raises(OverflowError, match="300.*int8"):
        array([1], np.int8) + 300


PRODUCTS = [
    ((3, 4), (4, 5)), ((4,), (4,)), ((4,), (4, 3)), ((3, 4), (4,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
    ((3, 4), (2, 4, 5)), ((4,), (2, 4, 5)), ((6, 1, 3, 4), (2, 4, 5)),
]


@pytest.mark.parametrize("shapes", PRODUCTS)
def test_matmul(shapes):
    x, y = (np.random.default_rng().integers(-4, 5, s).astype(np.float32) for s in shapes)
    got = array(x) @ array(y)
    np.testing.assert_array_equal(got.numpy(), x @ y)
    np.testing.assert_array_equal((x @ array(y)).numpy(), x @ y)


def test_methods_as_numpy():
    x = normal(3, 4, 5)
    a = array(x)
    for name in ("sum", "mean", "max", "min", "prod", "var", "std", "any", "all"):
        for axis in (None, 1, (0, 2), -1):
            for keepdims in (False, True):
                want = getattr(x, name)(axis=axis, keepdims=keepdims)
                got = getattr(a, name)(axis=axis, keepdims=keepdims)
                assert got.shape == np.shape(want), (name, axis, keepdims)
                np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=1e-5, err_msg=f"{name} {axis}")
    for axis in (None, 0, 1, -1):
        assert (a.argmax(axis).numpy() == x.argmax(axis)).all() and (a.argmin(axis).numpy() == x.argmin(axis)).all()
        np.testing.assert_allclose(a.cumsum(axis).numpy(), x.cumsum(axis), rtol=1e-5, atol=1e-5)
    assert a.reshape(4, -1).shape == (4, 15) and a.reshape((60,)).shape == (60,)
    assert a.T.shape == (5, 4, 3) and a.mT.shape == (3, 5, 4) and a.transpose(1, 0, 2).shape == (4, 3, 5)
    np.testing.assert_array_equal(a.clip(-0.5, 0.5).numpy(), x.clip(-0.5, 0.5))
    np.testing.assert_array_equal(a.take([2, 0], axis=1).numpy(), x.take([2, 0], axis=1))
    np.testing.assert_array_equal(a.squeeze().numpy(), x)
    np.testing.assert_array_equal(a.ravel().numpy(), x.ravel())
    np.testing.assert_array_equal(a.round().numpy(), x.round())
    assert array(x[:1]).squeeze(0).shape == (4, 5)
    assert array([1, 2, 3], np.int8).sum().dtype == np.int64 and array([1, 2, 3], np.uint8).sum().dtype == np.uint64
    assert array([1, 2, 4]).mean().dtype == np.float32


def test_conversions():
    a = array([[1.5, 2.5]])
    assert repr(a) == "array([[1.5, 2.5]], dtype=float32)" and str(a) == "[[1.5 2.5]]"
    assert a.tolist() == [[1.5, 2.5]] and a[0, 1].item() == 2.5
    assert float(a[0, 0]) == 1.5 and int(array(3)) == 3 and bool(array(True)) and f"{a[0, 0]:.2f}" == "1.50"
    assert list(range(3))[array(1)] == 1 and len(a) == 1 and [x.shape for x in a] == [(2,)]
    assert 2.5 in a and 7 not in a
    assert np.asarray(a).dtype == np.float32 and np.array(a).flags.writeable and not a.numpy().flags.writeable
    np.testing.assert_array_equal(np.from_dlpack(a), a.numpy())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(a)).numpy(), a.numpy())
    b = copy.deepcopy(a)
    b[0, 0] = 9
    assert a.tolist() == [[1.5, 2.5]]
    with pytest.raises(TypeError):
        hash(a)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(a)
    with pytest.raises(TypeError, match="one element"):
        float(a)
    with pytest.raises(TypeError, match="wf.array"):
        Array([1, 2])


def test_numpy_keeps_its_dtype_and_lists_become_float32():
    assert array(np.ones(2)).dtype == np.float64 and array([1.0, 2.0]).dtype == np.float32 and array([1, 2]).dtype == np.int64
    assert array([array([1.0, 2.0]), array([3.0, 4.0])]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(DTypeError, match="complex"):
        array(np.ones(2, np.clongdouble))
    with pytest.raises(DTypeError, match="cannot make an array"):
        array(object())


def test_a_numpy_array_is_copied():
    x = normal(3)
    a = array(x)
    b = a + 0
    before = x.copy()
    x[:] = 7
    np.testing.assert_array_equal(b.numpy(), before)


def test_ufuncs():
    x = normal(4)
    a = array(x)
    assert isinstance(np.add(x, a), Array) and isinstance(np.exp(a), Array)
    np.testing.assert_allclose(np.exp(a).numpy(), np.exp(x), rtol=1e-6)
    np.testing.assert_array_equal(np.maximum(a, 0).numpy(), np.maximum(x, 0))
    np.add(a, 1, out=a)
    np.testing.assert_array_equal(a.numpy(), x + 1)
    np.add.at(a, [0, 0, 1], 2)
    np.testing.assert_allclose(a.numpy(), x + np.float32(1) + np.array([4, 2, 0, 0], np.float32), rtol=1e-6, atol=1e-6)


def test_in_place_keeps_dtype_and_shape():
    a = array([1, 2, 3])
    b = a
    a += 1
    assert b.tolist() == [2, 3, 4]
    with pytest.raises(DTypeError, match="float32.*int64"):
        a /= 2
    with pytest.raises(ShapeError, match=r"\(2, 3\)"):
        a += array(np.ones((2, 3), np.int64))


def test_errors():
    a = array(normal(2, 3))
    with pytest.raises(ShapeError, match=r"\(2, 3\).*\(4,\)"):
        a + array(normal(4))
    with pytest.raises(AxisError, match="sum: axis=2, but the array has axes -2 to 1"):
        a.sum(axis=2)
    with pytest.raises(ShapeError, match="cannot take shape"):
        a.reshape(5)
    with pytest.raises(ShapeError, match="do not fit"):
        a @ a
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 2"):
        a[2]
    with pytest.raises(IndexError, match="too many indices"):
        a[0, 0, 0]
    with pytest.raises(IndexError, match="not an index"):
        a["x"]
    with pytest.raises(ShapeError, match="does not fit"):
        a[0] = [1.0, 2.0]
    with pytest.raises(DTypeError, match="weft has"):
        a.astype("clongdouble")


def test_a_number_that_becomes_an_output() -> None:
    x = wf.array([1.0, 2.0])
    t = wf.zeros(()) + 1  # held, so the look computes it too
    chosen = wf.where(t > 1, x.sum(), 7.0)  # known to be the Python number
    assert (x * chosen).tolist() == [7.0, 14.0] and chosen.tolist() == 7.0 and t.tolist() == 1.0
