"""Conversion of assigned values to the dtype of the target: numbers, texts and lists; errors for values that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array.convert import (
    NUMBERS,
    as_node,
    cast,
    from_list,
    joined,
    leaves,
    nested_types,
    number_node,
    numpy_node,
    out_of_range_error,
    refuse_subclasses,
    traced_number_node,
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
from weft.runtime.context import CONTEXT
from weft.runtime.traced_int import TracedInt, asked, fits


def assigned(value: Any, dtype: Format) -> Node:
    """Return ``value`` in ``dtype``, the dtype of the array that is written. Python numbers, alone and in lists, are converted
    exactly once.

    Raises
    ------
    ValueError, OverflowError
        An integer dtype cannot hold a NaN, an infinity or a number out of range. Arrays are cast by dtype without a check,
        and so are Scalars outside of lists, see :func:`stored`.
    """
    kind = type(value)
    if kind in NUMBERS:
        if kind is not float or dtype in INEXACT:
            return number_node(value, dtype)
        return constant(bool(value), dtype) if dtype == BOOL else number_node(_to_integer(value, value, dtype), dtype)
    if kind is TracedInt:
        fits_ = dtype in INEXACT or fits(value.value, dtype)
        return traced_number_node(value, dtype) if fits_ else assigned(value.here(), dtype)
    if isinstance(value, Cell):
        cell: Any = value
        return cast(cell.as_dtype_node(_source_dtype(dtype)) if getattr(cell, "weak", False) else cell.node, dtype)
    if value is None or isinstance(value, str | bytes):
        return _parse_text(value, dtype)
    if isinstance(value, list | tuple):
        return _assign_list(value, dtype)
    return cast(as_node(value, dtype), dtype)


def stored(value: Any, dtype: Format) -> Node:
    """Return ``value`` as :func:`assigned` does, for assignment to elements and slices: NumPy checks its scalars there like
    Python numbers."""
    if isinstance(value, Cell):
        cell: Any = value
        node: Node = cell.node
        if node.dtype is dtype and node.shape:  # the most frequent case
            return node
    _check_scalar(value, dtype)
    return assigned(value, dtype)


def _check_scalar(value: Any, dtype: Format) -> None:
    """Read a scalar, outside of traces, and raise an error if integers of ``dtype`` cannot hold its number.

    Unsigned integers take any number of 64 bits modulo their size, as in NumPy.
    """
    if dtype not in INTEGERS or CONTEXT.trace is not None:
        return
    if not (isinstance(value, np.generic) or getattr(value, "is_value", False)):
        return
    source, signed = FROM_NUMPY.get(value.dtype), dtype.kind == "signed"
    if source is None or not (source in FLOATS or (signed and source in INTEGERS and not holds(dtype, source))):
        return
    content = one(value.node, free=True) if isinstance(value, Cell) else value  # type: ignore[attr-defined]
    number = float(content) if source in FLOATS else int(content)
    if signed or not INT64.least <= number <= UINT64.greatest:
        _to_integer(value, number, dtype)


def _assign_list(value: Any, dtype: Format) -> Node:
    kinds = nested_types(value)
    refuse_subclasses(value, kinds)
    if not any([issubclass(kind, Cell) for kind in kinds]):
        value = asked(value)
        if dtype in INTEGERS and any([issubclass(kind, np.generic) for kind in kinds]):
            for leaf in leaves(value):  # NumPy accepts infinities of ml_dtypes, and any for unsigned integers
                _check_scalar(leaf, dtype)
        try:
            return numpy_node(_as_numpy(value, dtype))
        except (ValueError, TypeError, OverflowError):
            from_list(value, value)  # a ragged list has a message of its own
            for leaf in leaves(value):
                stored(leaf, dtype)
            raise
    items = list(leaves(value))
    if all([isinstance(x, Cell) and not getattr(x, "weak", False) for x in items]):
        nodes = [x.node for x in items]
        if all([n.dtype is nodes[0].dtype for n in nodes]):  # cast as one array
            whole = joined(value, nodes, nodes[0].dtype)
            if not _is_in_range(whole, dtype):
                for x in items:
                    _check_scalar(x, dtype)
            return cast(whole, dtype)
    return joined(value, [stored(x, dtype) for x in items], dtype)


def _is_in_range(node: Node, dtype: Format) -> bool:
    """Return whether no number of an array can be out of range, judged by its dtype or, if computed, by its minimum and
    maximum."""
    if dtype not in INTEGERS or holds(dtype, node.dtype):
        return True
    if node.value is None or not node.size or node.dtype in COMPLEX or CONTEXT.trace is not None:
        return False
    content, to_python = look(node, free=True), float if node.dtype in FLOATS else int  # NumPy scalars would round the bounds
    return to_python(content.min()) >= dtype.least and to_python(content.max()) <= dtype.greatest


def _as_numpy(value: Any, dtype: Format) -> np.ndarray:
    """Return numbers, texts and None as NumPy converts them to ``dtype``; ml_dtypes' formats go through float64."""
    parts = leaves(value) if isinstance(value, list | tuple) else (value,)
    if dtype.numpy.isbuiltin == 1 or not any(isinstance(x, str | bytes | None) for x in parts):
        return np.asarray(value, dtype.numpy)
    return converted(np.asarray(value, np.float64), dtype.numpy)


def _parse_text(value: str | bytes | None, dtype: Format) -> Node:
    """Return the number that a text represents; None becomes NaN."""
    try:
        return numpy_node(_as_numpy(value, dtype))
    except (ValueError, TypeError, OverflowError) as error:
        kind = next(k for k in (ValueError, TypeError, OverflowError) if isinstance(error, k))
        why = "only floats have a NaN for it" if value is None else "the text is not a number of this dtype"
        raise kind(f"{told(value)}{value!r} cannot be held by {dtype.name}: {why}") from None


def _source_dtype(dtype: Format) -> Format:
    """Return the dtype in which a run-time number is converted to ``dtype``: integers are converted from float64."""
    return dtype if dtype in INEXACT else FLOAT64


def _to_integer(original: Any, value: float, dtype: Format) -> int:
    """Return a number truncated to an integer of ``dtype``; ``original`` is the value as the user wrote it, for messages."""
    try:
        number = int(value)
    except (ValueError, OverflowError) as error:
        raise type(error)(
            f"{told(original)}{value!r} cannot be held by {dtype.name}: integers have no NaN and no infinity; use a float dtype, "
            "as with .astype('float32')"
        ) from None
    if not dtype.least <= number <= dtype.greatest:
        raise out_of_range_error(
            original, number if INT64.least <= number <= UINT64.greatest else value, dtype
        )  # as the user wrote it
    return number
