"""The mean of gradients over the ranks, for training loops of one's own."""

from __future__ import annotations

from typing import Any

from weft.array import Array, wrap
from weft.array.convert import as_node
from weft.dist.collectives import all_sum
from weft.dist.exchanges import make_buckets
from weft.dist.world import world
from weft.dtypes.api import float32, is_inexact
from weft.errors import DTypeError, ShapeError, short
from weft.functions.elementwise.ufuncs import maximum
from weft.functions.indexing.where import where
from weft.functions.shape.axes import concat
from weft.transforms.tree import flatten_value, unflatten


def average(gradients: Any, rows: Any) -> Any:
    """Return the mean of the ranks' gradients, weighted by rows, on all ranks. Gradients of a dtype are added up together.

    If each rank computes the gradient of a mean over its rows, the result is the gradient of the mean over all rows. Its bits
    depend on the number of ranks; those of :func:`weft.train.fit` with ``shards=`` do not.

    Parameters
    ----------
    gradients : Array, Module, or dict, list or tuple of Arrays, such as a result of :func:`weft.grad`; of one structure, and of
        the same shapes and dtypes, on all ranks
    rows : int or () Array, the number of rows behind this rank's gradients. A rank with 0 rows counts for nothing, whatever its
        gradients are; if no rank has rows, the result is zeros

    Returns
    -------
    of the structure of ``gradients``

    Raises
    ------
    DTypeError, ShapeError, TypeError
        A gradient is not a float or complex Array; ``rows`` is not one number.
    ValueError
        ``rows`` is negative.
    CollectiveError
        As :func:`all_sum`.

    Examples
    --------
    >>> import weft as wf
    >>> net, x = wf.nn.Linear(3, 1), wf.ones((4, 3))
    >>> slopes = wf.grad(lambda net: (net(x) ** 2).mean())(net)
    >>> wf.dist.average(slopes, rows=4).weight.shape
    (1, 3)
    """
    leaves, structure = flatten_value(gradients)
    for a in leaves:
        if not isinstance(a, Array):
            raise TypeError(f"average: gradients has {short(a)} ({type(a).__name__}), but must have Arrays only")
        if not is_inexact(a.dtype):
            raise DTypeError(f"average: gradients has a {a.dtype.name}{list(a.shape)} array, but must have floats or complex")
    if isinstance(rows, bool) or not isinstance(rows, int | Array) and not hasattr(type(rows), "__index__"):
        raise TypeError(f"average: rows is {short(rows)} ({type(rows).__name__}), but must be an int, the number of rows")
    if not isinstance(rows, Array) and rows < 0:
        raise ValueError(f"average: rows is {rows}, but must not be negative")
    own = wrap(as_node(rows))
    if own.shape:
        raise ShapeError(f"average: rows has shape {own.shape}, but must be one number")
    if world().size == 1 and not isinstance(rows, Array) and rows:
        return gradients
    own = own.astype("float64")
    share = own / maximum(all_sum(own), 1.0)
    if world().size == 1:
        return unflatten(structure, [where(own > 0, a, 0).astype(a.dtype) for a in leaves])
    means: dict[int, Array] = {}
    for places in make_buckets([(a.dtype, a.nbytes) for a in leaves]):
        dtype = leaves[places[0]].dtype
        wide = float32 if dtype.kind != "c" and dtype.itemsize < 4 else dtype
        flat = concat([leaves[k].reshape(-1).astype(wide) for k in places])
        total = all_sum(where(own > 0, flat * share.astype(flat.real.dtype), 0).astype(wide))
        first = 0
        for k in places:
            size = leaves[k].size
            means[k] = total[first : first + size].reshape(leaves[k].shape).astype(dtype)
            first += size
    return unflatten(structure, [means[k] for k in range(len(leaves))])
