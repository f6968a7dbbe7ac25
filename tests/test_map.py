"""The map in docs/architecture.md: every file of the house, in its room, and none that does not exist."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]


def mapped() -> Counter[str]:
    found: Counter[str] = Counter()
    room = None
    for line in (ROOT / "docs/architecture.md").read_text().split("\n## Map\n")[1].splitlines():
        if heading := re.fullmatch(r"### `(weft/[\w/]*)`", line):
            room = heading[1]
        elif line:
            item = re.match(r"- `([\w.]+)`: \S", line)
            assert item is None or room, line
            if item:
                found[f"{room}{item[1]}"] += 1
    return found


def test_the_map_names_every_file_once() -> None:
    files = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "weft").rglob("*.py*")
        if path.suffix in (".py", ".pyi") and path.read_text().strip()
    }
    found = mapped()
    assert len(files) > 150
    assert sorted(files - set(found)) == [], "these have no line in the map of docs/architecture.md"
    assert sorted(set(found) - files) == [], "the map of docs/architecture.md names these, and they do not exist"
    assert max(found.values()) == 1, found.most_common(3)
