"""Linear layers and embeddings whose weights are divided among ranks, by columns of the result or by rows of the table.

Shoeybi et al.: Megatron-LM: training multi-billion parameter language models using model parallelism. 2019.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.array import Array
from weft.dist.collectives import all_sum, broadcast, copy_to_ranks
from weft.dist.groups import Group, everybody
from weft.errors import ShapeError
from weft.functions import random
from weft.functions.creation.fill import asarray, zeros
from weft.functions.indexing.where import where
from weft.functions.shape.axes import concat
from weft.nn.embedding import Embedding, check_indices, embedding
from weft.nn.linear import Linear, linear
from weft.nn.module import Module
from weft.process.docstrings import complete_module


class Divided(Module):
    """A layer with one part of a whole layer's weight. Rank k of n has entries k * size // n to (k + 1) * size // n of an axis.

    axis : of the weight; ``group`` : a result of :func:`weft.dist.group`, or None for all ranks
    """

    axis: int

    def __init__(self, whole: Any, group: Group | None) -> None:
        super().__init__()
        self.group = everybody() if group is None else group
        if self.group.rank is None:
            raise ValueError(f"{type(self).__name__}: this rank is not in the group of ranks {list(self.group.ranks)}")
        extent = whole.weight.shape[self.axis]
        if extent < self.group.size:
            raise ShapeError(f"{type(self).__name__}: {extent} features or rows cannot be divided among {self.group.size} ranks")
        bounds = [k * extent // self.group.size for k in range(self.group.size + 1)]
        self.extent, self.begin, self.end = extent, bounds[self.group.rank], bounds[self.group.rank + 1]
        self.weight = self._part(whole.weight)

    def _part(self, whole: Array) -> Array:
        return (whole[:, self.begin : self.end] if self.axis else whole[self.begin : self.end]).copy()

    def _whole(self, make: Callable[..., Any], *arguments: Any) -> Any:
        """Make a whole layer with the weight of all ranks. The hidden random state stays as it is."""
        state = random.get_state()
        layer = make(*arguments).astype(self.weight.dtype)
        random.set_state(state)
        layer.weight = self._join(self.weight, self.axis)
        return layer

    def _join(self, part: Array, axis: int) -> Array:
        """Return the parts of all ranks side by side: the sum of arrays that are zero outside of a rank's part."""
        axis %= part.ndim
        before, after = self.begin, self.extent - self.end
        sides = [zeros((*part.shape[:axis], n, *part.shape[axis + 1 :]), part.dtype) for n in (before, after)]
        return all_sum(concat([sides[0], part, sides[1]], axis=axis), self.group)


class ColumnParallelLinear(Divided):
    """Apply :class:`Linear` with the features of its result divided among ranks. ``x`` is the same on all of them.

    The first of two layers: an activation and :class:`RowParallelLinear` follow, and both layers together exchange one sum in
    each direction. All ranks draw the whole layer and keep their part, so set the same seed on all. Gradients by ``x`` are
    those of the whole layer, and those of the weight belong to the rank's part. Norms of all gradients, as in clipping,
    count a rank's part only.

    Parameters
    ----------
    in_features, out_features : int
    bias : bool
    gather_output : bool
        Return the whole result on all ranks. If False, a rank has its features only.
    group : result of :func:`weft.dist.group`; all ranks if None

    Raises
    ------
    ShapeError
        There are fewer features than ranks, or ``x`` does not fit.
    ValueError
        This rank is not in ``group``.

    >>> layer = wf.nn.ColumnParallelLinear(3, 4, gather_output=True)
    >>> layer(wf.ones((5, 3))).shape
    (5, 4)
    >>> layer.whole().weight.shape
    (4, 3)
    """

    axis = 0

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, gather_output: bool = False, group: Group | None = None,
    ) -> None:
        whole = Linear(in_features, out_features, bias)
        super().__init__(whole, group)
        self.gather_output = bool(gather_output)
        self.bias = None if whole.bias is None else self._part(whole.bias)

    def forward(self, x: Any) -> Array:
        y = linear(copy_to_ranks(asarray(x), self.group), self.weight, self.bias)
        return self._join(y, -1) if self.gather_output else y

    def whole(self) -> Linear:
        """Return a :class:`Linear` with the weights of all ranks. All ranks have to call it."""
        layer: Linear = self._whole(Linear, self.weight.shape[1], self.extent, self.bias is not None)
        layer.bias = None if self.bias is None else self._join(self.bias, 0)
        return layer


class RowParallelLinear(Divided):
    """Apply :class:`Linear` with the features of ``x`` divided among ranks. All ranks have the whole result, with one exchange.

    The ranks' products are added up and rounded in the order of :func:`weft.dist.all_sum`, so bits depend on the number of ranks.
    The bias is whole on all ranks. See :class:`ColumnParallelLinear` for seeds and gradients.

    Parameters
    ----------
    in_features, out_features : int
    bias : bool
    input_is_parallel : bool
        ``x`` has this rank's features only, as :class:`ColumnParallelLinear` returns them. If False, it is whole on all ranks.
    group : result of :func:`weft.dist.group`; all ranks if None

    Raises
    ------
    ShapeError
        There are fewer features than ranks, or ``x`` does not fit.
    ValueError
        This rank is not in ``group``.

    >>> hidden = wf.nn.ColumnParallelLinear(3, 8)(wf.ones((5, 3)))
    >>> wf.nn.RowParallelLinear(8, 2)(wf.nn.relu(hidden)).shape
    (5, 2)
    """

    axis = 1

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, input_is_parallel: bool = True, group: Group | None = None,
    ) -> None:
        whole = Linear(in_features, out_features, bias)
        super().__init__(whole, group)
        self.input_is_parallel = bool(input_is_parallel)
        self.bias = None if whole.bias is None else broadcast(whole.bias, group=self.group)

    def forward(self, x: Any) -> Array:
        x = asarray(x)
        if not self.input_is_parallel:
            if x.ndim < 1 or x.shape[-1] != self.extent:
                raise ShapeError(f"RowParallelLinear: x has shape {x.shape}, its last dimension must be {self.extent}")
            x = copy_to_ranks(x, self.group)[..., self.begin : self.end]
        y = all_sum(linear(x, self.weight), self.group)
        return y if self.bias is None else y + self.bias

    def whole(self) -> Linear:
        """Return a :class:`Linear` with the weights of all ranks. All ranks have to call it."""
        layer: Linear = self._whole(Linear, self.extent, self.weight.shape[0], self.bias is not None)
        layer.bias = None if self.bias is None else self.bias.copy()
        return layer


class VocabParallelEmbedding(Divided):
    """Apply :class:`Embedding` with the rows of its table divided among ranks. One exchange gives all ranks the whole result.

    ``input`` is the same on all ranks. See :class:`ColumnParallelLinear` for seeds and gradients.

    Parameters
    ----------
    num_embeddings, embedding_dim : int, rows and columns of the whole table
    group : result of :func:`weft.dist.group`; all ranks if None

    Raises
    ------
    ShapeError, ValueError
        There are fewer rows than ranks; this rank is not in ``group``.
    DTypeError, IndexError
        Called: ``input`` does not contain integers, or has an index that is no row of the table.

    >>> wf.nn.VocabParallelEmbedding(10, 4)(wf.array([[1, 2, 3], [3, 0, 9]])).shape
    (2, 3, 4)
    """

    axis = 0

    def __init__(self, num_embeddings: int, embedding_dim: int, group: Group | None = None) -> None:
        super().__init__(Embedding(num_embeddings, embedding_dim), group)

    def forward(self, input: Any) -> Array:
        index = check_indices(input, (self.extent, self.weight.shape[1]))
        index = where(index < 0, index.astype("int64") + self.extent, index.astype("int64"))
        own = (index >= self.begin) & (index < self.end)
        rows = embedding(where(own, index - self.begin, 0), self.weight)
        return all_sum(where(own[..., None], rows, 0), self.group)

    def whole(self) -> Embedding:
        """Return an :class:`Embedding` with the rows of all ranks. All ranks have to call it."""
        layer: Embedding = self._whole(Embedding, self.extent, self.weight.shape[1])
        return layer


complete_module(globals())
