"""The running mean of the weights against NumPy in float64; a resumed run has the bits of an uninterrupted one."""

import numpy as np
import pytest

import weft as wf
from tests.train.making import Broken, bits


def _trained(rng, callbacks, epochs=3, dtype="float32", **options):
    x, y = rng.normal(size=(40, 5)).astype(np.float32), rng.normal(size=(40, 2)).astype(np.float32)
    wf.random.seed(1)
    net = wf.nn.Sequential(wf.nn.Linear(5, 4), wf.nn.Tanh(), wf.nn.Linear(4, 2))
    for p in net.parameters().values():
        p._set(wf.asarray(p.numpy().astype(dtype)).node)
    wf.train.fit(
        net, x.astype(dtype), y.astype(dtype), loss=wf.losses.mse, optimizer=wf.optim.SGD(lr=0.1), epochs=epochs, batch_size=8,
        callbacks=callbacks, validation=0.0, seed=2, show=False, **options,
    )
    return net


class Seen:
    """The weights after every step."""

    def __init__(self):
        self.weights = []

    def on_batch(self, state):
        self.weights.append({name: p.numpy().copy() for name, p in state.model.parameters().items()})


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_model_ends_with_the_mean_of_its_steps(dtype):
    seen = Seen()
    net = _trained(np.random.default_rng(0), [wf.train.AverageWeights(0.8), seen], dtype=dtype)
    assert len(seen.weights) == 15
    for name, p in net.parameters().items():
        mean = seen.weights[0][name].astype(np.float64)
        for t, weights in enumerate(seen.weights, 1):
            mean += (1 - min(0.8, (1 + t) / (10 + t))) * (weights[name] - mean)
        assert p.dtype == dtype
        np.testing.assert_allclose(p.numpy(), mean, rtol=0, atol=1e-6 if dtype == "float32" else 1e-14)
        assert np.abs(p.numpy() - seen.weights[-1][name]).max() > 1e-4  # not just the last weights


def test_training_itself_is_not_changed():
    alone, beside = Seen(), Seen()
    _trained(np.random.default_rng(3), [alone])
    _trained(np.random.default_rng(3), [beside, wf.train.AverageWeights(0.9)])
    for a, b in zip(alone.weights, beside.weights, strict=True):
        assert all((a[name] == b[name]).all() for name in a)


def test_a_resumed_run_gives_the_same_bits(tmp_path):
    class Crash:
        def on_batch(self, state):
            if state.step == 7:
                raise Broken

    path = tmp_path / "run"
    whole = _trained(np.random.default_rng(4), [wf.train.AverageWeights(0.9)])
    with pytest.raises(Broken):
        _trained(np.random.default_rng(4), [wf.train.AverageWeights(0.9), Crash()], checkpoint=path, checkpoint_every=2)
    mean = wf.train.AverageWeights(0.9)
    resumed = _trained(np.random.default_rng(4), [mean], checkpoint=path, checkpoint_every=2, resume=True)
    assert mean.steps == 15
    assert bits(resumed) == bits(whole)


@pytest.mark.parametrize("decay", [0.0, 1.0, -1.0])
def test_a_decay_out_of_range_is_refused(decay):
    with pytest.raises(ValueError, match="decay must lie between 0 and 1"):
        wf.train.AverageWeights(decay)
