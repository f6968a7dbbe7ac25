"""Flags: memory layout and writability of an array, under NumPy's names."""

from __future__ import annotations

from typing import Any

_SHORT = {  # NumPy's short names, valid in brackets only
    "C": "c_contiguous", "F": "f_contiguous", "O": "owndata", "W": "writeable", "A": "aligned", "B": "behaved", "CA": "carray",
    "FA": "farray", "X": "writebackifcopy",
}


class Flags:
    """Memory layout and writability of an array, under NumPy's names: by attribute, or by name in brackets. ``writeable`` can be
    set.

    Arrays appear C-contiguous and writeable; views do not own memory.
    """

    __slots__ = ("_array", "_values")

    _array: Any
    _values: dict[str, bool]

    def __init__(self, array: Any, rows: bool, columns: bool, owns: bool) -> None:
        object.__setattr__(self, "_array", array)
        object.__setattr__(self, "_values", {
            "aligned": True, "c_contiguous": rows, "contiguous": rows, "f_contiguous": columns, "fortran": columns,
            "fnc": columns and not rows, "forc": rows or columns, "owndata": owns, "writebackifcopy": False,
        })

    def __getattr__(self, name: str) -> bool:
        if name == "writeable":
            return not (self._array.is_value or self._array.read_only)
        if name in ("behaved", "carray", "farray"):
            return self.writeable and (name == "behaved" or self._values["c_contiguous" if name == "carray" else "fnc"])
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"flags: there is no {name!r}; known are {', '.join([*self._values, 'writeable'])}") from None

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
