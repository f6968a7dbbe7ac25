"""A loss that is not finite: the run stops, the step is not in the weights, and the operation is named with its input."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import weft as wf
from tests.train.making import bits, data, net
from weft.train import snapshot
from weft.train.checkpoint import load
from weft.train.fit import training_step


class Log(wf.nn.Module):
    def forward(self, x):
        return wf.log(x)  # the line that is named


class Root(wf.nn.Module):
    def forward(self, x):
        return wf.sqrt(x * x)  # finite at zero, its derivative is not


def stopped(model, x, y, **more) -> wf.train.History:
    with pytest.warns(RuntimeWarning, match="the loss is not finite") as caught:
        history = wf.train.fit(model, x, y, shuffle=False, batch_size=10, show=False, **{"epochs": 3, **more})
    assert caught[0].filename == __file__ and len(caught) == 1
    assert history.stopped == "the loss is not finite" and not model.training
    assert str(history.non_finite) in str(caught[0].message)
    assert all(np.isfinite(a.numpy().astype("f8")).all() for a in model.arrays().values())
    return history


def by_hand(x, y, steps: int, lr: float, model, loss=wf.losses.cross_entropy, optimizer=None):
    """The weights after so many steps."""
    optimizer = optimizer or wf.optim.SGD(lr=lr)
    step = training_step(model, loss, optimizer.init(model))
    model.train()
    with wf.flush_denormals():
        for k in range(steps):
            at = k * 10 % len(x)
            step(wf.asarray(x[at : at + 10]), wf.asarray(y[at : at + 10]), lr)
    return bits(model)


def test_the_layer_the_operation_the_line_and_the_range() -> None:
    x, y = data()
    x = np.abs(x)
    x[47, 1] = -2.5

    def made():
        return wf.nn.Sequential(Log(), wf.nn.Linear(3, 2))

    wf.random.seed(1)
    model = made()
    found = stopped(model, x, y, optimizer=wf.optim.SGD(lr=0.1)).non_finite
    assert (found.step, found.epoch, found.batch) == (5, 1, 5)
    assert (found.where, found.layer, found.operation, found.value) == ("loss", "layer '0' (Log)", "log", "nan")
    line = next(k for k, text in enumerate(open(__file__), 1) if "the line that is named" in text)
    assert found.line == f"test_non_finite.py:{line}"
    (given,) = found.inputs
    assert given.shape == (10, 3) and given.low == pytest.approx(-2.5) and given.high == pytest.approx(float(x[40:50].max()))
    wf.random.seed(1)
    assert bits(model) == by_hand(x, y, 4, 0.1, made())
    assert "its weights from before step 5" in str(found)


def test_the_best_weights_are_kept() -> None:
    x, y = data(50)
    wf.random.seed(2)
    model, kept = wf.nn.Sequential(Log(), wf.nn.Linear(3, 2)), []
    x = np.abs(x)

    def spoil(state):
        kept.append((state["loss"], bits(model)))
        if state.epoch == 3:
            state.optimizer.lr = 1e39

    history = stopped(model, x, y, epochs=9, optimizer=wf.optim.SGD(lr=0.05), callbacks=[spoil])
    assert (history.non_finite.step, history.non_finite.epoch, history.non_finite.batch) == (16, 4, 1)
    assert len(history.epochs) == 3 and bits(model) == min(kept)[1]
    assert f"the weights of epoch {history.best}, the best" in str(history.non_finite)


def test_a_derivative() -> None:
    x, y = data()
    x[33, 0] = 0.0
    found = stopped(Scaled(), x, y).non_finite
    assert (found.step, found.where, found.operation) == (4, "gradient", "sqrt")
    assert "the derivative of sqrt in layer 'root' (Root), test_non_finite.py:" in str(found)


def test_a_bad_update_in_the_last_step(tmp_path) -> None:
    """The loss is never computed from those weights, and yet they are not kept, nor written to the checkpoint."""
    x, y = data()
    x[95, 0] = 0.0

    def run(data, **more):
        wf.random.seed(5)
        model = Scaled()
        return model, wf.train.fit(model, data, y, shuffle=False, batch_size=10, epochs=1, show=False, **more)

    a, b = ({"checkpoint": tmp_path / name, "checkpoint_every": 10} for name in "ab")
    for more in ({}, a, {**b, "callbacks": [Stop(10)]}):
        with pytest.warns(RuntimeWarning, match="the weights are not finite. It begins at step 10 .*the derivative of sqrt"):
            model, history = run(x, **more)
        assert history.stopped == "the weights are not finite" and not history.epochs
        assert (history.non_finite.step, history.non_finite.where) == (10, "gradient")
        want, _ = run(x, callbacks=[Stop(9)])
        assert bits(model) == bits(want)
        for path in tmp_path.iterdir():
            held = load(path)
            assert held.place["step"] == 0
            assert all(np.isfinite(a).all() for a in held.snapshot.arrays["model"].values())


class Stop:
    def __init__(self, step: int) -> None:
        self.step = step

    def on_batch(self, state) -> None:
        if state.step == self.step:
            state.stop()


@pytest.mark.parametrize("kind", ["arrays", "loader"])
def test_no_snapshot_of_weights_that_are_not_finite(kind: str, monkeypatch) -> None:
    """However often they are taken: the step that made the weights bad is found, and not taken for their fault."""
    monkeypatch.setattr(snapshot, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(snapshot, "MIN_COSTS", 0)
    monkeypatch.setattr(snapshot, "CHECK_EVERY", 1)
    x, y = data()
    x[33, 0] = 0.0
    given = (x, y) if kind == "arrays" else (wf.data.Loader((x, y), 10),)
    with pytest.warns(RuntimeWarning, match="It begins at step 4 .epoch 1, batch 4.: the derivative of sqrt in layer 'root'"):
        history = wf.train.fit(Scaled(), *given, shuffle=False, batch_size=10, epochs=2, show=False)
    assert history.non_finite.seen == "weights" and history.non_finite.where == "gradient"


class Scaled(wf.nn.Module):
    """A layer with a parameter in front of the root, so that its derivative is needed."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = wf.ones(3)
        self.root, self.out = Root(), wf.nn.Linear(3, 2)

    def forward(self, x):
        return self.out(self.root(x * self.scale))


def test_an_update_that_overflows() -> None:
    x, y = data()
    model = wf.nn.Sequential(wf.nn.Linear(3, 1))
    t = (x[:, :1] * 1e20).astype("float32")
    found = stopped(model, x, t, loss=lambda p, t: (p * t).mean(), optimizer=wf.optim.SGD(lr=1e30)).non_finite
    assert (found.step, found.where) == (1, "update") and "'0.weight' by SGD (lr 1e+30)" == found.operation
    assert [r.name for r in found.inputs] == ["weights", "gradient"] and found.inputs[1].high < 1e25


def test_divergence_names_a_product() -> None:
    x, y = data()
    model = wf.nn.Sequential(wf.nn.Linear(3, 8), wf.nn.Linear(8, 1))
    found = stopped(model, x, x[:, :1].copy(), loss=wf.losses.mse, optimizer=wf.optim.SGD(lr=1e4), epochs=50).non_finite
    assert found.where == "loss" and (found.layer.startswith("layer") or found.operation) and found.inputs
    assert max(abs(r.low) for r in found.inputs) > 1e10
    if found.operation == "matrix product":  # its second input is a weight
        assert found.inputs[1].name in ("'0.weight'", "'1.weight'")


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_data(bad: float) -> None:
    x, y = data()
    x[72, 2] = bad
    r = np.random.default_rng(0).permutation(100)
    found = stopped(net(), x, y).non_finite
    assert (found.where, found.step, found.value) == ("data", 8, str(bad)) and "x, sample 72, holds" in str(found)
    with pytest.warns(RuntimeWarning, match="x, sample 72, holds"):
        wf.train.fit(net(), x[r[r.argsort()]], y, batch_size=10, show=False)  # shuffled: the sample's own number


def test_weights() -> None:
    x, y = data()
    model = net()
    model[3].bias[1] = math.inf
    with pytest.warns(RuntimeWarning, match=r"the weights '3.bias' hold inf before the step"):
        history = wf.train.fit(model, x, y, show=False)
    assert history.non_finite.step == 1


def test_masks_of_infinity_are_not_taken_for_it() -> None:
    x, y = data()
    mask = wf.array(np.where(np.eye(3, dtype=bool), 0, -np.inf).astype("float32"))

    class Masked(wf.nn.Module):
        def forward(self, x):
            return wf.nn.softmax(x[:, None, :] + mask, dim=-1).sum(axis=1) / (x.max(axis=1, keepdims=True) - 1.5)

    x = np.clip(x, -1.4, 1.4)
    x[55, 0] = 1.5
    found = stopped(wf.nn.Sequential(Masked(), wf.nn.Linear(3, 2)), x, y).non_finite
    assert (found.step, found.operation, found.layer) == (6, "divide", "layer '0' (Masked)")


@pytest.mark.parametrize("case", ["dropout", "accumulate", "loader", "float16", "momentum"])
def test_the_run_is_replayed_as_it_was(case: str) -> None:
    """Weights after a bad step are those of a run that ends before it, whatever the steps depend on."""
    x, y = data()
    x = np.abs(x) + 0.1
    spoiled = x.copy()
    spoiled[66] = -1.0

    def run(x, epochs, steps=None):
        wf.random.seed(3)
        model = wf.nn.Sequential(Log(), wf.nn.Dropout(0.3 if case == "dropout" else 0.0), wf.nn.Linear(3, 2))
        given = (wf.data.Loader((x, y), 10, workers=1),) if case == "loader" else (x, y)
        more = {"accumulate": 3} if case == "accumulate" else {"precision": "float16"} if case == "float16" else {}

        class Enough:
            def on_batch(self, state):
                if state.step == steps:
                    state.stop()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            history = wf.train.fit(
                model, *given, epochs=epochs, batch_size=10, shuffle=False, callbacks=[Enough()], show=False,
                optimizer=wf.optim.SGD(lr=0.1, momentum=0.9), **more,
            )
        return bits(model), history, wf.random.get_state()

    found, history, key = run(spoiled, 1)
    step = 3 if case == "accumulate" else 7
    assert (history.non_finite.step, history.non_finite.batch, history.non_finite.operation) == (
        step, 7, "log")
    want, _, want_key = run(x, 1, step - 1)
    assert found == want and key == want_key


def test_no_kernel_more() -> None:
    from weft.devices import counters

    x, y = data(90)
    model, optimizer = net(), wf.optim.Adam()
    step = training_step(model, wf.losses.cross_entropy, optimizer.init(model))
    kernels = len(wf.explain(step, wf.asarray(x[:30]), wf.asarray(y[:30]), 1e-3).kernels)
    counts = []

    class Count:
        def on_batch(self, state):
            counts.append(counters()["kernels"])

    wf.train.fit(model, x, y, epochs=2, batch_size=30, optimizer=optimizer, callbacks=[Count()], show=False)
    assert np.diff(counts)[[1, 3, 4]].tolist() == [kernels] * 3
