"""The onnx package, imported when a file is first read or written."""

from __future__ import annotations

from functools import cache
from typing import Any

from weft.process.distribution import install_command


@cache
def onnx() -> Any:
    """Return the onnx package; raise ImportError if it is not installed."""
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
        import onnx.shape_inference
    except ImportError:
        raise ImportError(f"ONNX files need the onnx package: {install_command('onnx')}") from None
    return onnx
