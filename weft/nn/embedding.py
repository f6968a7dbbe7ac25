"""Embedding, as a function and as a layer: a row of a table for each index."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array
from weft.dtypes.api import is_integer, isdtype
from weft.errors import DTypeError, ShapeError
from weft.functions import random
from weft.functions.creation.fill import asarray
from weft.functions.elementwise.ufuncs import equal, stop_gradient
from weft.functions.indexing.take_scatter import take
from weft.functions.indexing.where import where
from weft.nn.module import Module
from weft.nn.size_arguments import extents
from weft.process.docstrings import complete_module


def embedding(input: Any, weight: Array, padding_idx: int | None = None) -> Array:
    """Return ``weight[input]``; the row ``padding_idx`` gets no gradient.

    Parameters
    ----------
    input : integer array of any shape; negative numbers count from the end
    weight : (num_embeddings, embedding_dim)
    padding_idx : int, optional

    Returns
    -------
    Array of shape (*input.shape, embedding_dim)

    Raises
    ------
    DTypeError
        ``input`` does not contain integers.
    ShapeError
        ``weight`` is not two-dimensional.
    IndexError
        An index is out of range: raised immediately for computed indices, otherwise when the rows are read.

    >>> wf.nn.embedding(wf.array([2, 0]), wf.array([[1.0], [2.0], [3.0]])).tolist()
    [[3.0], [1.0]]
    """
    rows, index = weight.shape[0], check_indices(input, weight.shape)
    result = take(weight, index, axis=0)
    if padding_idx is None:
        return result
    positive = index if isdtype(index.dtype, "unsigned integer") else where(index < 0, index + rows, index)
    padded = equal(positive, padding_idx % rows).reshape((*index.shape, 1))
    return where(padded, stop_gradient(result), result)


def check_indices(input: Any, shape: tuple[int, ...]) -> Array:
    """Return the indices of rows of a table; raise an error if they are not integers or not in range."""
    rows = shape[0]
    computed = None if isinstance(input, Array) and input.node.value is None else np.asarray(input)
    index = input if isinstance(input, Array) else asarray(input)
    if len(shape) != 2:
        raise ShapeError(f"embedding: weight must be (num_embeddings, embedding_dim), not {shape}")
    if not is_integer(index.dtype):
        raise DTypeError(f"embedding: input must hold integers, not {index.dtype}: cast with .astype('int32')")
    if computed is not None and computed.dtype.kind == "V":  # NumPy compares integers of 2 and 4 bits with their own kind only
        computed = computed.astype(np.int8)
    if computed is not None and computed.size and (computed.min() < -rows or computed.max() >= rows):
        bad = computed[(computed < -rows) | (computed >= rows)].flat[0]
        raise IndexError(f"embedding: index {bad}, but the table has {rows} rows (weight {shape})")
    return index


class Embedding(Module):
    """Apply :func:`weft.nn.embedding` with a table of initially normal random numbers.

    Negative tokens count from the end: -1 is the last row. Use ``padding_idx`` for padding tokens.

    Bengio et al.: A neural probabilistic language model. 2003.

    Parameters
    ----------
    num_embeddings, embedding_dim : int, rows and columns of the table
    padding_idx : int, optional; this row starts as zeros and is not trained
    sparse : bool
        Optimizers read and write only the rows that a batch looks up, so that the time of a step does not grow with the
        table. :class:`weft.optim.Optimizer` describes the effect on momentum and means.

    Raises
    ------
    ShapeError, IndexError
        A size is not positive; ``padding_idx`` or, called, an index is not a row of the table.
    DTypeError
        Called: ``input`` does not contain integers.

    >>> wf.nn.Embedding(10, 4)(wf.array([[1, 2, 3], [3, 0, 9]])).shape
    (2, 3, 4)
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, sparse: bool = False) -> None:
        super().__init__()
        rows, width = extents("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if padding_idx is not None and not -rows <= padding_idx < rows:
            raise IndexError(f"Embedding: padding_idx={padding_idx}, but there are {rows} rows")
        self.num_embeddings, self.embedding_dim, self.sparse = rows, width, sparse
        self.padding_idx = None if padding_idx is None else padding_idx % rows
        self.weight = asarray(random.normal(size=(rows, width)))
        if self.padding_idx is not None:
            self.weight[self.padding_idx] = 0.0

    def forward(self, input: Any) -> Array:
        return embedding(input, self.weight, self.padding_idx)


complete_module(globals())
