"""What shows the progress of a run: nothing, lines, a bar in a terminal, a plot and a table in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from weft.train.history import History
from weft.train.notebook import in_notebook, live
from weft.train.progress import Bar, Progress, Silent


@contextmanager
def progress(
    total: int | None, show: bool = True, history: History | None = None, epochs: int = 1, done: int = 0,
) -> Iterator[Progress]:
    """What shows a run of ``total`` batches (None where that is not known), ``done`` of which lie behind it."""
    if not show:
        yield Silent(epochs)
    elif history is not None and in_notebook():
        shown = live(total, history, epochs, done)
        try:
            yield shown
        finally:
            shown.end()
    elif not sys.stdout.isatty():
        yield Progress(epochs)
    else:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Drawn

        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("elapsed"), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(),
        )
        with Drawn(*columns) as bar:
            now = f"epoch {1 if history is None else len(history.epochs) + 1}/{epochs}"
            yield Bar(epochs, bar, bar.add_task(now, total=total, completed=done), total is not None)
