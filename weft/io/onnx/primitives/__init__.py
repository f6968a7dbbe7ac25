"""Primitives as ONNX nodes. Importing this package fills the table."""

from weft.io.onnx.primitives import elementwise, moving, products, reductions
from weft.io.onnx.primitives.table import EXPORTS, NotWritten

FAMILIES = (elementwise, moving, products, reductions)

__all__ = ["EXPORTS", "FAMILIES", "NotWritten"]
