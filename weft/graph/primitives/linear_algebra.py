"""Primitives of linear algebra, run by LAPACK on the host: factorisations, systems of equations, inverses, determinants.

A node has one shape, so the factors of a factorisation are packed one after the other in the last axis of one array;
``unpack`` returns them as slices. ``cholesky`` and the ``eigh`` pair read one triangle, as NumPy does, and have symmetric
derivatives, as in JAX. The derivatives of complex operands are the conjugates of JAX's. No rule divides by a determinant, so
singular matrices have derivatives, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.dtypes.formats import COMPLEX, COMPLEX64, COMPLEX128, FLOAT32, FLOAT64, INT64, Format
from weft.errors import ShapeError
from weft.graph.node import Cost, Node, Primitive, Shape
from weft.graph.primitives.call import broadcast_to, call, cast, number, reshape, slice_axis, transpose
from weft.graph.primitives.common import NodeAndAxis, front, rank, traffic
from weft.graph.primitives.rules import Rule, broadcast, dtype_error
from weft.graph.primitives.table import register
from weft.process.import_hook import import_needed

LAPACK = frozenset((FLOAT32, FLOAT64)) | COMPLEX  # formats of its routines


class MatrixError(ShapeError, np.linalg.LinAlgError):
    """A shape that is not a matrix, or not a square one."""


def matrix_argument(name: str) -> str:
    """Return NumPy's name of the matrix argument of a function."""
    return "x" if name in ("expm", "svdvals") else "a"


def check(name: str, x: Node, square: bool = False, argument: str | None = None) -> Shape:
    """Validate a stack of matrices and return its leading extents."""
    argument = argument or matrix_argument(name)
    if len(x.shape) < 2:
        raise MatrixError(f"{name}: {argument} has shape {x.shape}; a matrix or a stack of matrices is needed.")
    if square and x.shape[-1] != x.shape[-2]:
        raise MatrixError(f"{name}: {argument} has shape {x.shape}; the last two dimensions must be equal: a square matrix.")
    if x.dtype not in LAPACK:
        raise dtype_error(name, (x,), (argument,), LAPACK)
    return x.shape[:-2]


def _square_rule(name: str) -> Rule:
    """Return the rule of a function of square matrices whose result has their shape and dtype."""
    def rule(x: Node) -> tuple[Shape, Format]:
        check(name, x, True)
        return x.shape, x.dtype

    return rule


def _packed_rule(
    name: str, parts: Callable[..., tuple[Shape, ...]], square: bool = False, out: Callable[[Format], Format] = lambda f: f,
) -> Rule:
    """Return the rule of a factorisation whose packed factors have the shapes ``parts``; ``out``: their format."""
    def rule(x: Node, **params: Any) -> tuple[Shape, Format]:
        return (*check(name, x, square), sum(map(prod, parts(x.shape, **params)))), out(x.dtype)

    return rule


def without_warnings(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the reference without NumPy's warnings."""

    def reference(*arrays: np.ndarray, **params: Any) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(fn(*arrays, **params))

    return reference


def cubic_cost(operations: float) -> Callable[[Node], Cost]:
    """Return a cost: ``operations`` times the cube of a matrix's side.

    The factors are those of LAPACK's textbooks, doubled for Cholesky, which NumPy computes at half the speed of the others.
    """

    def cost(node: Node) -> Cost:
        *lead, m, n = node.inputs[0].shape
        return Cost(int(operations * prod(lead) * m * n * min(m, n)), traffic(node))

    return cost


def batch_rule(name: str) -> Callable[..., NodeAndAxis]:
    """Return the batching rule of a function of stacks of matrices whose leading extents broadcast."""

    def rule(inputs: Sequence[Node], dims: Sequence[int | None], **params: Any) -> NodeAndAxis:
        ndim = max(map(rank, inputs, dims))
        return getattr(call, name)(*[front(x, d, ndim) for x, d in zip(inputs, dims, strict=True)], **params), 0

    return rule


# ---- parts


def pack(parts: Sequence[np.ndarray], lead: int) -> np.ndarray:
    """Pack arrays with ``lead`` leading axes into one."""
    flat = [np.reshape(p, (*p.shape[:lead], prod(p.shape[lead:]))) for p in parts]
    return np.concatenate(flat, axis=-1)


def unpack(node: Node, *shapes: Shape) -> tuple[Node, ...]:
    """Return the parts of a packed result, whose shapes behind the leading extents are ``shapes``."""
    lead, at, out = node.shape[:-1], 0, []
    for shape in shapes:
        size = prod(shape)
        start = (*(0 for _ in lead), at if size else 0)
        piece = call.slice(node, start=start, step=(1,) * len(start), shape=(*lead, size))
        out.append(reshape(piece, (*lead, *shape)))
        at += size
    return tuple(out)


# ---- nodes for derivatives


def conj(x: Node) -> Node:
    return call.conj(x) if x.dtype in COMPLEX else x


def adjoint(x: Node) -> Node:
    """Return the conjugate transpose."""
    return transpose(conj(x))


def matmul(a: Node, b: Node) -> Node:
    """Return the product of stacks of matrices whose leading extents broadcast."""
    lead = broadcast(a.shape[:-2], b.shape[:-2])
    assert lead is not None
    a, b = (broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b))
    n, axes = len(lead), tuple(range(len(lead)))
    return call.dot_general(a, b, contract=((n + 1,), (n,)), batch=(axes, axes))


def mask(m: int, n: int, compare: str) -> Node:
    """Return an (m, n) mask: true where the row number is ``compare`` ("greater", "less_equal", ...) to the column number."""
    return getattr(call, compare)(*[call.iota(shape=(m, n), dtype=INT64, axis=axis) for axis in (0, 1)])


def apply_mask(x: Node, compare: str) -> Node:
    """Return matrices with zeros outside of a mask (see :func:`mask`)."""
    return call.where(mask(x.shape[-2], x.shape[-1], compare), x, number(0, x))


def column(v: Node) -> Node:
    return reshape(v, (*v.shape, 1))


def row(v: Node) -> Node:
    return reshape(v, (*v.shape[:-1], 1, v.shape[-1]))


def diagonal_matrix(v: Node) -> Node:
    """Return square matrices with the vectors as diagonals."""
    n = v.shape[-1]
    return call.where(mask(n, n, "equal"), column(v), number(0, v))


def diagonal_of(x: Node) -> Node:
    """Return the diagonals of square matrices."""
    return call.reduce_sum(apply_mask(x, "equal"), axes=(len(x.shape) - 1,), keepdims=False)


def _inverse(x: Node) -> Node:
    """Return 1 / x, but 0 where x is 0."""
    zero, one = number(0, x), number(1, x)
    equal = call.equal(x, zero)
    return call.where(equal, zero, call.divide(one, call.where(equal, one, x)))


def symmetric(x: Node) -> Node:
    """Return the symmetric (Hermitian) part."""
    return call.multiply(call.add(x, adjoint(x)), number(0.5, x))


def real_part(x: Node) -> Node:
    """Return the real part in the format of ``x``: a real part of a packed complex result is stored as complex."""
    return cast(call.real(x), x.dtype) if x.dtype in COMPLEX else x


def cast_derivative(derivative: Node, x: Node) -> Node:
    """Convert a complex derivative to the dtype of its operand, which may be real."""
    return derivative if x.dtype in COMPLEX else cast(call.real(derivative), x.dtype)



# ---- cholesky


def _cholesky_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    """Murray, 2016: differentiation of the Cholesky decomposition."""
    inner = apply_mask(matmul(adjoint(out), conj(g)), "greater_equal")
    inner = call.subtract(inner, call.multiply(apply_mask(inner, "equal"), number(0.5, inner)))
    turned = adjoint(out)
    half = call.solve(turned, inner)
    return (conj(symmetric(adjoint(call.solve(turned, adjoint(half))))),)


# ---- eigh, eigvalsh


def eig_parts(shape: Shape, lower: bool = True) -> tuple[Shape, Shape]:
    """Return the shapes of the eigenvalues and eigenvectors behind the leading extents."""
    return shape[-1:], (shape[-1], shape[-1])


def _eigh(x: np.ndarray, lower: bool) -> np.ndarray:
    w, v = np.linalg.eigh(x, "L" if lower else "U")
    return pack([w.astype(x.dtype), v], x.ndim - 2)


def _eigh_vjp(g: Node, out: Node, x: Node, lower: bool) -> tuple[Node]:
    (w, v), (gw, gv) = (unpack(p, *eig_parts(x.shape)) for p in (out, conj(g)))
    over = _inverse(call.subtract(row(w), column(w)))
    inner = call.add(diagonal_matrix(real_part(gw)), call.multiply(over, matmul(adjoint(v), gv)))
    return (conj(symmetric(matmul(v, matmul(inner, adjoint(v))))),)


def _eigvalsh_vjp(g: Node, out: Node, x: Node, lower: bool) -> tuple[Node]:
    _, v = unpack(call.eigh(x, lower=lower), *eig_parts(x.shape))
    return (conj(matmul(call.multiply(v, row(cast(g, x.dtype))), adjoint(v))),)


# ---- svd, svdvals


def svd_parts(shape: Shape, full: bool) -> tuple[Shape, Shape, Shape]:
    """The shapes of U, S and Vh behind the leading extents."""
    *_, m, n = shape
    k = min(m, n)
    return ((m, m) if full else (m, k)), (k,), ((n, n) if full else (k, n))


def _svd(x: np.ndarray, full: bool) -> np.ndarray:
    u, s, vh = np.linalg.svd(x, full_matrices=full)
    return pack([u, s.astype(x.dtype), vh], x.ndim - 2)


def _svd_vjp(g: Node, out: Node, x: Node, full: bool) -> tuple[Node]:
    """Giles, 2008. Full matrices have no derivative, since their additional vectors are not determined."""
    m, n = x.shape[-2:]
    if full and m != n:
        raise TypeError(
            f"grad: svd with full_matrices=True: the factors of x {x.shape} have no derivative, for they are not determined: "
            "use full_matrices=False."
        )
    (u, s, vh), (gu, gs, gvh) = (unpack(p, *svd_parts(x.shape, False)) for p in (out, conj(g)))
    v, gv = adjoint(vh), adjoint(gvh)
    square = call.square(s)
    over = _inverse(call.subtract(row(square), column(square)))
    of_u, of_v = (call.subtract(y, adjoint(y)) for y in (matmul(adjoint(u), gu), matmul(vh, gv)))
    inner = call.add(
        call.add(call.multiply(call.multiply(of_u, over), row(s)), call.multiply(column(s), call.multiply(of_v, over))),
        diagonal_matrix(real_part(gs)),
    )
    if x.dtype in COMPLEX:  # the phases, for functions that do not depend on their distribution between u and v
        inner = call.add(inner, diagonal_matrix(call.divide(call.multiply(diagonal_of(of_u), number(0.5, s)), s)))
    derivative = matmul(u, matmul(inner, vh))
    if m > n:
        outside = call.divide(gu, row(s))
        derivative = call.add(derivative, matmul(call.subtract(outside, matmul(u, matmul(adjoint(u), outside))), vh))
    if n > m:
        outside = call.divide(gvh, column(s))
        derivative = call.add(derivative, matmul(u, call.subtract(outside, matmul(matmul(outside, v), vh))))
    return (conj(derivative),)


def _svdvals_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    u, _, vh = unpack(call.svd(x, full=False), *svd_parts(x.shape, False))
    return (conj(matmul(call.multiply(u, row(cast(g, x.dtype))), vh)),)


# ---- qr


def qr_parts(shape: Shape, mode: str) -> tuple[Shape, Shape]:
    """The shapes of Q and R behind the leading extents."""
    *_, m, n = shape
    k = m if mode == "complete" else min(m, n)
    return (m, k), (k, n)


def _qr_vjp(g: Node, out: Node, x: Node, mode: str) -> tuple[Node]:
    m, n = x.shape[-2:]
    if mode == "complete" and m > n:
        raise TypeError(
            f"grad: qr with mode='complete': the factors of x {x.shape} have no derivative, for they are not determined: use "
            "mode='reduced'."
        )
    (q, r), (gq, gr) = (unpack(p, *qr_parts(x.shape, mode)) for p in (out, conj(g)))
    if m >= n:
        return (conj(_tall(q, r, gq, gr)),)
    left, right = _columns(x, 0, m), _columns(x, m, n)  # x = q [r1, q^H right]: q and r1 are the factors of its left part
    of_right = _columns(gr, m, n)
    gq = call.add(gq, matmul(right, adjoint(of_right)))
    derivative = _tall(q, _columns(r, 0, m), gq, _columns(gr, 0, m))
    return (conj(call.concat(derivative, matmul(q, of_right), axis=len(left.shape) - 1)),)


def _columns(x: Node, start: int, stop: int) -> Node:
    return slice_axis(x, len(x.shape) - 1, start, stop)


def _tall(q: Node, r: Node, gq: Node, gr: Node) -> Node:
    """Return the derivative of the factorisation of a matrix with at least as many rows as columns."""
    inner = call.subtract(matmul(r, adjoint(gr)), matmul(adjoint(gq), q))
    mirrored = call.add(apply_mask(inner, "greater"), adjoint(apply_mask(inner, "greater")))
    middle = diagonal_matrix(real_part(diagonal_of(inner)))
    total = call.add(gq, matmul(q, call.add(mirrored, middle)))
    return adjoint(call.solve(r, adjoint(total)))


# ---- eig, eigvals: always complex, even for real matrices


def _complex(dtype: Format) -> Format:
    return {FLOAT32: COMPLEX64, COMPLEX64: COMPLEX64}.get(dtype, COMPLEX128)


def _eig(x: np.ndarray) -> np.ndarray:
    w, v = np.linalg.eig(x)
    return pack([w, v], x.ndim - 2).astype(np.result_type(x.dtype, np.complex64))


def _eig_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    """Return the derivative for eigenvectors of length one. Parts that change their phase or length are projected out."""
    (w, v), (gw, gv) = (unpack(p, *eig_parts(x.shape)) for p in (out, conj(g)))
    over = _inverse(conj(call.subtract(row(w), column(w))))
    gram = matmul(adjoint(v), v)
    inner = matmul(adjoint(v), gv)
    along = real_part(diagonal_of(inner))
    inner = call.multiply(over, call.subtract(inner, call.multiply(gram, row(along))))
    derivative = call.solve(adjoint(v), matmul(call.add(diagonal_matrix(gw), inner), adjoint(v)))
    return (cast_derivative(conj(derivative), x),)


def _eigvals_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    _, v = unpack(call.eig(x), *eig_parts(x.shape))
    turned = transpose(v)
    return (cast_derivative(call.solve(turned, call.multiply(column(g), turned)), x),)


def _entry(
    name: str, operations: float, rule: Any, reference: Callable[..., Any], vjp: Any, batch: Any = None, jvp: Any = None,
) -> None:
    register(Primitive(
        name, "host", rule, without_warnings(reference), None, vjp, batch or batch_rule(name), cubic_cost(operations),
        raises=True, jvp=jvp,
    ))


_entry("cholesky", 2 / 3, _square_rule("cholesky"), np.linalg.cholesky, _cholesky_vjp)
_entry("eigh", 9, _packed_rule("eigh", eig_parts, True), _eigh, _eigh_vjp)
_entry(
    "eigvalsh", 3, lambda x, lower: ((*check("eigvalsh", x, True), x.shape[-1]), x.dtype.part),
    lambda x, lower: np.linalg.eigvalsh(x, "L" if lower else "U"), _eigvalsh_vjp,
)
_entry("svd", 22, _packed_rule("svd", svd_parts), _svd, _svd_vjp)
_entry(
    "svdvals", 8, lambda x: ((*check("svdvals", x), min(x.shape[-2:])), x.dtype.part),
    lambda x: np.linalg.svd(x, compute_uv=False), _svdvals_vjp,
)
_entry("qr", 4, _packed_rule("qr", qr_parts), lambda x, mode: pack(np.linalg.qr(x, mode), x.ndim - 2), _qr_vjp)
_entry("eig", 26, _packed_rule("eig", eig_parts, True, _complex), _eig, _eig_vjp)
_entry(
    "eigvals", 10, lambda x: ((*check("eigvals", x, True), x.shape[-1]), _complex(x.dtype)),
    lambda x: np.linalg.eigvals(x).astype(np.result_type(x.dtype, np.complex64)), _eigvals_vjp,
)

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
    back = call.solve(transpose(a), g)
    return call.negative(matmul(back, transpose(out))), back


def _inv_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    turned = transpose(out)
    return (call.negative(matmul(turned, matmul(g, turned))),)


# ---- determinants


def _det_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    return (call.multiply(reshape(g, (*g.shape, 1, 1)), call.cofactors(x)),)


def _cofactors(x: np.ndarray) -> np.ndarray:
    """Return the transposed adjugate, computed from singular values: finite for singular matrices, unlike the inverse."""
    if not x.size:
        return x
    u, s, vh = np.linalg.svd(x)
    products = np.where(np.eye(x.shape[-1], dtype=bool), 1, s[..., None, :]).prod(axis=-1)  # products of all values but one
    unit = np.linalg.det(u) * np.linalg.det(vh)
    return unit[..., None, None] * np.matmul(np.conj(u) * products[..., None, :], np.conj(vh))


def _cofactors_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    """Differentiate det(x) times the inverse. A singular matrix raises: its second derivative is not supported."""
    turned = transpose(call.inv(x))
    inner = call.reduce_sum(call.multiply(g, turned), axes=(len(x.shape) - 2, len(x.shape) - 1), keepdims=True)
    return (call.subtract(call.multiply(out, inner), matmul(out, matmul(transpose(g), turned))),)


def _slogdet_vjp(g: Node, out: Node, x: Node) -> tuple[Node]:
    of_sign, of_log = unpack(g, (1, 1), (1, 1))
    if x.dtype in COMPLEX:  # the sign turns as the imaginary part of log(det) does
        (sign,) = unpack(out, (1, 1))
        turn = call.imag(call.multiply(of_sign, sign))
        of_log = call.complex(call.real(of_log), turn)
    return (call.multiply(of_log, transpose(call.inv(x))),)


# ---- pseudo-inverse, exponential


def _pinv_rule(x: Node, rcond: Node) -> tuple[Shape, Format]:
    lead = check("pinv", x)
    if broadcast(lead, rcond.shape) != lead:
        raise ShapeError(f"pinv: rcond has shape {rcond.shape}, which does not broadcast to {lead}, the leading extents of x.")
    return (*lead, x.shape[-1], x.shape[-2]), x.dtype


def _pinv(x: np.ndarray, rcond: np.ndarray) -> np.ndarray:
    return np.linalg.pinv(x, rcond) if x.size else np.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)


def _pinv_vjp(g: Node, out: Node, x: Node, rcond: Node) -> tuple[Node, None]:
    """Golub and Pereyra, 1973, for matrices whose rank does not change."""
    p, h = out, adjoint(out)
    back = conj(g)
    left = call.subtract(back, matmul(back, matmul(x, p)))  # g (1 - x p)
    right = call.subtract(back, matmul(p, matmul(x, back)))
    derivative = call.negative(matmul(h, matmul(back, h)))
    derivative = call.add(derivative, matmul(adjoint(left), matmul(p, h)))
    derivative = call.add(derivative, matmul(matmul(h, p), adjoint(right)))
    return conj(derivative), None


def _pinv_batch(inputs: Sequence[Node], dims: Sequence[int | None]) -> NodeAndAxis:
    x = inputs[0]
    lead = rank(x, dims[0]) - 2
    rcond = front(inputs[1], dims[1], lead)
    if dims[0] is None:
        x = call.broadcast_to(x, shape=(rcond.shape[0], *x.shape))
    return call.pinv(front(x, dims[0]), rcond), 0


def _expm(x: np.ndarray) -> np.ndarray:
    import_needed("scipy", "linalg.expm")
    from scipy.linalg import expm

    return expm(x) if x.size else x


def _expm_along(x: Node, direction: Node) -> Node:
    """The exponential of [[x, e], [0, x]] contains the derivative along e in its corner (Najfeld and Havel, 1995)."""
    n, last = x.shape[-1], len(x.shape) - 1
    above = call.concat(x, direction, axis=last)
    below = call.concat(call.subtract(x, x), x, axis=last)
    whole = call.expm(call.concat(above, below, axis=last - 1))
    start = (*(0 for _ in x.shape[:-2]), 0, n if n else 0)
    return call.slice(whole, start=start, step=(1,) * (last + 1), shape=x.shape)


_entry("solve", 2 / 3, _solve_rule, np.linalg.solve, _solve_vjp)
_entry("inv", 2, _square_rule("inv"), np.linalg.inv, _inv_vjp)
_entry("det", 2 / 3, lambda x: (check("det", x, True), x.dtype), np.linalg.det, _det_vjp)
_entry("cofactors", 22, _square_rule("cofactors"), _cofactors, _cofactors_vjp)
_entry(
    "slogdet", 2 / 3, lambda x: ((*check("slogdet", x, True), 2), x.dtype),
    lambda x: np.stack(np.linalg.slogdet(x), axis=-1).astype(x.dtype), _slogdet_vjp,
)
_entry("pinv", 26, _pinv_rule, _pinv, _pinv_vjp, _pinv_batch)
_entry(
    "expm", 40, _square_rule("expm"), _expm, lambda g, out, x: (_expm_along(transpose(x), g),),
    jvp=lambda tangents, out, x: _expm_along(x, tangents[0]),
)
