"""einops on Arrays: the backend that einops finds among the subclasses of its own. ``weft.process.import_hook`` introduces it."""

from __future__ import annotations

from typing import Any

import numpy as np

import weft
from weft.dtypes.formats import FLOATS
from weft.dtypes.parse import spelled


def introduce(backends: Any) -> None:
    """Give ``einops._backends`` a class for Arrays. einops calls ``self.np`` where it needs a function, else methods."""

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
            return spelled(x.dtype) in FLOATS

    backends.WeftBackend = WeftBackend  # kept there: subclasses are known weakly
