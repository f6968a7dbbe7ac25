"""Prepare a model for training on data: create parameters of unknown sizes; check inputs, targets, labels and single rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from weft.array import Array
from weft.data.loader import Loader
from weft.data.members import map_members
from weft.dtypes.api import is_integer
from weft.errors import LabelError, ShapeError
from weft.functions.shape.axes import concat
from weft.losses import cross_entropy
from weft.losses.arguments import describe_bad_label
from weft.nn.module import Module
from weft.nn.size_arguments import has_unknown_widths
from weft.train.batches import Arrays, Feed, Stream, split_weights
from weft.train.doubts import check_order, run_in_evaluation, take_samples
from weft.train.inputs import check_inputs, split_inputs
from weft.train.loader_shards import DividedLoader
from weft.train.metrics import evaluation_mode
from weft.train.objective import Objective, find_member
from weft.train.shards import trace_sums
from weft.train.step import describe_result
from weft.transforms.tracing import trace
from weft.transforms.tree import flatten, unflatten


def prepare_model(
    model: Module, feed: Feed, validation_feed: Feed | None, objective: Objective, function: str = "fit",
) -> None:
    """Create parameters whose sizes depend on a batch, and check inputs, targets and labels, before training."""
    check_order(model, feed, function)
    for part in (feed, validation_feed):
        if isinstance(part, Stream):
            part.check = _make_batch_check(model, objective, part.name)
        elif part is not None:
            check_inputs(model, part.x, function)
            objective.check_targets(part.y)
            if objective.describe_class_weights() is not None:
                part.check_targets(objective.check_classes)
    if not isinstance(feed, Arrays):
        if has_unknown_widths(model):
            run_in_evaluation(model, _peek(feed))
        return
    targets = [(path, find_member(split_weights(feed.y)[0], path)) for path in objective.paths_of(cross_entropy)]
    targets = [(path, y) for path, y in targets if y.ndim == 1 or y.ndim > 1 and is_integer(y.dtype)]
    if targets:
        out = run_in_evaluation(model, take_samples(feed))
        objective.check_outputs(out)
        for path, y in targets:
            scores = find_member(out, path)
            if y.ndim == 1 or isinstance(scores, Array) and scores.ndim == y.ndim + 1:  # the first step raises for others
                classes = _width(scores, function) if y.ndim == 1 else scores.shape[1]
                for name, part in ((function, feed), (f"{function}: validation", validation_feed)):
                    if isinstance(part, Arrays):
                        part.check_targets(partial(_check_labels, name, path, classes))
    elif has_unknown_widths(model):
        run_in_evaluation(model, take_samples(feed))


def _check_labels(name: str, path: tuple[Any, ...], classes: int, y: Any) -> None:
    """Raise LabelError if a label in the target at ``path`` of ``y`` is no class. ``name`` begins the message"""
    labels = find_member(split_weights(y)[0], path)
    labels = labels.numpy() if isinstance(labels, Array) else labels
    if problem := describe_bad_label(labels, classes, can_ignore=True):
        raise LabelError(f"{name}: y{''.join(f'[{key!r}]' for key in path)}: {problem}")


def try_single_row(model: Module, feed: Feed, shards: int) -> None:
    """Raise an error if a last batch or a shard has one row and the model cannot be trained on it, as batch norm cannot.

    The model is traced, not run: its statistics and the random state stay as they are.
    """
    last = _last_batch_size(feed)
    source = feed.source if isinstance(feed, Stream) else feed
    batches = (getattr(source, "batch_size", None), last) if shards > 1 else (last,)
    suspects = [n for n in batches if n is not None and (n == 1 or shards > 1 and n < 2 * shards)]
    if not suspects:
        return
    sample = take_samples(feed) if isinstance(feed, Arrays) else _peek(feed)
    for rows in suspects:
        _try_row(model, map_members(lambda a: a[:1], sample), rows, shards, feed.samples)


def _try_row(model: Module, row: Any, rows: int, shards: int, samples: int | None) -> None:
    """Raise the error of :func:`_try_single_row` for a batch of ``rows`` rows."""
    with evaluation_mode(model), trace_sums(shards > 1 and rows > 1):
        model.train()
        try:
            leaves, structure = flatten(split_inputs(row))
            trace(model, leaves, lambda leaves: unflatten(structure, leaves))
        except ShapeError as error:
            if shards > 1:
                raise ShapeError(
                    f"fit: a batch of {rows} row{'s' * (rows > 1)} in {shards} shards has shards of 1 row, on which the "
                    f"model cannot be trained: {error}. Give another batch_size or fewer shards, or a wf.data.Loader "
                    "with drop_last=True"
                ) from error
            raise ShapeError(
                f"fit: the last batch of an epoch has 1 row ({samples} samples), on which the model cannot be trained: "
                f"{error}. Give another batch_size, or wf.data.Loader((x, y), batch_size, drop_last=True) in place of x and y"
            ) from error
        except Exception:
            pass  # the first step raises it


def _last_batch_size(feed: Feed) -> int | None:
    """Return how many rows the last batch of an epoch has, or None if that is not known."""
    source = feed.source if isinstance(feed, Stream) else feed
    if not isinstance(source, Arrays | Loader):
        return None
    ends_earlier = isinstance(feed, Stream) and feed.limit is not None and feed.limit < len(feed.source)
    if ends_earlier or getattr(source, "drop_last", False):
        return source.batch_size
    return (source.samples - 1) % source.batch_size + 1


def _make_batch_check(model: Module, objective: Objective, function: str) -> Callable[[Any, Any], None]:
    """Return a function that checks each batch's labels. It runs the first batch, to count the classes."""
    paths = objective.paths_of(cross_entropy)
    result: Any = None
    is_first = True

    def check(x: Any, y: Any) -> None:
        nonlocal is_first, result
        if is_first:
            check_inputs(model, x, function)
            objective.check_targets(y)
            is_first = False
        objective.check_classes(y)
        for path in paths:
            labels = find_member(split_weights(y)[0], path)
            if labels.ndim == 1 and is_integer(labels.dtype):
                if result is None:
                    result = run_in_evaluation(model, map_members(lambda a: a[:2] if len(a) > 1 else concat([a, a]), x))
                    objective.check_outputs(result)
                _check_labels(function, path, _width(find_member(result, path), function), y)

    return check


def _width(out: Array, function: str = "fit") -> int:
    if not isinstance(out, Array):
        needed = "cross_entropy needs an array of shape (N, classes)"
        raise TypeError(f"{function}: the model returns {describe_result(out)}; {needed}")
    if out.ndim != 2:
        raise ShapeError(f"{function}: cross_entropy needs outputs of shape (N, classes), the model gives {out.shape}")
    return out.shape[1]


def _peek(feed: Any) -> Any:
    """Return the first two samples of the first batch: batch norm without running statistics takes no single one."""
    if getattr(feed, "generator", None) is not None:
        raise ValueError(
            "fit: sizes of the model's layers depend on the first batch, and reading it would use it up: call the model on a "
            "batch first, or give a function that makes the generator"
        )
    for key in [feed.first_key()] if isinstance(feed, DividedLoader) else feed.epoch(1, 0, None):
        return feed.batch(feed.part(key, 0, 2))[0]
    raise ShapeError("fit: the data give no batch")
