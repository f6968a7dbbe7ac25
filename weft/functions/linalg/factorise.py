"""Factorisations of matrices, eigenvalues and singular values, and functions of these: ``wf.linalg``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.array import Array, wrap
from weft.dtypes.formats import COMPLEX, INT64
from weft.errors import ShapeError
from weft.functions.creation.matrices import eye
from weft.functions.elementwise.ufuncs import equal, isnan
from weft.functions.indexing.where import where
from weft.functions.linalg.norms import norm
from weft.functions.linalg.solvers import inv, matrix, slogdet
from weft.functions.support.arguments import Node, cast, conjugate, from_numpy, node, number, op, reduced, reshaped
from weft.graph.primitives.linear_algebra import check, qr_parts, svd_parts, transposed, unpacked
from weft.process.docstrings import complete_docs, complete_each


class EighResult(NamedTuple):
    """The result of :func:`eigh`."""

    eigenvalues: Array
    eigenvectors: Array


class EigResult(NamedTuple):
    """The result of :func:`eig`."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """The result of :func:`qr`."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """The result of :func:`svd`."""

    U: Array
    S: Array
    Vh: Array


def _real(value: Node) -> Node:
    return op("real", value) if value.dtype in COMPLEX else value


def cholesky(a: Any, *, upper: bool = False) -> Array:
    """Return the triangular matrices L for which ``L @ L.T`` (conjugated) is ``a``.

    Parameters
    ----------
    a : (..., M, M), symmetric (Hermitian) and positive definite
        Only one triangle is read: the lower one, or the upper one with ``upper``. The derivative is that of symmetric matrices.
    upper : bool
        Return the conjugate transposes of L.

    Returns
    -------
    Array of the shape of ``a``

    Raises
    ------
    LinAlgError, DTypeError
        ``a`` is not a square matrix, or (when it is computed) not positive definite; LAPACK lacks the dtype.

    Examples
    --------
    >>> wf.linalg.cholesky(wf.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    value = matrix(a, "cholesky")
    check("cholesky", value, True)
    if not upper:
        return wrap(op("cholesky", value))
    return wrap(transposed(conjugate(op("cholesky", transposed(conjugate(value))))))


def qr(a: Any, mode: str = "reduced") -> Any:
    """Factorise ``a`` into orthonormal columns Q and triangular R.

    Parameters
    ----------
    a : (..., M, N)
    mode : "reduced", "complete", "r" or "raw"
        K = min(M, N) columns; all M columns (not differentiable if M > N); R alone; or LAPACK's own result, computed immediately:
        its transposed array and the factors of its reflectors.

    Returns
    -------
    (Q, R) : (..., M, K) and (..., K, N) Arrays

    Raises
    ------
    LinAlgError, ValueError, DTypeError
        ``a`` is not a matrix; ``mode`` is unknown; LAPACK lacks the dtype.

    Examples
    --------
    >>> q, r = wf.linalg.qr(wf.array([[0.0, 2.0], [3.0, 4.0]]))
    >>> wf.round(q @ r, 3).tolist()
    [[0.0, 2.0], [3.0, 4.0]]
    """
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f"qr: mode={mode!r} must be 'reduced', 'complete', 'r' or 'raw'")
    value = matrix(a, "qr")
    check("qr", value)
    if mode == "raw":
        parts: Any = np.linalg.qr(wrap(value).numpy(), mode="raw")
        return from_numpy(parts[0]), from_numpy(parts[1])
    form = "reduced" if mode == "r" else mode
    q, r = unpacked(op("qr", value, mode=form), *qr_parts(value.shape, form))
    return wrap(r) if mode == "r" else QRResult(wrap(q), wrap(r))


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Compute the singular values S and the vectors U and Vh: ``U @ diag(S) @ Vh`` is ``a``.

    Parameters
    ----------
    a : (..., M, N)
    full_matrices : bool
        Make U and Vh square (not differentiable unless M is N); else they have K = min(M, N) vectors.
    compute_uv : bool
        False: return the singular values alone, as :func:`svdvals`.
    hermitian : bool
        Has no effect.

    Returns
    -------
    (U, S, Vh) : (..., M, M), (..., K) and (..., N, N) Arrays
        The singular values fall; the signs of vectors are LAPACK's choice.

    Raises
    ------
    LinAlgError, DTypeError
        The argument is not a matrix, or (when it is computed) does not converge; LAPACK lacks the dtype.

    Examples
    --------
    >>> wf.linalg.svd(wf.array([[0.0, 2.0], [3.0, 0.0]])).S.tolist()
    [3.0, 2.0]
    """
    if not compute_uv:
        return svdvals(a)
    value = matrix(a, "svd")
    check("svd", value)
    full = bool(full_matrices) and value.shape[-1] != value.shape[-2]
    u, s, vh = unpacked(op("svd", value, full=full), *svd_parts(value.shape, full))
    return SVDResult(wrap(u), wrap(_real(s)), wrap(vh))


def svdvals(x: Any, /) -> Array:
    """Compute the singular values of matrices, in falling order.

    Parameters
    ----------
    x : (..., M, N)

    Returns
    -------
    (..., min(M, N)) Array of floats

    Examples
    --------
    >>> wf.linalg.svdvals(wf.array([[0.0, 2.0], [3.0, 0.0]])).tolist()
    [3.0, 2.0]
    """
    return wrap(op("svdvals", matrix(x, "svdvals", "x")))


def _reads_lower(function: str, triangle: str) -> bool:
    if triangle not in ("L", "U", "l", "u"):
        raise ValueError(f"{function}: UPLO={triangle!r} must be 'L' or 'U'")
    return triangle in "Ll"


def eigh(a: Any, UPLO: str = "L") -> EighResult:  # noqa: N803  NumPy's name
    """Compute eigenvalues and eigenvectors of symmetric (Hermitian) matrices.

    Parameters
    ----------
    a : (..., M, M)
        Symmetric: only one triangle is read, as in NumPy. The derivative is that of symmetric matrices; eigenvectors of equal
        eigenvalues are not unique and have no derivative.
    UPLO : "L" or "U"
        The triangle that is read.

    Returns
    -------
    (eigenvalues, eigenvectors) : (..., M) and (..., M, M) Arrays
        The eigenvalues rise; the vectors are columns, whose signs are LAPACK's choice.

    Raises
    ------
    LinAlgError, ValueError, DTypeError
        ``a`` is not a square matrix, or (when it is computed) does not converge; ``UPLO`` is unknown; LAPACK lacks the dtype.

    Examples
    --------
    >>> wf.linalg.eigh(wf.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
    [1.0, 2.0]
    """
    value = matrix(a, "eigh")
    check("eigh", value, True)
    n = value.shape[-1]
    w, v = unpacked(op("eigh", value, lower=_reads_lower("eigh", UPLO)), (n,), (n, n))
    return EighResult(wrap(_real(w)), wrap(v))


def eigvalsh(a: Any, UPLO: str = "L") -> Array:  # noqa: N803
    """Compute the eigenvalues of symmetric (Hermitian) matrices, in rising order.

    Returns
    -------
    (..., M) Array of floats

    Examples
    --------
    >>> wf.linalg.eigvalsh(wf.array([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 2.0]
    """
    return wrap(op("eigvalsh", matrix(a, "eigvalsh"), lower=_reads_lower("eigvalsh", UPLO)))


def eig(a: Any) -> EigResult:
    """Compute eigenvalues and eigenvectors of square matrices. Both are always complex: a dtype cannot depend on values.

    Parameters
    ----------
    a : (..., M, M)

    Returns
    -------
    (eigenvalues, eigenvectors) : (..., M) and (..., M, M) complex Arrays
        The vectors are columns of length 1.

    Raises
    ------
    LinAlgError, DTypeError
        ``a`` is not a square matrix, or (when it is computed) does not converge; LAPACK lacks the dtype.

    Examples
    --------
    >>> wf.linalg.eig(wf.array([[0.0, -1.0], [1.0, 0.0]])).eigenvalues.tolist()
    [1j, -1j]
    """
    value = matrix(a, "eig")
    check("eig", value, True)
    n = value.shape[-1]
    w, v = unpacked(op("eig", value), (n,), (n, n))
    return EigResult(wrap(w), wrap(v))


def eigvals(a: Any) -> Array:
    """Compute the eigenvalues of square matrices. They are always complex.

    Returns
    -------
    (..., M) complex Array

    Examples
    --------
    >>> wf.linalg.eigvals(wf.array([[2.0, 1.0], [0.0, 1.0]])).tolist()
    [(2+0j), (1+0j)]
    """
    return wrap(op("eigvals", matrix(a, "eigvals")))


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """Compute the ranks of matrices: the numbers of singular values that are not negligible.

    Parameters
    ----------
    A : (..., M, N) or a vector
        The rank of a vector is 1, or 0 if it is zero.
    tol, rtol : number or (...) array, optional
        Values up to ``tol``, or up to ``rtol`` times the largest, are negligible. By default ``rtol`` is max(M, N) times the
        machine epsilon of the dtype.
    hermitian : bool
        Has no effect.

    Returns
    -------
    (...) Array of int64

    Examples
    --------
    >>> wf.linalg.matrix_rank(wf.array([[1.0, 2.0], [2.0, 4.0]])).tolist()
    1
    """
    value = matrix(A, "matrix_rank")
    if len(value.shape) < 2:
        nonzero = op("not_equal", value, number(0, value.dtype))
        axes = tuple(range(len(value.shape)))
        return wrap(reduced("reduce_max", cast(nonzero, INT64), axes) if value.size else number(0, INT64))
    values = op("svdvals", value)
    last = len(values.shape) - 1
    if not values.shape[-1]:
        return wrap(reduced("reduce_sum", cast(values, INT64), (last,)))
    if tol is None:
        relative = max(value.shape[-2:]) * 2.0**-values.dtype.mantissa if rtol is None else rtol
        bound = op("multiply", reduced("reduce_max", values, (last,), True), _column(relative, values, last))
    else:
        bound = _column(tol, values, last)
    return wrap(reduced("reduce_sum", cast(op("greater", values, bound), INT64), (last,)))


def _column(tolerance: Any, values: Node, last: int) -> Node:
    column = cast(node(tolerance, "matrix_rank", "tol"), values.dtype)
    return reshaped(column, (*column.shape, 1)) if column.shape else column


def cond(x: Any, p: Any = None) -> Array:
    """Compute condition numbers of matrices: the largest factor by which a relative error in ``b`` grows in ``solve(x, b)``.

    Parameters
    ----------
    x : (..., M, N); square unless ``p`` is None, 2 or -2
    p : optional
        The norm (:func:`norm`); None and 2: the largest singular value divided by the smallest, -2: the reciprocal.

    Returns
    -------
    (...) Array of floats, infinite for singular matrices

    Raises
    ------
    LinAlgError, ShapeError, ValueError, DTypeError
        ``x`` is not a matrix, or not square for other norms; it has no elements; ``p`` is unknown; LAPACK lacks the dtype.

    Examples
    --------
    >>> wf.linalg.cond(wf.array([[2.0, 0.0], [0.0, 4.0]])).tolist()
    2.0
    """
    value = matrix(x, "cond", "x")
    check("cond", value, p not in (None, 2, -2))
    if 0 in value.shape[-2:]:
        raise ShapeError(f"cond: x has shape {value.shape}; a matrix without elements has no condition")
    if p in (None, 2, -2):
        values = op("svdvals", value)
        last = len(values.shape) - 1
        high, low = (reduced(f"reduce_{name}", values, (last,)) for name in ("max", "min"))
        ratio = op("divide", low, high) if p == -2 else op("divide", high, low)
    else:
        sign, _ = slogdet(wrap(value))
        singular = equal(sign, 0)  # inv would raise
        regular = where(singular[..., None, None], eye(value.shape[-1], dtype=value.dtype.numpy), wrap(value))
        ratio = where(singular, np.inf, norm(wrap(value), ord=p, axis=(-2, -1)) * norm(inv(regular), ord=p, axis=(-2, -1))).node
    result = wrap(ratio)
    return where(isnan(result) & ~isnan(wrap(value)).any(axis=(-2, -1)), np.inf, result)  # 0 / 0, and infinity times 0


complete_each(cholesky, qr, cond)
complete_docs(svd, svdvals, matrix_rank)
complete_docs(eigh, eigvalsh)
complete_docs(eig, eigvals)
