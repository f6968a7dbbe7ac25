"""A cache of keys and values, so that each token of a growing sequence is projected once."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.dtypes.api import is_float
from weft.dtypes.formats import FLOATS
from weft.dtypes.parse import parse_dtype
from weft.errors import DTypeError, ShapeError
from weft.functions.creation.fill import arange, asarray, zeros
from weft.functions.support.arguments import check_range
from weft.nn.module import Module
from weft.nn.size_arguments import extents
from weft.process.docstrings import complete_each
from weft.runtime.context import CONTEXT


class KeyValueCache(Module):
    """Keep the keys and values of past positions for causal attention, in arrays of a fixed size.

    A jitted step that updates a cache is traced once, and writes into the arrays in place. Give it to
    :class:`weft.nn.MultiHeadAttention` or :class:`weft.nn.TransformerEncoderLayer` (``cache=``), one for each layer, or use
    :meth:`update` in your own attention.

    Parameters
    ----------
    batch : int
    num_heads : int, of the keys and values
    max_length : int, the most positions
    head_dim : int, the number of features of a head
    dtype : float dtype

    Attributes
    ----------
    keys, values : (batch, num_heads, max_length, head_dim)
    length : (), int32; the number of positions so far

    Raises
    ------
    ShapeError, DTypeError, TypeError
        A size is not positive; ``dtype`` is not float; the cache is called like a layer.

    Examples
    --------
    >>> import weft as wf
    >>> layer = wf.nn.MultiHeadAttention(8, 2)
    >>> cache = wf.nn.KeyValueCache(1, 2, 16, 4)
    >>> prompt = layer(wf.ones((1, 5, 8)), cache=cache)
    >>> layer(wf.ones((1, 1, 8)), cache=cache).shape, int(cache.length)
    ((1, 1, 8), 6)
    """

    buffers = ("keys", "values", "length")

    def __init__(self, batch: int, num_heads: int, max_length: int, head_dim: int, dtype: Any = "float32") -> None:
        super().__init__()
        sizes = extents("KeyValueCache", batch=batch, num_heads=num_heads, max_length=max_length, head_dim=head_dim)
        self.batch, self.num_heads, self.max_length, self.head_dim = sizes
        if (format := parse_dtype(dtype)) not in FLOATS:
            raise DTypeError(f"KeyValueCache: dtype must be float, not {format.name}: keys and values are float")
        self.keys, self.values = zeros(sizes, dtype=dtype), zeros(sizes, dtype=dtype)
        self.length = zeros((), dtype="int32")

    def update(self, key: Any, value: Any) -> tuple[Array, Array, Array]:
        """Write the keys and values of the next positions; return (keys, values, mask) for attention.

        Parameters
        ----------
        key, value : (batch, num_heads, L, head_dim)

        Returns
        -------
        tuple of three Arrays
            All keys and all values, and a bool mask (L, max_length): True where a new position attends, which are those up to
            itself.

        Raises
        ------
        ShapeError
            The shapes do not fit, or L positions are more than are left.
        DTypeError
            ``key`` or ``value`` is not float.
        IndexError
            The same inside a jitted function.

        Examples
        --------
        >>> import weft as wf
        >>> cache = wf.nn.KeyValueCache(1, 1, 4, 2)
        >>> keys, values, mask = cache.update(wf.ones((1, 1, 2, 2)), wf.ones((1, 1, 2, 2)))
        >>> mask.tolist()
        [[True, False, False, False], [True, True, False, False]]
        """
        key, value = asarray(key), asarray(value)
        sizes = f"({self.batch}, {self.num_heads}, L, {self.head_dim})"
        for name, a in (("key", key), ("value", value)):
            if not is_float(a.dtype):
                raise DTypeError(f"KeyValueCache: {name} must be float, not {a.dtype}")
            if a.ndim != 4 or (*a.shape[:2], a.shape[3]) != (self.batch, self.num_heads, self.head_dim):
                raise ShapeError(f"KeyValueCache: {name} has shape {a.shape}, but must be {sizes}")
        count = key.shape[2]
        if value.shape[2] != count:
            raise ShapeError(f"KeyValueCache: key {key.shape} and value {value.shape} must have one length")
        if count > self.max_length or (CONTEXT.trace is None and int(self.length) + count > self.max_length):
            held = f"; {int(self.length)} are used" if CONTEXT.trace is None else ""
            room = f"there is no room for {count} positions of {self.max_length}"
            raise ShapeError(f"KeyValueCache: {room}{held}: reset() empties it")
        places = self.length + arange(count, dtype="int32")
        places = check_range(places, self.max_length, "KeyValueCache: positions")
        self.keys[:, :, places] = key.astype(self.keys.dtype)
        self.values[:, :, places] = value.astype(self.values.dtype)
        self.length[...] = self.length + count
        return self.keys, self.values, arange(self.max_length, dtype="int32") <= places[:, None]

    def reset(self) -> None:
        """Start a new sequence: the length becomes 0."""
        self.length[...] = 0


complete_each(KeyValueCache)
