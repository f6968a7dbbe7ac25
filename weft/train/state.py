"""What a callback is given: where the run stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from weft.nn.module import Module
from weft.optim import Optimizer
from weft.train.history import Epoch, History


@dataclass(slots=True)
class State:
    """Where a run stands; callbacks get it. ``state["val_loss"]`` is a figure of the last finished epoch.

    Attributes
    ----------
    model, optimizer : as given to ``fit``; ``state.optimizer.lr = 1e-4`` counts from the next step on
    history : History so far
    epoch : number of the epoch, from 1
    epochs : how many there are to be
    batch : batches trained in this epoch
    step : updates of the weights made in the whole run
    loss : of the last step
    stopped : why the run is to stop, "" while it goes on
    """

    model: Module
    optimizer: Optimizer
    history: History
    epochs: int
    epoch: int = 0
    batch: int = 0
    step: int = 0
    loss: float = float("nan")
    stopped: str = field(default="")

    @property
    def row(self) -> Epoch:
        """The last finished epoch."""
        return self.history.epochs[-1]

    def __getitem__(self, name: str) -> float:
        return self.row[name]

    def stop(self, reason: str = "stopped by a callback") -> None:
        """End the run: after this step, or in ``on_epoch`` after this epoch; ``history.stopped`` keeps the reason."""
        self.stopped = reason


Callback = Callable[[State], Any]


@dataclass(frozen=True, slots=True)
class Hooks:
    """The callbacks of a run, by the moment they are called at."""

    begin: tuple[Callback, ...]
    batch: tuple[Callback, ...]
    epoch: tuple[Callback, ...]
    end: tuple[Callback, ...]
    all: tuple[Any, ...]


_MOMENTS = ("on_begin", "on_batch", "on_epoch", "on_end")


def hooks(callbacks: Any) -> Hooks:
    """Sort callbacks: functions are called after every epoch, objects by the methods they have."""
    if callable(callbacks) or any(hasattr(callbacks, m) for m in _MOMENTS):
        callbacks = [callbacks]
    found: dict[str, list[Callback]] = {m: [] for m in _MOMENTS}
    for c in callbacks:
        methods = [m for m in _MOMENTS if callable(getattr(c, m, None))]
        if isinstance(c, type) or not (methods or callable(c)):
            raise TypeError(
                f"fit: a callback must be a function of the state, or an object with {', '.join(_MOMENTS)}, not {c!r}"
                + (": call it, to make one" if isinstance(c, type) else "")
            )
        for m in methods:
            found[m].append(getattr(c, m))
        if not methods:
            found["on_epoch"].append(c)
    begin, batch, epoch, end = (tuple(found[m]) for m in _MOMENTS)
    return Hooks(begin, batch, epoch, end, tuple(callbacks))
