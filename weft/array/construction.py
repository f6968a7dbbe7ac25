"""``ndarray(shape, dtype, buffer)``, and what is said of classes made from ndarray, and of shapes and dtypes that are set."""

from __future__ import annotations

from math import prod
from typing import Any, NoReturn

import numpy as np

from weft.spelling import stored


def constructed(cls: type, shape: Any, dtype: Any, buffer: Any, offset: int, strides: Any, order: Any) -> Any:
    """What calling the class gives."""
    import weft

    if cls is weft.Array:
        raise TypeError("make arrays with wf.array(...), wf.asarray(...) or wf.zeros(shape), not with Array(...)")
    refuse_classes(cls, "ndarray")
    if buffer is None:
        return weft.empty(shape, dtype)
    extents, held = tuple(map(int, shape if isinstance(shape, tuple | list) else (shape,))), stored(dtype)
    if isinstance(buffer, weft.ndarray) and strides is None and order in (None, "C") and held.isnative:
        return buffer.reshape(-1).view("uint8")[offset : offset + prod(extents) * held.itemsize].view(held).reshape(extents)
    return weft.array(np.ndarray(extents, held, memoryview(buffer), offset, strides, order))


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
        "x = x.reshape(shape) and x = x.view(dtype) are views of the same elements"
    )
