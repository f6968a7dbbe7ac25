"""Number formats, names of dtypes, scalar types, and promotion.

The public names are those of :mod:`weft.dtypes.api`, which is loaded when one of them is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = [
    "Limits", "as_dtype", "can_cast", "compared", "finfo", "floating", "iinfo", "is_float", "is_inexact", "isdtype", "promote",
    "result_type", "same_kind", "summed", "weak", "weak_compared",
]


def __getattr__(name: str) -> Any:
    if not name.startswith("__"):
        api = importlib.import_module("weft.dtypes.api")
        if name in vars(api):
            return vars(api)[name]
        if (made := api.find_made_dtype(name)) is not None:  # of a pickle
            return made
    raise AttributeError(f"module 'weft.dtypes' has no attribute {name!r}")
