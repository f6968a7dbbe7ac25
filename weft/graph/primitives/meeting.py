"""In which order numbers are added that meet in one element of a scatter: as they stand, or in any, where that is permitted."""

from __future__ import annotations

from weft.dtypes.formats import FLOATS, Format
from weft.graph.primitives.choice import Choice

ADD, UNORDERED = "add", "add_unordered"
ADDITIONS = (ADD, UNORDERED)
DETERMINISM = Choice(True)  # whether every run has to give the same bits


def adding(dtype: Format) -> str:
    """The mode of a scatter that adds numbers of ``dtype`` and is written now. Integers give the same in any order."""
    return ADD if DETERMINISM.value or dtype not in FLOATS else UNORDERED
