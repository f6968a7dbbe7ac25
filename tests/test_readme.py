"""The README's Python code runs, in order, in one namespace."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"


def test_readme_code_runs(capsys, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(README.parent / "examples" / "seeds"))
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert blocks
    namespace: dict = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), namespace)


def test_readme_kernel_is_what_explain_prints(capsys) -> None:
    """The table the README shows is explain's own output."""
    text = README.read_text()
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    shown = re.search(r"```text\n(.*?)```", text, re.DOTALL)
    assert shown is not None
    exec(compile(code, "readme.py", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out.strip() == shown.group(1).strip()


def test_readme_figures_are_those_of_the_kept_runs(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(README.parent / "benchmarks"))
    table = importlib.import_module("table")
    monkeypatch.delitem(sys.modules, "table")
    text = README.read_text()
    assert table.write(text) == text, "results have changed: python benchmarks/table.py --write"
    assert len(table.table().splitlines()) == 2 + len(table.PROGRAMS) + len(table.KERNELS)
    with pytest.raises(ValueError, match="must hold"):
        table.write("no comments here")


def test_readme_commands_exist() -> None:
    """Programs the README names are files; commands of ``weft`` are known to its parser."""
    from weft.tools.cli import _parser

    text = README.read_text()
    programs = re.findall(r"^    \.venv/bin/python (\S+\.py)", text, re.MULTILINE)
    assert len(programs) >= 5 and not [p for p in programs if not (README.parent / p).is_file()]
    commands = re.findall(r"^    \.venv/bin/weft ([^#\n]+)", text, re.MULTILINE)
    assert len(commands) >= 3
    for command in commands:
        _parser().parse_args(command.split())
