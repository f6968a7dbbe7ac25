"""Find a learning rate: train for some steps with rates that grow from tiny to large, and leave the model as it was."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from weft.data.members import list_members
from weft.errors import warn
from weft.functions.support.arguments import integer_from
from weft.losses import cross_entropy
from weft.nn.module import Module
from weft.optim import Adam, Optimizer
from weft.process.docstrings import complete_module
from weft.train.batches import Arrays, Feed, split_weights
from weft.train.diagnose import find_origin
from weft.train.doubts import check_losses, warn_unscaled
from weft.train.feeds import open_feed
from weft.train.fit_arguments import check_arguments
from weft.train.objective import make_objective
from weft.train.preparation import prepare_model
from weft.train.snapshot import Log, is_finite, restore_snapshot, take_snapshot
from weft.train.step import Stepper

SMOOTHING = 0.9  # the share of the mean of earlier losses in each smoothed loss
LAG = 9  # steps by which the smoothed loss is late in the mean, SMOOTHING / (1 - SMOOTHING)
FIRST_LOSSES = 10  # that say little, since the smoothed loss is the mean of a few batches
REACH = 2  # steps before and after a rate between which the fall of the loss is measured
DIVERGED = 4.0  # times the least smoothed loss: the search ends


@dataclass(frozen=True, slots=True)
class LearningRates:
    """What :func:`weft.train.find_lr` has tried.

    Attributes
    ----------
    rates : the learning rates, ascending
    losses : the loss at each, smoothed; the search ends when it has grown to 4 times the least one, or is not finite
    suggestion : the rate at which the loss falls fastest, or None if it never falls; the smoothed loss falls 9 steps later
    """

    rates: np.ndarray
    losses: np.ndarray
    suggestion: float | None


def find_lr(
    model: Module, x: Any, y: Any = None, *, loss: Any = cross_entropy, loss_weights: Any = None, class_weights: Any = None,
    sample_weights: Any = None, optimizer: Optimizer | None = None, batch_size: int = 32, least: float = 1e-7,
    most: float = 10.0, steps: int = 100, seed: int = 0,
) -> LearningRates:
    """Train for ``steps`` steps with rates from ``least`` to ``most``, and return the losses and the best rate to begin with.

    The weights, the optimizer and the random state are then as before. Plot ``losses`` over ``rates`` (logarithmic), and take a
    rate from the steep part, before the minimum.

    If the first loss or a batch is not finite, the search ends with a warning that names the sample or the operation, as that of
    :func:`fit` does. Data that were not scaled, and a softmax before the default loss, cause warnings, too.

    Smith: Cyclical learning rates for training neural networks. 2017.

    Parameters
    ----------
    model : Module
    x, y : as for :func:`fit`: arrays, or ``x`` alone as a source of batches that can be read again
    loss, loss_weights, class_weights, sample_weights : as for :func:`fit`
    optimizer : a new one, without state; default Adam()
    batch_size, steps, seed : int; rows of arrays are drawn in random order, and a source is read from its start until there are
        enough batches
    least, most : float, positive

    Returns
    -------
    LearningRates

    Raises
    ------
    ShapeError, DTypeError, TypeError, ValueError
        There is no sample, or lengths differ; labels are out of range; targets do not fit the loss, as in :func:`fit`; rates are
        not positive and ascending; the optimizer has state already.

    >>> import numpy as np, weft as wf
    >>> x = np.random.default_rng(0).normal(size=(256, 4)).astype("float32")
    >>> net = wf.nn.Sequential(wf.nn.Linear(4, 8), wf.nn.Tanh(), wf.nn.Linear(8, 1))
    >>> found = wf.train.find_lr(net, x, x[:, :1], loss=wf.losses.mse)
    >>> 1e-5 < found.suggestion < 1.0
    True
    """
    check_arguments(model, optimizer, "find_lr", batch_size=batch_size, seed=seed)
    objective = make_objective(loss, loss_weights, "find_lr")
    steps, batch_size = integer_from(2, steps, "find_lr", "steps"), int(batch_size)
    if not 0 < least < most < math.inf:
        raise ValueError(f"find_lr: rates must satisfy 0 < least < most, not least={least}, most={most}")
    optimizer = Adam() if optimizer is None else optimizer
    if optimizer.step_count is not None:
        raise ValueError("find_lr: the optimizer has been used before; give a new one, whose state may be reset")
    if isinstance(x, Iterator):
        raise ValueError("find_lr: x is a generator, which is gone through once: give a function that makes a new one")
    feed = open_feed(model, x, y, sample_weights, batch_size, "find_lr")
    objective = objective.with_class_weights(class_weights, split_weights(feed.y)[0] if isinstance(feed, Arrays) else None)
    prepare_model(model, feed, None, objective, "find_lr")
    warn_unscaled(model, feed, "find_lr")
    check_losses(model, objective, feed, "find_lr")
    was_training = model.training
    optimizer.init(model)
    stepper = Stepper(model, objective, optimizer)
    before = take_snapshot(model, optimizer, stepper)
    try:
        model.train()
        rates, losses = _run(stepper, feed, np.geomspace(least, most, steps), int(seed))
    finally:
        restore_snapshot(before, model, optimizer, stepper)
        model.train(was_training)
    return LearningRates(rates, losses, _find_steepest(rates, losses))


def _run(stepper: Stepper, feed: Feed, rates: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rates that were tried, and their smoothed losses. Warn if the data or the model end the search, not a rate."""
    log = Log(stepper.model, stepper.optimizer, stepper, feed)
    mean = 0.0
    smooth: list[float] = []
    with closing(_draw_keys(feed, seed)) as keys:
        for k, (rate, key) in enumerate(zip(rates.tolist(), keys, strict=False)):
            batch = feed.batch(key)
            log.update_snapshot(False)
            log.blocks.append((((key,),), rate, 1, k + 1))
            value = stepper.advance([batch], rate)[0]
            if not math.isfinite(value):
                if not k or not all(is_finite(a.numpy()) for a in list_members(batch)):
                    warn(f"find_lr: {find_origin(log, k + 1)}")
                break
            mean = SMOOTHING * mean + (1 - SMOOTHING) * value
            now = mean / (1 - SMOOTHING ** (k + 1))
            if not math.isfinite(now) or (smooth and now > DIVERGED * min(smooth)):
                break
            smooth.append(now)
    return rates[: len(smooth)], np.array(smooth)


def _draw_keys(feed: Feed, seed: int) -> Generator[Any, None, None]:
    """Yield keys of batches without an end: rows of arrays in random order, or the epochs of a source."""
    if not isinstance(feed, Arrays):
        for number in count(1):
            yield from feed.epoch(number, 0, None)
        return
    rng, size = np.random.default_rng(seed), min(feed.batch_size, feed.samples)
    rows = np.empty(0, np.int64)
    while True:
        while len(rows) < size:
            rows = np.append(rows, rng.permutation(feed.samples))
        yield rows[:size]
        rows = rows[size:]


def _find_steepest(rates: np.ndarray, losses: np.ndarray) -> float | None:
    """Return the rate of the steepest descent before the least loss."""
    end = int(losses.argmin()) + 1 if len(losses) else 0
    start = min(FIRST_LOSSES, end // 4)  # their means are of few batches
    if end - start <= 2 * REACH:
        return None
    falls = losses[start : end - 2 * REACH] - losses[start + 2 * REACH : end]  # rates are geometric: all have one distance
    return float(rates[max(start + REACH + int(falls.argmax()) - LAG, 0)]) if falls.max() > 0 else None


complete_module(globals())
