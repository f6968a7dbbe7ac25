"""The vocabulary: importing this package fills ``TABLE``."""

from weft.graph.primitives import conv_general, dot_general, elementwise, host, index, random, reduce, reduce_window, shape
from weft.graph.primitives.table import (
    CONSTANT,
    INPUT,
    SCALAR,
    TABLE,
    Cost,
    ErrorSample,
    Primitive,
    Sample,
    bind,
    constant,
    input_leaf,
    register,
    scalar_leaf,
)

__all__ = [
    "CONSTANT", "INPUT", "SCALAR", "TABLE", "Cost", "ErrorSample", "Primitive", "Sample", "bind", "constant", "conv_general",
    "dot_general", "elementwise", "host", "index", "input_leaf", "random", "reduce", "reduce_window", "register",
    "scalar_leaf", "shape",
]
