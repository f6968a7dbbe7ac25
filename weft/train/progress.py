"""Progress of a run as text: a line an epoch, and in a terminal a bar below them."""

from __future__ import annotations

import time

from weft.train.history import Epoch, figure


class Progress:
    """One line an epoch."""

    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def step(self, batches: int = 1) -> None:
        return

    def epoch(self, row: Epoch) -> None:
        print(describe(row, self.epochs), flush=True)


class Silent(Progress):
    def epoch(self, row: Epoch) -> None:
        return


class Bar(Progress):
    """Counts batches; drawn at most ten times a second, so that small nets are not slowed."""

    def __init__(self, epochs: int, bar, task, known: bool) -> None:
        super().__init__(epochs)
        self._bar, self._task, self._known, self._pending, self._next, self._done = bar, task, known, 0, 0.0, 0

    def step(self, batches: int = 1) -> None:
        self._pending += batches
        now = time.perf_counter()
        if now >= self._next:
            self._bar.update(self._task, advance=self._pending)
            self._done += self._pending
            self._pending, self._next = 0, now + 0.1

    def epoch(self, row: Epoch) -> None:
        self._done += self._pending
        more = {} if self._known else {"total": round(self._done / row.number * self.epochs)}  # one epoch tells the others
        self._bar.console.print(describe(row, self.epochs), highlight=False, markup=False, soft_wrap=True)  # above the bar
        now = f"epoch {min(row.number + 1, self.epochs)}/{self.epochs}"
        self._bar.update(self._task, advance=self._pending, description=now, **more)
        self._pending = 0


def describe(row: Epoch, total: int) -> str:
    """An epoch in a line.

    Examples
    --------
    >>> from weft.train.progress import describe
    >>> describe(Epoch(1, 0.5, 2.0, 0.25, 0.75, {"accuracy": 0.5}), 9)
    'epoch 1/9  loss 0.5000  accuracy 50.00 %  2.00 s  validation loss 0.2500  accuracy 75.00 %'
    """
    text = f"epoch {row.number}/{total}  loss {figure(row.loss)}{_figures(row.metrics)}  {row.seconds:.2f} s"
    if row.validation_loss is not None:
        text += f"  validation loss {figure(row.validation_loss)}{_figures(_validated(row))}"
    return text


def _validated(row: Epoch) -> dict[str, float]:
    return {n[4:]: v for n, v in row.values().items() if n.startswith("val_") and n != "val_loss"}


def _figures(metrics: dict[str, float]) -> str:
    shown = ((n, f"{100 * v:.2f} %" if "accuracy" in n else figure(v)) for n, v in metrics.items())
    return "".join(f"  {name} {value}" for name, value in shown)
