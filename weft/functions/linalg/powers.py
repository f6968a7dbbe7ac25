"""Matrix powers, chains of products and cross products: the products that are in ``wf.linalg`` only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.array import Array, wrap
from weft.array.convert import operands
from weft.array.matrix_products import matmul as product
from weft.errors import ShapeError
from weft.functions.creation.matrices import eye
from weft.functions.linalg.products import dot
from weft.functions.support import arguments
from weft.functions.support.arguments import Node, broadcast, finish, floating, node, op, reshaped, sliced
from weft.graph.primitives.linear_algebra import MatrixError
from weft.process.docstrings import complete_each


def matrix_power(a: Any, n: int) -> Array:
    """Raise square matrices to an integer power; negative powers use the inverse.

    Parameters
    ----------
    a : (..., M, M)
    n : int

    Returns
    -------
    Array of the shape of ``a``

    Raises
    ------
    LinAlgError, TypeError
        ``a`` is not a square matrix; ``n`` is not an integer.

    Examples
    --------
    >>> wf.linalg.matrix_power(wf.array([[1, 1], [0, 1]]), 5).tolist()
    [[1, 5], [0, 1]]
    """
    value, times = node(a, "matrix_power", "a"), arguments.whole(n, "matrix_power", "n")
    if len(value.shape) < 2 or value.shape[-1] != value.shape[-2]:
        raise MatrixError(f"matrix_power: a has shape {value.shape}; a square matrix, or a stack of them, is needed.")
    if times <= 0:
        if not times:
            return wrap(broadcast(eye(value.shape[-1], dtype=value.dtype.numpy).node, value.shape))
        value, times = op("inv", floating(value)), -times
    while not times & 1:  # exponentiation by squaring
        value, times = product(value, value), times >> 1
    result = value
    while times := times >> 1:
        value = product(value, value)
        if times & 1:
            result = product(result, value)
    return wrap(result)


def multi_dot(arrays: Sequence[Any], *, out: Array | None = None) -> Array:
    """Multiply several matrices in the order that takes the fewest multiplications.

    Parameters
    ----------
    arrays : two matrices or more
        The first and the last may be vectors.
    out : Array, optional
        The array that the result is written to.

    Raises
    ------
    ValueError, ShapeError
        There are fewer than two arrays; shapes do not fit.

    Examples
    --------
    >>> wf.linalg.multi_dot([wf.ones((2, 9)), wf.ones((9, 1)), wf.ones((1, 3))]).tolist()
    [[9.0, 9.0, 9.0], [9.0, 9.0, 9.0]]
    """
    operand_list = arguments.several(arrays, "multi_dot", "arrays")
    nodes = list(operands(*operand_list)) if len(operand_list) > 1 else []
    if not nodes:
        raise ValueError("multi_dot: at least two arrays are needed")
    if len(nodes) == 2:
        return dot(wrap(nodes[0]), wrap(nodes[1]), out=out)
    ends = [len(nodes[0].shape) == 1, len(nodes[-1].shape) == 1]
    if ends[0]:
        nodes[0] = reshaped(nodes[0], (1, *nodes[0].shape))
    if ends[1]:
        nodes[-1] = reshaped(nodes[-1], (*nodes[-1].shape, 1))
    if any(len(n.shape) != 2 for n in nodes):
        raise MatrixError(f"multi_dot: matrices are needed, not shapes {', '.join(str(n.shape) for n in nodes)}.")
    result = _multiply_chain(nodes)
    return finish(reshaped(result, tuple(n for n, end in zip(result.shape, ends, strict=True) if not end)), out, "multi_dot")


def _multiply_chain(nodes: list[Node]) -> Node:
    """Multiply a chain of matrices in the cheapest order, found by dynamic programming over spans of matrices."""
    extents = [n.shape[0] for n in nodes] + [nodes[-1].shape[1]]
    best: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(len(nodes))}
    for span in range(1, len(nodes)):
        for i in range(len(nodes) - span):
            j = i + span
            best[i, j] = min(
                (best[i, k][0] + best[k + 1, j][0] + extents[i] * extents[k + 1] * extents[j + 1], k) for k in range(i, j)
            )

    def multiply(i: int, j: int) -> Node:
        return nodes[i] if i == j else product(multiply(i, best[i, j][1]), multiply(best[i, j][1] + 1, j))

    return multiply(0, len(nodes) - 1)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """Compute cross products of vectors in three dimensions.

    Parameters
    ----------
    x1, x2 : array_like with 3 elements along ``axis``; the other axes broadcast
    axis : int

    Raises
    ------
    ShapeError, AxisError
        An operand does not have 3 elements along ``axis``; it has no such axis.

    Examples
    --------
    >>> wf.linalg.cross(wf.array([1, 0, 0]), wf.array([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    a, b = operands(x1, x2)
    for value, name in ((a, "x1"), (b, "x2")):
        if value.shape[arguments.axis_index(axis, len(value.shape), "cross")] != 3:
            raise ShapeError(f"cross: {name} has shape {value.shape}; 3 elements along axis {axis} are needed")
    forward = op("multiply", _rotate(a, axis, 1), _rotate(b, axis, 2))
    return wrap(op("subtract", forward, op("multiply", _rotate(a, axis, 2), _rotate(b, axis, 1))))


def _rotate(value: Node, axis: int, by: int) -> Node:
    """Rotate the elements along an axis by ``by`` positions."""
    at = axis % len(value.shape)
    return op("concat", sliced(value, at, by, 3), sliced(value, at, 0, by), axis=at)


complete_each(matrix_power, multi_dot, cross)
