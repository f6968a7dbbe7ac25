"""The history of a training run: one row per epoch, and its plot; the state of a run, the argument of callbacks."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from weft.nn.module import Module
from weft.optim import Optimizer
from weft.process.figures import make_figure
from weft.process.foreign_names import HISTORY
from weft.process.name_errors import add_foreign_names


@dataclass(frozen=True, slots=True)
class Epoch:
    """The figures of one epoch. ``epoch["val_loss"]`` is a figure by its name; :meth:`values` returns all.

    Attributes
    ----------
    number : number of the epoch, from 1
    loss : mean of the training losses, each at the weights of its step
    seconds : duration of training and validation
    validation_loss, validation_accuracy : None without validation data, or without labels
    metrics, validation_metrics : figures by name
    lr : the learning rate at the end of the epoch
    """

    number: int
    loss: float
    seconds: float
    validation_loss: float | None = None
    validation_accuracy: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    validation_metrics: dict[str, float] = field(default_factory=dict)
    lr: float | None = None

    def values(self) -> dict[str, float]:
        """Return every figure by name: ``loss``, the metrics, then those of the validation data with the prefix ``val_``.

        Examples
        --------
        >>> from weft.train import Epoch
        >>> Epoch(1, 0.5, 2.0, 0.75, 0.8, {"accuracy": 0.9}).values()
        {'loss': 0.5, 'accuracy': 0.9, 'val_loss': 0.75, 'val_accuracy': 0.8}
        """
        figures = {"loss": self.loss, **self.metrics}
        if self.validation_loss is not None:
            figures["val_loss"] = self.validation_loss
        if self.validation_accuracy is not None:
            figures["val_accuracy"] = self.validation_accuracy
        return figures | {f"val_{name}": value for name, value in self.validation_metrics.items()}

    def __getitem__(self, name: str) -> float:
        figures = self.values()
        if name not in figures:
            raise ValueError(f"an epoch of this run has no {name!r}; there are {', '.join(figures)}")
        return figures[name]


@dataclass(slots=True, repr=False)
class History:
    """The epochs of a run. ``history["val_loss"]`` is the list of a figure by its name.

    A history prints as one line, in a notebook as a table.

    Attributes
    ----------
    epochs : list of Epoch
    interrupted : whether Ctrl-C ended the run
    stopped : the reason if the run ended before its last epoch, else ""
    best : number of the best epoch, 0 before the first
    non_finite : :class:`weft.train.NonFinite` if a loss or weight was not finite, else None
    """

    epochs: list[Epoch] = field(default_factory=list)
    interrupted: bool = False
    best: int = 0
    stopped: str = ""
    non_finite: Any = None

    @property
    def loss(self) -> list[float]:
        """The training loss of each epoch."""
        return [e.loss for e in self.epochs]

    @property
    def seconds(self) -> list[float]:
        """The duration of each epoch."""
        return [e.seconds for e in self.epochs]

    def __getitem__(self, name: str) -> list[float]:
        return [e[name] for e in self.epochs]

    def __repr__(self) -> str:
        """Return the last epoch's figures, and the reason if the run ended early."""
        count = f"{len(self.epochs)} epoch{'' if len(self.epochs) == 1 else 's'}"
        if not self.epochs:
            return f"History({count}{'; ' + self.stopped if self.stopped else ''})"
        figures = ", ".join(f"{name} {format_figure(value)}" for name, value in self.epochs[-1].values().items())
        best = f"best epoch {self.best}" if self.best else ""
        parts = (f"{count}: {figures}", best, f"{sum(self.seconds):.2f} s", self.stopped)
        return f"History({'; '.join(p for p in parts if p)})"

    def plot(self, path: str | os.PathLike | None = None):
        """Plot the losses (logarithmic axis), and save the plot if ``path`` is given. Needs matplotlib (``weft-array[plot]``).

        Returns
        -------
        matplotlib.figure.Figure
        """
        figure = make_figure((6, 3.6))
        axes = figure.add_subplot()
        numbers = [e.number for e in self.epochs]
        axes.plot(numbers, self.loss, marker="o", markersize=3, label="training")
        validation = [e.validation_loss for e in self.epochs if e.validation_loss is not None]
        if validation:
            axes.plot(numbers[: len(validation)], validation, marker="o", markersize=3, label="validation")
            axes.legend()
        if self.loss and min(self.loss) > 0:
            axes.set_yscale("log")
        axes.set_xlabel("epoch")
        axes.set_ylabel("loss")
        axes.grid(alpha=0.3)
        if path is not None:
            figure.savefig(path, dpi=130)
        return figure

    def _repr_html_(self) -> str:
        if not self.epochs:
            return "<p>no epochs</p>"
        names = list(dict.fromkeys(name for e in self.epochs for name in e.values()))
        head = "".join(f"<th>{html.escape(n)}</th>" for n in ("epoch", *names, "seconds"))
        rows = []
        for e in self.epochs:
            figures = e.values()
            cells = [str(e.number), *(format_figure(figures[n]) if n in figures else "" for n in names), f"{e.seconds:.2f}"]
            style = ' style="font-weight:bold"' if e.number == self.best else ""
            rows.append(f"<tr{style}>" + "".join(f"<td>{c}</td>" for c in cells) + "</tr>")
        note = f"<caption>{html.escape(self.stopped)}</caption>" if self.stopped else ""
        return f"<table>{note}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


add_foreign_names(History, HISTORY)


def format_figure(value: float) -> str:
    """Return a number as text with four decimals, in scientific notation if it is small."""
    return f"{value:.4f}" if value == 0 or abs(value) >= 1e-3 else f"{value:.3e}"


@dataclass(slots=True)
class State:
    """The state of a run, passed to callbacks. ``state["val_loss"]`` is a figure of the last finished epoch.

    Attributes
    ----------
    model, optimizer : the arguments of ``fit``; ``state.optimizer.lr = 1e-4`` takes effect at the next step
    history : History so far
    epoch : number of the current epoch, from 1
    epochs : number of epochs of the whole run
    batch : number of batches trained in this epoch
    step : number of updates in the whole run
    loss : loss of the last step
    stopped : the reason to end the run, "" while it continues
    """

    model: Module
    optimizer: Optimizer
    history: History
    epochs: int
    epoch: int = 0
    batch: int = 0
    step: int = 0
    loss: float = float("nan")
    stopped: str = ""

    @property
    def row(self) -> Epoch:
        """The last finished epoch."""
        return self.history.epochs[-1]

    def __getitem__(self, name: str) -> float:
        return self.row[name]

    def stop(self, reason: str = "stopped by a callback") -> None:
        """End the run after this step, or from ``on_epoch`` after this epoch. ``history.stopped`` will be the reason."""
        self.stopped = reason


Callback = Callable[[State], Any]


@dataclass(frozen=True, slots=True)
class Hooks:
    """The callbacks of a run, by the moment at which they are called."""

    begin: tuple[Callback, ...]
    batch: tuple[Callback, ...]
    epoch: tuple[Callback, ...]
    end: tuple[Callback, ...]
    all: tuple[Any, ...]


_MOMENTS = ("on_begin", "on_batch", "on_epoch", "on_end")


def sort_callbacks(callbacks: Any) -> Hooks:
    """Sort callbacks by moment: functions are called after every epoch, objects at the moments of their methods."""
    if callable(callbacks) or any(hasattr(callbacks, m) for m in _MOMENTS):
        callbacks = [callbacks]
    if not isinstance(callbacks, Iterable):
        raise TypeError(f"fit: callbacks must be a list of functions of the state or of callbacks, not {callbacks!r}")
    by_moment: dict[str, list[Callback]] = {m: [] for m in _MOMENTS}
    for c in callbacks:
        methods = [m for m in _MOMENTS if callable(getattr(c, m, None))]
        if isinstance(c, type) or not (methods or callable(c)):
            kinds, hint = ", ".join(_MOMENTS), ": call it, to make one" if isinstance(c, type) else ""
            raise TypeError(f"fit: a callback must be a function of the state, or an object with {kinds}, not {c!r}{hint}")
        for m in methods:
            by_moment[m].append(getattr(c, m))
        if not methods:
            by_moment["on_epoch"].append(c)
    begin, batch, epoch, end = (tuple(by_moment[m]) for m in _MOMENTS)
    return Hooks(begin, batch, epoch, end, tuple(callbacks))
