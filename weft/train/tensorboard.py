"""Figures of a run for TensorBoard (extra ``weft[tensorboard]``)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from weft.train.history import Epoch
from weft.train.state import State


class TensorBoard:
    """Write every figure of every epoch to event files: folders ``train`` and ``validation``, so that curves share a chart.

    Parameters
    ----------
    folder : where to; ``tensorboard --logdir FOLDER`` shows it

    Raises
    ------
    ImportError
        when tensorboardX is missing: ``pip install weft[tensorboard]``.

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
        self._from = len(state.history.epochs) + 1  # what an interrupted run wrote from here on is void

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
