"""Order of additions to the same element of a scatter: in index order, or in any order where the user permits it."""

from __future__ import annotations

from weft.dtypes.formats import FLOATS, Format
from weft.graph.primitives.choice import Choice

ADD, UNORDERED = "add", "add_unordered"
ADD_MODES = (ADD, UNORDERED)
DETERMINISM = Choice(True)  # whether every run must produce the same bits


def scatter_add_mode(dtype: Format) -> str:
    """Return the mode of a new scatter that adds numbers of ``dtype``. For integers any order has the same result."""
    return ADD if DETERMINISM.value or dtype not in FLOATS else UNORDERED
