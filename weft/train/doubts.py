"""What ``fit`` and ``find_lr`` check before they train: unscaled data, a softmax too many, impossible targets."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.data.members import name_members
from weft.data.row_files import ON_DISK
from weft.errors import ShapeError, warn
from weft.functions.creation.fill import asarray
from weft.losses import binary_cross_entropy_with_logits, cross_entropy
from weft.nn.activations import Sigmoid, Softmax, sigmoid, softmax
from weft.nn.containers import Lambda, Sequential
from weft.nn.embedding import Embedding
from weft.nn.module import Module
from weft.nn.module_tree import CALL_HOOK
from weft.nn.normalization import BatchNorm2d
from weft.process.attributes import change_attribute
from weft.train.batches import Arrays, Feed, count_rows, split_weights
from weft.train.inputs import call_model
from weft.train.metrics import evaluation_mode
from weft.train.objective import Objective, find_member

MOST_SCALED = 15.0  # the largest magnitude of inputs that count as scaled
_PROBABILITIES = (Softmax, Sigmoid, softmax, sigmoid)  # layers and functions whose results are probabilities


def warn_unscaled(model: Module, feed: Feed, function: str = "fit") -> None:
    """Warn if bytes such as pixels reach a layer with weights without having been scaled."""
    if not isinstance(feed, Arrays):
        return
    pixels = [(name, a[:32].max()) for name, a in name_members(feed.x, "x") if a.dtype == np.uint8 and a.ndim > 1]
    pixels = [(name, most) for name, most in pixels if most > MOST_SCALED]
    if not pixels:
        return
    found: list[Module] = []

    def watch(layer: Any, args: Any, kwargs: Any) -> Any:
        if args and getattr(args[0], "dtype", None) == np.uint8 and getattr(layer, "weight", None) is not None:
            if not isinstance(layer, Embedding | BatchNorm2d):  # the other batch norms are subclasses of the latter
                found.append(layer)
        return layer.forward(*args, **kwargs)

    try:
        with change_attribute(CALL_HOOK, "watch_call", watch):
            run_in_evaluation(model, take_samples(feed))
    except Exception:
        return  # the first step raises it
    if found:
        name, most = pixels[0]
        warn(
            f"{function}: {name} holds uint8 numbers up to {most}, and {found[0]!r} gets them as they are: training is "
            f"slow or fails unless they are scaled, {name}.astype('float32') / 255"
        )


def explain_loss(first: float, last: float, is_finite: bool, rate: float, feed: Feed) -> str:
    """Return why a loss may have grown, or not fallen: the rate is too large, or inputs are not scaled. "" if neither shows.

    first, last : the losses of the first step and of the last epoch. is_finite : whether the run did not end by another loss
    """
    if first > 0 and last > first * (100 if is_finite else 10):
        rose = f"the loss rose from {first:.4g} at the first step to {last:.4g}"
        return f"{rose}: lr={rate:.4g} may be too large; wf.train.find_lr(model, x, y) finds a rate"
    if is_finite and last < 0.95 * first or not isinstance(feed, Arrays):
        return ""
    for name, a in name_members(feed.x, "x"):
        most = float(np.abs(a[:32]).max()) if a.dtype.kind == "f" else 0.0
        if MOST_SCALED < most < np.inf:
            fell = "the loss has not fallen, and " if is_finite else ""
            return f"{fell}{name} holds numbers up to {most:.4g}, but networks train on numbers near 1: scale it first"
    return ""


def check_order(model: Module, feed: Feed, function: str) -> None:
    """Raise ShapeError if the model takes the targets and not the inputs, which are fewer numbers a sample: they are swapped."""
    if not isinstance(feed, Arrays):
        return
    x, y = feed.x, split_weights(feed.y)[0]
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray) or math.prod(x.shape[1:]) >= math.prod(y.shape[1:]):
        return
    for given in (x, y):
        try:
            run_in_evaluation(model, asarray(given[:2].astype(np.float32) if given.dtype == np.float64 else given[:2]))
        except Exception:
            continue
        if given is y:
            raise ShapeError(
                f"{function}: the model takes y {y.shape}, but not x {x.shape}: x and y seem to be swapped. The order is "
                f"{function}(model, x, y), inputs before targets"
            )
        return


def take_samples(feed: Arrays) -> Any:
    """Return the inputs of two samples, or of one twice: batch norm without running statistics takes no single one."""
    return feed.batch(np.array([0, min(1, count_rows(feed.x) - 1)]))[0]


def run_in_evaluation(model: Module, sample: Any) -> Any:
    """Return the model's result for a sample in evaluation mode."""
    with evaluation_mode(model):
        return call_model(model, sample)


def check_losses(model: Module, objective: Objective, feed: Feed, function: str = "fit") -> None:
    """Check each loss by :func:`check_loss`."""
    for term in objective.terms:
        check_loss(model, term.loss, feed, function, term.path)


def check_loss(
    model: Module, loss: Callable[..., Any], feed: Feed, function: str = "fit", path: tuple[Any, ...] = (),
) -> None:
    """Warn if a loss of logits gets probabilities; raise ValueError if targets are no probabilities, or those of one class.

    path : of the output and the target
    """
    if loss not in (cross_entropy, binary_cross_entropy_with_logits):
        return
    name = f"wf.losses.{loss.__name__}"
    last: Any = model
    while isinstance(last, Sequential) and len(last):
        last = last[-1]
    kind = last.function if isinstance(last, Lambda) else type(last)
    if kind in _PROBABILITIES and not path:
        warn(
            f"{function}: the model ends with {kind.__name__}, but {name} takes logits, the numbers before it: training is slow. "
            "Leave the layer out, and apply it to predictions where probabilities are needed"
        )
    target = "y" + "".join(f"[{key!r}]" for key in path)
    y = find_member(split_weights(feed.y)[0], path) if isinstance(feed, Arrays) else None
    y = None if isinstance(y, ON_DISK) else y
    if y is not None and y.dtype.kind == "f" and y.size and (least := y.min()) < 0:
        raise ValueError(
            f"{function}: {target} holds numbers down to {least:.3g}, but {name} takes labels or probabilities: for a regression "
            "give loss=wf.losses.mse"
        )
    if isinstance(feed, Arrays) and y is not None and loss is cross_entropy and y.shape[1:] == (1,):
        out = find_member(run_in_evaluation(model, take_samples(feed)), path)
        if getattr(out, "shape", ())[1:] == (1,):
            raise ValueError(
                f"{function}: the model gives one number a sample, and {target} {y.shape} has one column; with one class every "
                "cross_entropy is 0. For a regression give loss=wf.losses.mse, for one logit "
                "loss=wf.losses.binary_cross_entropy_with_logits"
            )
