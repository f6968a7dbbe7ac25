"""The search of a learning rate: its suggestion trains, and everything is as before afterwards."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.errors import LabelError, ShapeError


def test_a_suggestion_trains_and_nothing_has_changed(rng: np.random.Generator) -> None:
    x = rng.normal(size=(300, 6))
    y = (x @ rng.normal(size=6) > 0).astype("int32")
    net = wf.nn.Sequential(wf.nn.Linear(None, 16), wf.nn.BatchNorm1d(16), wf.nn.ReLU(), wf.nn.Dropout(0.1), wf.nn.Linear(16, 2))
    net(wf.array(x[:4].astype("float32")))
    net.eval()
    before = {n: a.numpy().copy() for n, a in net.arrays().items()}
    wf.random.seed(3)
    want = wf.random.uniform(size=4).numpy()
    wf.random.seed(3)
    optimizer = wf.optim.Adam()
    found = wf.train.find_lr(net, x, y, optimizer=optimizer, steps=60)
    assert not net.training and len(found.rates) == len(found.losses) > 10 and (np.diff(found.rates) > 0).all()
    for name, a in net.arrays().items():
        np.testing.assert_array_equal(a.numpy(), before[name], err_msg=name)
    np.testing.assert_array_equal(wf.random.uniform(size=4).numpy(), want)
    assert 1e-6 < found.suggestion < 1
    history = wf.train.fit(net, x, y, optimizer=wf.optim.Adam(lr=found.suggestion), epochs=8, show=False)
    assert history.loss[-1] < 0.9 * history.loss[0] and history.loss[-1] < 0.6
    again = wf.train.find_lr(net, x, y, steps=20, seed=1)
    np.testing.assert_array_equal(again.losses, wf.train.find_lr(net, x, y, steps=20, seed=1).losses)


def test_rates_that_diverge_end_the_search() -> None:
    x = np.random.default_rng().normal(size=(64, 3)).astype("float32")
    net = wf.nn.Linear(3, 1)
    found = wf.train.find_lr(net, x, x[:, :1] * 3, loss=wf.losses.mse, optimizer=wf.optim.SGD(lr=0.1), most=1e6)
    assert found.rates[-1] < 1e4 and 1e-4 < found.suggestion < 3
    assert np.isfinite(found.losses).all()


def test_a_search_that_data_end_says_so(rng: np.random.Generator) -> None:
    x = rng.normal(size=(64, 3)).astype("float32")
    bad, net = int(rng.integers(64)), wf.nn.Linear(3, 1)
    before = net.weight.numpy().copy()
    for data, targets, what in ((np.where(np.arange(64)[:, None] == bad, np.nan, x), x, "x"), (x, np.full_like(x, np.inf), "y")):
        words = rf"find_lr: the loss is not finite.*{what}, sample {bad if what == 'x' else '[0-9]+'}, holds (nan|inf)"
        with pytest.warns(RuntimeWarning, match=words):
            found = wf.train.find_lr(net, data, targets[:, :1], loss=wf.losses.mse, batch_size=16)
        assert len(found.rates) < 4 and found.suggestion is None
        np.testing.assert_array_equal(net.weight.numpy(), before)


def test_states_of_recurrent_layers_are_restored(rng: np.random.Generator) -> None:
    net = wf.nn.Sequential(wf.nn.RNN(3, 2, stateful=True), wf.nn.Lambda(lambda y: y[0][:, -1]))
    names = net.arrays().keys()
    wf.train.find_lr(net, rng.normal(size=(8, 4, 3)), rng.normal(size=(8, 2)), loss=wf.losses.mse, batch_size=8, steps=4)
    assert net.arrays().keys() == names


def test_sources_of_batches(rng: np.random.Generator) -> None:
    """A Loader, its batches in a list and a function that makes them have one search, over several epochs."""
    x, y = rng.normal(size=(30, 3)).astype("float32"), rng.integers(0, 2, 30)
    net, size = wf.nn.Linear(3, 2), int(rng.integers(5, 20))
    loader = wf.data.Loader((x, y), size)
    batches = list(wf.data.Loader((x, y), size))
    before = net.weight.numpy().copy()
    searches = [wf.train.find_lr(net, source, steps=20) for source in (loader, batches, lambda: iter(batches))]
    for found in searches:
        np.testing.assert_array_equal(found.losses, searches[0].losses)
        assert len(found.rates) == len(found.losses)
    np.testing.assert_array_equal(net.weight.numpy(), before)
    assert loader.epoch == 0 and len(searches[0].losses) > len(batches)
    shuffled = [wf.train.find_lr(net, wf.data.Loader((x, y), size, shuffle=True, seed=3), steps=20).losses for _ in range(2)]
    np.testing.assert_array_equal(*shuffled)
    for given, text in (
        (iter(batches), "find_lr: x is a generator, which is gone through once"), ((x, y), "find_lr: x and y are two arguments"),
        (x, "find_lr: y is missing"),
    ):
        with pytest.raises((TypeError, ValueError), match=text):
            wf.train.find_lr(net, given)


def test_refusals() -> None:
    net, x = wf.nn.Linear(3, 1), np.ones((4, 3), "float32")
    with pytest.raises(ValueError, match="least=1, most=0.1"):
        wf.train.find_lr(net, x, x, least=1, most=0.1)
    with pytest.raises(ShapeError, match="find_lr: x has 4 samples"):
        wf.train.find_lr(net, x, x[:3])
    for search in (wf.train.find_lr, wf.train.fit):
        name = search.__name__
        with pytest.raises(ValueError, match=f"{name}: the model gives one number a sample.*cross_entropy is 0"):
            search(net, x, x[:, :1])
        with pytest.raises(ValueError, match=f"{name}: y holds numbers down to -1"):
            search(net, x, -x)
        with pytest.raises(ValueError, match=f"{name}: loss: no loss 'mean_squared_error'; in weft: 'mse'"):
            search(net, x, x, loss="mean_squared_error")
    with pytest.raises(LabelError, match="label 3 at position 0"):
        wf.train.find_lr(wf.nn.Linear(3, 3), x, np.full(4, 3))
    with pytest.warns(RuntimeWarning, match="find_lr: the model ends with Softmax"):
        wf.train.find_lr(wf.nn.Sequential(wf.nn.Linear(3, 3), wf.nn.Softmax()), x, np.zeros(4, "int32"), steps=2)
    with pytest.raises(ValueError, match="used before"):
        wf.train.find_lr(net, x, x, optimizer=wf.optim.Adam().init(net))
