"""What a run shows in a terminal and elsewhere."""

from __future__ import annotations

import io
import re
import sys

import pytest

import weft as wf
from tests.train.making import data, net


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("known", [True, False])
def test_a_bar_below_a_line_an_epoch(known: bool, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    for name, value in {"TERM": "xterm", "COLUMNS": "100", "LINES": "30"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    x, y = data(60)
    given = (x, y) if known else (lambda: iter([(x[:20], y[:20])] * 3),)
    history = wf.train.fit(net(), *given, epochs=2, batch_size=20, metrics=["accuracy"], validation=(x, y))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue()).replace("\r", "\n")
    lines = [line.strip() for line in shown.splitlines()]
    for e in history.epochs:
        said = f"epoch {e.number}/2  loss {e.loss:.4f}  accuracy {100 * e['accuracy']:.2f} %  {e.seconds:.2f} s"
        (line,) = [line for line in lines if line.startswith(said)]
        assert line.endswith(f"validation loss {e['val_loss']:.4f}  accuracy {100 * e['val_accuracy']:.2f} %")
    assert [line for line in lines if line][-1].startswith("epoch 2/2 ") and "6/6 elapsed" in lines[-1] + lines[-2]


def test_nothing_is_shown_when_asked(capsys) -> None:
    wf.train.fit(net(), *data(60), epochs=2, show=False)
    assert capsys.readouterr().out == ""
