"""Losses: value and gradient against float64 formulas, large scores, labels in and out of range, small dtypes."""

from __future__ import annotations

import numpy as np
import pytest
from layer_reference import check
from scipy import special

import weft as wf
from weft.errors import DTypeError, ShapeError

losses = wf.losses
rng = np.random.default_rng()
Y = np.array([0, 3, 1, 2, 2, 0])


def _cross_entropy(z, target, smoothing=0.0):
    n, c = z.shape
    if target.ndim == 1:
        target = np.eye(c)[target]
    target = (1 - smoothing) * target + smoothing * target.sum(1, keepdims=True) / c
    return -(target * special.log_softmax(z, 1)).sum(1)


def test_cross_entropy() -> None:
    z, p = rng.normal(size=(6, 4)) * 3, rng.dirichlet(np.ones(4), 6)
    for smoothing in (0.0, 0.15):
        check(lambda z, s=smoothing: losses.cross_entropy(z, wf.array(Y), label_smoothing=s),
              lambda z, s=smoothing: _cross_entropy(z, Y, s).mean(), z)
        check(lambda z, p, s=smoothing: losses.cross_entropy(z, p, label_smoothing=s),
              lambda z, p, s=smoothing: _cross_entropy(z, p, s).mean(), z, p)
    check(lambda z: losses.cross_entropy(z, wf.array(Y), reduction="none"), lambda z: _cross_entropy(z, Y), z)
    check(lambda z: losses.cross_entropy(z, wf.array(Y), reduction="sum"), lambda z: _cross_entropy(z, Y).sum(), z)


def test_ignored_labels() -> None:
    z, y = rng.normal(size=(6, 4)), np.array([0, -100, 1, -100, 2, 3])
    kept = y >= 0
    check(lambda z: losses.cross_entropy(z, wf.array(y), ignore_index=-100),
          lambda z: _cross_entropy(z[kept], y[kept]).mean(), z)
    check(lambda z: losses.cross_entropy(z, wf.array(y), ignore_index=-100, label_smoothing=0.1, reduction="sum"),
          lambda z: _cross_entropy(z[kept], y[kept], 0.1).sum(), z)
    with pytest.raises(ValueError, match="label -100 at position 1"):
        losses.cross_entropy(wf.array(z), y)
    with pytest.raises(ValueError, match="rows of zeros"):
        losses.cross_entropy(wf.array(z), wf.ones((6, 4)), ignore_index=0)


def test_binary_cross_entropy() -> None:
    x, z = rng.normal(size=(5, 7)) * 4, rng.random((5, 7))

    def reference(x, z, w=1.0):
        return (z * w * np.logaddexp(0, -x) + (1 - z) * np.logaddexp(0, x)).mean()

    check(losses.binary_cross_entropy_with_logits, reference, x, z)
    check(lambda x, z: losses.binary_cross_entropy_with_logits(x, z, 2.5), lambda x, z: reference(x, z, 2.5), x, z)
    far = wf.array(np.array([1e4, -1e4, 60.0], "float32"))
    values = losses.binary_cross_entropy_with_logits(far, np.array([1.0, 1.0, 1.0], "float32"), reduction="none")
    np.testing.assert_allclose(values.numpy(), [0, 1e4, np.exp(-60.0)], rtol=1e-5)
    slope = wf.grad(lambda x: losses.binary_cross_entropy_with_logits(x, wf.zeros(3)))(far)
    np.testing.assert_allclose(slope.numpy(), [1 / 3, 0, 1 / 3], atol=1e-6)


REGRESSION = {
    "mse": (lambda p, t: ((p - t) ** 2).mean(), {}),
    "l1": (lambda p, t: np.abs(p - t).mean(), {}),
    "huber": (lambda p, t: np.where(np.abs(p - t) <= 0.8, (p - t) ** 2 / 2, 0.8 * (np.abs(p - t) - 0.4)).mean(), {"delta": 0.8}),
    "hinge": (lambda p, t: np.maximum(0, 1.5 - p * t).mean(), {"margin": 1.5}),
    "cosine": (
        lambda p, t: (1 - (p * t).sum(1) / np.linalg.norm(p, axis=1) / np.linalg.norm(t, axis=1)).mean(), {}),
}


@pytest.mark.parametrize("name", REGRESSION)
def test_value_and_gradient(name: str) -> None:
    reference, settings = REGRESSION[name]
    p, t = rng.normal(size=(5, 7)) * 2, rng.normal(size=(5, 7))
    loss = getattr(losses, name)
    check(lambda p, t: loss(p, t, **settings), reference, p, t)
    each = loss(wf.array(p), wf.array(t), reduction="none", **settings)
    np.testing.assert_allclose(each.numpy().mean(), reference(p, t), rtol=1e-10)
    np.testing.assert_allclose(float(loss(wf.array(p), wf.array(t), reduction="sum", **settings)), each.numpy().sum(), rtol=1e-10)
    with pytest.raises(ShapeError, match="differ in shape"):
        loss(wf.ones((4, 1)), wf.ones(4))
    with pytest.raises(ValueError, match="reduction"):
        loss(wf.ones((2, 2)), wf.ones((2, 2)), reduction="avg")


def test_squared_hinge_and_kl() -> None:
    p, t = rng.normal(size=(4, 5)), np.sign(rng.normal(size=(4, 5)))
    check(lambda p: losses.hinge(p, wf.array(t), squared=True), lambda p: (np.maximum(0, 1 - p * t) ** 2).mean(), p)
    log_q, q = special.log_softmax(rng.normal(size=(4, 5)), 1), rng.dirichlet(np.ones(5), 4)
    check(losses.kl_div, lambda k, q: (q * (np.log(q) - k)).sum() / 4, log_q, q)
    check(lambda k, m: losses.kl_div(k, m, "sum", log_target=True), lambda k, m: (np.exp(m) * (m - k)).sum(), log_q, np.log(q))
    sharp = np.eye(5)[:4]
    np.testing.assert_allclose(float(losses.kl_div(wf.array(log_q), wf.array(sharp))), -(sharp * log_q).sum() / 4, rtol=1e-12)


def test_cosine_of_nothing() -> None:
    x = wf.zeros((2, 3))
    value, slope = wf.value_and_grad(lambda x: losses.cosine(x, wf.ones((2, 3))))(x)
    assert float(value) == 1.0 and np.isfinite(slope.numpy()).all()


@pytest.mark.parametrize("dtype,bound", [("float16", 5e-3), ("bfloat16", 4e-2)])
def test_small_dtypes(dtype: str, bound: float) -> None:
    z = wf.array(rng.normal(size=(6, 4)).astype("float32") * 3).astype(dtype)
    wide = z.astype("float64").numpy()
    loss = losses.cross_entropy(z, wf.array(Y))
    assert loss.dtype == z.dtype
    np.testing.assert_allclose(float(loss), _cross_entropy(wide, Y).mean(), rtol=bound)
    x = losses.mse(z, wf.zeros((6, 4)))
    assert x.dtype == z.dtype
    np.testing.assert_allclose(float(x), (wide**2).mean(), rtol=bound)


def test_wrong_arguments() -> None:
    z = wf.ones((3, 4))
    with pytest.raises(DTypeError, match="must be integers"):
        losses.cross_entropy(z, wf.ones(3))
    with pytest.raises(ValueError, match="label_smoothing"):
        losses.cross_entropy(z, wf.array([0, 1, 2]), label_smoothing=2.0)
    with pytest.raises(ValueError, match="delta"):
        losses.huber(z, z, delta=0.0)


def test_the_step_of_the_digit_net_has_fifteen_kernels() -> None:
    from weft.tools.cli import digit_net
    from weft.train.fit import training_step

    net = digit_net(28)
    step = training_step(net, losses.cross_entropy, wf.optim.Adam(lr=1e-3).init(net))
    found = wf.explain(step, wf.ones((8, 1, 28, 28)), wf.array(np.arange(8, dtype=np.int32)), 1e-3)
    assert len(found.kernels) <= 15
