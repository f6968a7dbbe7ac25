"""Metrics: functions of (predictions, targets) that return one number, computed inside the step or on validation data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from weft.array import Array
from weft.data.members import list_members, map_members
from weft.dtypes.api import is_integer
from weft.errors import DTypeError, ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.elementwise.ufuncs import absolute
from weft.functions.indexing.where import where
from weft.functions.random.state import get_state, set_state, state_after_parts, state_of_part
from weft.functions.shape.axes import expand_dims
from weft.nn.module import Module
from weft.nn.precision import Precision, precision
from weft.process.name_errors import suggest
from weft.train.batches import Arrays, Feed, split_weights
from weft.train.inputs import call_model
from weft.train.ranks import Ranks
from weft.transforms.jit import jit

Metric = Callable[[Array, Array], Any]


def accuracy(predictions: Array, targets: Array, ignore_index: int | None = None) -> Array:
    """Return the share of labels that have the largest score. The label of a one-hot row is its largest entry.

    Parameters
    ----------
    predictions : (N, C) or (N, C, ...), C at least 2
    targets : (N,) or (N, ...) integer labels, or of the shape of ``predictions``
    ignore_index : int, optional; labels that are not counted. If there are no others, the result is NaN

    Examples
    --------
    >>> import weft as wf
    >>> from weft.train.metrics import accuracy
    >>> float(accuracy(wf.array([[1.0, 2.0], [3.0, 0.0]]), wf.array([1, 1])))
    0.5
    """
    labels = _labels("accuracy", predictions, targets)
    return _mean_of_counted(predictions.argmax(axis=1) == labels, labels, ignore_index)


def top_5_accuracy(predictions: Array, targets: Array, ignore_index: int | None = None) -> Array:
    """Return the share of labels whose score has fewer than 5 scores above it.

    Parameters
    ----------
    predictions : (N, C) or (N, C, ...), C at least 2
    targets : (N,) or (N, ...) integer labels, or of the shape of ``predictions``
    ignore_index : int, optional; labels that are not counted
    """
    labels = _labels("top_5_accuracy", predictions, targets)
    from weft.functions.indexing.take_scatter import take_along_axis

    classes = labels if ignore_index is None else where(labels == ignore_index, 0, labels)
    own = take_along_axis(predictions, expand_dims(classes, 1), axis=1)
    return _mean_of_counted((predictions > own).sum(axis=1) < 5, labels, ignore_index)


def binary_accuracy(predictions: Array, targets: Array) -> Array:
    """Return the share of logits with the right sign: positive for targets above 0.5.

    Parameters
    ----------
    predictions, targets : of one shape, or differing by extents of 1
    """
    right: Any = (predictions > 0) == (_match_shape("binary_accuracy", predictions, targets) > 0.5)
    return right.astype("float64").mean()


def mse(predictions: Array, targets: Array) -> Array:
    """Return the mean of squared differences."""
    difference = predictions - _match_shape("mse", predictions, targets)
    return (difference * difference).mean()


def mae(predictions: Array, targets: Array) -> Array:
    """Return the mean of absolute differences."""
    return absolute(predictions - _match_shape("mae", predictions, targets)).mean()


METRICS: dict[str, Metric] = {f.__name__: f for f in (accuracy, top_5_accuracy, binary_accuracy, mse, mae)}


def name_metrics(metrics: Any) -> dict[str, Metric]:
    """Return the metrics by name. ``metrics``: names, functions, or a dict of names and functions"""
    if isinstance(metrics, str) or callable(metrics):
        metrics = [metrics]
    if isinstance(metrics, Mapping):
        pairs: Iterable[tuple[Any, Any]] = metrics.items()
    elif isinstance(metrics, Iterable):
        pairs = [(None, m) for m in metrics]
    else:
        raise TypeError(f"fit: metrics must be a list of names and functions, or a dict, not {metrics!r}")
    result: dict[str, Metric] = {}
    for name, metric in pairs:
        if isinstance(metric, str):
            if metric not in METRICS:
                close = next((n for n in METRICS if n.startswith(metric.lower())), "") or suggest(metric, METRICS)
                advice = f". Did you mean {close!r}?" if close else f"; there are {', '.join(METRICS)}, and functions of your own"
                raise ValueError(f"fit: no metric {metric!r}{advice}")
            name, metric = name or metric, METRICS[metric]
        if not callable(metric):
            raise TypeError(f"fit: a metric must be a name or a function of (predictions, targets), not {metric!r}")
        name = name or getattr(metric, "__name__", type(metric).__name__)
        if name in result or name == "loss":
            raise ValueError(f"fit: two metrics are called {name!r}; give a dict of names and functions")
        result[str(name)] = metric
    return result


def check_metric(name: str, value: Any) -> Any:
    """Return the result of a metric as a float or a float Array of one number; raise if it is anything else."""
    if isinstance(value, Array):
        if value.size != 1:
            raise ShapeError(f"fit: metric {name!r} gave shape {value.shape}, but must give one number: take .mean()")
        return value if value.dtype.kind == "f" else value.astype("float32")
    if not isinstance(value, int | float):
        raise TypeError(f"fit: metric {name!r} gave {type(value).__name__}, but must give one number")
    return float(value)


def ignore_label(metric: Metric, label: int | None) -> Metric:
    """Return the metric; an accuracy does not count ``label``."""
    return metric if label is None or metric not in (accuracy, top_5_accuracy) else partial(metric, ignore_index=label)


def _mean_of_counted(right: Any, labels: Array, ignore_index: int | None) -> Array:
    """Return the share of True. Rows whose label is ``ignore_index`` are not counted."""
    if ignore_index is None:
        return right.astype("float64").mean()
    counted: Any = labels != ignore_index
    return (right & counted).astype("float64").sum() / counted.astype("float64").sum()


def _labels(name: str, predictions: Array, targets: Array) -> Array:
    if predictions.ndim < 2 or predictions.shape[1] < 2:
        hint = "(N, C) or (N, C, ...) scores of at least 2 classes"
        raise ShapeError(f"{name}: predictions must be {hint}, not {predictions.shape}; binary_accuracy is for one logit")
    if targets.shape == predictions.shape:
        return targets.argmax(axis=1)
    labels = (*predictions.shape[:1], *predictions.shape[2:])
    if targets.shape != labels:
        raise ShapeError(
            f"{name}: predictions {predictions.shape} and targets {targets.shape} do not fit: targets must be {labels} labels or "
            f"{predictions.shape} one-hot rows"
        )
    if not is_integer(targets.dtype):
        raise DTypeError(f"{name}: labels must be integers, not {targets.dtype}")
    return targets


def _match_shape(name: str, predictions: Array, targets: Array) -> Array:
    if targets.shape == predictions.shape:
        return targets
    if [n for n in targets.shape if n != 1] == [n for n in predictions.shape if n != 1]:
        return targets.reshape(predictions.shape)
    raise ShapeError(f"{name}: predictions {predictions.shape} and targets {targets.shape} do not fit")


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


def to_numpy(a: Any) -> Any:
    return a.numpy() if isinstance(a, Array) else a


def join_rows(parts: list[Any], then: Callable[[np.ndarray], Any]) -> Any:
    """Return ``then`` of the concatenated rows of arrays, or of each member of trees of arrays."""
    columns = [np.concatenate(members) for members in zip(*map(list_members, parts), strict=True)]
    following = iter([then(column) for column in columns])
    return map_members(lambda _: next(following), parts[0])


class Validation:
    """Function without arguments, called after each epoch, that returns (loss, metrics by name).

    For arrays both are computed from all predictions together; for batches they are means over the batches, weighted by rows.
    Several ranks divide the calls of the model among them. With shards each call has a random state of its own.
    """

    def __init__(
        self, model: Module, loss: Callable, metrics: Mapping[str, Metric], feed: Feed, formats: Precision | None, ranks: Ranks,
    ) -> None:
        self.model, self.loss, self.metrics, self.feed, self.formats, self.ranks = model, loss, metrics, feed, formats, ranks
        self._state: tuple[int, int] | None = None  # the random state at the start, if there are shards
        self._forward = jit(lambda x: call_model(model, x))
        self._figures = jit(self._of_a_batch)

    def __call__(self) -> tuple[float, dict[str, float]]:
        self._state = get_state() if self.ranks.shards > 1 else None
        with evaluation_mode(self.model), nullcontext() if self.formats is None else precision(self.formats):
            out = self._evaluate_at_once(self.feed) if isinstance(self.feed, Arrays) else self._by_batches(self.feed)
        if self._state is not None:
            set_state(state_after_parts(self._state))
        return out

    def _begin_call(self, number: int) -> None:
        """Set the random state of a call of the model, if it is not to depend on the rank."""
        if self._state is not None:
            set_state(state_of_part(self._state, number))

    def _evaluate_at_once(self, feed: Arrays) -> tuple[float, dict[str, float]]:
        read_x, read_y = feed.readers
        keys = list(feed.epoch(1, 0, None))
        y = join_rows([map_members(to_numpy, read_y(key)) for key in keys], asarray)
        rank, size = self.ranks.rank, self.ranks.size if len(keys) >= self.ranks.size else 1
        ranges = [range(r * len(keys) // size, (r + 1) * len(keys) // size) for r in range(size)]
        outputs = []
        for k in ranges[rank if size > 1 else 0]:
            self._begin_call(k)
            outputs.append(map_members(to_numpy, self._forward(read_x(keys[k]))))
        rows = [sum(len(keys[k]) for k in part) for part in ranges]
        out = join_rows(outputs, asarray if size == 1 else lambda own: asarray(self._gather(own, rows)))
        self._begin_call(len(keys))
        value = float(self.loss(out, y))
        metrics = self._choose_metrics(out, y)
        return value, {name: float(check_metric(name, metric(out, y))) for name, metric in metrics.items()}

    def _choose_metrics(self, out: Any, y: Any) -> Mapping[str, Metric]:
        """Return the metrics, the accuracy if there are none and the targets are labels of scores."""
        targets = split_weights(y)[0]
        if self.metrics or not isinstance(out, Array) or not isinstance(targets, Array):
            return self.metrics
        are_labels = targets.ndim == 1 and is_integer(targets.dtype) and out.ndim == 2 and out.shape[1] > 1
        metric = ignore_label(accuracy, getattr(self.loss, "ignored", None))
        return {"accuracy": lambda out, y: metric(out, split_weights(y)[0])} if are_labels else {}

    def _gather(self, own: np.ndarray, rows: list[int]) -> np.ndarray:
        """Return the predictions of all ranks. rows : those of each rank"""
        padded = np.zeros((max(rows), *own.shape[1:]), own.dtype)
        padded[: len(own)] = own
        gathered = self.ranks.gather(padded, f"predictions {own.shape[1:]} of {sum(rows)} validation rows of fit")
        return np.concatenate([part[:count] for part, count in zip(gathered, rows, strict=True)])

    def _by_batches(self, feed: Feed) -> tuple[float, dict[str, float]]:
        rank, size = self.ranks.rank, self.ranks.size
        names = ("loss", *(self.metrics or ("accuracy",)))
        rows, figures = [], []
        for k, key in enumerate(feed.epoch(1, 0, None)):
            rows.append(feed.count(key))
            is_own = k % size == rank
            self._begin_call(k)
            figures.append([*map(float, self._figures(*feed.batch(key)))] if is_own else [0.0] * len(names))
        if size > 1:
            table = self.ranks.gather(np.array(figures), f"the figures of {len(rows)} validation batches of fit")
            figures = [table[k % size, k].tolist() for k in range(len(rows))]
        sums = [0.0] * len(names)
        for count, values in zip(rows, figures, strict=True):
            for k, value in enumerate(values):
                sums[k] += value * count
        means = {name: s / sum(rows) for name, s in zip(names, sums, strict=True)}
        if not self.metrics and math.isnan(means["accuracy"]):
            del means["accuracy"]
        return means.pop("loss"), means

    def _of_a_batch(self, x: Any, y: Any) -> tuple[Any, ...]:
        """Return the loss and the metrics of a batch; without metrics its accuracy, NaN if it has none."""
        out = call_model(self.model, x)
        figures = [check_metric(name, metric(out, y)) for name, metric in self._choose_metrics(out, y).items()]
        return (self.loss(out, y), *(figures or [math.nan] * (not self.metrics)))
