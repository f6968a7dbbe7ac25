"""The map of the house: every file with the first sentence of its docstring, room by room.

    python tools/map.py                  # all of weft
    python tools/map.py kernel devices   # rooms whose path has one of these words in it
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def files() -> list[Path]:
    """Every source file of weft that says anything."""
    return sorted(p for p in (ROOT / "weft").rglob("*.py") if p.read_text().strip())


def sentence(path: Path) -> str:
    """The first sentence of a file's docstring; empty where it has none."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(text.split("\n\n")[0].split()).partition(". ")[0].rstrip(".")


def rooms(words: list[str]) -> Iterator[tuple[Path, list[Path]]]:
    """Folders, each with its files."""
    found: dict[Path, list[Path]] = {}
    for path in files():
        found.setdefault(path.parent.relative_to(ROOT), []).append(path)
    return ((room, inside) for room, inside in found.items() if not words or any(w in room.as_posix() for w in words))


if __name__ == "__main__":
    for room, inside in rooms(sys.argv[1:]):
        print(f"\n{room}/")
        for path in inside:
            print(f"  {path.name:24} {sentence(path)}")
