"""Objective: the losses of a run, one for each output, with their weights and those of samples and classes.

The rows of a loss are weighted and then averaged over all rows, as in Keras: sum(w * loss) / rows. So the loss of a batch is the
mean of the losses of its parts by rows, as accumulation and shards need, whatever the weights in each. A loss with an
``ignore_index`` divides by the class weights of the labels that count, as in PyTorch: without weights it divides by their number.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from weft import losses
from weft.array import Array
from weft.data.members import describe_tree, list_members
from weft.dtypes.api import is_integer
from weft.errors import DTypeError, ShapeError, short
from weft.functions.creation.fill import asarray
from weft.functions.elementwise.ufuncs import minimum
from weft.functions.indexing.where import where
from weft.process.foreign_names import MODULES
from weft.process.name_errors import suggest
from weft.train.batches import split_weights
from weft.train.metrics import Metric, ignore_label, name_metrics
from weft.train.step import describe_result, is_own_function

Loss = Callable[..., Any]
LOSSES = tuple(name for name in losses.__all__ if name != "check_labels")


@dataclass(frozen=True, slots=True)
class Term:
    """One loss.

    Attributes
    ----------
    name : of its output, such as "size" or "output_0"; "" if it is the only loss and gets the whole result
    path : the keys and numbers that lead to the output in the model's result, and to the target in y
    loss : function of (predictions, targets)
    weight : its factor in the sum of losses
    classes : weight of each class, and that of further ones at the end; None if all are 1
    limit : number of classes if there are no further ones, else None
    """

    name: str
    path: tuple[Any, ...]
    loss: Loss
    weight: float = 1.0
    classes: np.ndarray | None = None
    limit: int | None = None

    def __call__(self, out: Any, y: Any) -> Any:
        """Return the loss of the output and the target of this term, without its factor."""
        targets, weights = split_weights(y)
        out, target = find_member(out, self.path), find_member(targets, self.path)
        if isinstance(weights, tuple | dict):
            weights = find_member(weights, self.path)
        if is_own_function(self.loss) and not isinstance(out, Array):
            one = "the loss needs one array" if not self.name else f"the loss of {self.name!r} needs one array"
            more = f": give a {type(out).__name__} of losses" if isinstance(out, tuple | dict) else ""
            own = "" if out is None else f"{more}{', or' if more else ': give'} a function of your own, loss=lambda out, y: ..."
            raise TypeError(f"fit: the model returns {describe_result(out)}; {one}{own}")
        if weights is None and self.classes is None:
            return self.loss(out, target)
        return self._weight_rows(out, target, weights)

    def _weight_rows(self, out: Any, target: Any, weights: Any) -> Any:
        """Return the loss with the weights of samples and classes."""
        name = describe_loss(self.loss)
        default = find_reduction(self.loss)
        if default is None:
            raise TypeError(
                f"fit: weights of samples or classes need the loss of each row, and {name} has no argument `reduction`: let it "
                'take reduction="mean", and return the loss of each row for "none"'
            )
        rows = self.loss(out, target, reduction="none")
        count = rows.shape[0] if rows.ndim else 1
        ignored = find_ignored(self.loss)
        counted = (target != ignored).astype(rows.dtype) if ignored is not None and target.shape == rows.shape else None
        if self.classes is not None:
            self._check_number_of_classes(out, target, rows)
            labels = target if counted is None else where(counted > 0, target, 0)
            of_classes = _weights_of_labels(self.classes, labels, rows)
            rows = rows * of_classes
            counted = None if counted is None else counted * of_classes
        if weights is not None:
            if weights.shape != rows.shape[: weights.ndim]:
                fix = f": give sample_weights of shape {rows.shape[:1]}"
                raise ShapeError(f"fit: sample_weights {weights.shape} do not fit the rows of {name}, {rows.shape}{fix}")
            rows = rows * weights.astype(rows.dtype).reshape(weights.shape + (1,) * (rows.ndim - weights.ndim))
        if default == "mean" and counted is not None:
            return rows.sum() / counted.sum()
        return rows.mean() if default == "mean" else rows.sum() / count if default == "batchmean" else rows.sum()

    def _check_number_of_classes(self, out: Any, target: Any, rows: Any) -> None:
        """Raise ShapeError if there are weights of more classes than the output has, or than the two of labels 0 and 1."""
        assert self.classes is not None
        given, name = len(self.classes) - (self.limit is None), describe_loss(self.loss)
        if isinstance(out, Array) and out.ndim == rows.ndim + 1 > 1 and given > out.shape[1]:
            raise ShapeError(f"fit: class_weights has {given} weights, but the output of {name} has {out.shape[1]} classes")
        if target.shape == rows.shape and _has_columns(target) and given > 2:
            why = f"{name} takes each column of y {target.shape} as labels of 0 and 1"
            raise ShapeError(f"fit: class_weights has {given} weights, but {why}: give two, or sample_weights for the rows")


class Objective:
    """Function of outputs and targets that returns the sum of the losses times their weights.

    tree : the argument ``loss`` with a Term in the place of each loss, None for outputs without one
    """

    def __init__(self, tree: Any, function: str = "fit") -> None:
        self.tree, self.function = tree, function
        self.terms: list[Term] = list_members(tree)

    def __call__(self, out: Any, y: Any) -> Any:
        if isinstance(self.tree, Term):
            value = self.tree(out, y)
            if not isinstance(value, int | float | np.number):
                self._check_value(describe_loss(self.tree.loss), value)
            return value
        self.check_outputs(out)
        values = [term(out, y) if term.weight == 1 else term(out, y) * term.weight for term in self.terms]
        for term, value in zip(self.terms, values, strict=True):
            self._check_value(f"of {term.name!r}", value)
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total

    def _check_value(self, name: str, value: Any) -> None:
        """Raise if a loss has not returned an array of one number. name : of the loss or of its output"""
        if isinstance(value, Array) and value.size == 1:
            return
        if isinstance(value, Array):
            raise ShapeError(
                f"{self.function}: the loss {name} gave shape {value.shape}, but must give one number: take .mean()"
            )
        given = "None: end it with `return`" if value is None else f"a {type(value).__name__}"
        raise TypeError(f"{self.function}: the loss {name} must give one number, not {given}")

    def name_figures(self, metrics: Any) -> dict[str, Metric]:
        """Return the loss of each output, if there are several, and the metrics, by name: functions of outputs and targets."""
        if isinstance(self.tree, Term):
            measured = ((name, ignore_label(metric, self.ignored)) for name, metric in name_metrics(metrics).items())
            return {name: partial(_measure, metric, ()) for name, metric in measured}
        figures: dict[str, Metric] = {f"{term.name}_loss": term for term in self.terms}
        for path, given in _pair_metrics(self.tree, metrics, ()):
            for name, metric in name_metrics(given).items():
                name = f"{name_output(path)}_{name}"
                if name in figures:
                    raise ValueError(f"{self.function}: two figures are called {name!r}: give a dict of names and functions")
                ignored = next(find_ignored(term.loss) for term in self.terms if term.path == path)
                figures[name] = partial(_measure, ignore_label(metric, ignored), path)
        return figures

    @property
    def ignored(self) -> int | None:
        """The label that the only loss ignores, None if it has none or there are several losses."""
        return find_ignored(self.tree.loss) if isinstance(self.tree, Term) else None

    def explain_ignored(self, y: Any) -> str:
        """Return that each label of a batch is one that its loss ignores, "" if not so."""
        for term in self.terms:
            ignored, target = find_ignored(term.loss), find_member(split_weights(y)[0], term.path)
            if ignored is not None and bool((np.asarray(target) == ignored).all()):
                name = "y" + "".join(f"[{key!r}]" for key in term.path)
                return f"each label in {name} is {ignored}, which the loss ignores, so its mean is 0 / 0: give larger batches"
        return ""

    def describe(self) -> Any:
        """Return the losses as texts and numbers, for checkpoints."""
        if isinstance(self.tree, Term):
            return describe_loss(self.tree.loss)
        return [[term.name, describe_loss(term.loss), term.weight] for term in self.terms]

    def check_outputs(self, out: Any) -> None:
        """Raise if the model's result has another structure than the losses."""
        self._check(out, self.tree, "")

    def describe_class_weights(self) -> Any:
        """Return the weights of classes of each loss for checkpoints, None if there are none."""
        weights = [None if term.classes is None else term.classes.tolist() for term in self.terms]
        return weights if any(w is not None for w in weights) else None

    def paths_of(self, loss: Loss) -> list[tuple[Any, ...]]:
        """Return the paths of the outputs that have this loss."""
        return [term.path for term in self.terms if term.loss is loss]

    def check_targets(self, y: Any) -> None:
        """Raise if targets and sample weights have another structure than the losses."""
        targets, weights = split_weights(y)
        if isinstance(self.tree, Term):
            if is_own_function(self.tree.loss) and not hasattr(targets, "shape"):
                fix = f"give a {type(targets).__name__} of losses, or a function of your own, loss=lambda out, y: ..."
                raise TypeError(f"{self.function}: y is {describe_tree(targets)}, but loss= is one loss of one array: {fix}")
        else:
            self._match(targets, self.tree, "y")
        if isinstance(weights, tuple | dict):
            if isinstance(self.tree, Term):
                given = describe_tree(weights)
                raise TypeError(f"{self.function}: sample_weights is {given}, but there is one loss: give one array")
            self._match(weights, self.tree, "sample_weights", optional=True)

    def with_class_weights(self, class_weights: Any, y: Any) -> Objective:
        """Return the objective with weights of classes. y : the targets, None if they are not known yet"""
        if class_weights is None:
            return self
        if isinstance(self.tree, Term):
            return Objective(self._weigh_classes(self.tree, class_weights, y, "class_weights"), self.function)
        self._match(class_weights, self.tree, "class_weights", optional=True)
        return Objective(self._weigh_tree(self.tree, class_weights, y, "class_weights"), self.function)

    def check_classes(self, y: Any) -> None:
        """Raise if a target whose classes have weights is no label, or has none of the weights."""
        for term in self.terms:
            if term.classes is not None:
                target = np.asarray(find_member(split_weights(y)[0], term.path))
                _check_labels(_leave_out_ignored(target, term.loss), term, self.function)

    def _weigh_tree(self, tree: Any, given: Any, y: Any, name: str) -> Any:
        if isinstance(tree, Term):
            return tree if given is None else self._weigh_classes(tree, given, y, name)
        if tree is None:
            return None
        if isinstance(tree, dict):
            return {key: self._weigh_tree(v, given.get(key), y, f"{name}[{key!r}]") for key, v in tree.items()}
        return tuple(self._weigh_tree(v, given[k], y, f"{name}[{k}]") for k, v in enumerate(tree))

    def _weigh_classes(self, term: Term, given: Any, y: Any, name: str) -> Term:
        target = None if y is None else _leave_out_ignored(find_member(y, term.path), term.loss)
        classes, limit = read_class_weights(given, target, name, self.function)
        return replace(term, classes=classes, limit=limit)

    def _check(self, out: Any, tree: Any, name: str) -> None:
        """Raise if the model's result has another structure than the losses."""
        if tree is None or isinstance(tree, Term):
            return
        result = f"the model's output {name}" if name else "the model's result"
        if isinstance(tree, dict) != isinstance(out, Mapping) or not isinstance(out, Mapping | tuple | list):
            raise TypeError(f"{self.function}: loss is {describe_tree(tree)}, but {result} is {describe_tree(out)}")
        if isinstance(out, Mapping):
            for key in tree.keys() - out.keys():
                raise ValueError(f"{self.function}: the loss {key!r} has no output: {result} is {describe_tree(out)}")
            for key in out.keys() - tree.keys():
                raise ValueError(
                    f"{self.function}: output {key!r} of the model has no loss; None leaves it out: loss={{..., {key!r}: None}}"
                )
        elif len(tree) != len(out):
            raise ValueError(f"{self.function}: loss is {describe_tree(tree)}, but {result} is {describe_tree(out)}; None in a "
                             "tuple leaves an output without a loss")
        for key, part in _items(tree):
            self._check(out[key], part, f"{name}[{key!r}]")

    def _match(self, value: Any, tree: Any, name: str, optional: bool = False) -> None:
        """Raise if targets or weights have another structure than the losses. optional : whether members may be missing"""
        if isinstance(tree, Term):
            if value is None and not optional:
                raise ValueError(f"{self.function}: {name} is None, but there is a loss for it")
            return
        if tree is None:
            return
        if isinstance(tree, dict) != isinstance(value, Mapping) or not isinstance(value, Mapping | tuple | list):
            raise TypeError(f"{self.function}: loss is {describe_tree(tree)}, but {name} is {describe_tree(value)}")
        if isinstance(value, Mapping):
            for key in value.keys() - tree.keys():
                raise ValueError(f"{self.function}: {name} has {key!r}, for which there is no loss: {describe_tree(tree)}")
            for key in tree.keys() - value.keys():
                if tree[key] is not None and not optional:
                    raise ValueError(f"{self.function}: {name} has no {key!r}, for which there is a loss: {describe_tree(value)}")
        elif len(tree) != len(value):
            raise ValueError(f"{self.function}: loss is {describe_tree(tree)}, but {name} is {describe_tree(value)}")
        for key, part in _items(tree):
            if part is not None and (not isinstance(tree, dict) or key in value):
                self._match(value[key], part, f"{name}[{key!r}]", optional)


def make_objective(loss: Any, loss_weights: Any = None, function: str = "fit") -> Objective:
    """Return the objective of the arguments ``loss`` and ``loss_weights``.

    Raises
    ------
    TypeError, ValueError
        A loss is no function and no name; weights have another structure, or are no finite numbers.
    """
    if not isinstance(loss, Mapping | tuple | list):
        if loss_weights is not None:
            raise ValueError(f"{function}: loss_weights= is for several losses, loss= is one")
        return Objective(Term("", (), read_loss(loss, function)), function)
    tree = _read_losses(loss, (), function)
    objective = Objective(tree, function)
    names = [term.name for term in objective.terms]
    if not names:
        raise ValueError(f"{function}: loss is {describe_tree(loss)} without a loss")
    if len(set(names)) < len(names):
        raise ValueError(f"{function}: two losses are called {next(n for n in names if names.count(n) > 1)!r}: rename an output")
    if loss_weights is None:
        return objective
    objective._match(loss_weights, tree, "loss_weights", optional=True)
    return Objective(_weigh(tree, loss_weights, "loss_weights", function), function)


def read_loss(loss: Any, function: str = "fit", name: str = "loss") -> Loss:
    """Return a loss that is a function, or the name of one of ``wf.losses``."""
    if isinstance(loss, str):
        if loss in LOSSES:
            return getattr(losses, loss)
        close = suggest(loss, LOSSES) or MODULES["weft.losses"].get(loss, "").removeprefix("wf.losses.")
        advice = f"; in weft: {close!r}" if close else f"; there are {', '.join(LOSSES)}, and functions of your own"
        raise ValueError(f"{function}: {name}: no loss {loss!r}{advice}")
    if not callable(loss) or isinstance(loss, type):
        kind = f"the class {loss.__name__}: call it, {loss.__name__}(...)" if isinstance(loss, type) else short(loss)
        fits = "a function of (predictions, targets), such as wf.losses.cross_entropy, its name, or a tuple or dict of these"
        raise TypeError(f"{function}: {name} must be {fits}, not {kind}")
    return loss


def read_class_weights(
    given: Any, target: Any, name: str = "class_weights", function: str = "fit",
) -> tuple[np.ndarray, int | None]:
    """Return the fields ``classes`` and ``limit`` of a Term.

    given : (C,) array, dict from class to weight, or "balanced": rows / (classes * rows of the class), as in scikit-learn
    """
    if isinstance(given, str):
        if given != "balanced":
            raise ValueError(f"{function}: {name} must be 'balanced', an array (C,) or a dict, not {given!r}")
        if target is None:
            raise ValueError(f"{function}: {name}='balanced' counts the labels of y, which a source of batches does not give "
                             "before training: give the weights")
        labels = np.asarray(target)
        if is_one_hot := _has_columns(labels):
            is_one_hot = bool(np.isclose(labels.sum(axis=1), 1).all())
            labels = labels.argmax(axis=1) if is_one_hot else labels
        if not is_one_hot and (_has_columns(labels) or not _are_labels(labels)):
            needed = "needs labels from 0, or one-hot rows, in y"
            raise DTypeError(f"{function}: {name}='balanced' {needed}, not {labels.dtype} of shape {labels.shape}")
        if not labels.size:
            raise ValueError(f"{function}: {name}='balanced' counts the labels of y, but the loss ignores all of them")
        counts = np.bincount(labels.astype(np.int64).reshape(-1))
        weights = labels.size / (np.count_nonzero(counts) * np.maximum(counts, 1))
        return np.append(np.where(counts > 0, weights, 1.0), 1.0), None
    if isinstance(given, Mapping):
        if not given or not all(isinstance(k, int | np.integer) and not isinstance(k, bool) and k >= 0 for k in given):
            raise TypeError(f"{function}: the keys of {name} must be classes, integers from 0 as in y, not {list(given)}; "
                            "LabelEncoder.transform returns the numbers of names")
        table = np.ones(max(given) + 1)
        for key, weight in given.items():
            table[key] = weight
    else:
        table = np.asarray(given.numpy() if isinstance(given, Array) else given, np.float64)
    if table.ndim != 1 or not len(table) or not np.isfinite(table).all() or (table < 0).any():
        raise ValueError(f"{function}: {name} must be finite and not negative, one for each class, not {given!r}")
    return (np.append(table, 1.0), None) if isinstance(given, Mapping) else (table, len(table))


def find_member(tree: Any, path: tuple[Any, ...]) -> Any:
    """Return the member at a path, None where a target was left out."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, Mapping) else None if tree is None else tree[key]
    return tree


def name_output(path: tuple[Any, ...]) -> str:
    """Return the name of an output: its keys joined by "_", after "output" if the first one is a number."""
    return "_".join(map(str, ("output", *path) if isinstance(path[0], int) else path))


def describe_loss(loss: Any) -> str:
    """Return the name of a loss for messages and checkpoints."""
    return getattr(loss, "__qualname__", None) or type(loss).__name__


def find_reduction(loss: Any) -> str | None:
    """Return the reduction that a loss has without weights, None if it has no argument ``reduction``."""
    try:
        parameter = inspect.signature(loss).parameters.get("reduction")
    except (TypeError, ValueError):
        return None
    return None if parameter is None else parameter.default if isinstance(parameter.default, str) else "mean"


def find_ignored(loss: Any) -> int | None:
    """Return the label that a loss ignores, as ``partial(wf.losses.cross_entropy, ignore_index=-1)``; None if it has none."""
    try:
        parameter = inspect.signature(loss).parameters.get("ignore_index")
    except (TypeError, ValueError):
        return None
    return parameter.default if parameter is not None and isinstance(parameter.default, int) else None


def _leave_out_ignored(target: Any, loss: Any) -> Any:
    """Return the labels that a loss does not ignore. Other targets are returned as they are."""
    ignored = find_ignored(loss)
    if ignored is None or _has_columns(target):
        return target
    labels = np.asarray(target)
    return labels[labels != ignored]


def _measure(metric: Metric, path: tuple[Any, ...], out: Any, y: Any) -> Any:
    return metric(find_member(out, path), find_member(split_weights(y)[0], path))


def _items(tree: Any) -> Iterator[tuple[Any, Any]]:
    return iter(tree.items()) if isinstance(tree, dict) else enumerate(tree)


def _read_losses(loss: Any, path: tuple[Any, ...], function: str) -> Any:
    """Return the tree of losses with a Term for each."""
    if loss is None and path:
        return None
    if isinstance(loss, Mapping):
        return {key: _read_losses(v, (*path, key), function) for key, v in loss.items()}
    if isinstance(loss, tuple | list):
        return tuple(_read_losses(v, (*path, k), function) for k, v in enumerate(loss))
    where_ = "loss" + "".join(f"[{key!r}]" for key in path)
    return Term(name_output(path), path, read_loss(loss, function, where_))


def _weigh(tree: Any, given: Any, name: str, function: str) -> Any:
    """Return the tree of losses with their weights."""
    if tree is None or given is None:
        return tree
    if isinstance(tree, Term):
        if not isinstance(given, int | float | np.number) or isinstance(given, bool) or not math.isfinite(given):
            raise TypeError(f"{function}: {name} must be a finite number, not {given!r}")
        return replace(tree, weight=float(given))
    if isinstance(tree, dict):
        return {key: _weigh(v, given.get(key), f"{name}[{key!r}]", function) for key, v in tree.items()}
    return tuple(_weigh(v, given[k], f"{name}[{k}]", function) for k, v in enumerate(tree))


def _pair_metrics(tree: Any, given: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield (path, metrics) of each output that has metrics."""
    if given is None or isinstance(given, Sequence) and not isinstance(given, str) and not len(given):
        return
    if isinstance(tree, Term):
        yield path, given
        return
    name = "metrics" + "".join(f"[{key!r}]" for key in path)
    fix = "give metrics by output, in the structure of loss"
    if tree is None or isinstance(given, str) or callable(given) or isinstance(tree, dict) != isinstance(given, Mapping):
        raise TypeError(f"fit: loss is {describe_tree(tree)}, but {name} is {given!r}: {fix}")
    if isinstance(tree, dict):
        for key in given.keys() - tree.keys():
            raise ValueError(f"fit: {name} has {key!r}, for which there is no loss: {describe_tree(tree)}")
        for key, part in given.items():
            yield from _pair_metrics(tree[key], part, (*path, key))
        return
    if len(given) != len(tree):
        raise ValueError(f"fit: loss is {describe_tree(tree)}, but {name} is {describe_tree(given)}: {fix}")
    for k, part in enumerate(given):
        yield from _pair_metrics(tree[k], part, (*path, k))


def _has_columns(target: np.ndarray | Array) -> bool:
    """Return whether a target has float columns, which are one-hot rows or several labels of 0 and 1."""
    return target.ndim == 2 and target.shape[1] > 1 and not is_integer(target.dtype)


def _are_labels(labels: np.ndarray) -> bool:
    return bool((labels >= 0).all() and (labels == np.floor(labels)).all())


def _check_labels(target: np.ndarray, term: Term, function: str) -> None:
    assert term.classes is not None
    name = "y" + "".join(f"[{key!r}]" for key in term.path)
    has_columns = _has_columns(target)
    wrong = (target < 0) | (target > 1 if has_columns else target != np.floor(target))
    if wrong.any():
        other = target[wrong][0]
        raise DTypeError(f"{function}: class_weights need labels from 0 in {name}, or one-hot rows; it holds {other}")
    if term.limit is not None and not has_columns and target.size and target.max() >= term.limit:
        raise ValueError(f"{function}: {name} has the label {int(target.max())}, class_weights has {term.limit} weights")


def _weights_of_labels(table: np.ndarray, target: Array, rows: Array) -> Array:
    """Return the weight of the class of each row."""
    labels = target if target.shape == rows.shape else target.argmax(axis=1) if target.ndim == rows.ndim + 1 else None
    if labels is None or labels.shape != rows.shape:
        raise ShapeError(f"fit: class_weights need a label for each row of the loss, {rows.shape}; y has shape {target.shape}")
    number: Any = labels.astype("int32") if not is_integer(labels.dtype) else labels.astype("int64")
    weights = asarray(table.astype(rows.dtype))
    return weights[minimum(number, len(table) - 1)]
