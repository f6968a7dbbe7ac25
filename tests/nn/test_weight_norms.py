"""Weight and spectral normalisation: training without retraces, files, what cannot be wrapped. Values: test_torch_values.py."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.errors import AxisError, ShapeError

nn = wf.nn


@pytest.mark.parametrize("wrap", [nn.WeightNorm, nn.SpectralNorm])
def test_training(wrap, tmp_path, rng: np.random.Generator) -> None:
    x = wf.array(rng.normal(size=(8, 5)).astype(np.float32))
    inner = nn.Linear(5, 4)
    first = inner.weight.numpy().copy()
    layer = wrap(inner)
    if wrap is nn.WeightNorm:
        np.testing.assert_allclose(layer.compute_weight().numpy(), first, rtol=1e-5)
    net = nn.Sequential(layer, nn.Tanh(), wrap(nn.LSTM(4, 3), "weight_hh_l0"))
    optimizer = wf.optim.Adam(lr=0.01).init(net)

    @wf.jit
    def step(x):
        loss, slopes = wf.value_and_grad(lambda net: (net(x)[0] ** 2).mean())(net)
        optimizer.update(net, slopes)
        return loss

    losses = [float(step(x)) for _ in range(8)]
    assert losses[-1] < losses[0] and step.traces == 1
    path = tmp_path / "net.safetensors"
    net.save(path)
    other = nn.Sequential(wrap(nn.Linear(5, 4)), nn.Tanh(), wrap(nn.LSTM(4, 3), "weight_hh_l0")).load(path)
    np.testing.assert_array_equal(other.eval()(x)[0].numpy(), net.eval()(x)[0].numpy())
    assert "weight" not in vars(inner)  # lent for a call alone, also if it fails
    with pytest.raises(ShapeError):
        layer(wf.ones((2, 3)))
    assert "weight" not in vars(inner)


def test_power_iterations_find_the_largest_singular_value(rng: np.random.Generator) -> None:
    layer = nn.SpectralNorm(nn.Conv2d(3, 4, 2), n_power_iterations=5)
    layer.weight[...] = rng.normal(size=(4, 3, 2, 2))
    for _ in range(40):
        layer(wf.ones((1, 3, 4, 4)))
    assert abs(np.linalg.norm(layer.eval().compute_weight().numpy().reshape(4, -1), 2) - 1) < 1e-3
    held = layer.u.numpy().copy()
    layer(wf.ones((1, 3, 4, 4)))
    np.testing.assert_array_equal(layer.u.numpy(), held)  # in evaluation mode nothing is written


def test_refusals() -> None:
    with pytest.raises(ShapeError, match="give the layer its input width"):
        nn.WeightNorm(nn.Linear(None, 3))
    with pytest.raises(TypeError, match="has no float array 'wieght'"):
        nn.WeightNorm(nn.Linear(2, 3), "wieght")
    with pytest.raises(TypeError, match="must be a layer"):
        nn.SpectralNorm(wf.tanh)
    with pytest.raises(AxisError, match="axis=2"):
        nn.WeightNorm(nn.Linear(2, 3), axis=2)
    with pytest.raises(ValueError, match="at least 1"):
        nn.SpectralNorm(nn.Linear(2, 3), n_power_iterations=0)
