"""Codes and names of dtypes: what NumPy's older programs ask for by letters."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from weft.array import Scalar
from weft.dtypes.api import ALL, COMPLEX
from weft.dtypes.formats import COMPLEX as PAIRS
from weft.dtypes.formats import DEFAULT, FLOATS, INEXACT, promote
from weft.dtypes.parse import format_of, spelled
from weft.errors import DTypeError, said_by
from weft.functions.common import node, several

_LETTERS = "bBhHiIlLqQnNpPefdFD?"  # of the dtypes that weft has
False_, True_ = np.False_, np.True_
_CODES: dict[str, str] = {str(name): str(letters) for name, letters in vars(np)["typecodes"].items()}
little_endian = sys.byteorder == "little"
ScalarType = (*(t for t in np.ScalarType if t not in (str, bytes, np.object_, np.str_, np.bytes_, np.void)), Scalar)
typecodes = {
    name: "".join(c for c in letters if c in _LETTERS)
    for name, letters in _CODES.items() if any(c in _LETTERS for c in letters)
}
sctypeDict = {  # noqa: N816  NumPy's name
    name: held for name, held in np.sctypeDict.items() if held in {d.type for d in (*ALL, *COMPLEX)} and isinstance(name, str)
}


def typename(char: str) -> str:
    """What a letter for a dtype means, in words.

    Parameters
    ----------
    char : str

    Returns
    -------
    str

    Raises
    ------
    KeyError
        An unknown letter.

    Examples
    --------
    >>> import weft as wf
    >>> wf.typename("f")
    'single precision'
    """
    asked: Any = np.typename
    try:
        return asked(char)
    except (KeyError, TypeError):
        raise KeyError(f"typename: char={char!r} is no letter of a dtype") from None


def mintypecode(typechars: Any, typeset: Any = "GDFgdf", default: str = "d") -> str:
    """The letter of the smallest dtype of a set to which all given ones can be cast.

    Parameters
    ----------
    typechars : str, or sequence of letters, dtypes and arrays
    typeset : str or sequence of str
    default : str
        What is given where none of them is in the set.

    Returns
    -------
    str

    Raises
    ------
    DTypeError
        What has no dtype.

    Examples
    --------
    >>> import weft as wf
    >>> wf.mintypecode(["d", "f", "D"])
    'D'
    """
    given = several(typechars, "mintypecode", "typechars")
    letters = [c if isinstance(c, str) and len(c) == 1 else _letter(c) for c in given]
    with said_by("mintypecode"):
        return np.mintypecode(letters, typeset, default)


def _letter(given: Any) -> str:
    try:
        return format_of(given).numpy.char
    except DTypeError:
        raise DTypeError(f"mintypecode: typechars holds {given!r}, which is no letter, no dtype and no array") from None


def common_type(*arrays: Any) -> Any:
    """The float or complex dtype that holds all arrays; integers count as the default float.

    Parameters
    ----------
    arrays : array
        Of numbers, not bools.

    Returns
    -------
    dtype : ``wf.float32``, ``wf.complex64``, ...

    Raises
    ------
    DTypeError
        An array of bools.

    Examples
    --------
    >>> import weft as wf
    >>> wf.common_type(wf.ones(2, dtype="float16"), wf.ones(2, dtype="float64")) == wf.float64
    True
    """
    import weft

    found = spelled("float16")
    for k, x in enumerate(arrays):
        have = node(x, "common_type", f"arrays[{k}]").dtype
        if have not in INEXACT and have.kind == "bool":
            raise DTypeError(f"common_type: arrays[{k}] is bool, and bools are no numbers; cast with .astype('float32')")
        found = promote(found, have if have in FLOATS or have in PAIRS else DEFAULT.real)
    return getattr(weft, found.name)


__all__ = ["False_", "ScalarType", "True_", "common_type", "little_endian", "mintypecode", "sctypeDict", "typecodes", "typename"]
