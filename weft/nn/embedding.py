"""Embedding: a row of a table for each index."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array import Array
from weft.errors import DTypeError, ShapeError
from weft.functions import random
from weft.functions.creation.fill import asarray
from weft.functions.elementwise.ufuncs import equal, stop_gradient
from weft.functions.indexing.take_scatter import take
from weft.functions.indexing.where import where
from weft.nn.module import Module
from weft.nn.size_arguments import extents


def embedding(input: Any, weight: Array, padding_idx: int | None = None) -> Array:
    """``weight[input]``; rows at ``padding_idx`` get no gradient.

    Parameters
    ----------
    input : integer array of any shape; negative numbers count from the end, as indices do
    weight : (num_embeddings, embedding_dim)
    padding_idx : int, optional

    Returns
    -------
    (*input.shape, embedding_dim)

    Raises
    ------
    DTypeError
        when ``input`` does not hold integers.
    ShapeError
        when ``weight`` is no table.
    IndexError
        when an index that can be looked at is out of range; at once where the indices can be looked at, else when rows are read.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.embedding(wf.array([2, 0]), wf.array([[1.0], [2.0], [3.0]])).tolist()
    [[3.0], [1.0]]
    """
    rows = weight.shape[0]
    known = None if isinstance(input, Array) and input.node.value is None else np.asarray(input)
    index = input if isinstance(input, Array) else asarray(input)
    if weight.ndim != 2:
        raise ShapeError(f"embedding: weight must be (num_embeddings, embedding_dim), not {weight.shape}")
    if index.dtype.kind not in "iu":
        raise DTypeError(f"embedding: input must hold integers, not {index.dtype}")
    if known is not None and known.size and (known.min() < -rows or known.max() >= rows):
        bad = known[(known < -rows) | (known >= rows)].flat[0]
        raise IndexError(f"embedding: index {bad}, but the table has {rows} rows (weight {weight.shape})")
    found = take(weight, index, axis=0)
    if padding_idx is None:
        return found
    counted = index if index.dtype.kind == "u" else where(index < 0, index + rows, index)
    padded = equal(counted, padding_idx % rows).reshape((*index.shape, 1))
    return where(padded, stop_gradient(found), found)


class Embedding(Module):
    """:func:`weft.nn.embedding` with its table, normal numbers at the start.

    Negative tokens count from the end, as indices do: -1 is the last row. Tokens for "nothing here" are a row of their own,
    ``padding_idx``.

    Bengio et al.: A neural probabilistic language model. 2003.

    Parameters
    ----------
    num_embeddings, embedding_dim : int, rows and columns of the table
    padding_idx : int, optional; this row starts as zeros and is not trained
    sparse : bool, optimizers read and write only the rows that a batch looks up, so that the time of a step does not
        grow with the table; what this means for momentum and means: see :class:`weft.optim.Optimizer`

    Raises
    ------
    ShapeError, IndexError
        Sizes that are not positive; a ``padding_idx`` or, called, an index that the table lacks.
    DTypeError
        Called with what holds no integers.

    Examples
    --------
    >>> import weft as wf
    >>> wf.nn.Embedding(10, 4)(wf.array([[1, 2, 3], [3, 0, 9]])).shape
    (2, 3, 4)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, sparse: bool = False,
    ) -> None:
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

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        text = text if self.padding_idx is None else text + f", padding_idx={self.padding_idx}"
        return text + ", sparse=True" if self.sparse else text
