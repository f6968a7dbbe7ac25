"""Programs that once gave wrong results: the same lazily, jitted, and by NumPy or central differences in float64."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf


def _both(f, *arguments):
    """The result of a function, which is the same lazily and jitted."""
    lazy, jitted = f(*arguments).numpy(), wf.jit(f)(*arguments).numpy()
    np.testing.assert_array_equal(lazy, jitted)
    return lazy


def _slopes(f, x: np.ndarray, h: float = 1e-6) -> np.ndarray:
    out = np.empty_like(x)
    for at in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[at] += h
        down[at] -= h
        out[at] = (float(f(wf.array(up))) - float(f(wf.array(down)))) / (2 * h)
    return out


def _joins(x):
    yield wf.stack([x, x])
    yield wf.concatenate([x, x])
    yield wf.concatenate([x, x], axis=-1)
    yield wf.pad(x, 2, constant_values=1)
    yield wf.roll(x, 3)
    a = wf.zeros(x.shape)
    a[: x.shape[0] // 2] = 1
    a[x.shape[0] // 2:] = 2
    yield a


@pytest.mark.parametrize("shape", [(17,), (33,), (3, 17), (5, 9), (70, 3), (2, 3, 17)])
def test_all_and_any_of_what_was_joined_or_written(shape):
    for joined in _joins(wf.asarray(np.ones(shape, np.float32))):
        assert bool(wf.all(joined > 0)) and bool((joined > 0).all())
        assert not wf.isnan(joined).any()
        assert wf.allclose(joined, joined) and wf.array_equal(joined, joined)
    spoiled = np.ones(shape, np.float32)
    spoiled.reshape(-1)[-1] = 0
    for joined in list(_joins(wf.asarray(spoiled)))[:-1]:
        assert not (joined > 0).all()
        assert (joined == 0).any()


def test_a_maximum_computed_again_in_a_gradient(rng):
    c0 = wf.asarray(rng.normal(size=(2, 1)))
    b = wf.asarray(rng.normal(size=(1, 33)))

    def f(c):
        v = 0.2 * (c @ b)
        m = wf.max(v, axis=0, keepdims=True)
        return wf.sum(wf.concat([m + c, 0.2 * (c @ b)], axis=-1) ** 2)

    np.testing.assert_allclose(_both(wf.grad(f), c0), _slopes(f, c0.numpy()), rtol=1e-5, atol=1e-7)


_INNER = {
    "conv, layer norm, max-pool": lambda x, o: (wf.nn.max_pool1d(wf.nn.layer_norm(wf.nn.conv1d(x, o), 4), 2, 2) ** 2).sum(),
    "conv, layer norm, relu, max-pool": lambda x, o: (
        wf.nn.max_pool1d(wf.nn.relu(wf.nn.layer_norm(wf.nn.conv1d(x, o), 4)), 2, 2) ** 2).sum(),
    "layer norm, softmax, max-pool": lambda x, o: (
        wf.nn.max_pool1d(wf.nn.softmax(wf.nn.layer_norm(x * o, 4), 1), 2, 2) ** 2).sum(),
}


@pytest.mark.parametrize("name", _INNER)
def test_second_derivatives_through_layers(name, rng):
    x, v, o = (wf.array(rng.normal(size=s)) for s in [(1, 1, 4), (1, 1, 4), (1, 1, 1)])

    def inner(y):
        return _INNER[name](y, o)

    def directional(y):
        return (wf.grad(inner)(y) * v).sum()

    np.testing.assert_allclose(_both(wf.grad(directional), x), _slopes(directional, x.numpy()), rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 5, 2), (1, 3, 7), (2, 4, 8)])
def test_second_derivative_of_padded_max_pooling(shape, rng):
    x = wf.array(rng.normal(size=shape))

    def f(y):
        return (wf.nn.max_pool1d(y, 2, 2, padding=1) ** 3).sum()

    def directional(y):
        return (wf.grad(f)(y) * x).sum()

    np.testing.assert_allclose(_both(wf.grad(directional), x), _slopes(directional, x.numpy()), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("n", [3, 5, 8, 17])
def test_a_strided_write_before_a_normalisation_and_a_scan(n, rng):
    x = rng.normal(size=n)

    def f(given):
        y = given * 1
        y[::2] += 0.5
        y = y / wf.sqrt((y * y).mean())
        return wf.scan(lambda h, t: (wf.tanh(h + t), h), wf.array(0.0, dtype="float64"), y)[0]

    want = x.copy()
    want[::2] += 0.5
    want /= np.sqrt((want * want).mean())
    h = 0.0
    for t in want:
        h = np.tanh(h + t)
    np.testing.assert_allclose(_both(f, wf.array(x)), h, rtol=1e-12)
    np.testing.assert_allclose(_both(wf.grad(f), wf.array(x)), _slopes(f, x), rtol=1e-5, atol=1e-8)
