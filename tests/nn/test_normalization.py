"""Normalisations: value and gradient against float64 NumPy, running statistics, training and evaluation, small dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layer_formulas import affine, standard
from layer_reference import check

import weft as wf
from weft.errors import ShapeError

nn = wf.nn
rng = np.random.default_rng()
X = rng.normal(size=(4, 6, 3, 5)) * 2 + 1
W, B = rng.normal(size=6), rng.normal(size=6)
CHANNEL = (1, 6, 1, 1)


def test_batch_norm_in_training() -> None:
    check(lambda x, w, b: nn.batch_norm(x, None, None, w, b), lambda x, w, b: affine(standard(x, (0, 2, 3)), w, b), X, W, B,
          slopes=1e-5)


def test_batch_norm_in_evaluation() -> None:
    mean, var = rng.normal(size=6), rng.random(6) + 0.5

    def reference(x, w, b):
        return affine((x - mean.reshape(CHANNEL)) / np.sqrt(var.reshape(CHANNEL) + 1e-5), w, b)

    check(lambda x, w, b: nn.batch_norm(x, wf.array(mean), wf.array(var), w, b), reference, X, W, B)


@pytest.mark.parametrize("layer,shape", [
    (nn.BatchNorm1d, (8, 3)), (nn.BatchNorm1d, (4, 3, 5)), (nn.BatchNorm2d, (2, 3, 4, 5)), (nn.BatchNorm3d, (2, 3, 2, 3, 2)),
])
def test_running_statistics(layer, shape) -> None:
    """Written in training by a jitted step that also takes gradients; read in evaluation; saved, not trained."""
    net = layer(3, momentum=0.3)
    assert sorted(net.parameters()) == ["bias", "weight"]
    assert sorted(net.arrays()) == ["bias", "running_mean", "running_var", "weight"]

    @wf.jit
    def step(x):
        return wf.grad(lambda net, x: (net(x) * x).sum())(net, x)

    mean, var = np.zeros(3), np.ones(3)
    axes = (0, *range(2, len(shape)))
    for _ in range(3):
        x = rng.normal(size=shape) * 2 + 1
        step(wf.array(x.astype("float32")))
        count = x.size // 3
        mean = 0.7 * mean + 0.3 * x.mean(axes)
        var = 0.7 * var + 0.3 * x.var(axes) * count / (count - 1)
    np.testing.assert_allclose(net.running_mean.numpy(), mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(net.running_var.numpy(), var, rtol=1e-4)
    net.eval()
    column = (1, 3) + (1,) * (len(shape) - 2)
    want = (x - mean.reshape(column)) / np.sqrt(var.reshape(column) + 1e-5)
    np.testing.assert_allclose(net(wf.array(x.astype("float32"))).numpy(), want, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(net.running_mean.numpy(), mean, rtol=1e-4, atol=1e-5)
    with pytest.raises(ShapeError, match="x must be"):
        net(wf.ones((2,) * 6))


def test_mean_over_all_batches() -> None:
    net = nn.BatchNorm1d(3, momentum=None)
    step = wf.jit(lambda x: net(x))
    xs = rng.normal(size=(4, 8, 3)).astype("float32")
    for x in xs:
        step(wf.array(x))
    np.testing.assert_allclose(net.running_mean.numpy(), xs.mean((0, 1)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(net.running_var.numpy(), xs.var(1, ddof=1).mean(0), rtol=1e-4)
    wide = nn.BatchNorm1d(3, momentum=None).astype("float64")
    for x in xs.astype("float64"):
        wide(wf.array(x))
    np.testing.assert_allclose(wide.running_mean.numpy(), xs.astype("float64").mean((0, 1)), rtol=1e-12, atol=1e-14)
    net.eval()(wf.array(xs[0]))
    assert int(net.num_batches_tracked) == 4 and sorted(net.parameters()) == ["bias", "weight"]


def test_modes_under_one_jitted_function() -> None:
    net = nn.BatchNorm1d(None, affine=False)
    assert net(wf.array(X[:, :, 0, 0].astype("float32"))).shape == (4, 6) and net.num_features == 6
    run = wf.jit(lambda x: net(x))
    x = wf.array(X[:, :, 0, 0].astype("float32"))
    trained = run(x).numpy()
    net.eval()
    used = run(x).numpy()
    np.testing.assert_allclose(trained, standard(X[:, :, 0, 0], (0,)), rtol=1e-3, atol=1e-3)
    assert np.abs(trained - used).max() > 0.05
    with pytest.raises(ShapeError, match="one|two or more"):
        net.train()(wf.ones((1, 6)))


def test_layer_norm_and_rms_norm() -> None:
    x, w, b = X.reshape(4, 6, 15), rng.normal(size=(6, 15)), rng.normal(size=(6, 15))
    check(lambda x, w, b: nn.layer_norm(x, (6, 15), w, b), lambda x, w, b: standard(x, (1, 2)) * w + b, x, w, b, slopes=1e-5)
    check(lambda x, w: nn.rms_norm(x, 15, w), lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w, x, w[0])
    assert nn.LayerNorm(15, elementwise_affine=False).parameters() == {}
    assert list(nn.LayerNorm(15, bias=False).parameters()) == ["weight"]
    for layer in (nn.LayerNorm((6, 15)), nn.RMSNorm((6, 15), eps=1e-5)):
        same = [f(wf.array(x.astype("float32"))).numpy() for f in (layer.train(), layer.eval(), wf.jit(lambda x, f=layer: f(x)))]
        np.testing.assert_array_equal(same[0], same[1])
        np.testing.assert_allclose(same[0], same[2], rtol=1e-5, atol=1e-5)
    with pytest.raises(ShapeError, match="normalized_shape"):
        nn.LayerNorm(7)(wf.ones((2, 6)))


def test_group_norm_and_instance_norm() -> None:
    def groups(x, w, b):
        return affine(standard(x.reshape(4, 3, 2, 3, 5), (2, 3, 4)).reshape(x.shape), w, b)

    check(lambda x, w, b: nn.group_norm(x, 3, w, b), groups, X, W, B, slopes=1e-5)
    check(nn.instance_norm, lambda x, w, b: affine(standard(x, (2, 3)), w, b), X, W, B, slopes=1e-5)
    x = wf.array(X.astype("float32"))
    np.testing.assert_allclose(nn.InstanceNorm2d(6)(x).numpy(), standard(X, (2, 3)), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(nn.GroupNorm(3, 6)(x).numpy(), groups(X, np.ones(6), np.zeros(6)), rtol=1e-4, atol=1e-4)
    assert sorted(nn.InstanceNorm1d(6, affine=True).parameters()) == ["bias", "weight"]
    with pytest.raises(ShapeError, match="must divide"):
        nn.GroupNorm(4, 6)
    with pytest.raises(ShapeError, match="C = 5"):
        nn.InstanceNorm2d(5)(x)


@pytest.mark.parametrize("size", [3, 4])
def test_local_response_norm(size: int) -> None:
    def reference(x):
        square = np.pad(x * x, ((0, 0), (size // 2, (size - 1) // 2), (0, 0), (0, 0)))
        total = sum(square[:, i : i + 6] for i in range(size))
        return x / (2.0 + 0.3 / size * total) ** 0.6

    check(lambda x: nn.local_response_norm(x, size, 0.3, 0.6, 2.0), reference, X)
    layer = nn.LocalResponseNorm(size, 0.3, 0.6, 2.0)
    np.testing.assert_allclose(layer(wf.array(X)).numpy(), reference(X), rtol=1e-10)


@pytest.mark.parametrize("dtype,bound", [("float16", 4e-3), ("bfloat16", 3e-2)])
def test_small_dtypes(dtype: str, bound: float) -> None:
    """Statistics are float32: a large mean in float16 does not spoil them."""
    x = wf.array((X * 100).astype("float32")).astype(dtype)
    wide = x.astype("float64").numpy()
    net = nn.BatchNorm2d(6)
    y = net(x)
    assert y.dtype == x.dtype and net.running_var.dtype == np.float32
    np.testing.assert_allclose(y.astype("float64").numpy(), standard(wide, (0, 2, 3)), rtol=bound, atol=bound)
    y = nn.layer_norm(x, 5)
    assert y.dtype == x.dtype
    np.testing.assert_allclose(y.astype("float64").numpy(), standard(wide, (3,)), rtol=bound, atol=bound)
    slope = wf.grad(lambda x: (nn.rms_norm(x, 5) * 2).sum())(x)
    assert slope.dtype == x.dtype and np.isfinite(slope.astype("float32").numpy()).all()


@pytest.mark.parametrize("argument", ["eps", "momentum"])
@pytest.mark.parametrize("value", ["2", [0.1], 1j, np.ones(2)])
def test_arguments_that_are_no_numbers(argument: str, value: Any) -> None:
    x, given = wf.ones((4, 6)), {argument: value}
    calls: dict[str, Any] = {
        "batch_norm": lambda: wf.nn.batch_norm(x, wf.zeros(6), wf.ones(6), training=True, **given),
        "BatchNorm1d": lambda: wf.nn.BatchNorm1d(6, **given),
    }
    if argument == "eps":
        calls |= {
            "layer_norm": lambda: wf.nn.layer_norm(x, 6, **given), "LayerNorm": lambda: wf.nn.LayerNorm(6, **given),
            "rms_norm": lambda: wf.nn.rms_norm(x, 6, **given), "RMSNorm": lambda: wf.nn.RMSNorm(6, **given),
            "group_norm": lambda: wf.nn.group_norm(x, 2, **given), "GroupNorm": lambda: wf.nn.GroupNorm(2, 6, **given),
            "instance_norm": lambda: wf.nn.instance_norm(x[..., None], **given),
            "InstanceNorm1d": lambda: wf.nn.InstanceNorm1d(6, **given),
        }
    for name, call in calls.items():
        with pytest.raises(TypeError, match=f"^{name}: {argument} (must be a real number|has shape)"):
            call()
