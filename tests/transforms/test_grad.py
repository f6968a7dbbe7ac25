"""Derivatives against central differences, on compiled float64 code; trees; errors."""

from __future__ import annotations

import dataclasses
from collections import namedtuple

import numpy as np
import pytest
from making import array, normal, slope

from weft.array import Array
from weft.errors import DTypeError, ShapeError
from weft.functions.elementwise.ufuncs import stop_gradient
from weft.nn.module import Module
from weft.transforms.grad import grad, value_and_grad, vjp
from weft.transforms.jit import jit
from weft.transforms.vmap import vmap

W = normal(4, 3, dtype=np.float64)

FUNCTIONS = {
    "polynomial": lambda x: (x**3 - 2 * x).sum(),
    "quotient": lambda x: (x / (1 + x * x)).sum(),
    "softmax": lambda x: (np.exp(x - x.max(axis=1, keepdims=True)) / np.exp(x).sum(axis=1, keepdims=True) * array(W.T[:2])).sum(),
    "variance": lambda x: x.var(axis=0).sum() + x.std(),
    "product": lambda x: np.tanh(x @ array(W)).sum(),
    "views": lambda x: (x[0, ::-1] * x.T[1:3, 0].sum() + x.reshape(-1)[2:6]).sum(),
    "gather": lambda x: (x[[0, 1, 0], [2, 2, 3]] ** 2).sum(),
    "broadcast": lambda x: (x[:, None, :] * x[None, :, :]).mean(),
    "cumulative": lambda x: (x.cumsum(axis=1) ** 2).sum(),
    "clip": lambda x: (x.clip(-0.5, 0.7) * x).sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("jitted", [False, True])
def test_against_central_differences(name, jitted):
    f = FUNCTIONS[name]
    x = normal(2, 4, dtype=np.float64)
    g = jit(grad(f)) if jitted else grad(f)
    np.testing.assert_allclose(g(array(x)).numpy(), slope(f, x), rtol=1e-5, atol=1e-7)


def test_second_derivatives():
    x = normal(5, dtype=np.float64)
    f = lambda x: np.exp(x * x).sum()  # noqa: E731
    second = grad(lambda x: grad(f)(x).sum())
    want = (2 + 4 * x * x) * np.exp(x * x)
    np.testing.assert_allclose(second(array(x)).numpy(), want, rtol=1e-10)
    np.testing.assert_allclose(jit(second)(array(x)).numpy(), want, rtol=1e-10)
    third = grad(grad(grad(lambda t: t**5)))
    assert float(third(array(2.0))) == 60 * 4


def test_value_and_aux():
    x = normal(3)
    value, slopes = value_and_grad(lambda x: (x * x).sum())(array(x))
    np.testing.assert_allclose(float(value), (x * x).sum(), rtol=1e-6)
    np.testing.assert_allclose(slopes.numpy(), 2 * x, rtol=1e-6)
    (value, aux), slopes = value_and_grad(lambda x: ((x * x).sum(), {"n": 3, "y": x + 1}), has_aux=True)(array(x))
    assert aux["n"] == 3
    np.testing.assert_allclose(aux["y"].numpy(), x + 1)
    slopes, aux = grad(lambda x: ((x * x).sum(), "aux"), has_aux=True)(array(x))
    assert aux == "aux"


def test_argnums():
    f = lambda x, y: (x * x * y).sum()  # noqa: E731
    x, y = normal(3), normal(3)
    np.testing.assert_allclose(grad(f, argnums=1)(array(x), array(y)).numpy(), x * x, rtol=1e-6)
    both = grad(f, argnums=(0, -1))(array(x), array(y))
    np.testing.assert_allclose(both[0].numpy(), 2 * x * y, rtol=1e-6)
    np.testing.assert_allclose(both[1].numpy(), x * x, rtol=1e-6)
    a = array(x)
    np.testing.assert_allclose(grad(lambda x, y: (x * y).sum())(a, a).numpy(), x, rtol=1e-6)
    assert float(grad(lambda t: t * t)(3.0)) == 6.0


@dataclasses.dataclass
class Params:
    w: Array
    name: str = "p"


Point = namedtuple("Point", "x y")


def test_trees():
    w, b = normal(3), normal(3)
    tree = {"w": array(w), "rest": [array(b), 2, None, (Params(array(w)), Point(array(b), array(np.arange(3))))]}

    def f(t):
        p, q = t["rest"][3]
        return (t["w"] * t["rest"][0] * t["rest"][1]).sum() + (p.w**2).sum() + (q.x * q.y).sum()

    for g in (grad(f), jit(grad(f))):
        out = g(tree)
        np.testing.assert_allclose(out["w"].numpy(), 2 * b, rtol=1e-6)
        np.testing.assert_allclose(out["rest"][0].numpy(), 2 * w, rtol=1e-6)
        params, point = out["rest"][3]
        assert isinstance(params, Params) and params.name == "p" and isinstance(point, Point) and out["rest"][2] is None
        np.testing.assert_allclose(params.w.numpy(), 2 * w, rtol=1e-6)
        np.testing.assert_allclose(point.x.numpy(), [0, 1, 2])
        assert point.y.tolist() == [0, 0, 0]


def test_vjp():
    x, y = normal(2, 3), normal(3)
    out, pull = vjp(lambda x, y: {"a": x * y, "b": x.sum()}, array(x), array(y))
    out["a"].numpy()  # a look at the result leaves the derivative whole
    g = normal(2, 3)
    for scale in (1, 2):
        dx, dy = pull({"a": array(g * scale), "b": 1.0})
        np.testing.assert_allclose(dx.numpy(), g * scale * y + 1, rtol=1e-5)
        np.testing.assert_allclose(dy.numpy(), (g * scale * x).sum(0), rtol=1e-5, atol=1e-6)
    with pytest.raises(ShapeError, match="cotangent has shape"):
        pull({"a": array(g[0]), "b": 1.0})
    with pytest.raises(ValueError, match="structure"):
        pull(array(g))


def test_looks_inside_a_gradient():
    seen = []

    def f(x):
        y = (x * x).sum()
        seen.append(float(stop_gradient(y)))
        return y * 2 if y > 0 else y

    x = normal(3)
    np.testing.assert_allclose(grad(f)(array(x)).numpy(), 4 * x, rtol=1e-6)
    np.testing.assert_allclose(seen, [(x * x).sum()], rtol=1e-6)


def test_writes_inside_a_gradient():
    count = array(0.0)

    def f(x):
        nonlocal count
        count += 1
        y = x * 1
        y[0] = 5 * x[1]
        return (y * y).sum()

    x = normal(3, dtype=np.float64)
    for g in (grad(f), jit(grad(f))):
        np.testing.assert_allclose(g(array(x)).numpy(), [0, 52 * x[1], 2 * x[2]], rtol=1e-9)
    assert float(count) == 2


def test_an_error_restores_everything():
    x = array([1.0])
    with pytest.raises(KeyError):
        grad(lambda x: {}["nothing"])(x)
    assert (x + 1).tolist() == [2.0]
    y = x * 2
    y.numpy()
    assert y.node.inputs == ()


def test_errors():
    x = array(normal(3))
    with pytest.raises(ShapeError, match=r"shape \(3,\), but must be one number.*sum"):
        grad(lambda x: x * 2)(x)
    with pytest.raises(DTypeError, match=r"argument 0 is int64\[3\], but must be float"):
        grad(lambda x: x.sum())(array([1, 2, 3]))
    with pytest.raises(DTypeError, match="nothing to differentiate"):
        grad(lambda t: t["n"])({"n": 3})
    with pytest.raises(TypeError, match="must return one number, not tuple"):
        grad(lambda x: (x.sum(), 1))(x)
    with pytest.raises(DTypeError, match="result is int64"):
        grad(lambda x: x.argmax())(x)
    with pytest.raises(ValueError, match="argnums 1"):
        grad(lambda x: x.sum(), argnums=1)(x)
    with pytest.raises(TypeError, match="aux"):
        grad(lambda x: x.sum(), has_aux=True)(x)


def test_per_example_gradients():
    x, w = normal(6, 3), normal(3)
    each = vmap(grad(lambda w, row: ((row * w).sum()) ** 2), in_axes=(None, 0))(array(w), array(x))
    np.testing.assert_allclose(each.numpy(), 2 * (x @ w)[:, None] * x, rtol=1e-4, atol=1e-6)


def test_modules_with_dataclasses_that_have_slots() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Settings:
        factor: float
        offset: Array

    class Scaled(Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.settings = array(np.ones(3)), Settings(2.0, array([1.0, 2.0, 3.0]))

        def forward(self, x: Array) -> Array:
            return self.weight * x * self.settings.factor + self.settings.offset

    x = array([1.0, -1.0, 0.5])
    result = grad(lambda net: net(x).sum())(Scaled())
    np.testing.assert_array_equal(result.weight.numpy(), 2 * x.numpy())
