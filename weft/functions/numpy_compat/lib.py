"""``wf.lib``: the part of ``numpy.lib`` that programs use."""

from __future__ import annotations

from weft.functions.elementwise import emath as scimath
from weft.functions.numpy_compat import stride_tricks

__all__ = ["scimath", "stride_tricks"]
