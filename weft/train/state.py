"""State of a run, the argument of callbacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.nn.module import Module
from weft.optim import Optimizer
from weft.train.history import Epoch, History


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


def hooks(callbacks: Any) -> Hooks:
    """Sort callbacks by moment: functions are called after every epoch, objects at the moments of their methods."""
    if callable(callbacks) or any(hasattr(callbacks, m) for m in _MOMENTS):
        callbacks = [callbacks]
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
