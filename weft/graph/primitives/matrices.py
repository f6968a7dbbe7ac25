"""What primitives on matrices share: the last two axes, results of several parts as one array, and LAPACK's errors.

A node has one shape, a factorisation several: its parts lie one after the other in the last axis of one array, and
``unpacked`` gives them back as slices. Their memory is small beside the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.dtypes.formats import COMPLEX, FLOAT32, FLOAT64, Format
from weft.errors import ShapeError
from weft.graph.node import Cost, Node, Shape
from weft.graph.primitives.call import broadcast_to, call, cast, number, permute, reshape
from weft.graph.primitives.common import Batched, front, product, rank, traffic
from weft.graph.primitives.kinds import INT64
from weft.graph.primitives.rules import broadcast, dtype_error

LAPACK = frozenset((FLOAT32, FLOAT64)) | COMPLEX  # what its routines are there for
Parts = Sequence[Shape]


class MatrixError(ShapeError, np.linalg.LinAlgError):
    """A shape that is no matrix, or no square one."""


def operand_of(name: str) -> str:
    """What NumPy's function of this name calls its matrix."""
    return "x" if name in ("expm", "svdvals") else "a"


def check(name: str, x: Node, square: bool = False, argument: str | None = None) -> Shape:
    """The leading extents of a stack of matrices."""
    argument = argument or operand_of(name)
    if len(x.shape) < 2:
        raise MatrixError(f"{name}: {argument} has shape {x.shape}; a matrix or a stack of matrices is needed.")
    if square and x.shape[-1] != x.shape[-2]:
        raise MatrixError(f"{name}: {argument} has shape {x.shape}; the last two dimensions must be equal: a square matrix.")
    if x.dtype not in LAPACK:
        raise dtype_error(name, (x,), (argument,), LAPACK)
    return x.shape[:-2]


def quietly(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A reference without NumPy's warnings, in the dtype of its operands."""

    def reference(*arrays: np.ndarray, **params: Any) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(fn(*arrays, **params))

    return reference


def cubic(operations: float) -> Callable[[Node], Cost]:
    """What a factorisation takes: so many operations times the cube of a matrix's side, as textbooks of LAPACK count them
    (and twice for Cholesky's factor, which NumPy makes at half the speed of the others)."""

    def cost(node: Node) -> Cost:
        *lead, m, n = node.inputs[0].shape
        return Cost(int(operations * product(lead) * m * n * min(m, n)), traffic(node))

    return cost


def each(name: str) -> Callable[..., Batched]:
    """The batching rule of a function of stacks of matrices, whose leading extents broadcast."""

    def rule(inputs: Sequence[Node], dims: Sequence[int | None], **params: Any) -> Batched:
        ndim = max(map(rank, inputs, dims))
        return getattr(call, name)(*[front(x, d, ndim) for x, d in zip(inputs, dims, strict=True)], **params), 0

    return rule


# ---- parts


def together(parts: Sequence[np.ndarray], lead: int) -> np.ndarray:
    """Arrays that have ``lead`` leading axes, as one."""
    flat = [np.reshape(p, (*p.shape[:lead], product(p.shape[lead:]))) for p in parts]
    return np.concatenate(flat, axis=-1)


def unpacked(node: Node, *shapes: Shape) -> tuple[Node, ...]:
    """The parts of a packed result, which have these shapes behind the leading extents."""
    lead, at, out = node.shape[:-1], 0, []
    for shape in shapes:
        size = product(shape)
        start = (*(0 for _ in lead), at if size else 0)
        piece = call.slice(node, start=start, step=(1,) * len(start), shape=(*lead, size))
        out.append(reshape(piece, (*lead, *shape)))
        at += size
    return tuple(out)


def width(*shapes: Shape) -> int:
    """How long the last axis of the packed result is."""
    return sum(map(product, shapes))


# ---- what derivatives are written in


def transposed(x: Node) -> Node:
    n = len(x.shape)
    return permute(x, (*range(n - 2), n - 1, n - 2))


def conj(x: Node) -> Node:
    return call.conj(x) if x.dtype in COMPLEX else x


def adjoint(x: Node) -> Node:
    """Transposed and conjugated."""
    return transposed(conj(x))


def matmul(a: Node, b: Node) -> Node:
    """The product of stacks of matrices whose leading extents broadcast."""
    lead = broadcast(a.shape[:-2], b.shape[:-2])
    assert lead is not None
    a, b = (broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b))
    n, axes = len(lead), tuple(range(len(lead)))
    return call.dot_general(a, b, contract=((n + 1,), (n,)), batch=(axes, axes))


def where(m: int, n: int, compare: str) -> Node:
    """A mask of an (m, n) matrix: where the row's number is ``greater``, ``less_equal``, ... than the column's."""
    return getattr(call, compare)(*[call.iota(shape=(m, n), dtype=INT64, axis=axis) for axis in (0, 1)])


def kept(x: Node, compare: str) -> Node:
    """Matrices with zeros outside of a mask (see :func:`where`)."""
    return call.where(where(x.shape[-2], x.shape[-1], compare), x, number(0, x))


def column(v: Node) -> Node:
    return reshape(v, (*v.shape, 1))


def row(v: Node) -> Node:
    return reshape(v, (*v.shape[:-1], 1, v.shape[-1]))


def diagonal_matrix(v: Node) -> Node:
    """Vectors as the diagonals of square matrices."""
    n = v.shape[-1]
    return call.where(where(n, n, "equal"), column(v), number(0, v))


def diagonal_of(x: Node) -> Node:
    """The diagonals of square matrices."""
    return call.reduce_sum(kept(x, "equal"), axes=(len(x.shape) - 1,), keepdims=False)


def symmetric(x: Node) -> Node:
    """The symmetric (Hermitian) part."""
    return call.multiply(call.add(x, adjoint(x)), number(0.5, x))


def real_format(dtype: Format) -> Format:
    """The format of the parts of a complex number; itself for floats."""
    return dtype.part


def real_part(x: Node) -> Node:
    """The real part, in the format of ``x``: of what is complex only because other parts of a packed result are."""
    return cast(call.real(x), x.dtype) if x.dtype in COMPLEX else x


def as_of(found: Node, x: Node) -> Node:
    """A complex derivative as that of an operand, which may be real."""
    return found if x.dtype in COMPLEX else cast(call.real(found), x.dtype)
