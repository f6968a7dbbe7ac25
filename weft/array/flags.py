"""Flags: how an array lies in memory and whether it may be written to, as NumPy calls it."""

from __future__ import annotations

from typing import Any

_SHORT = {  # NumPy's other names, in brackets alone
    "C": "c_contiguous", "F": "f_contiguous", "O": "owndata", "W": "writeable", "A": "aligned", "B": "behaved", "CA": "carray",
    "FA": "farray", "X": "writebackifcopy",
}


class Flags:
    """How an array lies in memory, as NumPy calls it: by attribute, or by name in brackets. ``writeable`` can be set.

    To its user an array lies row by row, and may be written to; views have no memory of their own.
    """

    __slots__ = ("_array", "_told")

    _array: Any
    _told: dict[str, bool]

    def __init__(self, array: Any, rows: bool, columns: bool, owns: bool) -> None:
        object.__setattr__(self, "_array", array)
        object.__setattr__(self, "_told", {
            "aligned": True, "c_contiguous": rows, "contiguous": rows, "f_contiguous": columns, "fortran": columns,
            "fnc": columns and not rows, "forc": rows or columns, "owndata": owns, "writebackifcopy": False,
        })

    def __getattr__(self, name: str) -> bool:
        if name == "writeable":
            return not (self._array.is_value or self._array.read_only)
        if name in ("behaved", "carray", "farray"):
            return self.writeable and (name == "behaved" or self._told["c_contiguous" if name == "carray" else "fnc"])
        try:
            return self._told[name]
        except KeyError:
            raise AttributeError(f"flags: there is no {name!r}; known are {', '.join([*self._told, 'writeable'])}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "writeable":
            self._array.setflags(write=value)
        elif name == "aligned":
            self._array.setflags(align=value)
        else:
            getattr(self, name)
            raise AttributeError(f"flags: {name} says how the array lies; it cannot be set")

    def __getitem__(self, name: str) -> bool:
        try:
            return getattr(self, _SHORT.get(name, _SHORT.get(name.lower(), name.lower())))
        except AttributeError as error:
            raise KeyError(str(error)) from None

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, _SHORT.get(name, _SHORT.get(name.lower(), name.lower())), value)

    def __repr__(self) -> str:
        names = ("c_contiguous", "f_contiguous", "owndata", "writeable", "aligned")
        return "\n".join([f"  {name.upper()} : {getattr(self, name)}" for name in names])
