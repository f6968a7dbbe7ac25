"""Display the progress of a run: lines, a bar in a terminal, a plot and table in a notebook, or TensorBoard."""

from __future__ import annotations

import html
import io
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.train.history import Epoch, History, State, figure


class Progress:
    """Progress as one printed line per epoch."""

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
    """Progress bar that counts batches. It is redrawn at most ten times a second, so that small nets are not slowed down."""

    def __init__(self, epochs: int, bar, task, is_total_known: bool) -> None:
        super().__init__(epochs)
        self._bar, self._task, self._known, self._pending, self._next, self._done = bar, task, is_total_known, 0, 0.0, 0

    def step(self, batches: int = 1) -> None:
        self._pending += batches
        now = time.perf_counter()
        if now >= self._next:
            self._bar.update(self._task, advance=self._pending)
            self._done += self._pending
            self._pending, self._next = 0, now + 0.1

    def epoch(self, row: Epoch) -> None:
        self._done += self._pending
        fields = {} if self._known else {"total": round(self._done / row.number * self.epochs)}  # extrapolated
        self._bar.console.print(describe(row, self.epochs), highlight=False, markup=False, soft_wrap=True)  # above the bar
        now = f"epoch {min(row.number + 1, self.epochs)}/{self.epochs}"
        self._bar.update(self._task, advance=self._pending, description=now, **fields)
        self._pending = 0


def describe(row: Epoch, total: int) -> str:
    """Return an epoch's figures as a line of text.

    Examples
    --------
    >>> from weft.train.progress import describe
    >>> describe(Epoch(1, 0.5, 2.0, 0.25, 0.75, {"accuracy": 0.5}), 9)
    'epoch 1/9  loss 0.5000  accuracy 50.00 %  2.00 s  validation loss 0.2500  accuracy 75.00 %'
    """
    text = f"epoch {row.number}/{total}  loss {figure(row.loss)}{_figures(row.metrics)}  {row.seconds:.2f} s"
    if row.validation_loss is not None:
        text += f"  validation loss {figure(row.validation_loss)}{_figures(_validation_figures(row))}"
    return text


def _validation_figures(row: Epoch) -> dict[str, float]:
    return {n[4:]: v for n, v in row.values().items() if n.startswith("val_") and n != "val_loss"}


def _figures(metrics: dict[str, float]) -> str:
    parts = ((n, f"{100 * v:.2f} %" if "accuracy" in n else figure(v)) for n, v in metrics.items())
    return "".join(f"  {name} {value}" for name, value in parts)


@contextmanager
def progress(
    total: int | None, show: bool = True, history: History | None = None, epochs: int = 1, done: int = 0,
) -> Iterator[Progress]:
    """Context manager: the display of a run of ``total`` batches (None if not known), of which ``done`` are finished."""
    if not show:
        yield Silent(epochs)
    elif history is not None and in_notebook():
        output = _Live(total, history, epochs, done)
        try:
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
            TextColumn("left"), TimeRemainingColumn(),
        )
        with Drawn(*columns) as bar:
            now = f"epoch {1 if history is None else len(history.epochs) + 1}/{epochs}"
            yield Bar(epochs, bar, bar.add_task(now, total=total, completed=done), total is not None)


LEAST_SECONDS = 0.5  # between two plots


def in_notebook() -> bool:
    """Return whether this runs in a Jupyter kernel, which displays HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class _Live(Progress):
    """Progress in a notebook, to be closed by :meth:`end`."""

    def __init__(self, total: int | None, history: History, epochs: int, done: int) -> None:
        super().__init__(epochs)
        from IPython import display

        self._total, self._history, self._done, self._next, self._plot = total, history, done, 0.0, 0.0
        self._display: Any = display
        self._bar = self._display.display(display.HTML(self._text()), display_id=True)
        self._picture: Any = None

    def step(self, batches: int = 1) -> None:
        self._done += batches
        now = time.perf_counter()
        if now >= self._next:
            self._next = now + 0.2
            self._bar.update(self._display.HTML(self._text()))

    def epoch(self, row: Epoch) -> None:
        if self._total is None:
            self._total = round(self._done / row.number * self.epochs)
        self._bar.update(self._display.HTML(self._text()))
        now = time.perf_counter()
        if now >= self._plot:
            self.draw()
            self._plot = time.perf_counter() + LEAST_SECONDS

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
        self._bar.update(self._display.HTML(self._text()))
        if self._history.epochs:
            self.draw()

    def _text(self) -> str:
        amount = f' max="{self._total}" value="{self._done}"' if self._total else ""
        counted = f"{self._done}/{self._total if self._total is not None else '?'} batches"
        table = self._history._repr_html_() if self._history.epochs else ""
        return f"<div><progress{amount}></progress> {html.escape(counted)}{table}</div>"


class TensorBoard:
    """Write every figure of every epoch to event files in the folders ``train`` and ``validation``, so that curves share a chart.

    Parameters
    ----------
    folder : folder of the event files, for ``tensorboard --logdir FOLDER``

    Raises
    ------
    ImportError
        tensorboardX is not installed: ``pip install weft[tensorboard]``.

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
            raise ImportError("TensorBoard needs the package tensorboardX: pip install weft[tensorboard]") from None
        self.folder = Path(folder)
        self._writers: dict[str, Any] = {}
        self._from = 1

    def on_begin(self, state: State) -> None:
        self._from = len(state.history.epochs) + 1  # later rows of an interrupted run are purged

    def on_epoch(self, state: State) -> None:
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
