"""The name under which weft is distributed, for messages that say how to install an extra.

On PyPI the name ``weft`` belongs to another project, so ``pip install weft`` installs a program of other people.
"""

from __future__ import annotations

NAME = "weft-array"


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra of ``pyproject.toml``."""
    return f"pip install '{NAME}[{extra}]'"
