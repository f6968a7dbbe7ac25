"""Matrix products as nodes."""

from __future__ import annotations

from collections.abc import Sequence

from weft.array.convert import cast
from weft.dtypes.formats import BOOL, INT32
from weft.eager.apply import bind
from weft.errors import ShapeError
from weft.graph.node import Node
from weft.graph.primitives.rules import broadcast
from weft.graph.primitives.settings import asked
from weft.graph.primitives.table import TABLE


def matmul(a: Node, b: Node) -> Node:
    """Return ``a @ b`` by NumPy's rules: vectors, matrices, and stacks of matrices whose leading dimensions broadcast."""
    if not a.shape or not b.shape:
        raise ShapeError(f"matmul: shapes {a.shape} and {b.shape}: a number has no matrix product, use *")
    inner = max(len(b.shape) - 2, 0)
    if a.shape[-1] != b.shape[inner]:
        raise ShapeError(
            f"matmul: shapes {a.shape} and {b.shape} do not fit: the last extent of the first ({a.shape[-1]}) must be "
            f"the {'last but one' if inner or len(b.shape) == 2 else 'only'} of the second ({b.shape[inner]})"
        )
    if len(b.shape) <= 2:
        return contracted(a, b, (len(a.shape) - 1,), (inner,))
    vector = len(a.shape) == 1
    if vector:
        a = bind(TABLE["reshape"], a, shape=(1, *a.shape))
    lead = _broadcast_leading(a, b)
    a, b = (x if x.shape[:-2] == lead else bind(TABLE["broadcast_to"], x, shape=(*lead, *x.shape[-2:])) for x in (a, b))
    n = len(lead)
    axes = tuple(range(n))
    out = contracted(a, b, (n + 1,), (n,), axes)
    return bind(TABLE["reshape"], out, shape=(*lead, out.shape[-1])) if vector else out


def _broadcast_leading(a: Node, b: Node) -> tuple[int, ...]:
    lead = broadcast(a.shape[:-2], b.shape[:-2])
    if lead is None:
        raise ShapeError(f"matmul: the leading dimensions of {a.shape} and {b.shape} do not broadcast")
    return lead


def contracted(a: Node, b: Node, a_axes: Sequence[int], b_axes: Sequence[int], batch: Sequence[int] = ()) -> Node:
    """Return sums of products over axes; of bools, whether any product is true."""
    is_bool = a.dtype == BOOL
    if is_bool:
        a, b = cast(a, INT32), cast(b, INT32)
    batch_axes = tuple(batch)
    contract = tuple(a_axes), tuple(b_axes)
    out = bind(TABLE["dot_general"], a, b, contract=contract, batch=(batch_axes, batch_axes), **asked(a.dtype))
    return cast(out, BOOL) if is_bool else out
