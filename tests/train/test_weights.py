"""Weights of samples and classes against losses written out in NumPy, in float64."""

from __future__ import annotations

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
