"""Find a learning rate: train for some steps with rates that grow from tiny to large, and leave the model as it was."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.array import Array
from weft.errors import ShapeError
from weft.functions import random
from weft.functions.creation.fill import asarray
from weft.functions.support.arguments import integer_from
from weft.losses import cross_entropy
from weft.nn.module import Module
from weft.nn.size_arguments import has_unknown_widths
from weft.optim import Adam, Optimizer
from weft.process.docstrings import complete_module
from weft.train.step import training_step

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
    model: Module, x: Any, y: Any, *, loss: Callable[[Array, Array], Array] = cross_entropy, optimizer: Optimizer | None = None,
    batch_size: int = 32, least: float = 1e-7, most: float = 10.0, steps: int = 100, seed: int = 0,
) -> LearningRates:
    """Train for ``steps`` steps with rates from ``least`` to ``most``, and return the losses and the best rate to begin with.

    The weights, the optimizer and the random state are then as before. Plot ``losses`` over ``rates`` (logarithmic), and take a
    rate from the steep part, before the minimum.

    Smith: Cyclical learning rates for training neural networks. 2017.

    Parameters
    ----------
    model : Module
    x, y : (N, ...) array and (N,) labels or (N, ...) targets, as ``loss`` takes them
    loss : function of (predictions, targets) that returns one number
    optimizer : a new one, without state; default Adam()
    batch_size, steps, seed : int; batches are drawn in random order
    least, most : float, positive

    Returns
    -------
    LearningRates

    Raises
    ------
    ShapeError, ValueError
        There is no sample, or lengths differ; rates are not positive and ascending; the optimizer has state already.

    >>> import numpy as np, weft as wf
    >>> x = np.random.default_rng(0).normal(size=(256, 4)).astype("float32")
    >>> net = wf.nn.Sequential(wf.nn.Linear(4, 8), wf.nn.Tanh(), wf.nn.Linear(8, 1))
    >>> found = wf.train.find_lr(net, x, x[:, :1], loss=wf.losses.mse)
    >>> 1e-5 < found.suggestion < 1.0
    True
    """
    steps, batch_size = integer_from(2, steps, "find_lr", "steps"), integer_from(1, batch_size, "find_lr", "batch_size")
    if not 0 < least < most < math.inf:
        raise ValueError(f"find_lr: rates must satisfy 0 < least < most, not least={least}, most={most}")
    if not len(x) or len(x) != len(y):
        raise ShapeError(f"find_lr: x and y must have one length, at least 1, not {len(x)} and {len(y)}")
    optimizer = Adam() if optimizer is None else optimizer
    if optimizer.step_count is not None:
        raise ValueError("find_lr: the optimizer has been used before; give a new one, whose state may be reset")
    given = [np.asarray(a) if not isinstance(a, Array) else a for a in (x, y)]
    has_doubles = any(p.dtype.name == "float64" for p in model.parameters().values())
    given = [a.astype("float32") if a.dtype == np.float64 and not has_doubles else a for a in given]
    if has_unknown_widths(model):
        model(asarray(given[0][:1]))
    state, was_training = random.get_state(), model.training
    held = {name: a.copy() for name, a in model.arrays().items()}
    tried = np.geomspace(least, most, steps)
    try:
        rates, losses = _run(model.train(), given, loss, optimizer, min(batch_size, len(x)), tried, seed)
    finally:
        for name, a in model.arrays().items():
            a[...] = held[name]
        optimizer.init(model)
        model.train(was_training)
        random.set_state(state)
    return LearningRates(rates, losses, _find_steepest(rates, losses))


def _run(
    model: Module, data: list[Any], loss: Callable, optimizer: Optimizer, batch_size: int, rates: np.ndarray, seed: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rates that were tried, and their smoothed losses."""
    step: Callable[..., Array] = training_step(model, loss, optimizer.init(model))
    rng = np.random.default_rng(seed)
    order = np.concatenate([rng.permutation(len(data[0])) for _ in range(-(-len(rates) * batch_size // len(data[0])))])
    mean = 0.0
    smooth: list[float] = []
    for k, rate in enumerate(rates):
        rows = order[k * batch_size : (k + 1) * batch_size]
        value = float(step(*(asarray(a[rows]) for a in data), float(rate)))
        mean = SMOOTHING * mean + (1 - SMOOTHING) * value
        now = mean / (1 - SMOOTHING ** (k + 1))
        if not math.isfinite(now) or (smooth and now > DIVERGED * min(smooth)):
            break
        smooth.append(now)
    return rates[: len(smooth)], np.array(smooth)


def _find_steepest(rates: np.ndarray, losses: np.ndarray) -> float | None:
    """Return the rate of the steepest descent before the least loss."""
    end = int(losses.argmin()) + 1 if len(losses) else 0
    start = min(FIRST_LOSSES, end // 4)  # their means are of few batches
    if end - start <= 2 * REACH:
        return None
    falls = losses[start : end - 2 * REACH] - losses[start + 2 * REACH : end]  # rates are geometric: all have one distance
    return float(rates[max(start + REACH + int(falls.argmax()) - LAG, 0)]) if falls.max() > 0 else None


complete_module(globals())
