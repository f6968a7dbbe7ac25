"""The vocabulary: importing this package fills ``TABLE``."""

from weft.graph.primitives import elementwise, index, reduce, shape
from weft.graph.primitives.table import (
    CONSTANT, INPUT, SCALAR, TABLE, Cost, ErrorSample, Primitive, Sample, bind, constant, input_leaf, register, scalar_leaf,
)

__all__ = [
    "CONSTANT", "INPUT", "SCALAR", "TABLE", "Cost", "ErrorSample", "Primitive", "Sample", "bind", "constant", "elementwise",
    "index", "input_leaf", "reduce", "register", "scalar_leaf", "shape",
]
