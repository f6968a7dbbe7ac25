"""The classes ``wf.float32`` and so on, as Python and NumPy see them."""

from __future__ import annotations

import numbers
from importlib import import_module
from typing import Any

import numpy as np

from weft.dtypes.formats import EVERY, Format


class DType(type):
    """The metaclass of ``wf.float32`` and so on. Such a class works as NumPy's dtype, and calling it makes a scalar.

    Parameters
    ----------
    name, bases, content
        As for any class. weft makes one class per dtype, without bases.

    Raises
    ------
    TypeError
        A class is derived from one of them.

    Examples
    --------
    >>> import weft as wf
    >>> wf.float32(3), wf.ones(2).dtype == wf.float32, isinstance(wf.ones(2).sum(), wf.float32)
    (float32(3.0), True, True)
    >>> wf.float64("2.5"), issubclass(wf.float32, wf.floating), wf.float32 | None
    (float64(2.5), True, weft.dtypes.float32 | None)
    """

    dtype: Any
    type: Any
    cell: np.dtype  # of a user's format: what NumPy sees of it
    name: str

    def __new__(cls, name: str, bases: tuple[type, ...], content: dict[str, Any]) -> DType:
        if bases:
            raise TypeError(
                f"class {name}: it cannot be made from {bases[0].__name__}, since weft's own numbers "
                "would not be instances of it; make a class that holds a number"
            )
        return super().__new__(cls, name, bases, content)

    def __call__(cls, x: Any = 0, imag: Any = None) -> Any:
        if not _SCALAR_MAKER:
            _SCALAR_MAKER.append(import_module("weft.functions.dtype_info.dtype_info").scalar_of)  # that module imports this one
        return _SCALAR_MAKER[0](vars(cls).get("cell", cls.dtype), x, imag)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):  # no protocols of the dtype
            raise AttributeError(name)
        return getattr(vars(cls).get("cell", cls.dtype), name)

    def __eq__(cls, other: object) -> Any:
        if cls.dtype is cls:
            return other is cls or other == cls.name if isinstance(other, str | DType) else False
        return cls.dtype == (other.dtype if isinstance(other, DType) else other)

    def __hash__(cls) -> int:
        return hash(cls.name if cls.dtype is cls else cls.dtype.type)  # equal to NumPy's scalar type, x.dtype.type

    def __repr__(cls) -> str:
        return f"dtype({cls.name})" if cls.dtype is cls else repr(cls.dtype)

    def __str__(cls) -> str:
        return cls.name if cls.dtype is cls else str(cls.dtype)

    def __instancecheck__(cls, x: Any) -> Any:
        import weft

        return isinstance(x, (weft.Scalar, np.generic)) and x.dtype == cls.dtype

    def __subclasscheck__(cls, other: Any) -> Any:
        return other is cls or other is cls.dtype.type


_SCALAR_MAKER: list[Any] = []  # the function that makes scalars, imported at the first call
_NUMBERS: dict[str, Any] = {  # Python's abstract classes of numbers, by kind of format
    "signed": numbers.Integral, "unsigned": numbers.Integral, "float": numbers.Real, "complex": numbers.Complex,
}


def _make_class(format: Format) -> DType:
    """Return the class of a format's scalars. That of a user's format is its dtype, too; ``cell`` is what NumPy sees."""
    scalar_class = DType(format.name, (), {"dtype": format.numpy, "__module__": "weft.dtypes", "__slots__": ()})
    if format.custom:
        scalar_class.dtype = scalar_class.type = scalar_class
        scalar_class.cell, scalar_class.name = format.numpy, format.name
    if format.kind in _NUMBERS:
        _NUMBERS[format.kind].register(scalar_class)
    return scalar_class


class _Classes(dict[Format, DType]):
    """The class of each format, made when it is first needed."""

    def __missing__(self, format: Format) -> DType:
        return self.setdefault(format, _make_class(format))


CLASSES = _Classes({f: _make_class(f) for f in EVERY.values()})


def public_dtype(format: Format) -> Any:
    """Return what users see as the dtype of a format: NumPy's dtype, or the class of a user's format."""
    return CLASSES[format] if format.custom else format.numpy
