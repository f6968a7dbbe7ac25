"""Weights of samples and classes against losses written out in NumPy, in float64."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from sklearn.utils.class_weight import compute_class_weight

import weft as wf


def entropies(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    wide = scores.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    return np.log(np.exp(wide).sum(axis=1)) - wide[np.arange(len(labels)), labels]


@pytest.mark.parametrize("_", range(6))
def test_weighted_losses(_: int, rng: np.random.Generator) -> None:
    rows, classes = int(rng.integers(8, 60)), int(rng.integers(2, 5))
    x = rng.normal(size=(rows, 3)).astype("float32")
    labels = np.append(np.arange(classes), rng.integers(0, classes, rows - classes)).astype("int32")
    net = wf.nn.Linear(3, classes)
    per_row = entropies(wf.train.predict(net, x), labels)
    samples = rng.uniform(0, 3, rows) if rng.random() < 0.7 else None
    table = rng.uniform(0, 2, classes)
    kind = ["none", "array", "dict", "balanced"][rng.integers(4)]
    given = {"none": None, "array": table, "dict": {0: table[0]}, "balanced": "balanced"}[kind]
    expected = {
        "none": np.ones(classes), "array": table, "dict": np.append(table[:1], np.ones(classes - 1)),
        "balanced": compute_class_weight("balanced", classes=np.arange(classes), y=labels),
    }[kind]
    weights = expected[labels] * (1.0 if samples is None else samples)
    y = labels if rng.random() < 0.5 else np.eye(classes, dtype="float32")[labels]
    options = dict(sample_weights=samples, class_weights=given, accumulate=int(rng.integers(1, 3)))
    options |= dict(shards=int(rng.integers(1, 3)), batch_size=int(rng.integers(3, rows + 1)))
    options |= dict(epochs=1, optimizer=wf.optim.SGD(0.0), show=False)
    history = wf.train.fit(net, x, y, validation=(x, y) if samples is None else (x, y, samples), **options)
    assert np.isclose(history.loss[0], (weights * per_row).mean(), rtol=1e-4)
    unclassed = per_row.mean() if samples is None else (samples * per_row).mean()
    assert np.isclose(history["val_loss"][0], unclassed, rtol=1e-4)
    found = wf.train.evaluate(net, x, y, sample_weights=samples)
    assert np.isclose(found["loss"], unclassed, rtol=1e-4)


def test_weights_of_several_numbers_a_row(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(20, 3)).astype("float32"), rng.integers(0, 2, (20, 4)).astype("float32")
    net, options = wf.nn.Linear(3, 4), dict(epochs=1, optimizer=wf.optim.SGD(0.0), show=False)
    loss = wf.losses.binary_cross_entropy_with_logits
    out = wf.train.predict(net, x).astype(np.float64)
    rows = np.logaddexp(0, out) - out * y
    for weights, wide in ((w := rng.uniform(size=20), w[:, None]), (w := rng.uniform(size=(20, 4)), w)):
        history = wf.train.fit(net, x, y, loss=loss, sample_weights=weights, **options)
        assert np.isclose(history.loss[0], (rows * wide).mean(), rtol=1e-4)
    history = wf.train.fit(net, x, y, loss=loss, class_weights={1: 5.0}, **options)
    assert np.isclose(history.loss[0], (rows * np.where(y == 1, 5, 1)).mean(), rtol=1e-4)


def test_the_loss_of_an_output_has_the_weights_of_classes(rng: np.random.Generator) -> None:
    class Two(wf.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.kind, self.size = wf.nn.Linear(3, 4), wf.nn.Linear(3, 1)

        def forward(self, x):
            return {"kind": self.kind(x), "size": self.size(x)}

    x, labels, net = rng.normal(size=(20, 3)).astype("float32"), rng.integers(0, 4, 20), Two()
    table, samples, factor = rng.uniform(size=4), rng.uniform(size=20), float(rng.uniform())
    y, rows = {"kind": labels, "size": x[:, :1]}, entropies(wf.train.predict(net, x)["kind"], labels)
    history = wf.train.fit(
        net, x, y, loss={"kind": "cross_entropy", "size": "mse"}, class_weights={"kind": table}, sample_weights=samples, epochs=1,
        loss_weights={"size": factor}, optimizer=wf.optim.SGD(0.0), validation=(x, y), batch_size=7, show=False,
    )
    figures = history.epochs[0].values()
    assert np.isclose(figures["kind_loss"], (table[labels] * samples * rows).mean(), rtol=1e-4)
    assert np.isclose(figures["loss"], figures["kind_loss"] + factor * figures["size_loss"], rtol=1e-4)
    assert np.isclose(figures["val_kind_loss"], rows.mean(), rtol=1e-4)


@pytest.mark.parametrize("weights", [[1] * 5, {4: 2.0}])
def test_weights_of_more_classes_than_there_are_raise(weights, rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(6, 3)).astype("float32"), np.arange(6) % 3
    with pytest.raises(wf.errors.ShapeError, match="class_weights has 5 weights, but the output of cross_entropy has 4 classes"):
        wf.train.fit(wf.nn.Linear(3, 4), x, y, class_weights=weights, epochs=1, show=False)
    one_hot = np.eye(4, dtype="float32")[y]
    for given in (weights, "balanced"):
        with pytest.raises(wf.errors.ShapeError, match="takes each column of y .* as labels of 0 and 1: give two"):
            wf.train.fit(wf.nn.Linear(3, 4), x, one_hot, class_weights=given, loss="mse", epochs=1, show=False)


@pytest.mark.parametrize("_", range(6))
def test_ignored_labels_have_no_weight(_: int, rng: np.random.Generator) -> None:
    """The loss is that of PyTorch: the sum over the labels that count, divided by the sum of their classes' weights."""
    rows, classes, ignored = int(rng.integers(6, 40)), int(rng.integers(2, 5)), int(rng.integers(-100, 0))
    shape = (rows,) if rng.random() < 0.5 else (rows, 5)
    labels = rng.integers(0, classes, shape).astype(str(rng.choice(["int32", "int64"])))
    labels[rng.random(shape) < 0.3] = ignored
    labels[-1] = ignored
    labels[:2] = np.arange(2).reshape((2,) + (1,) * (len(shape) - 1))
    net: wf.nn.Module = wf.nn.Linear(3, classes)
    if len(shape) == 2:
        net = wf.nn.Sequential(net, wf.nn.Lambda(lambda x: x.swapaxes(1, 2)))
    x = rng.normal(size=(*shape, 3)).astype("float32")
    loss = functools.partial(wf.losses.cross_entropy, ignore_index=ignored)
    scores = np.moveaxis(wf.train.predict(net, x), 1, -1).reshape(-1, classes)
    flat = labels.reshape(-1)
    counts = flat != ignored
    each = np.where(counts, entropies(scores, np.where(counts, flat, 0)), 0)
    table, samples = rng.uniform(0.1, 2, classes), rng.uniform(0.1, 3, rows)
    present = np.unique(flat[counts])
    balanced = np.zeros(classes)
    balanced[present] = compute_class_weight("balanced", classes=present, y=flat[counts])
    for given, expected in ((None, np.ones(classes)), (table, table), ({0: table[0]}, np.append(table[:1], np.ones(classes - 1))),
                            ("balanced", balanced)):
        weights = np.where(counts, expected[np.where(counts, flat, 0)], 0)
        for per_sample in (None, samples):
            factor = 1.0 if per_sample is None else np.repeat(samples, flat.size // rows)
            options = dict(epochs=1, batch_size=rows, optimizer=wf.optim.SGD(0.0), show=False)
            history = wf.train.fit(net, x, labels, loss=loss, class_weights=given, sample_weights=per_sample, **options)
            assert np.isclose(history.loss[0], (weights * factor * each).sum() / weights.sum(), rtol=1e-4)
    with pytest.raises(wf.errors.DTypeError, match="class_weights need labels from 0 in y"):
        wf.train.fit(net, x, np.where(counts.reshape(shape), labels, ignored - 1), loss=loss, class_weights=table, show=False)
    with pytest.raises(ValueError, match="the loss ignores all of them"):
        wf.train.fit(net, x, np.full_like(labels, ignored), loss=loss, class_weights="balanced", show=False)


@pytest.mark.parametrize("_", range(4))
def test_accuracies_without_ignored_labels(_: int, rng: np.random.Generator) -> None:
    classes, size = int(rng.integers(6, 9)), int(rng.integers(1, 4))
    x = rng.normal(size=(30, 2, size, 3)).astype("float32")
    labels = rng.integers(0, classes, (30, size, 3)).astype("int32")
    labels[rng.random(labels.shape) < 0.4] = mark = int(rng.choice([255, -1, 0]))
    labels[0, 0, 0] = 1
    net = wf.nn.Conv2d(2, classes, 1)
    scores, counted = np.moveaxis(wf.train.predict(net, x), 1, -1)[labels != mark], labels[labels != mark]
    above = (scores > scores[np.arange(len(counted)), counted][:, None]).sum(1)
    loss = functools.partial(wf.losses.cross_entropy, ignore_index=mark)
    found = wf.train.evaluate(net, x, labels, loss=loss, metrics=["accuracy", "top_5_accuracy"])
    assert np.isclose(found["accuracy"], (above == 0).mean()) and np.isclose(found["top_5_accuracy"], (above < 5).mean())
    options = dict(epochs=1, batch_size=30, optimizer=wf.optim.SGD(0.0), show=False)
    history = wf.train.fit(net, x, labels, loss=loss, metrics=["accuracy"], **options)
    assert np.isclose(history["accuracy"][0], (above == 0).mean())
    flat = labels[:, 0, 0]
    first = wf.train.predict(net, x)[:, :, 0, 0].argmax(1)
    net = wf.nn.Sequential(net, wf.nn.Lambda(lambda a: a[:, :, 0, 0]))
    assert np.isclose(wf.train.evaluate(net, x, flat, loss=loss)["accuracy"], (first == flat)[flat != mark].mean())


def test_batches_of_ignored_labels_are_named(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(8, 3)).astype("float32"), np.full(8, -1)
    loss = functools.partial(wf.losses.cross_entropy, ignore_index=-1)
    with pytest.warns(RuntimeWarning, match="each label in y is -1, which the loss ignores, so its mean is 0 / 0"):
        wf.train.fit(wf.nn.Linear(3, 2), x, y, loss=loss, epochs=1, show=False)
