"""Sets of formats that rules allow. The formats themselves are in ``weft/dtypes/formats.py``."""

from __future__ import annotations

from collections.abc import Set

from weft.dtypes.formats import BOOL, COMPLEX, FLOATS, INTEGERS, Format, formats_of_kind

SIGNED, UNSIGNED = frozenset(formats_of_kind("signed")), frozenset(formats_of_kind("unsigned"))
NUMBERS = INTEGERS | FLOATS
BITS = INTEGERS | {BOOL}
ALL = NUMBERS | {BOOL}

_WORDS = {
    BITS: "bool or an integer dtype", INTEGERS: "an integer dtype", FLOATS: "a float dtype",
    NUMBERS: "an integer or float dtype", ALL: "bool, an integer or a float dtype", frozenset((BOOL,)): "bool",
    COMPLEX: "complex64 or complex128",
}


def words(dtypes: Set[Format]) -> str:
    """Return the set in words, for messages."""
    return _WORDS.get(dtypes) or "one of " + ", ".join(sorted(d.name for d in dtypes))
