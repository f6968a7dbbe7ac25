"""Factorisations through LAPACK on the host: cholesky, qr, svd, eigh, eig. Those of several parts are packed (``matrices.py``).

``cholesky`` and the ``eigh`` pair read one triangle, as NumPy does; their derivatives are those of symmetric matrices, and
symmetric, as JAX's. Derivatives are written for the cotangents that mean the gradient, which are the conjugates of JAX's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.dtypes.formats import COMPLEX, COMPLEX64, COMPLEX128, FLOAT32, Format
from weft.graph.node import Node, Primitive, Shape
from weft.graph.primitives.call import call, cast, number
from weft.graph.primitives.common import Later
from weft.graph.primitives.matrices import (
    adjoint,
    as_of,
    check,
    column,
    conj,
    cubic,
    diagonal_matrix,
    diagonal_of,
    each,
    kept,
    matmul,
    quietly,
    real_format,
    real_part,
    row,
    symmetric,
    together,
    transposed,
    unpacked,
    width,
)
from weft.graph.primitives.table import register

draw = Later("draw_matrices")


# ---- cholesky


def _cholesky_rule(x: Node) -> tuple[Shape, Format]:
    check("cholesky", x, True)
    return x.shape, x.dtype


def _cholesky_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    """Murray, 2016: differentiation of the Cholesky decomposition."""
    inner = kept(matmul(adjoint(out), conj(g)), "greater_equal")
    inner = call.subtract(inner, call.multiply(kept(inner, "equal"), number(0.5, inner)))
    turned = adjoint(out)
    half = call.solve(turned, inner)
    return (conj(symmetric(adjoint(call.solve(turned, adjoint(half))))),)


# ---- eigh, eigvalsh


def _eigh_rule(x: Node, lower: bool) -> tuple[Shape, Format]:
    n = x.shape[-1] if x.shape else 0
    return (*check("eigh", x, True), width((n,), (n, n))), x.dtype


def _eigh(x: np.ndarray, lower: bool) -> np.ndarray:
    w, v = np.linalg.eigh(x, "L" if lower else "U")
    return together([w.astype(x.dtype), v], x.ndim - 2)


def _eigh_vjp(g: Node, out: Node, x: Node, lower: bool) -> tuple[Node]:
    n = x.shape[-1]
    (w, v), (gw, gv) = (unpacked(p, (n,), (n, n)) for p in (out, conj(g)))
    apart = call.subtract(row(w), column(w))
    equal = call.equal(apart, number(0, apart))
    over = call.where(equal, number(0, apart), call.divide(number(1, apart), call.where(equal, number(1, apart), apart)))
    inner = call.add(diagonal_matrix(real_part(gw)), call.multiply(over, matmul(adjoint(v), gv)))
    return (conj(symmetric(matmul(v, matmul(inner, adjoint(v))))),)


def _eigvalsh_rule(x: Node, lower: bool) -> tuple[Shape, Format]:
    return (*check("eigvalsh", x, True), x.shape[-1]), real_format(x.dtype)


def _eigvalsh(x: np.ndarray, lower: bool) -> np.ndarray:
    return np.linalg.eigvalsh(x, "L" if lower else "U")


def _eigvalsh_vjp(g: Node, out: Node, x: Node, lower: bool) -> tuple[Node]:
    n = x.shape[-1]
    _, v = unpacked(call.eigh(x, lower=lower), (n,), (n, n))
    return (conj(matmul(call.multiply(v, row(cast(g, x.dtype))), adjoint(v))),)


# ---- svd, svdvals


def svd_parts(shape: Shape, full: bool) -> tuple[Shape, Shape, Shape]:
    """The shapes of U, S and Vh behind the leading extents."""
    *_, m, n = shape
    k = min(m, n)
    return ((m, m) if full else (m, k)), (k,), ((n, n) if full else (k, n))


def _svd_rule(x: Node, full: bool) -> tuple[Shape, Format]:
    lead = check("svd", x)
    return (*lead, width(*svd_parts(x.shape, full))), x.dtype


def _svd(x: np.ndarray, full: bool) -> np.ndarray:
    u, s, vh = np.linalg.svd(x, full_matrices=full)
    return together([u, s.astype(x.dtype), vh], x.ndim - 2)


def _skew(x: Node) -> Node:
    return call.subtract(x, adjoint(x))


def _svd_vjp(g: Node, out: Node, x: Node, full: bool) -> tuple[Node]:
    """Giles, 2008; of the full matrices the added vectors are free to turn, so they have no derivative."""
    m, n = x.shape[-2:]
    if full and m != n:
        raise TypeError(
            f"grad: svd with full_matrices=True: the factors of x {x.shape} have no derivative, for they are not determined: "
            "use full_matrices=False."
        )
    (u, s, vh), (gu, gs, gvh) = (unpacked(p, *svd_parts(x.shape, False)) for p in (out, conj(g)))
    v, gv = adjoint(vh), adjoint(gvh)
    square = call.square(s)
    apart = call.subtract(row(square), column(square))
    none = call.equal(apart, number(0, apart))
    over = call.where(none, number(0, apart), call.divide(number(1, apart), call.where(none, number(1, apart), apart)))
    of_u, of_v = _skew(matmul(adjoint(u), gu)), _skew(matmul(vh, gv))
    inner = call.add(
        call.add(call.multiply(call.multiply(of_u, over), row(s)), call.multiply(column(s), call.multiply(of_v, over))),
        diagonal_matrix(real_part(gs)),
    )
    if x.dtype in COMPLEX:  # the phases, of functions that do not depend on how they are shared out
        inner = call.add(inner, diagonal_matrix(call.divide(call.multiply(diagonal_of(of_u), number(0.5, s)), s)))
    found = matmul(u, matmul(inner, vh))
    if m > n:
        outside = call.divide(gu, row(s))
        found = call.add(found, matmul(call.subtract(outside, matmul(u, matmul(adjoint(u), outside))), vh))
    if n > m:
        outside = call.divide(gvh, column(s))
        found = call.add(found, matmul(u, call.subtract(outside, matmul(matmul(outside, v), vh))))
    return (conj(found),)


def _svdvals_rule(x: Node) -> tuple[Shape, Format]:
    return (*check("svdvals", x), min(x.shape[-2:])), real_format(x.dtype)


def _svdvals_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    u, _, vh = unpacked(call.svd(x, full=False), *svd_parts(x.shape, False))
    return (conj(matmul(call.multiply(u, row(cast(g, x.dtype))), vh)),)


# ---- qr


def qr_parts(shape: Shape, mode: str) -> tuple[Shape, Shape]:
    """The shapes of Q and R behind the leading extents."""
    *_, m, n = shape
    k = m if mode == "complete" else min(m, n)
    return (m, k), (k, n)


def _qr_rule(x: Node, mode: str) -> tuple[Shape, Format]:
    lead = check("qr", x)
    return (*lead, width(*qr_parts(x.shape, mode))), x.dtype


def _qr(x: np.ndarray, mode: Any) -> np.ndarray:
    return together(np.linalg.qr(x, mode), x.ndim - 2)


def _qr_vjp(g: Node, out: Node, x: Node, mode: str) -> tuple[Node]:
    m, n = x.shape[-2:]
    if mode == "complete" and m > n:
        raise TypeError(
            f"grad: qr with mode='complete': the factors of x {x.shape} have no derivative, for they are not determined: use "
            "mode='reduced'."
        )
    (q, r), (gq, gr) = (unpacked(p, *qr_parts(x.shape, mode)) for p in (out, conj(g)))
    if m >= n:
        return (conj(_tall(q, r, gq, gr)),)
    left, right = _columns(x, 0, m), _columns(x, m, n)  # x = q [r1, q^H right]: q and r1 are the factors of its left part
    of_right = _columns(gr, m, n)
    gq = call.add(gq, matmul(right, adjoint(of_right)))
    found = _tall(q, _columns(r, 0, m), gq, _columns(gr, 0, m))
    return (conj(call.concat(found, matmul(q, of_right), axis=len(left.shape) - 1)),)


def _columns(x: Node, start: int, stop: int) -> Node:
    lead = tuple(0 for _ in x.shape[:-1])
    return call.slice(x, start=(*lead, start), step=(1,) * len(x.shape), shape=(*x.shape[:-1], stop - start))


def _tall(q: Node, r: Node, gq: Node, gr: Node) -> Node:
    """Of a matrix of as many rows as columns, or more."""
    inner = call.subtract(matmul(r, adjoint(gr)), matmul(adjoint(gq), q))
    mirrored = call.add(kept(inner, "greater"), adjoint(kept(inner, "greater")))
    middle = diagonal_matrix(real_part(diagonal_of(inner)))
    total = call.add(gq, matmul(q, call.add(mirrored, middle)))
    return adjoint(call.solve(r, adjoint(total)))


# ---- eig, eigvals: always complex, whatever the numbers are


def _complex(dtype: Format) -> Format:
    return {FLOAT32: COMPLEX64, COMPLEX64: COMPLEX64}.get(dtype, COMPLEX128)


def _eig_rule(x: Node) -> tuple[Shape, Format]:
    n = x.shape[-1] if x.shape else 0
    return (*check("eig", x, True), width((n,), (n, n))), _complex(x.dtype)


def _eig(x: np.ndarray) -> np.ndarray:
    w, v = np.linalg.eig(x)
    return together([w, v], x.ndim - 2).astype(np.result_type(x.dtype, np.complex64))


def _eig_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    """Of vectors of length one: what turns their phase, or stretches them, changes nothing that is determined."""
    n = x.shape[-1]
    (w, v), (gw, gv) = (unpacked(p, (n,), (n, n)) for p in (out, conj(g)))
    apart = conj(call.subtract(row(w), column(w)))
    none = call.equal(apart, number(0, apart))
    over = call.where(none, number(0, apart), call.divide(number(1, apart), call.where(none, number(1, apart), apart)))
    gram = matmul(adjoint(v), v)
    inner = matmul(adjoint(v), gv)
    along = real_part(diagonal_of(inner))
    inner = call.multiply(over, call.subtract(inner, call.multiply(gram, row(along))))
    found = call.solve(adjoint(v), matmul(call.add(diagonal_matrix(gw), inner), adjoint(v)))
    return (as_of(conj(found), x),)


def _eigvals_rule(x: Node) -> tuple[Shape, Format]:
    return (*check("eigvals", x, True), x.shape[-1]), _complex(x.dtype)


def _eigvals(x: np.ndarray) -> np.ndarray:
    return np.linalg.eigvals(x).astype(np.result_type(x.dtype, np.complex64))


def _eigvals_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    n = x.shape[-1]
    _, v = unpacked(call.eig(x), (n,), (n, n))
    turned = transposed(v)
    return (as_of(call.solve(turned, call.multiply(column(g), turned)), x),)


def _entry(name: str, operations: float, rule: Any, reference: Callable[..., Any], vjp: Any) -> None:
    samples, errors = getattr(draw, name), getattr(draw, f"{name}_errors")
    register(Primitive(
        name, "host", rule, quietly(reference), None, vjp, each(name), cubic(operations), samples, errors, raises=True,
    ))


_entry("cholesky", 2 / 3, _cholesky_rule, np.linalg.cholesky, _cholesky_vjp)
_entry("eigh", 9, _eigh_rule, _eigh, _eigh_vjp)
_entry("eigvalsh", 3, _eigvalsh_rule, _eigvalsh, _eigvalsh_vjp)
_entry("svd", 22, _svd_rule, _svd, _svd_vjp)
_entry("svdvals", 8, _svdvals_rule, lambda x: np.linalg.svd(x, compute_uv=False), _svdvals_vjp)
_entry("qr", 4, _qr_rule, _qr, _qr_vjp)
_entry("eig", 26, _eig_rule, _eig, _eig_vjp)
_entry("eigvals", 10, _eigvals_rule, _eigvals, _eigvals_vjp)

__all__ = ["qr_parts", "svd_parts"]
