"""Progress of a run: a bar in a terminal, one line an epoch elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from weft.train.history import Epoch


class Progress:
    """Counts steps; drawn at most ten times a second, so that small nets are not slowed."""

    def __init__(self, bar=None, task=None) -> None:
        self._bar, self._task, self._pending, self._next = bar, task, 0, 0.0

    def step(self, loss: float | None = None) -> None:
        if self._bar is None:
            return
        self._pending += 1
        now = time.perf_counter()
        if now >= self._next:
            self._bar.update(self._task, advance=self._pending)
            self._pending, self._next = 0, now + 0.1

    def epoch(self, row: Epoch, total: int) -> None:
        if self._bar is None:
            print(describe(row, total), flush=True)
            return
        self._bar.update(self._task, advance=self._pending, description=describe(row, total))
        self._pending = 0


def describe(row: Epoch, total: int) -> str:
    text = f"epoch {row.number}/{total}  loss {row.loss:.4f}  {row.seconds:.2f} s"
    if row.validation_accuracy is not None:
        text += f"  validation {100 * row.validation_accuracy:.2f} %"
    return text


class _Silent(Progress):
    def epoch(self, row: Epoch, total: int) -> None:
        return


@contextmanager
def progress(steps: int, show: bool = True) -> Iterator[Progress]:
    """A bar of ``steps`` steps with elapsed and remaining time, where the output is a terminal."""
    if not show:
        yield _Silent()
        return
    if not sys.stdout.isatty():
        yield Progress()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("elapsed"), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(),
    )
    with Bar(*columns) as bar:
        yield Progress(bar, bar.add_task("epoch 1", total=steps))
