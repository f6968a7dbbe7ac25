"""Display the progress of a run: lines, a bar in a terminal, a plot and table in a notebook, or TensorBoard."""

from __future__ import annotations

import html
import io
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.process.distribution import install_command
from weft.process.notices import in_notebook, silent
from weft.train.history import Epoch, History, State, format_figure
from weft.train.ranks import writes_files


class Progress:
    """Progress as one printed line per epoch."""

    interval = math.inf  # seconds between two calls of ``redraw``, which would slow down small nets

    def __init__(self, epochs: int, total: int | None = None, done: int = 0) -> None:
        self.epochs, self.total, self.epochs_done, self._next_redraw = epochs, total, done, 0.0

    def step(self, batches: int = 1) -> None:
        self.epochs_done += batches
        now = time.perf_counter()
        if now >= self._next_redraw:
            self._next_redraw = now + self.interval
            self.redraw()

    def epoch(self, row: Epoch) -> None:
        print(describe_epoch(row, self.epochs), flush=True)

    def redraw(self) -> None:
        """Display the count of batches."""


class Silent(Progress):
    def epoch(self, row: Epoch) -> None:
        return


class Bar(Progress):
    """Progress bar that counts batches."""

    interval = 0.1

    def __init__(
        self, epochs: int, total: int | None, done: int, bar: Any, description: str, running: Callable[[], dict[str, float]],
    ) -> None:
        super().__init__(epochs, total, done)
        self._bar, self._task = bar, bar.add_task(description, total=total, completed=done, figures="")
        self._running = running

    def redraw(self) -> None:
        self._bar.update(self._task, completed=self.epochs_done, figures=format_figures(self._running()).strip())

    def epoch(self, row: Epoch) -> None:
        self._bar.console.print(describe_epoch(row, self.epochs), highlight=False, markup=False, soft_wrap=True)  # above the bar
        total = self.total if self.total is not None else round(self.epochs_done / row.number * self.epochs)  # extrapolated
        now = f"epoch {min(row.number + 1, self.epochs)}/{self.epochs}"
        self._bar.update(self._task, completed=self.epochs_done, description=now, total=total, figures="")


def describe_epoch(row: Epoch, total: int) -> str:
    """Return an epoch's figures as a line of text."""
    text = f"epoch {row.number}/{total}  loss {format_figure(row.loss)}{format_figures(row.metrics)}  {row.seconds:.2f} s"
    if row.validation_loss is not None:
        figures = {n[4:]: v for n, v in row.values().items() if n.startswith("val_") and n != "val_loss"}
        text += f"  validation loss {format_figure(row.validation_loss)}{format_figures(figures)}"
    return text


def format_figures(metrics: dict[str, float]) -> str:
    parts = ((n, f"{100 * v:.2f} %" if "accuracy" in n else format_figure(v)) for n, v in metrics.items())
    return "".join(f"  {name} {value}" for name, value in parts)


@contextmanager
def progress(
    total: int | None, show: bool = True, history: History | None = None, epochs: int = 1, done: int = 0,
    running: Callable[[], dict[str, float]] = dict,
) -> Iterator[Progress]:
    """Context manager: the display of a run of ``total`` batches (None if not known), of which ``done`` are finished.

    running : function that returns the means so far of the current epoch
    """
    if not show:
        with silent():
            yield Silent(epochs)
    elif history is not None and in_notebook():
        output = _Live(total, history, epochs, done, running)
        try:
            with silent():  # the bar says what is compiled
                yield output
        finally:
            output.end()
    elif not sys.stdout.isatty():
        yield Progress(epochs)
    else:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Drawn

        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("elapsed"), TimeElapsedColumn(),
            TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[figures]}", markup=False),
        )
        with Drawn(*columns) as bar:
            now = f"epoch {1 if history is None else len(history.epochs) + 1}/{epochs}"
            yield Bar(epochs, total, done, bar, now, running)


MIN_SECONDS = 0.5  # between two plots


class _Live(Progress):
    """Progress in a notebook, to be closed by :meth:`end`."""

    interval = 0.2

    def __init__(
        self, total: int | None, history: History, epochs: int, done: int, running: Callable[[], dict[str, float]],
    ) -> None:
        super().__init__(epochs, total, done)
        from IPython import display

        self._history, self._plot, self._running = history, 0.0, running
        self._display: Any = display
        self._bar = self._display.display(display.HTML(self._text()), display_id=True)
        self._picture: Any = None

    def redraw(self) -> None:
        self._bar.update(self._display.HTML(self._text()))

    def epoch(self, row: Epoch) -> None:
        if self.total is None:
            self.total = round(self.epochs_done / row.number * self.epochs)
        self.redraw()
        now = time.perf_counter()
        if now >= self._plot:
            self.draw()
            self._plot = time.perf_counter() + MIN_SECONDS

    def draw(self) -> None:
        """Display or update the plot; without matplotlib only the table is shown."""
        try:
            plot = self._history.plot()
        except ImportError:
            return
        out = io.BytesIO()
        plot.savefig(out, format="png", dpi=90)
        picture = self._display.Image(out.getvalue())
        if self._picture is None:
            self._picture = self._display.display(picture, display_id=True)
        else:
            self._picture.update(picture)

    def end(self) -> None:
        self.redraw()
        if self._history.epochs:
            self.draw()

    def _text(self) -> str:
        amount = f' max="{self.total}" value="{self.epochs_done}"' if self.total else ""
        counted = f"{self.epochs_done}/{self.total if self.total is not None else '?'} batches"
        if not self.epochs_done:
            counted += ", compiling the training step"
        table = self._history._repr_html_() if self._history.epochs else ""
        return f"<div><progress{amount}></progress> {html.escape(counted + format_figures(self._running()))}{table}</div>"


class TensorBoard:
    """Write every figure of every epoch to event files in the folders ``train`` and ``validation``, so that curves share a chart.

    Parameters
    ----------
    folder : folder of the event files, for ``tensorboard --logdir FOLDER``

    Raises
    ------
    ImportError
        tensorboardX is not installed: ``pip install 'weft-array[tensorboard]'``.

    Examples
    --------
    >>> import numpy as np, weft as wf, tempfile, os
    >>> x, folder = np.ones((8, 3), "float32"), tempfile.mkdtemp()
    >>> history = wf.train.fit(
    ...     wf.nn.Linear(3, 1), x, x[:, :1], epochs=2, loss=wf.losses.mse, validation=(x, x[:, :1]), show=False,
    ...     callbacks=[wf.train.TensorBoard(folder)],
    ... )
    >>> sorted(os.listdir(folder))
    ['train', 'validation']
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        try:
            import tensorboardX  # noqa: F401
        except ImportError:
            raise ImportError(f"TensorBoard needs the package tensorboardX: {install_command('tensorboard')}") from None
        self.folder = Path(folder)
        self._writers: dict[str, Any] = {}
        self._from = 1

    def on_begin(self, state: State) -> None:
        self._from = len(state.history.epochs) + 1  # later rows of an interrupted run are purged

    def on_epoch(self, state: State) -> None:
        if not writes_files():
            return
        row = state.row
        self._write("train", row, {"loss": row.loss, **row.metrics, **({} if row.lr is None else {"lr": row.lr})})
        if row.validation_loss is not None:
            self._write("validation", row, {"loss": row.validation_loss, **row.validation_metrics})

    def on_end(self, state: State) -> None:
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _write(self, part: str, row: Epoch, figures: dict[str, float]) -> None:
        import tensorboardX

        if part not in self._writers:
            purge = self._from if self._from > 1 else None
            self._writers[part] = tensorboardX.SummaryWriter(str(self.folder / part), purge_step=purge)
        for name, value in figures.items():
            self._writers[part].add_scalar(name, value, row.number)
        self._writers[part].flush()
