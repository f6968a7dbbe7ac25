"""Checks of arguments that choose how numbers are rounded."""

from __future__ import annotations

from weft.dtypes.formats import FLOATS, Format
from weft.dtypes.rounding import MODES
from weft.errors import DTypeError


def check_rounding(function: str, form: Format, rounding: str | None, saturate: bool | None) -> None:
    """Raise an error in the name of ``function`` if a mode does not exist or ``form`` must saturate."""
    if rounding is not None and rounding not in MODES:
        raise ValueError(f"{function}: rounding={rounding!r} must be one of {', '.join(map(repr, MODES))}")
    if saturate not in (None, True, False):
        raise TypeError(f"{function}: saturate={saturate!r} must be True or False")
    if saturate is False and form in FLOATS and form.overflow == form.largest:
        raise DTypeError(f"{function}: {form} has no value for numbers that are too large: saturate=False is not possible")
