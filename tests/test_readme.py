"""The README's Python code runs, in order, in one namespace."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_readme_code_runs(capsys) -> None:
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
