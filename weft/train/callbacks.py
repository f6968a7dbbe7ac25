"""Callbacks: early stopping, the best weights, averaged weights, lower learning rates on a plateau, a CSV log.

A callback is a function of the :class:`~weft.train.State`, called after every epoch, or an object with any of
``on_begin``, ``on_batch``, ``on_epoch`` and ``on_end``. ``state.stop(reason)`` ends the run.
"""

from __future__ import annotations

import csv
import operator
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from weft.array import Array
from weft.functions.creation.fill import array, asarray
from weft.functions.support.arguments import integer_from
from weft.nn.module import Module
from weft.nn.weights import pack, stored_texts
from weft.optim.optimizer import state_dtype
from weft.process.docstrings import complete_module
from weft.process.files import target, write_atomically
from weft.process.keyword_checks import KeywordCheck
from weft.train.history import Epoch, State
from weft.train.ranks import writes_files
from weft.transforms.jit import jit


def find_sign(monitor: str, mode: str | None) -> float:
    """Return 1 if small values are better, -1 if large ones are. ``mode=None``: large is better for names with "accuracy"."""
    if not isinstance(monitor, str):
        raise TypeError(f"monitor must be the name of a figure such as 'val_loss', not {monitor!r}; patience= counts epochs")
    if mode not in (None, "min", "max"):
        raise ValueError(f"mode must be 'min', 'max' or None (by the name), not {mode!r}")
    return -1.0 if mode == "max" or (mode is None and "accuracy" in monitor) else 1.0


class EarlyStopping(KeywordCheck):
    """Stop when a figure is good enough, or has not improved for some epochs.

    The callback has no state: it reads the history, so a resumed run stops at the same epoch.

    Parameters
    ----------
    monitor : name of a figure of the history: "val_loss", "loss", "val_accuracy", ...
    patience : epochs without improvement after which the run stops; None to continue regardless
    threshold : the run stops when the figure is at least this good; None for no threshold
    min_delta : a smaller change is not an improvement
    mode : "min", "max", or None: "max" for names with "accuracy", else "min"

    Raises
    ------
    ValueError
        Neither ``patience`` nor ``threshold``, or values out of range.

    >>> import numpy as np, weft as wf
    >>> x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    >>> stop = wf.train.EarlyStopping("loss", patience=3, threshold=10.0)
    >>> net = wf.nn.Linear(3, 1)
    >>> history = wf.train.fit(net, x, x[:, :1], loss=wf.losses.mse, callbacks=[stop], show=False)
    >>> len(history.epochs), history.stopped
    (1, 'loss reached 10')
    """

    def __init__(
        self, monitor: str = "val_loss", patience: int | None = None, threshold: float | None = None, *,
        min_delta: float = 0.0, mode: str | None = None,
    ) -> None:
        self.sign = find_sign(monitor, mode)
        if patience is None and threshold is None:
            raise ValueError("EarlyStopping: give patience=, threshold= or both; without them it never stops")
        if patience is not None:
            integer_from(1, patience, "EarlyStopping", "patience")
        if min_delta < 0:
            raise ValueError(f"EarlyStopping: min_delta must not be negative, not {min_delta}")
        self.monitor, self.patience, self.threshold, self.min_delta = monitor, patience, threshold, min_delta

    def on_epoch(self, state: State) -> None:
        values = [self.sign * v for v in state.history[self.monitor]]
        if self.threshold is not None and values[-1] <= self.sign * self.threshold:
            state.stop(f"{self.monitor} reached {self.threshold:g}")
        elif self.patience is not None and _count_waiting(values, self.min_delta) >= self.patience:
            state.stop(f"{self.monitor} has not improved for {self.patience} epochs")


class ReduceLROnPlateau(KeywordCheck):
    """Multiply the learning rate by ``factor`` when a figure has not improved for ``patience`` epochs.

    Like :class:`EarlyStopping` it has no state but reads the history. The rates of the optimizer's groups are not changed.

    Parameters
    ----------
    monitor, patience, min_delta, mode : as for EarlyStopping
    factor : in (0, 1)
    min_lr : the lower bound of the rate

    Raises
    ------
    ValueError
        ``factor``, ``patience`` or ``mode`` out of range.

    >>> import numpy as np, weft as wf
    >>> x, optimizer = np.zeros((8, 3), "float32"), wf.optim.SGD(lr=0.5)
    >>> history = wf.train.fit(  # nothing to learn: the loss is constant
    ...     wf.nn.Linear(3, 1, bias=False), x, x[:, :1], epochs=4, loss=wf.losses.mse, optimizer=optimizer, show=False,
    ...     callbacks=[wf.train.ReduceLROnPlateau("loss", factor=0.5, patience=2)],
    ... )
    >>> [e.lr for e in history.epochs], optimizer.lr
    ([0.5, 0.5, 0.5, 0.25], 0.25)
    """

    def __init__(
        self, monitor: str = "val_loss", factor: float = 0.1, patience: int = 10, *, min_delta: float = 0.0,
        min_lr: float = 0.0, mode: str | None = None,
    ) -> None:
        if not 0 < factor < 1:
            raise ValueError(f"ReduceLROnPlateau: factor must lie between 0 and 1, not {factor}")
        integer_from(1, patience, "ReduceLROnPlateau", "patience")
        self.monitor, self.factor, self.patience, self.min_delta, self.min_lr = monitor, factor, patience, min_delta, min_lr
        self.sign = find_sign(monitor, mode)

    def on_epoch(self, state: State) -> None:
        values = [self.sign * v for v in state.history[self.monitor]]
        rates = [e.lr for e in state.history.epochs]
        since = next((k for k, lr in enumerate(reversed(rates)) if lr != rates[-1]), len(rates))  # epochs at this rate
        if min(since, _count_waiting(values, self.min_delta)) >= self.patience:
            state.optimizer.lr = max(state.optimizer.lr * self.factor, min(self.min_lr, state.optimizer.lr))


def _count_waiting(values: list[float], min_delta: float) -> int:
    """Return the number of epochs since the last improvement. The first epoch counts as an improvement."""
    best, wait = float("inf"), 0
    for k, value in enumerate(values):
        if value < best - min_delta or (k == 0 and value == value):
            best, wait = value, 0
        else:
            wait += 1
    return wait


class BestWeights(KeywordCheck):
    """Keep the weights of the best epoch and of the last.

    Parameters
    ----------
    monitor : name of a figure; None for "val_loss" if there is validation data, else "loss"
    mode : "min", "max", or None: "max" for names with "accuracy", else "min"
    path : a weight file, written whenever an epoch is better than all before; optional
    restore : write the best weights into the model when the run ends

    Attributes
    ----------
    best, last : dict from names to NumPy arrays, buffers included; None before the first epoch
    number : number of the best epoch
    score : figure of the best epoch

    Raises
    ------
    ValueError
        ``mode`` is invalid; from ``restore``: there are no weights yet.

    >>> import numpy as np, weft as wf
    >>> x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    >>> keep, net = wf.train.BestWeights(), wf.nn.Linear(3, 1)
    >>> history = wf.train.fit(net, x, x[:, :1], loss=wf.losses.mse, epochs=3, callbacks=[keep], show=False)
    >>> keep.number == history.best, bool((keep.restore(net, "last").weight.numpy() == keep.last["weight"]).all())
    (True, True)
    """

    def __init__(
        self, monitor: str | None = None, mode: str | None = None, path: str | os.PathLike | None = None, restore: bool = True,
    ) -> None:
        self.monitor, self.mode, self.path, self.at_end = monitor, mode, path, restore
        find_sign(monitor or "loss", mode)
        self.best: dict[str, np.ndarray] | None = None
        self.last: dict[str, np.ndarray] | None = None
        self.number, self.score = 0, float("nan")
        self.last_description = ""  # the result of ``describe_figure`` at the last epoch

    def on_begin(self, state: State) -> None:
        if self.path is not None and writes_files():
            target(self.path, "BestWeights")  # raise before training if the file cannot be written
        if not state.history.epochs:
            self.best, self.last, self.number, self.score = None, None, 0, float("nan")
            self.last_description = ""

    def on_epoch(self, state: State) -> None:
        validated = state.row.validation_loss is not None
        name, self.last_description = self._name(validated), self.describe_figure(validated)
        value, by = state[name], find_sign(name, self.mode)
        if self.best is None or by * value < by * self.score or self.score != self.score:
            self.best, self.number, self.score = copy_arrays(state.model), state.epoch, value
            state.history.best = state.epoch
            if self.path is not None and writes_files():
                write_atomically(self.path, pack(self.best, texts=stored_texts(state.model)), "BestWeights")

    def on_end(self, state: State) -> None:
        self.last = copy_arrays(state.model)
        if self.at_end and self.best is not None:
            self.restore(state.model)

    def restore(self, model: Module, which: str = "best") -> Module:
        """Write the best or the last weights into ``model`` and return it."""
        if which not in ("best", "last"):
            raise ValueError(f"BestWeights: restore: which must be 'best' or 'last', not {which!r}")
        weights = self.best if which == "best" else self.last
        if weights is None:
            raise ValueError(f"BestWeights: there are no {which} weights before an epoch has ended")
        for name, a in model.arrays().items():
            if name in weights:
                a[...] = asarray(weights[name])
        return model

    def _name(self, validated: bool) -> str:
        return self.monitor or ("val_loss" if validated else "loss")

    def describe_figure(self, validated: bool) -> str:
        """Return a description of the monitored figure, such as "the smallest val_loss".

        validated : whether there are validation data
        """
        name = self._name(validated)
        return f"the {'smallest' if find_sign(name, self.mode) > 0 else 'largest'} {name}"

    def state_dict(self) -> dict[str, Any]:
        weights = {f"best/{name}": a for name, a in (self.best or {}).items()}
        watched = {"watched": self.last_description} if self.last_description else {}
        return {"number": self.number, "score": self.score, **watched, **weights}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.number, self.score = operator.index(state["number"]), float(state["score"])
        self.last_description = str(state.get("watched", ""))
        self.best = {n.removeprefix("best/"): a for n, a in state.items() if n.startswith("best/")} or None


def copy_arrays(model: Module) -> dict[str, np.ndarray]:
    """Return copies of a model's arrays, including buffers, as NumPy arrays."""
    return {name: a.numpy().copy() for name, a in model.arrays().items()}


class CSVLog(KeywordCheck):
    """Write one line per epoch to a CSV file: epoch, every figure, learning rate, seconds.

    A resumed run writes the lines of its checkpoint's epochs again, so the file has one line for each epoch.

    Parameters
    ----------
    path : path of the file, which is overwritten

    >>> import numpy as np, weft as wf, tempfile, os
    >>> x, path = np.ones((8, 3), "float32"), os.path.join(tempfile.mkdtemp(), "log.csv")
    >>> history = wf.train.fit(
    ...     wf.nn.Linear(3, 1), x, x[:, :1], epochs=2, loss=wf.losses.mse, callbacks=[wf.train.CSVLog(path)], show=False,
    ... )
    >>> [line.split(",")[:2] for line in open(path)][0]
    ['epoch', 'loss']
    """

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = Path(path)
        self._names: list[str] | None = None

    def on_begin(self, state: State) -> None:
        self._names = None
        if not writes_files():
            return
        with self.path.open("w", newline="") as f:
            for row in state.history.epochs:
                self._line(f, row)

    def on_epoch(self, state: State) -> None:
        if not writes_files():
            return
        with self.path.open("a", newline="") as f:
            self._line(f, state.row)

    def _line(self, f: IO[str], row: Epoch) -> None:
        figures: dict[str, Any] = {"epoch": row.number, **row.values(), "lr": row.lr, "seconds": round(row.seconds, 3)}
        out = csv.writer(f)
        if self._names is None:
            self._names = list(figures)
            out.writerow(self._names)
        out.writerow([figures.get(name, "") for name in self._names])


class AverageWeights(KeywordCheck):
    """Keep an exponential moving average of the weights, and write it into the model when the run ends.

    After step t the average moves by ``1 - min(decay, (1 + t) / (10 + t))`` of the way to the weights, so that the influence of
    the first weights fades soon. Training itself is not changed, and the figures of the history are those of the trained
    weights. Buffers, such as the running statistics of batch norm, are not averaged. If ``callbacks`` also has a
    :class:`BestWeights`, the later of the two determines the final weights.

    B. T. Polyak, A. B. Juditsky, Acceleration of stochastic approximation by averaging, SIAM J. Control Optim. 30 (1992).

    Parameters
    ----------
    decay : in (0, 1); 0.999 is a mean over about the last 1,000 steps

    Attributes
    ----------
    average : dict from names to Arrays of float32 or float64; empty before the first step

    Raises
    ------
    ValueError
        ``decay`` is not between 0 and 1.

    >>> import numpy as np, weft as wf
    >>> x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
    >>> mean, net = wf.train.AverageWeights(0.9), wf.nn.Linear(3, 1)
    >>> history = wf.train.fit(net, x, x[:, :1], loss=wf.losses.mse, epochs=3, callbacks=[mean], show=False)
    >>> bool((net.weight.numpy() == mean.average["weight"].numpy()).all())
    True
    """

    def __init__(self, decay: float = 0.999) -> None:
        if not 0 < decay < 1:
            raise ValueError(f"AverageWeights: decay must lie between 0 and 1, not {decay}")
        self.decay, self.steps = decay, 0
        self.average: dict[str, Array] = {}
        self._move: Callable[[float], None] | None = None

    def on_begin(self, state: State) -> None:
        self.steps, self.average, self._move = 0, {}, None

    def on_batch(self, state: State) -> None:
        if not self.average:
            self.average = {n: array(p, dtype=state_dtype(p.dtype)) for n, p in state.model.parameters().items()}
        if self._move is None:
            pairs = [(self.average[name], p) for name, p in state.model.parameters().items()]

            @jit
            def move(share: float) -> None:
                for a, p in pairs:
                    a[...] = a + share * (p.astype(a.dtype) - a)

            self._move = move
        self.steps += 1
        self._move(1.0 - min(self.decay, (1 + self.steps) / (10 + self.steps)))

    def on_end(self, state: State) -> None:
        for name, p in state.model.parameters().items():
            if name in self.average:
                p[...] = self.average[name].astype(p.dtype)

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps, **{f"average/{name}": a.numpy().copy() for name, a in self.average.items()}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps = operator.index(state["steps"])
        self.average = {n.removeprefix("average/"): asarray(a) for n, a in state.items() if isinstance(a, np.ndarray)}


complete_module(globals())
