"""The classes of numbers: what ``wf.float32`` and its kin are, to Python and to NumPy."""

from __future__ import annotations

import numbers
from importlib import import_module
from typing import Any

import numpy as np

from weft.dtypes.formats import EVERY, Format


class DType(type):
    """The class of ``wf.float32`` and its kin: NumPy's dtype wherever one is asked for, it makes a scalar when it is called.

    Parameters
    ----------
    name, bases, content
        As of any class. Only weft makes these: one of a dtype, without bases.

    Raises
    ------
    TypeError
        A class that is made from one of them.

    Examples
    --------
    >>> import weft as wf
    >>> wf.float32(3), wf.ones(2).dtype == wf.float32, isinstance(wf.ones(2).sum(), wf.float32)
    (float32(3.0), True, True)
    >>> wf.float64("2.5"), issubclass(wf.float32, wf.floating), wf.float32 | None
    (float64(2.5), True, weft.dtypes.float32 | None)
    """

    dtype: np.dtype

    def __new__(cls, name: str, bases: tuple[type, ...], content: dict[str, Any]) -> DType:
        if bases:
            raise TypeError(
                f"class {name}: it cannot be made from {bases[0].__name__}, for weft's own numbers would be none of it; "
                "make a class that holds a number"
            )
        return super().__new__(cls, name, bases, content)

    def __call__(cls, x: Any = 0, imag: Any = None) -> Any:
        if not _MAKE:
            _MAKE.append(import_module("weft.functions.dtype_info.cast").scalar_of)  # which stands above this
        return _MAKE[0](cls.dtype, x, imag)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):  # nothing of what protocols ask for
            raise AttributeError(name)
        return getattr(cls.dtype, name)

    def __eq__(cls, other: object) -> Any:
        return cls.dtype == (other.dtype if isinstance(other, DType) else other)

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)  # as NumPy's name for it, which x.dtype.type is

    def __repr__(cls) -> str:
        return repr(cls.dtype)

    def __str__(cls) -> str:
        return str(cls.dtype)

    def __instancecheck__(cls, x: Any) -> Any:
        import weft

        return isinstance(x, (weft.Scalar, np.generic)) and x.dtype == cls.dtype

    def __subclasscheck__(cls, other: Any) -> Any:
        return other is cls or other is cls.dtype.type


_MAKE: list[Any] = []  # what makes scalars, once there is one
_NUMBERS: dict[str, Any] = {  # kinds of formats, as Python's own numbers know them
    "signed": numbers.Integral, "unsigned": numbers.Integral, "float": numbers.Real, "complex": numbers.Complex,
}


def _class(format: Format) -> DType:
    """The class of a format's scalars."""
    made = DType(format.name, (), {"dtype": format.numpy, "__module__": "weft.dtypes", "__slots__": ()})
    if format.kind in _NUMBERS:
        _NUMBERS[format.kind].register(made)
    return made


CLASSES: dict[Format, DType] = {f: _class(f) for f in EVERY.values()}
