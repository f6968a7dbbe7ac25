"""Activations: value and gradient against float64 formulas, the edges, small dtypes, layers and their settings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from layer_formulas import ACTIVATIONS, sig
from layer_reference import check

import weft as wf
from weft.errors import AxisError, ShapeError

nn = wf.nn
rng = np.random.default_rng()



def _numbers(shape=(5, 24)) -> np.ndarray:
    """Numbers of all sizes from 0.01 to 10, none at a corner of the functions."""
    x = rng.normal(size=shape) * np.exp(rng.uniform(-4, 2, shape))
    for corner in (0.0, 0.25, 0.75, -0.75, 1.5, -2.0, 3.0, -3.0, 6.0):
        x = np.where(np.abs(x - corner) < 1e-3, x + 5e-3, x)
    return x


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_layers_say_their_settings(name: str) -> None:
    _, settings, layer = ACTIVATIONS[name]
    made = getattr(nn, layer)(*settings)
    assert not made.parameters() and type(made).__name__ in repr(made)
    assert all(f"{value!r}" in repr(made) for value in settings)


@pytest.mark.parametrize("shape", [(2, 0), (0, 2), (0,), (3, 0, 2), (0, 3, 0)])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_nothing_has_an_activation(name: str, shape: tuple[int, ...]) -> None:
    """Of every shape without elements, along every axis, jitted and not."""
    _, settings, layer = ACTIVATIONS[name]
    along = layer in ("Softmax", "Softmin", "LogSoftmax")
    for one in [getattr(nn, layer)(dim) for dim in range(len(shape))] if along else [getattr(nn, layer)(*settings)]:
        for call in (one, wf.jit(one), wf.grad(lambda x, one=one: one(x).sum())):
            assert call(wf.ones(shape)).shape == shape


def test_gelu_by_tanh() -> None:
    def reference(x):
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    check(lambda x: nn.gelu(x, approximate="tanh"), reference, _numbers())
    with pytest.raises(ValueError, match='"none" or "tanh"'):
        nn.gelu(wf.ones(2), "exact")


def test_learned_ones() -> None:
    x, w = _numbers((4, 3, 8)), rng.uniform(0.1, 0.6, 3)
    column = (1, 3, 1)
    check(nn.prelu, lambda x, w: np.where(x > 0, x, x * w.reshape(column)), x, w)
    beta, p1, p2 = rng.uniform(0.5, 2, 3), rng.normal(size=3), rng.normal(size=3)

    def acon(x, beta, p1, p2):
        beta, p1, p2 = (v.reshape(column) for v in (beta, p1, p2))
        return (p1 - p2) * x * sig(beta * (p1 - p2) * x) + p2 * x

    check(lambda x, *v: nn.acon_c(x, *(a.reshape(column) for a in v)), acon, x, beta, p1, p2)
    one, none = np.ones(3), np.zeros(3)
    for layer, names in ((nn.AconA(3), ("beta",)), (nn.AconB(3), ("beta", "p")), (nn.AconC(3), ("beta", "p1", "p2"))):
        assert set(layer.parameters()) == set(names)
        values = {n: a.numpy().astype("float64") for n, a in layer.parameters().items()}
        low = values.get("p", values.get("p2", none))
        np.testing.assert_allclose(
            layer(wf.array(x)).numpy(), acon(x, values["beta"], values.get("p1", one), low), rtol=1e-5, atol=1e-5
        )
    assert nn.PReLU(3)(wf.array(x)).shape == x.shape
    with pytest.raises(ShapeError, match="channels"):
        nn.PReLU(2)(wf.array(x))
    with pytest.raises(ShapeError, match="num_parameters"):
        nn.AconA(0)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_edges(name: str) -> None:
    """NaN stays NaN; far from zero, values and gradients are numbers."""
    reference, settings, _ = ACTIVATIONS[name]
    x = np.array([[1e4, -1e4, 120.0, -120.0, 0.0, 25.0, -25.0, 1e-30]])

    def f(x):
        return getattr(nn, name)(x, *settings)

    value, slope = wf.jit(lambda x: (f(x), wf.grad(lambda x: f(x).sum())(x)))(wf.array(x.astype("float32")))
    with np.errstate(all="ignore"):
        want = reference(x)
    np.testing.assert_allclose(value.numpy(), want, rtol=3e-5, atol=1e-6)
    assert np.isfinite(slope.numpy()).all()
    assert np.isnan(f(wf.array(np.float32(np.nan).reshape(1, 1))).numpy()).all()


def test_digits_where_small() -> None:
    """Tails keep their relative precision."""
    x = np.array([-80.0, -50.0, -20.0, 40.0])
    y = wf.array(x.astype("float32"))
    np.testing.assert_allclose(nn.sigmoid(y).numpy(), sig(x), rtol=1e-5)
    np.testing.assert_allclose(nn.softplus(y).numpy(), np.logaddexp(0, x), rtol=1e-5)
    np.testing.assert_allclose(nn.logsigmoid(y).numpy(), -np.logaddexp(0, -x), rtol=1e-5)
    small = np.array([1e-6, -3e-7])
    np.testing.assert_allclose(nn.bent_identity(wf.array(small.astype("float32"))).numpy(), small, rtol=1e-5)
    np.testing.assert_allclose(nn.elu(wf.array(small.astype("float32"))).numpy(), small, rtol=1e-5)


@pytest.mark.parametrize("dtype,bound", [("float16", 6e-4), ("bfloat16", 5e-3)])
def test_small_dtypes_round_once(dtype: str, bound: float) -> None:
    """What is made of several operations is as exact as the dtype allows, tails included."""
    x = wf.array(np.array([[-9.0, -6.0, -4.0, -2.5, -0.3, 0.01, 0.7, 3.0, 9.0]])).astype(dtype)
    for name in ("sigmoid", "logsigmoid", "softplus", "silu", "mish", "tanhexp", "elu", "softsign", "log_softmax", "hardsigmoid"):
        reference, settings, _ = ACTIVATIONS[name]
        y = getattr(nn, name)(x, *settings)
        assert y.dtype == x.dtype
        np.testing.assert_allclose(y.astype("float64").numpy(), reference(x.astype("float64").numpy()), rtol=bound, atol=1e-7)


def test_settings_and_errors() -> None:
    assert repr(nn.LeakyReLU(0.2)) == "LeakyReLU(negative_slope=0.2)"
    assert nn.ELU(alpha=2.0).alpha == 2.0 and nn.Hardtanh().min_val == -1.0
    with pytest.raises(TypeError, match="LeakyReLU"):
        nn.LeakyReLU(slope=1.0)
    with pytest.raises(AxisError, match="dim=2"):
        nn.softmax(wf.ones((2, 3)), 2)
    assert nn.relu(wf.array([-1, 2])).dtype == np.float32
    assert math.isclose(float(nn.softmax(wf.array([1e4, 1e4])).sum()), 1.0)


def test_a_changed_setting_is_seen_under_jit() -> None:
    layer = nn.LeakyReLU(0.5)
    run = wf.jit(lambda x: layer(x))
    assert run(wf.array([-2.0])).tolist() == [-1.0]
    layer.negative_slope = 0.25
    assert run(wf.array([-2.0])).tolist() == [-0.5]
