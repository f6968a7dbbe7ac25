"""Numbers of ONNX files as NumPy arrays, and their dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.dtypes.formats import FROM_NUMPY
from weft.errors import DataError, DTypeError
from weft.io.onnx.package import onnx


def dtype_of_code(code: int) -> np.dtype:
    """Return the dtype of a number in ``TensorProto.DataType``; raise DTypeError if weft has no such dtype."""
    name = onnx().TensorProto.DataType.Name(code) if code in onnx().TensorProto.DataType.values() else str(code)
    try:
        dtype = np.dtype(onnx().helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, TypeError):
        dtype = np.dtype(object)
    if dtype not in FROM_NUMPY:
        raise DTypeError(f"a tensor of dtype {name}, which weft does not have")
    return dtype


def code_of_dtype(dtype: np.dtype) -> int:
    """Return the number of a dtype in ``TensorProto.DataType``; raise DTypeError if ONNX has no such dtype."""
    try:
        return onnx().helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    except (KeyError, ValueError, TypeError):
        raise DTypeError(f"save_onnx: ONNX has no tensors of {dtype}") from None


def to_numpy(tensor: Any, folder: str, where: str) -> np.ndarray:
    """Return the numbers of a TensorProto. folder : of files with external data"""
    dtype_of_code(tensor.data_type)
    try:
        return onnx().numpy_helper.to_array(tensor, base_dir=folder)
    except (ValueError, TypeError, OSError, onnx().checker.ValidationError) as error:
        raise DataError(f"{where}: tensor {tensor.name!r} cannot be read: {error}") from None
