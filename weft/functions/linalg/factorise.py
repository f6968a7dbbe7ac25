"""Factorisations of matrices, their eigenvalues and singular values, and what follows from these: ``wf.linalg``."""

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
from weft.functions.support.arguments import Node, cast, conjugated, node, number, of_numpy, op, reduced, reshaped
from weft.graph.primitives.linear_algebra import check, qr_parts, svd_parts, transposed, unpacked


class EighResult(NamedTuple):
    """What :func:`eigh` gives."""

    eigenvalues: Array
    eigenvectors: Array


class EigResult(NamedTuple):
    """What :func:`eig` gives."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """What :func:`qr` gives."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """What :func:`svd` gives."""

    U: Array
    S: Array
    Vh: Array


def _real(value: Node) -> Node:
    return op("real", value) if value.dtype in COMPLEX else value


def cholesky(a: Any, *, upper: bool = False) -> Array:
    """The triangular matrices L for which ``L @ L.T`` (conjugated) is ``a``.

    Parameters
    ----------
    a : (..., M, M), symmetric (Hermitian) and positive definite
        One triangle is read: the lower, with ``upper`` the upper one. The derivative is that of symmetric matrices.
    upper : bool
        The conjugated transposes of L.

    Returns
    -------
    Array of the shape of ``a``

    Raises
    ------
    LinAlgError, DTypeError
        No square matrix, or (when it is computed) one that is not positive definite; a dtype that LAPACK lacks.

    Examples
    --------
    >>> import weft as wf
    >>> wf.linalg.cholesky(wf.array([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    value = matrix(a, "cholesky")
    check("cholesky", value, True)
    if not upper:
        return wrap(op("cholesky", value))
    return wrap(transposed(conjugated(op("cholesky", transposed(conjugated(value))))))


def qr(a: Any, mode: str = "reduced") -> Any:
    """Orthonormal columns Q and triangular R whose product is ``a``.

    Parameters
    ----------
    a : (..., M, N)
    mode : "reduced", "complete", "r" or "raw"
        K = min(M, N) columns, or all M of them (then without a derivative where M > N); R alone; or what LAPACK's routine leaves:
        its array, transposed, and the factors of its reflectors, computed at once.

    Returns
    -------
    (Q, R) : (..., M, K) and (..., K, N) Arrays

    Raises
    ------
    LinAlgError, ValueError, DTypeError
        No matrix; another mode; a dtype that LAPACK lacks.

    Examples
    --------
    >>> import weft as wf
    >>> q, r = wf.linalg.qr(wf.array([[0.0, 2.0], [3.0, 4.0]]))
    >>> wf.round(q @ r, 3).tolist()
    [[0.0, 2.0], [3.0, 4.0]]
    """
    if mode not in ("reduced", "complete", "r", "raw"):
        raise ValueError(f"qr: mode={mode!r} must be 'reduced', 'complete', 'r' or 'raw'")
    value = matrix(a, "qr")
    check("qr", value)
    if mode == "raw":
        left: Any = np.linalg.qr(wrap(value).numpy(), mode="raw")
        return of_numpy(left[0]), of_numpy(left[1])
    wanted = "reduced" if mode == "r" else mode
    q, r = unpacked(op("qr", value, mode=wanted), *qr_parts(value.shape, wanted))
    return wrap(r) if mode == "r" else QRResult(wrap(q), wrap(r))


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Singular values S, and the vectors U and Vh: ``U @ diag(S) @ Vh`` is ``a``.

    Parameters
    ----------
    a : (..., M, N)
    full_matrices : bool
        U and Vh are square; else they have K = min(M, N) vectors. Full ones have no derivative unless M is N.
    compute_uv : bool
        False: the singular values alone, as :func:`svdvals`.
    hermitian : bool
        Whether ``a`` is symmetric; it changes nothing here.

    Returns
    -------
    (U, S, Vh) : (..., M, M), (..., K) and (..., N, N) Arrays, the singular values falling; signs of vectors are LAPACK's choice

    Raises
    ------
    LinAlgError, DTypeError
        No matrix; (when it is computed) it does not converge; a dtype that LAPACK lacks.

    Examples
    --------
    >>> import weft as wf
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
    """The singular values of matrices, falling.

    Parameters
    ----------
    x : (..., M, N)

    Returns
    -------
    (..., min(M, N)) Array of floats

    Raises
    ------
    LinAlgError, DTypeError
        As :func:`svd`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.linalg.svdvals(wf.array([[0.0, 2.0], [3.0, 0.0]])).tolist()
    [3.0, 2.0]
    """
    return wrap(op("svdvals", matrix(x, "svdvals", "x")))


def _lower(function: str, triangle: str) -> bool:
    if triangle not in ("L", "U", "l", "u"):
        raise ValueError(f"{function}: UPLO={triangle!r} must be 'L' or 'U'")
    return triangle in "Ll"


def eigh(a: Any, UPLO: str = "L") -> EighResult:  # noqa: N803  NumPy's name
    """Eigenvalues and eigenvectors of symmetric (Hermitian) matrices.

    Parameters
    ----------
    a : (..., M, M)
        Symmetric: one triangle is read, as in NumPy. The derivative is that of symmetric matrices; of equal eigenvalues the
        vectors are free to turn, and have none.
    UPLO : "L" or "U"
        Which triangle.

    Returns
    -------
    (eigenvalues, eigenvectors) : (..., M) Array, rising, and (..., M, M) Array of columns, whose signs are LAPACK's choice

    Raises
    ------
    LinAlgError, ValueError, DTypeError
        No square matrix, or (when it is computed) it does not converge; another ``UPLO``; a dtype that LAPACK lacks.

    Examples
    --------
    >>> import weft as wf
    >>> wf.linalg.eigh(wf.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
    [1.0, 2.0]
    """
    value = matrix(a, "eigh")
    check("eigh", value, True)
    n = value.shape[-1]
    w, v = unpacked(op("eigh", value, lower=_lower("eigh", UPLO)), (n,), (n, n))
    return EighResult(wrap(_real(w)), wrap(v))


def eigvalsh(a: Any, UPLO: str = "L") -> Array:  # noqa: N803
    """The eigenvalues of symmetric (Hermitian) matrices, rising.

    Parameters
    ----------
    a, UPLO : as in :func:`eigh`

    Returns
    -------
    (..., M) Array of floats

    Raises
    ------
    LinAlgError, ValueError, DTypeError
        As :func:`eigh`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.linalg.eigvalsh(wf.array([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 2.0]
    """
    return wrap(op("eigvalsh", matrix(a, "eigvalsh"), lower=_lower("eigvalsh", UPLO)))


def eig(a: Any) -> EigResult:
    """Eigenvalues and eigenvectors of square matrices, complex always: what they are is not known before they are computed.

    Parameters
    ----------
    a : (..., M, M)

    Returns
    -------
    (eigenvalues, eigenvectors) : (..., M) and (..., M, M) complex Arrays; vectors are columns of length 1

    Raises
    ------
    LinAlgError, DTypeError
        No square matrix, or (when it is computed) it does not converge; a dtype that LAPACK lacks.

    Examples
    --------
    >>> import weft as wf
    >>> wf.linalg.eig(wf.array([[0.0, -1.0], [1.0, 0.0]])).eigenvalues.tolist()
    [1j, -1j]
    """
    value = matrix(a, "eig")
    check("eig", value, True)
    n = value.shape[-1]
    w, v = unpacked(op("eig", value), (n,), (n, n))
    return EigResult(wrap(w), wrap(v))


def eigvals(a: Any) -> Array:
    """The eigenvalues of square matrices, complex always.

    Parameters
    ----------
    a : (..., M, M)

    Returns
    -------
    (..., M) complex Array

    Raises
    ------
    LinAlgError, DTypeError
        As :func:`eig`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.linalg.eigvals(wf.array([[2.0, 1.0], [0.0, 1.0]])).tolist()
    [(2+0j), (1+0j)]
    """
    return wrap(op("eigvals", matrix(a, "eigvals")))


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """The ranks of matrices: how many singular values are not negligible.

    Parameters
    ----------
    A : (..., M, N), or a vector, whose rank is 1 unless it is zero
    tol, rtol : number or (...) array, optional
        What is negligible: values up to ``tol``, or up to ``rtol`` times the largest. By default ``rtol`` is max(M, N) times the
        distance of 1 to the next number.
    hermitian : bool
        Whether ``A`` is symmetric; it changes nothing here.

    Returns
    -------
    (...) Array of int64

    Raises
    ------
    LinAlgError, DTypeError
        As :func:`svd`.

    Examples
    --------
    >>> import weft as wf
    >>> wf.linalg.matrix_rank(wf.array([[1.0, 2.0], [2.0, 4.0]])).tolist()
    1
    """
    value = matrix(A, "matrix_rank")
    if len(value.shape) < 2:
        some = op("not_equal", value, number(0, value.dtype))
        axes = tuple(range(len(value.shape)))
        return wrap(reduced("reduce_max", cast(some, INT64), axes) if value.size else number(0, INT64))
    values = op("svdvals", value)
    last = len(values.shape) - 1
    if not values.shape[-1]:
        return wrap(reduced("reduce_sum", cast(values, INT64), (last,)))
    if tol is None:
        share = max(value.shape[-2:]) * 2.0**-values.dtype.mantissa if rtol is None else rtol
        bound = op("multiply", reduced("reduce_max", values, (last,), True), _column(share, values, last))
    else:
        bound = _column(tol, values, last)
    return wrap(reduced("reduce_sum", cast(op("greater", values, bound), INT64), (last,)))


def _column(tolerance: Any, values: Node, last: int) -> Node:
    found = cast(node(tolerance, "matrix_rank", "tol"), values.dtype)
    return reshaped(found, (*found.shape, 1)) if found.shape else found


def cond(x: Any, p: Any = None) -> Array:
    """Condition numbers of matrices: how much of an error in ``b`` may be one in ``solve(x, b)``.

    Parameters
    ----------
    x : (..., M, N); square unless ``p`` is None, 2 or -2
    p : optional
        The norm (:func:`norm`); None and 2: the largest singular value by the smallest, -2: the other way.

    Returns
    -------
    (...) Array of floats, infinite for singular matrices

    Raises
    ------
    LinAlgError, ValueError, DTypeError
        No matrix, or for other norms no square one; an unknown norm; a dtype that LAPACK lacks.

    Examples
    --------
    >>> import weft as wf
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
        found = op("divide", low, high) if p == -2 else op("divide", high, low)
    else:
        sign, _ = slogdet(wrap(value))
        singular = equal(sign, 0)  # what inv would refuse
        safe = where(singular[..., None, None], eye(value.shape[-1], dtype=value.dtype.numpy), wrap(value))
        found = where(singular, np.inf, norm(wrap(value), ord=p, axis=(-2, -1)) * norm(inv(safe), ord=p, axis=(-2, -1))).node
    lost = wrap(found)
    return where(isnan(lost) & ~isnan(wrap(value)).any(axis=(-2, -1)), np.inf, lost)  # 0 / 0, and infinity times 0
