"""Systems of equations and inverses, determinants, functions of matrices: through LAPACK on the host.

Derivatives are those of JAX; no rule divides by a determinant, so that of a singular matrix has a derivative, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.dtypes.formats import COMPLEX, Format
from weft.errors import ShapeError
from weft.graph.node import Node, Primitive, Shape
from weft.graph.primitives.call import call, reshape
from weft.graph.primitives.common import Batched, Later, front, rank
from weft.graph.primitives.matrices import (
    LAPACK,
    adjoint,
    check,
    conj,
    cubic,
    each,
    matmul,
    quietly,
    transposed,
    unpacked,
)
from weft.graph.primitives.rules import broadcast, dtype_error
from weft.graph.primitives.table import register

draw = Later("draw_matrices")


# ---- solve, inv


def _solve_rule(a: Node, b: Node) -> tuple[Shape, Format]:
    lead = broadcast(check("solve", a, True, "a"), check("solve", b, False, "b"))
    if a.dtype is not b.dtype:
        raise dtype_error("solve", (a, b), ("a", "b"), LAPACK)
    if lead is None or a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"solve: a {a.shape} and b {b.shape} do not fit: b must have as many rows as a, and leading extents "
                         "must broadcast.")
    return (*lead, *b.shape[-2:]), a.dtype


def _solve_vjp(g: Node, out: Node, a: Node, b: Node) -> tuple[Node, Node]:
    back = call.solve(transposed(a), g)
    return call.negative(matmul(back, transposed(out))), back


def _inv_rule(x: Node) -> tuple[Shape, Format]:
    check("inv", x, True)
    return x.shape, x.dtype


def _inv_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    turned = transposed(out)
    return (call.negative(matmul(turned, matmul(g, turned))),)


# ---- determinants


def _det_rule(x: Node) -> tuple[Shape, Format]:
    return check("det", x, True), x.dtype


def _det_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    return (call.multiply(reshape(g, (*g.shape, 1, 1)), call.cofactors(x)),)


def _cofactors_rule(x: Node) -> tuple[Shape, Format]:
    check("cofactors", x, True)
    return x.shape, x.dtype


def _cofactors(x: np.ndarray) -> np.ndarray:
    """The transposed adjugate, by singular values: of a matrix of lower rank it is finite, where the inverse is not."""
    if not x.size:
        return x
    u, s, vh = np.linalg.svd(x)
    others = np.where(np.eye(x.shape[-1], dtype=bool), 1, s[..., None, :]).prod(axis=-1)  # of all values but one each
    unit = np.linalg.det(u) * np.linalg.det(vh)
    return unit[..., None, None] * np.matmul(np.conj(u) * others[..., None, :], np.conj(vh))


def _cofactors_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    """Through det(x) and the inverse: of a singular matrix the second derivative is refused."""
    turned = transposed(call.inv(x))
    inner = call.reduce_sum(call.multiply(g, turned), axes=(len(x.shape) - 2, len(x.shape) - 1), keepdims=True)
    return (call.subtract(call.multiply(out, inner), matmul(out, matmul(transposed(g), turned))),)


def _slogdet_rule(x: Node) -> tuple[Shape, Format]:
    return (*check("slogdet", x, True), 2), x.dtype


def _slogdet(x: np.ndarray) -> np.ndarray:
    return np.stack(np.linalg.slogdet(x), axis=-1).astype(x.dtype)


def _slogdet_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    of_sign, of_log = unpacked(g, (1, 1), (1, 1))
    if x.dtype in COMPLEX:  # the sign turns as the imaginary part of log(det) does
        (sign,) = unpacked(out, (1, 1))
        turn = call.imag(call.multiply(of_sign, sign))
        of_log = call.complex(call.real(of_log), turn)
    return (call.multiply(of_log, transposed(call.inv(x))),)


# ---- pseudo-inverse, exponential


def _pinv_rule(x: Node, rcond: Node) -> tuple[Shape, Format]:
    lead = check("pinv", x)
    if broadcast(lead, rcond.shape) != lead:
        raise ShapeError(f"pinv: rcond has shape {rcond.shape}, which does not broadcast to {lead}, the leading extents of x.")
    return (*lead, x.shape[-1], x.shape[-2]), x.dtype


def _pinv(x: np.ndarray, rcond: np.ndarray) -> np.ndarray:
    return np.linalg.pinv(x, rcond) if x.size else np.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)


def _pinv_vjp(g: Node, out: Node, x: Node, rcond: Node) -> tuple[Node, None]:
    """Golub and Pereyra, 1973, of matrices whose rank does not change."""
    p, h = out, adjoint(out)
    back = conj(g)
    left = call.subtract(back, matmul(back, matmul(x, p)))  # g (1 - x p)
    right = call.subtract(back, matmul(p, matmul(x, back)))
    found = call.negative(matmul(h, matmul(back, h)))
    found = call.add(found, matmul(adjoint(left), matmul(p, h)))
    found = call.add(found, matmul(matmul(h, p), adjoint(right)))
    return conj(found), None


def _pinv_batch(inputs: Sequence[Node], dims: Sequence[int | None]) -> Batched:
    x = inputs[0]
    lead = rank(x, dims[0]) - 2
    rcond = front(inputs[1], dims[1], lead)
    if dims[0] is None:
        x = call.broadcast_to(x, shape=(rcond.shape[0], *x.shape))
    return call.pinv(front(x, dims[0]), rcond), 0


def _expm_rule(x: Node) -> tuple[Shape, Format]:
    check("expm", x, True)
    return x.shape, x.dtype


def _expm(x: np.ndarray) -> np.ndarray:
    from scipy.linalg import expm

    return expm(x) if x.size else x


def _expm_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    """The exponential of [[x, e], [0, x]] holds the derivative along e in its corner (Najfeld and Havel, 1995)."""
    n, turned = x.shape[-1], transposed(x)
    last = len(x.shape) - 1
    above = call.concat(turned, g, axis=last)
    below = call.concat(call.subtract(x, x), turned, axis=last)
    whole = call.expm(call.concat(above, below, axis=last - 1))
    start = (*(0 for _ in x.shape[:-2]), 0, n if n else 0)
    return (call.slice(whole, start=start, step=(1,) * (last + 1), shape=x.shape),)


def _entry(name: str, operations: float, rule: Any, reference: Any, vjp: Any, batch: Any = None) -> None:
    samples, errors = getattr(draw, name), getattr(draw, f"{name}_errors")
    register(Primitive(
        name, "host", rule, quietly(reference), None, vjp, batch or each(name), cubic(operations), samples, errors, raises=True,
    ))


_entry("solve", 2 / 3, _solve_rule, np.linalg.solve, _solve_vjp)
_entry("inv", 2, _inv_rule, np.linalg.inv, _inv_vjp)
_entry("det", 2 / 3, _det_rule, np.linalg.det, _det_vjp)
_entry("cofactors", 22, _cofactors_rule, _cofactors, _cofactors_vjp)
_entry("slogdet", 2 / 3, _slogdet_rule, _slogdet, _slogdet_vjp)
_entry("pinv", 26, _pinv_rule, _pinv, _pinv_vjp, _pinv_batch)
_entry("expm", 40, _expm_rule, _expm, _expm_vjp)
