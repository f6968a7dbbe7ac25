"""Layers, losses and optimizers against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.errors import ShapeError

rng = np.random.default_rng(5)


def _close(ours, reference, bound=2e-5) -> None:
    reference = np.asarray(reference)
    assert np.abs(reference).max() > 0
    np.testing.assert_allclose(ours.numpy(), reference, rtol=bound, atol=bound * np.abs(reference).max())


def _windows(x, k, s):
    return np.lib.stride_tricks.sliding_window_view(x, (k, k), (2, 3))[:, :, ::s, ::s]


@pytest.mark.parametrize("stride,padding", [(1, 0), (1, 1), (2, 1), (3, 2)])
def test_conv2d(stride, padding) -> None:
    x, w, b = rng.normal(size=(3, 2, 9, 11)), rng.normal(size=(4, 2, 3, 3)), rng.normal(size=4)
    padded = np.pad(x, ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2))
    expected = np.einsum("nchwij,ocij->nohw", _windows(padded, 3, stride), w) + b[:, None, None]
    got = wf.nn.conv2d(*(wf.asarray(v.astype("float32")) for v in (x, w, b)), stride, padding)
    _close(got, expected)


def test_pooling() -> None:
    x = rng.normal(size=(2, 3, 8, 10)).astype("float32")
    _close(wf.nn.max_pool2d(wf.asarray(x), 2), _windows(x, 2, 2).max((-1, -2)))
    _close(wf.nn.avg_pool2d(wf.asarray(x), 3, 2), _windows(x.astype("float64"), 3, 2).mean((-1, -2)))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    _close(wf.nn.max_pool2d(wf.asarray(x), 3, 2, 1), _windows(padded, 3, 2).max((-1, -2)))


def test_linear_and_activations() -> None:
    x, w, b = rng.normal(size=(5, 7)), rng.normal(size=(3, 7)), rng.normal(size=3)
    f = [wf.asarray(v.astype("float32")) for v in (x, w, b)]
    _close(wf.nn.linear(*f), x @ w.T + b)
    _close(wf.nn.relu(f[0]), np.maximum(x, 0))
    _close(wf.nn.sigmoid(f[0]), 1 / (1 + np.exp(-x)))
    assert np.isnan(wf.nn.relu(wf.array([float("nan")])).numpy()).all()


def test_dropout() -> None:
    wf.random.seed(3)
    x = wf.ones((200, 200))
    y = wf.nn.Dropout(0.25).train()(x).numpy()
    assert abs((y == 0).mean() - 0.25) < 0.01 and np.allclose(y[y != 0], 1 / 0.75)
    assert (wf.nn.Dropout(0.25).eval()(x).numpy() == 1).all()
    with pytest.raises(ValueError, match="between 0 and 1"):
        wf.nn.Dropout(1.5)


def test_cross_entropy_and_mse() -> None:
    z, y = rng.normal(size=(6, 4)) * 3, np.array([0, 3, 1, 2, 2, 0])
    log_p = z - np.log(np.exp(z).sum(1, keepdims=True))
    expected = -log_p[np.arange(6), y].mean()
    logits = wf.asarray(z.astype("float32"))
    _close(wf.losses.cross_entropy(logits, wf.asarray(y)), expected)
    _close(wf.losses.cross_entropy(logits, wf.asarray(np.eye(4, dtype="float32")[y])), expected)
    with pytest.raises(ValueError, match="label 4 at position 1"):
        wf.losses.cross_entropy(logits, np.array([0, 4, 0, 0, 0, 0]))
    with pytest.raises(ShapeError, match="one-hot"):
        wf.losses.cross_entropy(logits, wf.asarray(y[:3]))
    with pytest.raises(ShapeError, match="differ in shape"):
        wf.losses.mse(wf.ones((4, 1)), wf.ones(4))


def test_wrong_width() -> None:
    with pytest.raises(ShapeError, match="in_features = 7"):
        wf.nn.Linear(7, 3)(wf.ones((2, 6)))
    with pytest.raises(ShapeError, match="has 2 channels"):
        wf.nn.Conv2d(1, 4, 3)(wf.ones((1, 2, 8, 8)))


def test_module_names_and_assignment() -> None:
    net = wf.nn.Sequential(wf.nn.Linear(3, 4), wf.nn.ReLU(), wf.nn.Linear(4, 2))
    assert list(net.parameters()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    cell = net[0].weight
    net[0].weight = wf.zeros((4, 3))
    assert net[0].weight is cell and (cell.numpy() == 0).all()
    with pytest.raises(ShapeError, match="does not fit"):
        net[0].weight = wf.zeros((3, 3))


def _reference_adam(p, grads, lr=0.01, b1=0.9, b2=0.999, eps=1e-8):
    m = v = np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p = p - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
    return p


def _reference_momentum(p, grads, lr=0.01, mu=0.9):
    v = np.zeros_like(p)
    for g in grads:
        v = mu * v + g
        p = p - lr * v
    return p


@pytest.mark.parametrize("make,reference", [
    (lambda: wf.optim.Adam(lr=0.01), _reference_adam),
    (lambda: wf.optim.SGD(lr=0.01, momentum=0.9), _reference_momentum),
])
def test_optimizers_follow_the_paper(make, reference) -> None:
    p, grads = rng.normal(size=(4, 5)), rng.normal(size=(7, 4, 5))
    params = {"w": wf.asarray(p.astype("float32"))}
    optimizer = make().init(params)
    for g in grads:
        optimizer.update(params, {"w": wf.asarray(g.astype("float32"))})
    _close(params["w"], reference(p, grads), 1e-5)


def test_weights_round_trip(tmp_path) -> None:
    net, other = wf.nn.Linear(3, 2), wf.nn.Linear(3, 2)
    wf.io.save(tmp_path / "w.safetensors", net)
    wf.io.load_into(other, tmp_path / "w.safetensors")
    assert (net.weight.numpy() == other.weight.numpy()).all()
    content = (tmp_path / "w.safetensors").read_bytes()
    (tmp_path / "cut").write_bytes(content[:-3])
    before = other.weight.numpy().copy()
    for path, pattern in (("cut", "damaged"), ("none", "no weight file")):
        with pytest.raises(wf.errors.DataError, match=pattern):
            wf.io.load_into(other, tmp_path / path)
    with pytest.raises(wf.errors.DataError, match="has shape"):
        wf.io.load_into(wf.nn.Linear(4, 2), tmp_path / "w.safetensors")
    assert (other.weight.numpy() == before).all()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cut", "w.safetensors"]
