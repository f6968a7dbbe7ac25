"""fit in a notebook: one output with a bar and a table that is written over, and one with the plot."""

from __future__ import annotations

import base64
import re

import nbformat
from nbclient import NotebookClient

CELLS = [
    """
import numpy as np
import weft as wf
r = np.random.default_rng(0)
x = r.normal(size=(100, 3)).astype("float32")
y = (x.sum(1) > 0).astype("int32")
net = wf.nn.Sequential(wf.nn.Linear(3, 8), wf.nn.Tanh(), wf.nn.Linear(8, 2))
history = wf.train.fit(net, x, y, epochs=4, batch_size=20, validation=0.2, metrics=["accuracy"])
""",
    "history",
    "history = wf.train.fit(net, lambda: iter([(x, y)] * 3), epochs=2); history.loss",
    "import sys; sys.modules['matplotlib.figure'] = None\nhistory = wf.train.fit(net, x, y, epochs=2)",
    "history = wf.train.fit(net, x, y, epochs=2, show=False)",
]


def figures(html: str) -> list[list[str]]:
    return [re.findall(r"<td>(.*?)</td>", row) for row in re.findall(r"<tr[^>]*>(.*?)</tr>", html)][1:]


def test_plot_and_table(tmp_path) -> None:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text.strip()) for text in CELLS])
    NotebookClient(book, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    trained, shown, stream, bare, silent = (cell.outputs for cell in book.cells)

    table, plot = trained
    html = table.data["text/html"]
    assert 'max="16" value="16"' in html and "16/16 batches" in html  # 80 samples for training
    rows = figures(html)
    assert [row[0] for row in rows] == ["1", "2", "3", "4"] and all(len(row) == 6 for row in rows)
    head = re.findall(r"<th>(.*?)</th>", html)
    assert head == ["epoch", "loss", "accuracy", "val_loss", "val_accuracy", "seconds"]
    assert all(float(cell) >= 0 for row in rows for cell in row)
    assert html.count("font-weight:bold") == 1  # the best epoch
    picture = plot.data["image/png"]
    assert base64.b64decode(picture).startswith(b"\x89PNG")

    assert figures(shown[0].data["text/html"]) == rows
    html, _, loss = stream[0].data["text/html"], stream[1].data["image/png"], stream[2].data["text/plain"]
    assert "6/6 batches" in html and [f"{float(v):.4f}" for v in loss.strip("[]").split(",")] == [r[1] for r in figures(html)]
    assert len(bare) == 1 and len(figures(bare[0].data["text/html"])) == 2  # without matplotlib: the table alone
    assert silent == []
