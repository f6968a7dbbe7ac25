"""What an array is given to hold, in its dtype: numbers, texts and lists; and the refusal of what it cannot hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array.convert import (
    NUMBERS,
    as_node,
    beyond,
    cast,
    from_list,
    given_node,
    joined,
    kinds_in,
    leaves,
    number_node,
    numpy_node,
    refuse_subclasses,
)
from weft.dtypes.formats import (
    BOOL,
    COMPLEX,
    FLOAT64,
    FLOATS,
    FROM_NUMPY,
    INEXACT,
    INT64,
    INTEGERS,
    UINT64,
    Format,
    converted,
    holds,
)
from weft.eager.materialise import look, one
from weft.errors import told
from weft.graph.node import Node
from weft.graph.primitives.table import constant
from weft.runtime.cell import Cell
from weft.runtime.context import LOCAL
from weft.runtime.traced_int import Given, asked, fits


def assigned(value: Any, dtype: Format) -> Node:
    """``value`` as an array of ``dtype`` is given it to hold: Python's numbers, alone and in lists, become ``dtype`` at once.

    Raises
    ------
    ValueError, OverflowError
        for a NaN, an infinity or a number out of range that integers are to hold (of arrays only their dtype is known, and
        Scalars are taken for such, but in lists, see :func:`stored`).
    """
    kind = type(value)
    if kind in NUMBERS:
        if kind is not float or dtype in INEXACT:
            return number_node(value, dtype)
        return constant(bool(value), dtype) if dtype == BOOL else number_node(_whole(value, value, dtype), dtype)
    if kind is Given:
        fine = dtype in INEXACT or fits(value.value, dtype)
        return given_node(value, dtype) if fine else assigned(value.here(), dtype)
    if isinstance(value, Cell):
        held: Any = value
        return cast(held.as_dtype_node(_exact(dtype)) if getattr(held, "weak", False) else held.node, dtype)
    if value is None or isinstance(value, str | bytes):
        return _read_as(value, dtype)
    if isinstance(value, list | tuple):
        return _list_assigned(value, dtype)
    return cast(as_node(value, dtype), dtype)


def stored(value: Any, dtype: Format) -> Node:
    """As :func:`assigned`, where elements, slices and items of lists are assigned to: there NumPy takes its scalars for Python's
    numbers."""
    if isinstance(value, Cell):
        held: Any = value
        node: Node = held.node
        if node.dtype is dtype and node.shape:  # most often
            return node
    _refuse(value, dtype)
    return assigned(value, dtype)


def _refuse(value: Any, dtype: Format) -> None:
    """Look at a scalar, outside of traces, and refuse it where integers of ``dtype`` do not hold its number.

    Unsigned ones take what 64 bits hold modulo their size, as in NumPy.
    """
    if dtype not in INTEGERS or LOCAL.trace is not None:
        return
    if not (isinstance(value, np.generic) or getattr(value, "is_value", False)):
        return
    have, signed = FROM_NUMPY.get(value.dtype), dtype.kind == "signed"
    if have is None or not (have in FLOATS or (signed and have in INTEGERS and not holds(dtype, have))):
        return
    found = one(value.node, free=True) if isinstance(value, Cell) else value  # type: ignore[attr-defined]
    number = float(found) if have in FLOATS else int(found)
    if signed or not INT64.least <= number <= UINT64.greatest:
        _whole(value, number, dtype)


def _list_assigned(value: Any, dtype: Format) -> Node:
    kinds = kinds_in(value)
    refuse_subclasses(value, kinds)
    if not any([issubclass(kind, Cell) for kind in kinds]):
        value = asked(value)
        if dtype in INTEGERS and any([issubclass(kind, np.generic) for kind in kinds]):
            for leaf in leaves(value):  # what NumPy does not refuse: infinities of ml_dtypes', and for unsigned integers
                _refuse(leaf, dtype)
        try:
            return numpy_node(_as_numpy(value, dtype))
        except (ValueError, TypeError, OverflowError):
            from_list(value, value)  # what is no array at all is said in its own words
            for leaf in leaves(value):
                stored(leaf, dtype)
            raise
    found = list(leaves(value))
    if all([isinstance(x, Cell) and not getattr(x, "weak", False) for x in found]):
        nodes = [x.node for x in found]
        if all([n.dtype is nodes[0].dtype for n in nodes]):  # cast as one
            whole = joined(value, nodes, nodes[0].dtype)
            if not _surely_held(whole, dtype):
                for x in found:
                    _refuse(x, dtype)
            return cast(whole, dtype)
    return joined(value, [stored(x, dtype) for x in found], dtype)


def _surely_held(node: Node, dtype: Format) -> bool:
    """Whether no number of an array is refused, by its dtype or, where they are computed, by the least and the largest."""
    if dtype not in INTEGERS or holds(dtype, node.dtype):
        return True
    if node.value is None or not node.size or node.dtype in COMPLEX or LOCAL.trace is not None:
        return False
    content, exactly = look(node, free=True), float if node.dtype in FLOATS else int  # as NumPy's, bounds would be rounded
    return exactly(content.min()) >= dtype.least and exactly(content.max()) <= dtype.greatest


def _as_numpy(value: Any, dtype: Format) -> np.ndarray:
    """What NumPy makes of numbers, texts and None in ``dtype``; ml_dtypes' formats cannot read texts and None themselves."""
    parts = leaves(value) if isinstance(value, list | tuple) else (value,)
    if dtype.numpy.isbuiltin == 1 or not any(isinstance(x, str | bytes | None) for x in parts):
        return np.asarray(value, dtype.numpy)
    return converted(np.asarray(value, np.float64), dtype.numpy)


def _read_as(value: str | bytes | None, dtype: Format) -> Node:
    """The number that a text says; None is NaN."""
    try:
        return numpy_node(_as_numpy(value, dtype))
    except (ValueError, TypeError, OverflowError) as error:
        kind = next(k for k in (ValueError, TypeError, OverflowError) if isinstance(error, k))
        why = "only floats have a NaN for it" if value is None else "it says no number of this dtype"
        raise kind(f"{told(value)}{value!r} cannot be held by {dtype.name}: {why}") from None


def _exact(dtype: Format) -> Format:
    """In which dtype a run-time number goes into an array of ``dtype``: integers get it whole, from float64."""
    return dtype if dtype in INEXACT else FLOAT64


def _whole(given: Any, value: float, dtype: Format) -> int:
    """A number that integers are to hold, cut towards zero; ``given``: as the user has written it."""
    try:
        found = int(value)
    except (ValueError, OverflowError) as error:
        raise type(error)(
            f"{told(given)}{value!r} cannot be held by {dtype.name}: integers have no NaN and no infinity; use a float dtype, as "
            "with .astype('float32')"
        ) from None
    if not dtype.least <= found <= dtype.greatest:
        raise beyond(given, found if INT64.least <= found <= UINT64.greatest else value, dtype)  # the user's own digits
    return found
