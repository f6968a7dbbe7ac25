"""ONNX operators by families. Importing this package fills the table."""

from weft.io.onnx.operators import (
    control,
    convolution,
    elementwise,
    indexing,
    normalization,
    pooling,
    quantization,
    random,
    recurrent,
    reductions,
    resizing,
    shapes,
    spectrum,
)
from weft.io.onnx.operators.table import OPERATORS, Attributes, Operator

FAMILIES = (
    control, convolution, elementwise, indexing, normalization, pooling, quantization, random, recurrent, reductions, resizing,
    shapes, spectrum,
)

__all__ = ["FAMILIES", "OPERATORS", "Attributes", "Operator"]
