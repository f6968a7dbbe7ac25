"""The map of the house (tools/map.py): every file says in one sentence what it is, and no two say the same."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
from map import files, rooms, sentence  # noqa: E402

LONGEST = 130


def test_every_file_says_what_it_is() -> None:
    said = {path.relative_to(ROOT).as_posix(): sentence(path) for path in files()}
    assert len(said) > 150
    assert {path: text for path, text in said.items() if not 1 < len(text.split()) or len(text) > LONGEST} == {}
    assert [text for text, count in Counter(said.values()).items() if count > 1] == []


def test_every_room_has_a_door() -> None:
    assert [room.as_posix() for room, inside in rooms([]) if not any(path.name == "__init__.py" for path in inside)] == []


def test_rooms_are_found_by_a_word() -> None:
    assert [room.as_posix() for room, _ in rooms(["schedule"])] == ["weft/schedule"]
