"""einops backend for Arrays. ``weft.process.import_hook`` registers it when einops is imported."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from weft.dtypes.formats import FLOATS
from weft.dtypes.parse import parse_dtype


def introduce(backends: Any) -> None:
    """Add a class for Arrays to ``einops._backends``. einops calls functions of ``self.np`` and methods of the tensors."""

    class WeftBackend(backends.NumpyBackend):
        framework_name = "weft"

        def __init__(self) -> None:
            super().__init__()
            self.np = weft

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, weft.Array)

        def from_numpy(self, x: Any) -> weft.Array:
            return weft.asarray(x)

        def to_numpy(self, x: Any) -> np.ndarray:
            return x.numpy()

        def is_float_type(self, x: Any) -> bool:
            return parse_dtype(x.dtype) in FLOATS

    backends.WeftBackend = WeftBackend  # keeps it alive: einops finds backends by __subclasses__
