"""QuantizedArray: codes and scales in place of an array's numbers, and the functions that make and read one."""

from __future__ import annotations

import operator
from typing import Any, NoReturn

from weft.array import Array, wrap_array
from weft.dtypes.block_formats import BlockFormat
from weft.dtypes.formats import FLOATS
from weft.dtypes.parse import parse_dtype
from weft.errors import DTypeError, ShapeError
from weft.functions.creation.fill import asarray
from weft.functions.elementwise.ufuncs import stop_gradient
from weft.nn.block_rounding import (
    block_scales,
    check_format,
    decode,
    encode,
    join_blocks,
    pack_codes,
    split_blocks,
    tensor_scale,
    unpack_codes,
)
from weft.nn.module_tree import ModuleTree
from weft.process.docstrings import complete_module


class QuantizedArray(ModuleTree):
    """The codes and scales of an array in a block format. :func:`weft.nn.quantize` makes one.

    Its arrays are part of a module that has it as an attribute: they are saved and loaded, and are not parameters.

    Parameters
    ----------
    codes : (..., n)
        The quantized axis is the last one, in whole blocks. 4-bit elements lie in uint8, two in a byte: of 32 elements (of a
        block, if 32 does not divide it) the first 16 are the low halves of 16 bytes; integers are stored plus 8. Other elements
        take a byte each, in the dtype of the format's elements.
    scales : (..., blocks)
    tensor_scale : float32 number or None
    format : BlockFormat
    shape : tuple of int, the array's
    axis : int, the quantized axis

    Raises
    ------
    TypeError
        It is indexed, transposed or used in arithmetic, which need ``dequantize()``.

    Examples
    --------
    >>> q = wf.nn.quantize(wf.array([[1.0, -3.0, 0.5, 6.0] * 8]), wf.mxfp4)
    >>> q.shape, q.codes.shape, q.scales, q.nbytes
    ((1, 32), (1, 16), array([[1]], dtype=float8_e8m0fnu), 17)
    >>> q.dequantize()[0, :4].tolist()
    [1.0, -3.0, 0.5, 6.0]
    """

    buffers = ("codes", "scales", "tensor_scale")
    keeps_dtype = True
    __array_ufunc__ = None
    codes: Array
    scales: Array
    tensor_scale: Array | None
    format: BlockFormat
    shape: tuple[int, ...]
    axis: int

    def __init__(
        self, codes: Array, scales: Array, tensor_scale: Array | None, format: BlockFormat, shape: tuple[int, ...], axis: int,
    ) -> None:
        scale = None if tensor_scale is None else wrap_array(tensor_scale.node)  # a file is loaded into it
        self.__dict__.update(
            codes=codes, scales=scales, tensor_scale=scale, format=format, shape=tuple(shape), axis=axis, training=False,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"QuantizedArray.{name} cannot be assigned to: quantize the new values")

    @property
    def stored_form(self) -> str:  # type: ignore[override]
        """Return the format, shape and axis, as a weight file has them."""
        return f"{self.format} of shape {self.shape} along axis {self.axis}"

    @property
    def ndim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Return the number of elements."""
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def nbytes(self) -> int:
        """Return the bytes of codes and scales."""
        parts = (self.codes, self.scales, self.tensor_scale)
        return sum(a.nbytes for a in parts if a is not None)

    def dequantize(self, dtype: Any = "float32") -> Array:
        """Return the array: each code times the scale of its block."""
        return dequantize(self, dtype)

    def __repr__(self) -> str:
        return f"QuantizedArray(shape={self.shape}, format={self.format}, axis={self.axis}, {self.nbytes} bytes)"

    def __len__(self) -> int:
        return self.shape[0]

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Raise a TypeError that names ``dequantize``."""
        raise TypeError(
            f"QuantizedArray of {self.format} holds codes with a scale for each block, and cannot be indexed, reshaped, "
            "transposed or used in arithmetic: call .dequantize() first"
        )

    __getitem__ = __iter__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __matmul__ = __rmatmul__ = __neg__ = __array__ = __pow__ = __call__ = transpose = reshape = astype = swapaxes = _refuse

    @property
    def T(self) -> NoReturn:
        """Raise a TypeError that names ``dequantize``."""
        self._refuse()


def quantize(
    x: Any, format: BlockFormat, *, axis: int = -1, scale_rounding: str | None = None, rounding: str = "nearest", key: Any = None,
) -> QuantizedArray:
    """Return an array as codes in a block format, with a scale for each block along ``axis``.

    The last block is filled with zeros, which are stored too. A block with NaN or an infinity becomes NaN.

    Parameters
    ----------
    x : float array; it is read in float32
    format : BlockFormat
        :data:`weft.mxfp4` and so on, or one of :func:`weft.block_format`.
    axis : int
    scale_rounding : "floor" or "up", for scales that are powers of two
        "floor", the default, is the rule of the OCP specification: the largest elements of a block may saturate. With "up" none
        does.
    rounding : a mode of ``astype``, for the elements
    key : key of :mod:`weft.random`, for stochastic rounding

    Returns
    -------
    QuantizedArray

    Raises
    ------
    DTypeError
        ``x`` is not a float array, or ``format`` is not a block format.
    ShapeError
        ``axis`` is not an axis of ``x``.
    ValueError
        ``rounding`` or ``scale_rounding`` is unknown, or not for this format.

    Notes
    -----
    MXFP8, MXFP6 and MXFP4: OCP Microscaling Formats Specification 1.0, 2023. NVFP4 has a float8_e4m3fn scale for 16 elements, and
    a float32 scale for the array: its largest magnitude divided by 6 * 448.

    Examples
    --------
    >>> x = wf.array([0.1, 0.2, 0.3, 7.0])
    >>> wf.nn.quantize(x, wf.mxfp4).dequantize().tolist()  # 7 is beyond 6 * 2**0
    [0.0, 0.0, 0.5, 6.0]
    >>> wf.nn.quantize(x, wf.mxfp4, scale_rounding="up").dequantize().tolist()
    [0.0, 0.0, 0.0, 8.0]
    >>> wf.nn.quantize(x, wf.block_format("int8", 2)).codes.tolist()
    [64, 127, 5, 127]
    """
    x = asarray(x)
    form = check_format("quantize", format, scale_rounding, rounding)
    if x.node.dtype not in FLOATS:
        raise DTypeError(f"quantize: x must be a float array, not {x.dtype}")
    axis = check_axis("quantize", x, axis)
    moved = stop_gradient(x).swapaxes(axis, -1)
    blocks = split_blocks(moved, form)
    of_tensor = tensor_scale(blocks, form) if form.has_tensor_scale else None
    scales = block_scales(blocks, form, scale_rounding, of_tensor)
    codes = pack_codes(encode(blocks, scales, of_tensor, form, rounding, key), form)
    return QuantizedArray(codes, scales, of_tensor, form, x.shape, axis)


def dequantize(q: QuantizedArray, dtype: Any = "float32") -> Array:
    """Return the numbers of a quantized array: each code times the scale of its block, computed in float32.

    Parameters
    ----------
    q : QuantizedArray
    dtype : float dtype

    Returns
    -------
    Array

    Raises
    ------
    TypeError, DTypeError
        ``q`` is not a QuantizedArray; ``dtype`` is not a float dtype.

    Examples
    --------
    >>> q = wf.nn.quantize(wf.array([0.5, 2.0, 3.0, 6.0]), wf.nvfp4)
    >>> wf.nn.dequantize(q).tolist()
    [0.5, 2.0, 3.0, 6.0]
    """
    if not isinstance(q, QuantizedArray):
        raise TypeError(f"dequantize: q must be a QuantizedArray, as wf.nn.quantize returns, not {type(q).__name__}")
    target = parse_dtype(dtype)
    if target not in FLOATS:
        raise DTypeError(f"dequantize: dtype must be a float dtype, not {target}")
    extent = q.shape[q.axis]
    blocks = decode(unpack_codes(q.codes, q.format, extent), q.scales, q.tensor_scale, q.format)
    numbers = join_blocks(blocks, q.format, extent)
    return numbers.swapaxes(q.axis, -1).astype(target.numpy)


def check_matrix(layer: str, weight: Any, axes: str) -> None:
    """Raise an error if the weight of a layer is not a quantized matrix with blocks along axis 1. axes : what its axes are"""
    check_weight(layer, weight)
    if weight.ndim != 2 or weight.axis != 1:
        raise ShapeError(f"{layer}: weight must be {axes}, quantized along axis 1, not {weight.shape} along axis {weight.axis}")


def check_weight(layer: str, weight: Any) -> None:
    """Raise a TypeError if the weight of a layer is not a QuantizedArray."""
    if not isinstance(weight, QuantizedArray):
        raise TypeError(f"{layer}: weight must be a QuantizedArray, as wf.nn.quantize returns, not {type(weight).__name__}")


def check_axis(function: str, x: Array, axis: Any) -> int:
    """Return an axis of ``x``, not negative."""
    axis = operator.index(axis) if hasattr(type(axis), "__index__") and not isinstance(axis, bool) else axis
    if type(axis) is not int or not -x.ndim <= axis < x.ndim:
        raise ShapeError(f"{function}: axis={axis!r} must be an axis of x, which has shape {x.shape}")
    return axis % x.ndim


complete_module(globals())
