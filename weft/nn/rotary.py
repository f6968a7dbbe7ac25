"""Rotary position embedding: queries and keys turned by angles that grow with their positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array
from weft.dtypes.api import is_float
from weft.errors import DTypeError, ShapeError
from weft.functions.creation.fill import arange, asarray
from weft.functions.dtype_info.half_precision import to_compute_dtype, to_storage_dtype
from weft.functions.elementwise.ufuncs import cos, sin
from weft.functions.shape.axes import concatenate, stack
from weft.functions.support.arguments import check_real_scalar
from weft.nn.module import Module
from weft.nn.size_arguments import extents
from weft.process.docstrings import complete_docs


def rotary_embedding(x: Any, positions: Any = None, base: float = 10000.0, interleaved: bool = False) -> Array:
    """Turn pairs of features by ``positions * base ** (-2 * i / D)``, so that products of queries and keys know their distance.

    Su et al.: RoFormer: enhanced transformer with rotary position embedding. 2021.

    Parameters
    ----------
    x : (..., L, D), float, queries or keys; D is even
    positions : (L,), or an array that broadcasts to (..., L), optional
        0, 1, ..., L - 1 by default. With a cache: ``cache.length + wf.arange(L)``.
    base : float
    interleaved : bool
        Which features are pairs: i and i + D / 2 (as in Llama's and GPT-NeoX's weights at Hugging Face), or 2 i and 2 i + 1 (as
        in the paper, and in Llama's own weights).

    Returns
    -------
    Array of the shape and dtype of ``x``; 16-bit floats are computed in float32

    Raises
    ------
    ShapeError, DTypeError
        D is odd; ``positions`` do not broadcast; ``x`` is not float.

    >>> wf.nn.rotary_embedding(wf.ones((2, 2))).round(2).tolist()
    [[1.0, 1.0], [-0.30000001192092896, 1.3799999952316284]]
    """
    x = asarray(x)
    if x.ndim < 2 or x.shape[-1] % 2:
        raise ShapeError(f"rotary_embedding: x must be (..., L, D) with an even D, not {x.shape}")
    if not is_float(x.dtype):
        raise DTypeError(f"rotary_embedding: x must be float, not {x.dtype}")
    wide, (length, width) = to_compute_dtype(x), x.shape[-2:]
    places = arange(length) if positions is None else asarray(positions)
    pairs = zip(reversed(places.shape), reversed(x.shape[:-1]), strict=False)
    if places.ndim > x.ndim - 1 or any(m not in (1, n) for m, n in pairs):
        raise ShapeError(f"rotary_embedding: positions {places.shape} do not broadcast to {x.shape[:-1]}, those of x {x.shape}")
    base = check_real_scalar(base, "rotary_embedding", "base")
    frequencies = asarray(base ** (np.arange(0, width, 2) / -width), dtype=wide.dtype)
    angles = places.astype(wide.dtype)[..., None] * frequencies
    c, s = cos(angles), sin(angles)
    if interleaved:
        a, b = wide[..., ::2], wide[..., 1::2]
        turned = stack([a * c - b * s, a * s + b * c], axis=-1).reshape(x.shape)
    else:
        a, b = wide[..., : width // 2], wide[..., width // 2 :]
        turned = concatenate([a * c - b * s, a * s + b * c], axis=-1)
    return to_storage_dtype(turned, x)


class RotaryEmbedding(Module):
    """Apply :func:`weft.nn.rotary_embedding`; it has no parameters.

    Parameters
    ----------
    dim : int, even; the number of features of a head

    >>> wf.nn.RotaryEmbedding(8)(wf.ones((2, 4, 5, 8))).shape
    (2, 4, 5, 8)
    """

    def __init__(self, dim: int, base: float = 10000.0, interleaved: bool = False) -> None:
        super().__init__()
        (self.dim,) = extents("RotaryEmbedding", dim=dim)
        if self.dim % 2:
            raise ShapeError(f"RotaryEmbedding: dim={self.dim} must be even")
        self.base, self.interleaved = check_real_scalar(base, "RotaryEmbedding", "base"), bool(interleaved)

    def forward(self, x: Any, positions: Any = None) -> Array:
        x = asarray(x)
        if not x.ndim or x.shape[-1] != self.dim:
            raise ShapeError(f"RotaryEmbedding: x {x.shape} must end in dim = {self.dim}")
        return rotary_embedding(x, positions, self.base, self.interleaved)


complete_docs(rotary_embedding, RotaryEmbedding)
