"""What a training run reports: one row an epoch, and the picture of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch: mean training loss, seconds, and what the validation data gave (None without any)."""

    number: int
    loss: float
    seconds: float
    validation_loss: float | None = None
    validation_accuracy: float | None = None


@dataclass(slots=True)
class History:
    """The epochs of a run. ``interrupted`` when Ctrl-C ended it; ``best`` is the number of the epoch kept then."""

    epochs: list[Epoch] = field(default_factory=list)
    interrupted: bool = False
    best: int = 0

    @property
    def loss(self) -> list[float]:
        return [e.loss for e in self.epochs]

    @property
    def seconds(self) -> list[float]:
        return [e.seconds for e in self.epochs]

    def plot(self, path: str | os.PathLike | None = None):
        """Draw the error curve (logarithmic); with ``path`` save it there. Needs matplotlib (``weft[plot]``).

        Returns
        -------
        matplotlib.figure.Figure
        """
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise ImportError("plotting needs matplotlib: pip install weft[plot]") from None
        figure = Figure(figsize=(6, 3.6), layout="constrained")
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
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(path, dpi=130)
        return figure
