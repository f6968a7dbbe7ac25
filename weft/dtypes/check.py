"""Checks of arguments that choose formats and how numbers are rounded."""

from __future__ import annotations

from typing import Any

from weft.dtypes.formats import FLOATS, Format
from weft.dtypes.parse import parse_dtype
from weft.dtypes.rounding import MODES
from weft.errors import DTypeError


def parse_number_format(name: str, dtype: Any) -> Format:
    """Return a float format to which numbers of any sign are rounded. name : of the function and the argument, for errors"""
    try:
        form = parse_dtype(dtype)
    except DTypeError as error:
        text = str(error)
        raise DTypeError(f"{name}: {text[max(text.find(repr(dtype)), 0):]}") from None
    if form not in FLOATS:
        raise DTypeError(f"{name}: {form} cannot represent fractions: give a float format")
    if form.special == "scale":
        raise DTypeError(f"{name}: {form} has no negative numbers and no zero, it is a format for scales")
    return form


def check_rounding(function: str, form: Format, rounding: str | None, saturate: bool | None) -> None:
    """Raise an error in the name of ``function`` if a mode does not exist or ``form`` must saturate."""
    if rounding is not None and rounding not in MODES:
        raise ValueError(f"{function}: rounding={rounding!r} must be one of {', '.join(map(repr, MODES))}")
    if saturate not in (None, True, False):
        raise TypeError(f"{function}: saturate={saturate!r} must be True or False")
    if saturate is False and form in FLOATS and form.overflow == form.largest:
        raise DTypeError(f"{function}: {form} has no value for numbers that are too large: saturate=False is not possible")
