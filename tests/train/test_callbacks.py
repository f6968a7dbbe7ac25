"""Callbacks and metrics: when they are called, what they see, what they write."""

from __future__ import annotations

import csv
import math
import struct
import sys

import numpy as np
import pytest

import weft as wf
from tests.train.making import bits, data, net
from weft.train import BestWeights, CSVLog, EarlyStopping, Epoch, History, ReduceLROnPlateau, State, TensorBoard
from weft.train.metrics import METRICS


def after(values: list[float], callback, lr: float = 1.0) -> State:
    """The state after epochs with these losses."""
    state = State(None, wf.optim.SGD(lr=lr), History(), 1000)  # type: ignore[arg-type]
    for k, value in enumerate(values):
        state.epoch = k + 1
        state.history.epochs.append(Epoch(k + 1, value, 0.0, lr=state.optimizer.lr))
        callback.on_epoch(state)
        if state.stopped:
            break
    return state


@pytest.mark.parametrize("seed", range(8))
def test_early_stopping_by_patience(seed: int) -> None:
    r = np.random.default_rng(seed)
    values = (np.exp(-np.arange(60) / 10) + 0.2 * r.normal(size=60)).tolist()
    patience, delta = int(r.integers(1, 8)), float(r.choice([0.0, 0.05]))
    best, best_at, want = values[0], 0, len(values)
    for k, v in enumerate(values):
        if v < best - delta:
            best, best_at = v, k
        if k - best_at >= patience:
            want = k + 1
            break
    found = after(values, EarlyStopping("loss", patience, min_delta=delta))
    assert len(found.history.epochs) == want
    assert bool(found.stopped) == (want < len(values) or values[want - 1:] == [])
    up = after([-v for v in values], EarlyStopping("loss", patience, min_delta=delta, mode="max"))
    assert len(up.history.epochs) == want


def test_early_stopping_by_threshold_and_by_nan() -> None:
    assert len(after([3.0, 1.0, 0.5, 0.1], EarlyStopping("loss", threshold=0.5)).history.epochs) == 3
    assert len(after([0.1, 0.4, 0.9, 0.99], EarlyStopping("loss", threshold=0.9, mode="max")).history.epochs) == 3
    assert len(after([math.nan] * 9, EarlyStopping("loss", patience=4)).history.epochs) == 4
    for wrong in ({}, {"patience": 0}, {"patience": 1, "mode": "up"}, {"patience": 1, "min_delta": -1}):
        with pytest.raises(ValueError):
            EarlyStopping(**wrong)


def test_rates_fall_on_a_plateau() -> None:
    state = after([1.0] * 12, ReduceLROnPlateau("loss", factor=0.5, patience=3, min_lr=0.2))
    assert [e.lr for e in state.history.epochs] == [1.0] * 4 + [0.5] * 3 + [0.25] * 3 + [0.2] * 2
    state = after([1.0 / (k + 1) for k in range(20)], ReduceLROnPlateau("loss", patience=2))
    assert state.optimizer.lr == 1.0


def test_functions_objects_and_stopping() -> None:
    x, y = data()
    seen: list[tuple] = []

    class Watch:
        def on_begin(self, state):
            seen.append(("begin", state.epoch))

        def on_batch(self, state):
            seen.append(("batch", state.epoch, state.batch, state.step))
            if state.step == 12:
                state.stop("enough")

        def on_end(self, state):
            seen.append(("end", len(state.history.epochs)))

    def every_epoch(state):
        seen.append(("epoch", state.epoch, state["loss"] == state.row.loss == state.history.loss[-1]))

    history = wf.train.fit(net(), x, y, epochs=9, batch_size=20, callbacks=[Watch(), every_epoch], show=False)
    batches = [("batch", e, b, 5 * (e - 1) + b) for e in (1, 2, 3) for b in range(1, 6)][:12]
    want = [("begin", 0), *batches[:5], ("epoch", 1, True), *batches[5:10], ("epoch", 2, True), *batches[10:], ("end", 2)]
    assert seen == want
    assert history.stopped == "enough" and len(history.epochs) == 2 and not history.interrupted
    history = wf.train.fit(net(), x, y, epochs=9, callbacks=[lambda state: state.stop()], show=False)
    assert len(history.epochs) == 1 and history.stopped == "stopped by a callback"


def test_a_callback_sets_the_rate_without_compiling() -> None:
    x, y = data()
    x, model = x[:20], net()
    first = model[0].weight.numpy().copy()

    def still(state):
        state.optimizer.lr = 0.0 if state.epoch == 2 else 0.5

    weights = []
    history = wf.train.fit(
        model, x, y[:20], epochs=4, batch_size=20, optimizer=wf.optim.SGD(lr=0.5), show=False,
        callbacks=[still, lambda s: weights.append(s.model[0].weight.numpy().copy())],
    )
    moved = [bool((a != b).any()) for a, b in zip([first, *weights], weights, strict=False)]
    assert moved == [True, True, False, True]
    assert [e.lr for e in history.epochs] == [0.5, 0.5, 0.0, 0.5]


def test_best_and_last_weights(tmp_path) -> None:
    x, y = data()
    model, scores, kept = net(), [0.3, 0.7, 0.6, 0.9, 0.2], []
    metric = {"my_accuracy": lambda p, t: (p * 0).sum()}

    def score(state):  # what the epoch is said to have reached
        row = state.row
        state.history.epochs[-1] = Epoch(row.number, row.loss, row.seconds, metrics={"my_accuracy": scores[row.number - 1]})
        kept.append(bits(model))

    keep = BestWeights("my_accuracy", path=tmp_path / "best.safetensors")
    history = wf.train.fit(model, x, y, epochs=5, metrics=metric, callbacks=[score, keep], show=False)
    assert keep.number == history.best == 4 and keep.score == 0.9
    assert bits(model) == kept[3] != kept[4]
    keep.restore(model, "last")
    assert bits(model) == kept[4]
    assert bits(net(1).load(tmp_path / "best.safetensors")) == kept[3]
    with pytest.raises(ValueError, match="best weights before"):
        BestWeights().restore(model)


def test_csv(tmp_path) -> None:
    x, y = data()
    path = tmp_path / "log.csv"
    history = wf.train.fit(
        net(), x, y, epochs=3, validation=0.2, metrics=["accuracy"], callbacks=[CSVLog(path)], show=False,
    )
    rows = list(csv.DictReader(path.open()))
    assert list(rows[0]) == ["epoch", "loss", "accuracy", "val_loss", "val_accuracy", "lr", "seconds"]
    for row, epoch in zip(rows, history.epochs, strict=True):
        assert int(row["epoch"]) == epoch.number and float(row["lr"]) == 1e-3
        assert all(float(row[name]) == value for name, value in epoch.values().items())


def test_tensorboard(tmp_path, monkeypatch) -> None:
    from tensorboardX.proto import event_pb2

    x, y = data()
    history = wf.train.fit(net(), x, y, epochs=3, validation=0.2, callbacks=[TensorBoard(tmp_path)], show=False)
    found: dict[tuple, float] = {}
    for part in ("train", "validation"):
        (path,) = (tmp_path / part).iterdir()
        content, at = path.read_bytes(), 0
        while at < len(content):
            (length,) = struct.unpack_from("<Q", content, at)
            event = event_pb2.Event.FromString(content[at + 12 : at + 12 + length])
            found.update({(part, v.tag, event.step): v.simple_value for v in event.summary.value})
            at += length + 16
    for e in history.epochs:
        for key, want in (("train", "loss"), e.loss), (("validation", "loss"), e.validation_loss), (("train", "lr"), 1e-3):
            assert found[(*key, e.number)] == pytest.approx(want)
        assert found["validation", "accuracy", e.number] == pytest.approx(e.validation_accuracy)
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match=r"pip install 'weft-array\[tensorboard\]'"):
        TensorBoard(tmp_path)


@pytest.mark.parametrize("callback,error,pattern", [
    (3, TypeError, "must be a function of the state, or an object with on_begin"),
    (CSVLog, TypeError, "call it, to make one"),
    (EarlyStopping("val_loss", 3), ValueError, "EarlyStopping watches 'val_loss'.* give validation=0.1, say, or monitor='loss'"),
    (BestWeights("val_accuracy"), ValueError, "BestWeights watches 'val_accuracy', but there are no validation data"),
    (EarlyStopping("accuracy", 3), ValueError, "has no 'accuracy'; there are loss$"),
])
def test_callbacks_that_make_no_sense(callback, error, pattern) -> None:
    x, y = data()
    with pytest.raises(error, match=pattern):
        wf.train.fit(net(), x, y, epochs=1, callbacks=[callback], show=False)


# ---- metrics


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_metrics_against_numpy(dtype: str) -> None:
    r = np.random.default_rng()
    scores, labels = r.normal(size=(57, 9)).astype(dtype), r.integers(0, 9, 57)
    hot, p, t = np.eye(9, dtype=dtype)[labels], wf.array(scores), wf.array(labels)
    rank = (scores > scores[np.arange(57), labels][:, None]).sum(1)
    for target in (t, wf.array(hot)):
        assert float(METRICS["accuracy"](p, target)) == pytest.approx((rank == 0).mean())
        assert float(METRICS["top_5_accuracy"](p, target)) == pytest.approx((rank < 5).mean())
    sides = r.integers(0, 2, 57).astype(dtype)
    assert float(METRICS["binary_accuracy"](p[:, :1], wf.array(sides))) == pytest.approx(((scores[:, 0] > 0) == sides).mean())
    bound = 1e-5 if dtype == "float32" else 1e-12
    assert float(METRICS["mse"](p, wf.array(hot))) == pytest.approx(((scores - hot).astype("f8") ** 2).mean(), rel=bound)
    assert float(METRICS["mae"](p, wf.array(hot))) == pytest.approx(np.abs((scores - hot).astype("f8")).mean(), rel=bound)


def test_metrics_of_training_are_means_over_the_rows(capsys) -> None:
    x, y = data(45)
    seen: list[tuple[float, float, int]] = []

    def spread(predictions, targets):
        return predictions.max() - predictions.min()

    plain, model = net(), net()
    for first in range(0, 45, 20):  # the same steps by hand
        rows = slice(first, first + 20)
        out = plain(wf.asarray(x[rows]))
        seen.append((float(METRICS["accuracy"](out, wf.asarray(y[rows]))), float(spread(out, None)), len(x[rows])))
        wf.train.fit(plain, x[rows], y[rows], epochs=1, batch_size=20, optimizer=wf.optim.SGD(lr=0.1), shuffle=False, show=False)
    capsys.readouterr()
    history = wf.train.fit(
        model, x, y, epochs=1, batch_size=20, optimizer=wf.optim.SGD(lr=0.1), shuffle=False, metrics=["accuracy", spread],
        validation=(x, y),
    )
    (row,) = history.epochs
    assert row["accuracy"] == pytest.approx(sum(a * n for a, _, n in seen) / 45)
    assert row["spread"] == pytest.approx(sum(s * n for _, s, n in seen) / 45, rel=1e-5)
    out = wf.train.predict(model, x)
    assert row["val_spread"] == pytest.approx(out.max() - out.min()) and row["val_accuracy"] == wf.train.accuracy(model, x, y)
    (line,) = capsys.readouterr().out.splitlines()
    assert f"accuracy {100 * row['accuracy']:.2f} %  spread {row['spread']:.4f}" in line and "validation loss" in line
    assert bits(model) == bits(plain)


@pytest.mark.parametrize("metrics,error,pattern", [
    (["f1"], ValueError, "no metric 'f1'; there are accuracy"),
    ([3], TypeError, "must be a name or a function"),
    (["mse", "mse"], ValueError, "two metrics are called 'mse'"),
    ({"loss": "mae"}, ValueError, "two metrics are called 'loss'"),
    ([lambda p, t: p], wf.errors.ShapeError, r"gave shape \(20, 2\), but must give one number"),
    (["binary_accuracy"], wf.errors.ShapeError, r"predictions \(20, 2\) and targets \(20,\) do not fit"),
])
def test_metrics_that_make_no_sense(metrics, error, pattern) -> None:
    x, y = data(40)
    with pytest.raises(error, match=pattern):
        wf.train.fit(net(), x, y, epochs=1, batch_size=20, metrics=metrics, show=False)
