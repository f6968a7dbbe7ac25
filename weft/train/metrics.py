"""Metrics: functions of (predictions, targets) that return one number, computed inside the step or on validation data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from weft.array import Array
from weft.errors import DTypeError, ShapeError
from weft.functions.elementwise.ufuncs import absolute

Metric = Callable[[Array, Array], Any]


def accuracy(predictions: Array, targets: Array) -> Array:
    """Return the share of rows whose largest score is at the label (or at the largest entry of a one-hot row).

    Parameters
    ----------
    predictions : (N, C), C at least 2
    targets : (N,) integer labels, or (N, C)

    Examples
    --------
    >>> import weft as wf
    >>> from weft.train.metrics import accuracy
    >>> float(accuracy(wf.array([[1.0, 2.0], [3.0, 0.0]]), wf.array([1, 1])))
    0.5
    """
    labels = _labels("accuracy", predictions, targets)
    right: Any = predictions.argmax(axis=1) == labels
    return right.astype("float64").mean()


def top_5_accuracy(predictions: Array, targets: Array) -> Array:
    """Return the share of rows in which fewer than 5 scores are above that of the label.

    Parameters
    ----------
    predictions : (N, C), C at least 2
    targets : (N,) integer labels, or (N, C)
    """
    labels = _labels("top_5_accuracy", predictions, targets)
    from weft.functions.indexing.take_scatter import take_along_axis

    own = take_along_axis(predictions, labels.reshape((-1, 1)), axis=1)
    return ((predictions > own).sum(axis=1) < 5).astype("float64").mean()


def binary_accuracy(predictions: Array, targets: Array) -> Array:
    """Return the share of logits with the right sign: positive for targets above 0.5.

    Parameters
    ----------
    predictions, targets : of one shape, or differing by extents of 1
    """
    right: Any = (predictions > 0) == (_like("binary_accuracy", predictions, targets) > 0.5)
    return right.astype("float64").mean()


def mse(predictions: Array, targets: Array) -> Array:
    """Return the mean of squared differences."""
    difference = predictions - _like("mse", predictions, targets)
    return (difference * difference).mean()


def mae(predictions: Array, targets: Array) -> Array:
    """Return the mean of absolute differences."""
    return absolute(predictions - _like("mae", predictions, targets)).mean()


METRICS: dict[str, Metric] = {f.__name__: f for f in (accuracy, top_5_accuracy, binary_accuracy, mse, mae)}


def named(metrics: Any) -> dict[str, Metric]:
    """Return the metrics by name. ``metrics``: names, functions, or a dict of names and functions

    Examples
    --------
    >>> from weft.train.metrics import named
    >>> list(named(["accuracy", max]))
    ['accuracy', 'max']
    """
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
                raise ValueError(f"fit: no metric {metric!r}; there are {', '.join(METRICS)}, and functions of your own")
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


def _labels(name: str, predictions: Array, targets: Array) -> Array:
    if predictions.ndim != 2 or predictions.shape[1] < 2:
        hint = "; binary_accuracy is for one logit" if predictions.ndim < 3 else ""
        raise ShapeError(f"{name}: predictions must be (N, C) scores of at least 2 classes, not {predictions.shape}{hint}")
    if targets.shape == predictions.shape:
        return targets.argmax(axis=1)
    if targets.shape != predictions.shape[:1]:
        raise ShapeError(f"{name}: predictions {predictions.shape} and targets {targets.shape} do not fit")
    if targets.dtype.kind not in "iu":
        raise DTypeError(f"{name}: labels must be integers, not {targets.dtype}")
    return targets


def _like(name: str, predictions: Array, targets: Array) -> Array:
    if targets.shape == predictions.shape:
        return targets
    if [n for n in targets.shape if n != 1] == [n for n in predictions.shape if n != 1]:
        return targets.reshape(predictions.shape)
    raise ShapeError(f"{name}: predictions {predictions.shape} and targets {targets.shape} do not fit")
