"""``ndarray(shape, dtype, buffer)``, and what is said of classes made from ndarray, and of shapes and dtypes that are set."""

from __future__ import annotations

from math import prod
from typing import Any, NoReturn

import numpy as np

from weft.dtypes.parse import read_integers, stored
from weft.errors import ShapeError


def constructed(cls: type, shape: Any, dtype: Any, buffer: Any, offset: int, strides: Any, order: Any) -> Any:
    """What calling the class gives."""
    import weft

    if cls is weft.Array:
        raise TypeError("make arrays with wf.array(...), wf.asarray(...) or wf.zeros(shape), not with Array(...)")
    refuse_classes(cls, "ndarray")
    if buffer is None:
        return weft.empty(shape, dtype)
    extents, held = read_integers(shape, "ndarray: shape"), stored(dtype)
    (begin,) = read_integers(offset, "ndarray: offset")
    steps = None if strides is None else read_integers(strides, "ndarray: strides")
    ours = isinstance(buffer, weft.ndarray)
    memory = buffer if ours else memoryview(buffer)
    _refuse_outside(extents, held.itemsize, begin, steps, memory.nbytes)
    if ours and steps is None and order in (None, "C") and held.isnative:
        return buffer.reshape(-1).view("uint8")[begin : begin + prod(extents) * held.itemsize].view(held).reshape(extents)
    return weft.array(np.ndarray(extents, held, memoryview(buffer), begin, steps, order))


def _refuse_outside(shape: tuple[int, ...], itemsize: int, offset: int, strides: tuple[int, ...] | None, nbytes: int) -> None:
    """Raise an error if elements lie outside of the buffer. NumPy's own check overflows: it then reads memory of others."""
    if any(n < 0 for n in shape):
        raise ShapeError(f"ndarray: shape={shape} has a negative extent")
    if strides is not None and len(strides) != len(shape):
        raise ShapeError(f"ndarray: strides={strides} and shape={shape} must have an entry for each dimension")
    steps = strides if strides is not None else [prod(shape[k + 1 :]) * itemsize for k in range(len(shape))]
    ends = [(n - 1) * step for n, step in zip(shape, steps, strict=True)] if 0 not in shape else []
    first = offset + sum(end for end in ends if end < 0)
    last = offset + sum(end for end in ends if end > 0) + (0 if 0 in shape else itemsize)
    if not 0 <= first <= last <= nbytes:
        lies = f" and strides={strides}" if strides is not None else ""
        what = f"shape={shape}, offset={offset}{lies} reach from byte {first} to {last}, and buffer has {nbytes} bytes"
        if strides is None:
            raise TypeError(f"ndarray: buffer is too small: {what}")
        raise ValueError(f"ndarray: strides do not fit: {what}")


def refuse_classes(cls: Any, function: str) -> None:
    """Only the class itself is made, under weft's or NumPy's name."""
    import weft

    if cls is not weft.ndarray and cls is not np.ndarray:
        name = getattr(cls, "__name__", cls)
        raise TypeError(
            f"{function}: no arrays of the class {name} are made: operations on weft's arrays give wf.ndarray, and ask for no "
            "__array_finalize__; keep an array in an attribute and give the class __array__, or derive it from numpy.ndarray"
        )


def not_set(value: Any) -> NoReturn:
    """An array keeps its shape and dtype, by which its views and jitted functions know it."""
    raise AttributeError(
        f"the shape and the dtype of an array cannot be set, here to {value!r}: its views know it by them; "
        "x = x.reshape(shape) and x = x.view(dtype) are views of the same elements, x = wf.resize(x, shape) is another array of "
        "as many as that takes"
    )
