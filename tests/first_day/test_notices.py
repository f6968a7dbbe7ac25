"""What a terminal and a notebook show: notices while something compiles, running figures, pictures, the command line."""

from __future__ import annotations

import io
import re
import sys
import time

import pytest

import weft as wf
from tests.train.making import data, net
from weft.process import notices
from weft.tools.cli import main


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch) -> Terminal:
    """Replace ``sys.stderr``; a fixture could not, since pytest restores it for the call."""
    monkeypatch.setattr(notices, "DELAY_S", 0.02)
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    return screen


def test_a_notice_is_shown_and_removed(monkeypatch) -> None:
    terminal = open_terminal(monkeypatch)
    with notices.announce(lambda: "compiling f()"):
        with notices.announce(lambda: "inside of another"):
            time.sleep(0.2)
        assert terminal.getvalue() == "weft: compiling f() ..."
    assert terminal.getvalue() == "weft: compiling f() ...\r\x1b[K"
    with notices.silent(), notices.announce(lambda: "unseen"):
        time.sleep(0.1)
    with notices.announce(lambda: "short"):
        pass
    with pytest.raises(RuntimeError), notices.announce(lambda: "failing"):
        raise RuntimeError
    time.sleep(0.1)
    assert not re.search("unseen|short|failing|inside", terminal.getvalue())


def test_nothing_is_shown_outside_of_a_terminal(monkeypatch) -> None:
    monkeypatch.setattr(notices, "DELAY_S", 0.0)
    monkeypatch.setattr(sys, "stderr", screen := io.StringIO())
    with notices.announce(lambda: "compiling"):
        time.sleep(0.05)
    assert screen.getvalue() == ""


def test_compiling_names_the_function(monkeypatch) -> None:
    from weft.runtime import execute

    compile_ = execute._compile
    monkeypatch.setattr(execute, "_compile", lambda *args: (time.sleep(0.3), compile_(*args))[1])

    def scale_by(x):
        return x * 3.25 + 1

    terminal = open_terminal(monkeypatch)
    wf.jit(scale_by)(wf.ones(7))
    assert re.match(r"weft: compiling .*scale_by\(\), \d operations, once for these shapes \.\.\.", terminal.getvalue())


def test_a_bar_shows_running_figures(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdout", screen := Terminal())
    for name, value in {"TERM": "xterm", "COLUMNS": "200", "LINES": "30"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    slow = type("Slow", (), {"on_batch": lambda self, state: time.sleep(0.15)})()
    wf.train.fit(net(), *data(60), epochs=1, batch_size=20, metrics=["accuracy"], callbacks=[slow])
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    assert re.search(r"[12]/3 elapsed.*loss \d\.\d+ +accuracy \d+\.\d+ %", shown)


def test_pictures_are_shown_by_notebooks() -> None:
    pytest.importorskip("matplotlib")
    history = wf.train.History([wf.train.Epoch(k, 1.0 / k, 1.0) for k in (1, 2)])
    assert history.plot()._repr_png_().startswith(b"\x89PNG")


def test_the_command_line(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0 and capsys.readouterr().out == f"weft {wf.__version__}\n"
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert "usage: weft" in shown and "train" in shown and "info" in shown
