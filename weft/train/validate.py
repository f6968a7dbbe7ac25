"""Validation: loss and metrics on validation data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from weft.array import Array
from weft.functions.creation.fill import asarray
from weft.nn.module import Module
from weft.train.batches import Arrays, Feed
from weft.train.metrics import Metric, check_metric
from weft.transforms.jit import jit

ROWS = 1000  # rows of arrays in one call of the model


@contextmanager
def evaluation_mode(model: Module) -> Iterator[None]:
    """Context manager: evaluation mode. Stateful layers start without state; their state is restored at the end."""
    mode = model.training
    layers = [m for _, m in model.modules() if hasattr(m, "reset_state")]
    saved = [(m, name, value) for m in layers for name, value in vars(m).items() if name in m.buffers and value is not None]
    for m in layers:
        m.reset_state()
    model.eval()
    try:
        yield
    finally:
        for m in layers:
            m.reset_state()
        for m, name, value in saved:
            setattr(m, name, value)
        model.train(mode)


class Validation:
    """Function without arguments, called after each epoch, that returns (loss, metrics by name).

    For arrays both are computed from all predictions together; for batches they are means over the batches, weighted by rows.
    """

    def __init__(self, model: Module, loss: Callable, metrics: Mapping[str, Metric], feed: Feed) -> None:
        self.model, self.loss, self.metrics, self.feed = model, loss, metrics, feed
        self._forward = jit(lambda x: model(x))
        self._figures = jit(self._of_a_batch)

    def __call__(self) -> tuple[float, dict[str, float]]:
        with evaluation_mode(self.model):
            return self._whole(self.feed) if isinstance(self.feed, Arrays) else self._by_batches(self.feed)

    def _whole(self, feed: Arrays) -> tuple[float, dict[str, float]]:
        outputs, targets = [], []
        for key in feed.epoch(1, 0, None):
            x, y = feed.batch(key)
            outputs.append(self._forward(x).numpy())
            targets.append(y.numpy())
        out, y = asarray(np.concatenate(outputs)), asarray(np.concatenate(targets))
        value = float(self.loss(out, y))
        metrics = self.metrics
        if not metrics and y.ndim == 1 and y.dtype.kind in "iu" and out.ndim == 2 and out.shape[1] > 1:
            return value, {"accuracy": float((out.numpy().argmax(1) == y.numpy()).mean())}
        return value, {name: float(check_metric(name, metric(out, y))) for name, metric in metrics.items()}

    def _by_batches(self, feed: Feed) -> tuple[float, dict[str, float]]:
        sums, rows = [0.0] * (1 + len(self.metrics)), 0
        for key in feed.epoch(1, 0, None):
            x, y = feed.batch(key)
            for k, value in enumerate(self._figures(x, y)):
                sums[k] += float(value) * feed.count(key)
            rows += feed.count(key)
        means = [s / rows for s in sums]
        return means[0], dict(zip(self.metrics, means[1:], strict=True))

    def _of_a_batch(self, x: Array, y: Array) -> tuple[Any, ...]:
        out = self.model(x)
        return (self.loss(out, y), *(check_metric(name, metric(out, y)) for name, metric in self.metrics.items()))
