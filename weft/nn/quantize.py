"""Rounding of an array to the numbers of a format, with a scale, as training with quantized numbers needs it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from weft.array import Array
from weft.dtypes.block_formats import BlockFormat
from weft.dtypes.check import check_rounding
from weft.dtypes.formats import BOOL, COMPLEX, FLOATS, Format, holds
from weft.dtypes.parse import parse_dtype
from weft.errors import DTypeError, ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.elementwise.ufuncs import absolute, stop_gradient
from weft.functions.indexing.where import where
from weft.nn.block_rounding import check_format
from weft.nn.precision import BlockRounding, Rounding, straight_rounding
from weft.nn.quantized.array import check_axis
from weft.process.docstrings import complete_each


def fake_quantize(
    x: Any, dtype: Any, *, rounding: str = "nearest", saturate: bool | None = None, scale: Any = None, axis: int | None = None,
    scale_rounding: str | None = None,
) -> Array:
    """Round ``x`` to the numbers of another format, and return them in the dtype of ``x``. The derivative is the identity.

    Parameters
    ----------
    x : float array
    dtype : float or integer dtype, or a block format such as :data:`weft.mxfp4`
    rounding : a mode of ``astype``
    saturate : whether numbers that are too large become the largest one. By default True for integers, for formats without
        infinities, and with the scales "tensor" and "channel"
    scale : positive number or array that broadcasts to ``x``: the result is ``scale`` times the rounded ``x / scale``. "tensor":
        the largest magnitude divided by the format's largest number; "channel": such a scale for each index of ``axis``. It
        counts as a constant for derivatives
    axis : int, the axis of channels, for ``scale="channel"``, by default 0; for a block format the axis of blocks, by default -1
    scale_rounding : "floor" or "up", for block formats, see :func:`weft.nn.quantize`

    Returns
    -------
    Array of the shape and dtype of ``x``

    Raises
    ------
    DTypeError
        ``x`` is not a float array, or its dtype cannot represent the format's numbers.
    ValueError
        ``rounding`` or ``scale`` is not one of the above.
    ShapeError
        ``scale`` does not broadcast to ``x``, or ``axis`` is not an axis of it.

    Examples
    --------
    >>> x = wf.array([0.1, 0.7, -3.2])
    >>> wf.nn.fake_quantize(x, "float4_e2m1fn").tolist()
    [0.0, 0.5, -3.0]
    >>> wf.nn.fake_quantize(x, "int8", scale=0.25).tolist()
    [0.0, 0.75, -3.25]
    >>> wf.nn.fake_quantize(x, wf.mxfp4).tolist()
    [0.0, 0.75, -3.0]
    >>> wf.grad(lambda x: (wf.nn.fake_quantize(x, "float8_e4m3fn") * 2).sum())(x).tolist()
    [2.0, 2.0, 2.0]
    """
    x = asarray(x)
    own = x.node.dtype
    if own not in FLOATS:
        raise DTypeError(f"fake_quantize: x must be a float array, not {own}")
    if isinstance(dtype, BlockFormat):
        check_format("fake_quantize", dtype, scale_rounding, rounding)
        if scale is not None or saturate is not None:
            raise ValueError(f"fake_quantize: {dtype} has its own scales, and saturates: leave out scale= and saturate=")
        along = check_axis("fake_quantize", x, -1 if axis is None else axis)
        return straight_rounding(BlockRounding(dtype, rounding, scale_rounding, along))(x)
    if scale_rounding is not None:
        raise ValueError(f"fake_quantize: scale_rounding={scale_rounding!r} is for block formats, not {dtype!r}")
    form, axis = parse_dtype(dtype), 0 if axis is None else axis
    if form is BOOL or form in COMPLEX:
        raise DTypeError(f"fake_quantize: dtype must be a float or an integer dtype, not {form}")
    if form in FLOATS and not holds(own, form) and not holds(form, own):
        raise DTypeError(f"fake_quantize: x is {own}, which cannot represent the numbers of {form}")
    check_rounding("fake_quantize", form, rounding, saturate)
    if saturate is None:  # the largest magnitude divided by its scale may be rounded to more than the largest number
        saturate = True if form not in FLOATS or form.finite or isinstance(scale, str) else None
    chosen = Rounding(form, rounding, saturate)
    if scale is None:
        return straight_rounding(chosen)(x)
    factor = _scale(x, form, scale, axis)
    return straight_rounding(chosen)(x / factor) * factor


def _scale(x: Array, form: Format, scale: Any, axis: int) -> Array:
    """Return the scale of ``fake_quantize`` as an array of the dtype of ``x``."""
    if isinstance(scale, str):
        if scale not in ("tensor", "channel"):
            raise ValueError(f"fake_quantize: scale={scale!r} must be a positive number, an array, 'tensor' or 'channel'")
        channel = None if scale == "tensor" else check_axis("fake_quantize", x, axis)
        axes = None if channel is None else tuple(k for k in range(x.ndim) if k != channel)
        largest = form.largest if form in FLOATS else form.greatest
        top: Array = absolute(stop_gradient(x)).max(axis=axes, keepdims=True, initial=0.0)
        return where(top == 0, 1.0, top / largest).astype(x.dtype)
    if isinstance(scale, int | float) and not (0 < scale < math.inf):
        raise ValueError(f"fake_quantize: scale={scale!r} must be positive and finite")
    factor = stop_gradient(asarray(scale).astype(x.dtype))
    try:
        fits = np.broadcast_shapes(factor.shape, x.shape) == x.shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(f"fake_quantize: a scale of shape {factor.shape} does not broadcast to x, which has shape {x.shape}")
    return factor


complete_each(fake_quantize)
