"""dot_general: every product of two arrays. Result dimensions: batch, then the free axes of a, then those of b.

``contract`` and ``batch`` are ``((axes of a), (axes of b))``. Products of float16 and bfloat16 are summed in float32 and
rounded once; products of integers wrap. The other parameters are settings of products: see ``settings.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.dtypes.formats import Format
from weft.dtypes.rounding import Accumulator
from weft.errors import ShapeError
from weft.graph.node import Cost, Node, Primitive, Shape
from weft.graph.primitives.call import call, permute, reshape
from weft.graph.primitives.common import NodeAndAxis, compute_in_float32, inverse, round_operands, traffic
from weft.graph.primitives.kinds import NUMBERS
from weft.graph.primitives.rules import check_axes, dtype_error, memoise
from weft.graph.primitives.settings import Pair as Formats
from weft.graph.primitives.settings import check_formats, has_formats, with_operands
from weft.graph.primitives.table import register
from weft.kernel.summation import add_products

Pair = tuple[tuple[int, ...], tuple[int, ...]]


def free_axes(ndim: int, contract: tuple[int, ...], batch: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes that are neither contracted nor batch."""
    return tuple([d for d in range(ndim) if d not in contract and d not in batch])


def _rule(
    a: Node, b: Node, contract: Pair, batch: Pair, precision: str = "float32", accumulator: Accumulator | None = None,
    operands: Formats = (None, None),
) -> tuple[Shape, Format]:
    dtype = a.dtype
    if dtype not in NUMBERS or dtype is not b.dtype:
        raise dtype_error("dot_general", (a, b), ("a", "b"), NUMBERS)
    if accumulator is not None or operands != (None, None):
        check_formats("dot_general", dtype, accumulator, operands)
    return _shape(a.shape, b.shape, contract, batch), dtype


@memoise
def _shape(sa: Shape, sb: Shape, contract: Pair, batch: Pair) -> Shape:
    check_axes("dot_general", contract[0] + batch[0], len(sa), "axes of a")
    check_axes("dot_general", contract[1] + batch[1], len(sb), "axes of b")
    for role, (axes_a, axes_b) in (("contracted", contract), ("batch", batch)):
        if len(axes_a) != len(axes_b):
            raise ShapeError(f"dot_general: {role} axes {axes_a} of a and {axes_b} of b must pair up.")
        for i, j in zip(axes_a, axes_b, strict=True):
            if sa[i] != sb[j]:
                raise ShapeError(
                    f"dot_general: a {sa} and b {sb}: {role} axis {i} of a has {sa[i]} elements and axis {j} of b has {sb[j]}: "
                    "they must be equal; transpose an operand if its axes are in another order."
                )
    shape = [sa[d] for d in batch[0]]
    shape += [n for d, n in enumerate(sa) if d not in contract[0] and d not in batch[0]]
    shape += [n for d, n in enumerate(sb) if d not in contract[1] and d not in batch[1]]
    return tuple(shape)


def _reference(
    a: np.ndarray, b: np.ndarray, contract: Pair, batch: Pair, precision: str = "float32", accumulator: Accumulator | None = None,
    operands: Formats = (None, None),
) -> np.ndarray:
    a, b = round_operands((a, b), operands)
    free_a, free_b = free_axes(a.ndim, contract[0], batch[0]), free_axes(b.ndim, contract[1], batch[1])
    nb = [a.shape[d] for d in batch[0]]
    m, n = [a.shape[d] for d in free_a], [b.shape[d] for d in free_b]
    k = prod([a.shape[d] for d in contract[0]])
    left = a.transpose(batch[0] + free_a + contract[0]).reshape(prod(nb), prod(m), k)
    right = b.transpose(batch[1] + contract[1] + free_b).reshape(prod(nb), k, prod(n))
    if accumulator is not None:
        terms = ((left[:, :, i, None], right[:, i, None, :], True) for i in range(k))
        return add_products((prod(nb), prod(m), prod(n)), terms, accumulator).reshape(nb + m + n)
    return np.matmul(left, right).reshape(nb + m + n)


def _vjp(g: Node, out: Node, a: Node, b: Node, contract: Pair, batch: Pair, **settings: Any) -> tuple[Node, Node]:
    free_a = free_axes(len(a.shape), contract[0], batch[0])
    free_b = free_axes(len(b.shape), contract[1], batch[1])
    nb, na = len(batch[0]), len(free_a)
    lead = tuple(range(nb))
    form_a, form_b = settings.get("operands", (None, None))
    of_a, of_b = tuple(range(nb, nb + na)), tuple(range(nb + na, nb + na + len(free_b)))

    # Over b's free axes: the result has the batch, a's free axes, then b's contracted axes in b's order. The operand order that
    # permutes less is taken, so that a gradient has the layout of the parameter beside which the optimizer reads it.
    rest = sorted(range(len(contract[1])), key=lambda i: contract[1][i])
    contracted = tuple(contract[0][i] for i in rest)
    if _precedes(contracted, free_a):
        da = _product(b, g, (free_b, of_b), (batch[1], lead), with_operands(settings, form_b, None))
        da = permute(da, inverse(batch[0] + contracted + free_a))
    else:
        da = _product(g, b, (of_b, free_b), (lead, batch[1]), with_operands(settings, None, form_b))
        da = permute(da, inverse(batch[0] + free_a + contracted))

    # Over a's free axes: batch, a's contracted axes in a's order, b's free axes.
    rest = sorted(range(len(contract[0])), key=lambda i: contract[0][i])
    contracted = tuple(contract[1][i] for i in rest)
    if _precedes(free_b, contracted):
        db = _product(g, a, (of_a, free_a), (lead, batch[0]), with_operands(settings, None, form_a))
        return da, permute(db, inverse(batch[1] + free_b + contracted))
    db = _product(a, g, (free_a, of_a), (batch[0], lead), with_operands(settings, form_a, None))
    return da, permute(db, inverse(batch[1] + contracted + free_b))


def _precedes(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Return whether all axes of ``one`` are in front of all axes of ``other``."""
    return bool(one and other) and max(one) < min(other)


def _product(a: Node, b: Node, contract: Pair, batch: Pair, settings: dict[str, Any]) -> Node:
    """Return a dot_general or, if nothing is summed, a multiplication, which fuses with its readers.

    A product that is rounded remains one, with a sum of one product.
    """
    if has_formats(settings):
        if not contract[0]:
            contract = (len(a.shape),), (len(b.shape),)
            a, b = (reshape(x, (*x.shape, 1)) for x in (a, b))
        return call.dot_general(a, b, contract=contract, batch=batch, **settings)
    if contract[0]:
        return call.dot_general(a, b, contract=contract, batch=batch, **settings)
    free_a, free_b = free_axes(len(a.shape), (), batch[0]), free_axes(len(b.shape), (), batch[1])
    left, right = permute(a, batch[0] + free_a), permute(b, batch[1] + free_b)
    nb = len(batch[0])
    spread = (*right.shape[:nb], *(1 for _ in free_a), *right.shape[nb:])
    return call.multiply(reshape(left, (*left.shape, *(1 for _ in free_b))), reshape(right, spread))


def _shift(axes: tuple[int, ...], dim: int | None) -> tuple[int, ...]:
    """Return axes of the unbatched operand as axes of the batched one."""
    return axes if dim is None else tuple(a + (a >= dim) for a in axes)


def _batch(
    inputs: Sequence[Node], dims: Sequence[int | None], contract: Pair, batch: Pair, **settings: Any,
) -> NodeAndAxis:
    (a, b), (da, db) = inputs, dims
    pairs: list[Pair] = [(_shift(p[0], da), _shift(p[1], db)) for p in (contract, batch)]
    if da is not None and db is not None:
        both = ((da, *pairs[1][0]), (db, *pairs[1][1]))
        return call.dot_general(a, b, contract=pairs[0], batch=both, **settings), 0
    # the batch is one more free axis
    out = call.dot_general(a, b, contract=pairs[0], batch=pairs[1], **settings)
    nb = len(batch[0])
    free_a = free_axes(len(a.shape), *(p[0] for p in pairs))
    if da is not None:
        return out, nb + free_a.index(da)
    assert db is not None
    return out, nb + len(free_a) + free_axes(len(b.shape), *(p[1] for p in pairs)).index(db)


def _cost(node: Node) -> Cost:
    a = node.inputs[0]
    return Cost(2 * node.size * prod([a.shape[d] for d in node.params["contract"][0]]), traffic(node))


register(Primitive("dot_general", "product", _rule, compute_in_float32(_reference), None, _vjp, _batch, _cost))
