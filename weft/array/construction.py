"""``ndarray(shape, dtype, buffer)``, and the errors for subclasses of ndarray and for assignments to shape and dtype."""

from __future__ import annotations

from math import prod
from typing import Any, NoReturn

import numpy as np

from weft.dtypes.parse import read_integers, stored
from weft.errors import ShapeError


def construct(cls: type, shape: Any, dtype: Any, buffer: Any, offset: int, strides: Any, order: Any) -> Any:
    """Return the array for a call of the class."""
    import weft

    if cls is weft.Array:
        raise TypeError("make arrays with wf.array(...), wf.asarray(...) or wf.zeros(shape), not with Array(...)")
    refuse_classes(cls, "ndarray")
    if buffer is None:
        return weft.empty(shape, dtype)
    extents, numpy_dtype = read_integers(shape, "ndarray: shape"), stored(dtype)
    (start,) = read_integers(offset, "ndarray: offset")
    byte_strides = None if strides is None else read_integers(strides, "ndarray: strides")
    is_weft = isinstance(buffer, weft.ndarray)
    memory = buffer if is_weft else memoryview(buffer)
    _check_bounds(extents, numpy_dtype.itemsize, start, byte_strides, memory.nbytes)
    if is_weft and byte_strides is None and order in (None, "C") and numpy_dtype.isnative:
        content = buffer.reshape(-1).view("uint8")[start : start + prod(extents) * numpy_dtype.itemsize]
        return content.view(numpy_dtype).reshape(extents)
    return weft.array(np.ndarray(extents, numpy_dtype, memoryview(buffer), start, byte_strides, order))


def _check_bounds(shape: tuple[int, ...], itemsize: int, offset: int, strides: tuple[int, ...] | None, nbytes: int) -> None:
    """Raise an error if elements would lie outside of the buffer. NumPy's own check overflows and then reads foreign memory."""
    if any(n < 0 for n in shape):
        raise ShapeError(f"ndarray: shape={shape} has a negative extent")
    if strides is not None and len(strides) != len(shape):
        raise ShapeError(f"ndarray: strides={strides} and shape={shape} must have an entry for each dimension")
    steps = strides if strides is not None else [prod(shape[k + 1 :]) * itemsize for k in range(len(shape))]
    ends = [(n - 1) * step for n, step in zip(shape, steps, strict=True)] if 0 not in shape else []
    first = offset + sum(end for end in ends if end < 0)
    last = offset + sum(end for end in ends if end > 0) + (0 if 0 in shape else itemsize)
    if not 0 <= first <= last <= nbytes:
        strides_text = f" and strides={strides}" if strides is not None else ""
        message = f"shape={shape}, offset={offset}{strides_text} reach from byte {first} to {last}, and buffer has {nbytes} bytes"
        if strides is None:
            raise TypeError(f"ndarray: buffer is too small: {message}")
        raise ValueError(f"ndarray: strides do not fit: {message}")


def refuse_classes(cls: Any, function: str) -> None:
    """Raise an error unless ``cls`` is ndarray itself, of weft or NumPy."""
    import weft

    if cls is not weft.ndarray and cls is not np.ndarray:
        name = getattr(cls, "__name__", cls)
        raise TypeError(
            f"{function}: weft makes no arrays of the class {name}: operations on its arrays return wf.ndarray and do not call "
            "__array_finalize__; keep an array in an attribute and give the class __array__, or derive it from numpy.ndarray"
        )


def refuse_assignment(value: Any) -> NoReturn:
    """Raise the error for an assignment to shape or dtype, which views and jitted functions rely on."""
    raise AttributeError(
        f"the shape and the dtype of an array cannot be set, here to {value!r}: its views rely on them; "
        "x = x.reshape(shape) and x = x.view(dtype) are views of the same elements, x = wf.resize(x, shape) is a new array with "
        "elements repeated or dropped"
    )
