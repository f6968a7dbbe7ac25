"""Products, einsum, norms and diagonals against NumPy in float64."""

import numpy as np
import pytest

import weft as wf
from tests.functions.cases import check, draw

PRODUCTS = [
    ((3, 4), (4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((4,), (4,)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)),
    ((4,), (2, 4, 5)),
    ((2, 3, 4), (4,)),
    ((0, 4), (4, 5)),
    ((3, 0), (0, 5)),
    ((3, 4), (2, 4, 5)),
]


def bound(dtype: str) -> dict[str, float]:
    return {"float64": {"rtol": 1e-12, "atol": 1e-12}, "float32": {"rtol": 1e-5, "atol": 1e-5}}.get(dtype, {})


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("a, b", PRODUCTS)
def test_matmul(a: tuple, b: tuple, dtype: str) -> None:
    x, y = draw(a, dtype), draw(b, dtype)
    check(wf.matmul(x, y), np.matmul(x, y), dtype=x.dtype, **bound(dtype))
    check(wf.array(x) @ y, np.matmul(x, y), dtype=x.dtype, **bound(dtype))


@pytest.mark.parametrize("a, b", [*PRODUCTS[:4], ((2, 3, 4), (5, 4, 6)), ((), (3, 4)), ((3,), ())])
def test_dot(a: tuple, b: tuple) -> None:
    for dtype in ("float64", "int16", "bool"):
        x, y = draw(a, dtype), draw(b, dtype)
        check(wf.dot(x, y), np.dot(x, y), dtype=x.dtype, **bound(dtype))


def test_vectors() -> None:
    for dtype in ("float64", "int32", "bool"):
        x, y, z = draw((3, 4), dtype), draw((5, 4), dtype), draw((4,), dtype)
        check(wf.inner(x, y), np.inner(x, y), **bound(dtype))
        check(wf.inner(z, z), np.inner(z, z), **bound(dtype))
        check(wf.inner(z, x[0, 0]), np.inner(z, x[0, 0]), **bound(dtype))
        check(wf.outer(x, z), np.outer(x, z), **bound(dtype))
        check(wf.vdot(x, x[::-1]), np.vdot(x, x[::-1]), **bound(dtype))
    x, y = draw((3, 1, 4), "float64"), draw((5, 4), "float64")
    check(wf.vecdot(x, y), np.vecdot(x, y), **bound("float64"))
    check(wf.vecdot(y, y, axis=-2), (y * y).sum(-2), **bound("float64"))


@pytest.mark.parametrize("axes", [0, 1, 2, ((1, 2), (0, 1)), ((2, 1), (1, 0)), ([-1], [-2]), (1, 0)])
def test_tensordot(axes: object) -> None:
    x, y = draw((2, 3, 4), "float64"), draw((3, 4, 5), "float64")
    if axes in (0, 2) or axes == ((1, 2), (0, 1)) or axes == ((2, 1), (1, 0)) or axes == ([-1], [-2]) or axes == (1, 0):
        check(wf.tensordot(x, y, axes=axes), np.tensordot(x, y, axes=axes), **bound("float64"))
    else:
        with pytest.raises(wf.errors.ShapeError, match="tensordot"):
            wf.tensordot(x, y, axes=axes)


SIZES = dict(a=2, b=3, c=4, d=5, i=3, j=4, k=2)
EINSUMS = [
    "ij,jk->ik",
    "ij,jk",
    "ij->ji",
    "ij->",
    "ij->i",
    "ii->i",
    "ii",
    "iij->ji",
    "i,i",
    "i,j->ij",
    "ij,ij->ij",
    "ij,ij->",
    "aij,ajk->aik",
    "ij,kj->ki",
    "ij,j->i",
    "i,->i",
    "abc,cd->abd",
    "abc,abc->b",
    "abc,bd,cd->a",
    "ab,bc,cd,da->",
    "ij,jk,kj->i",
    "aij,aij->ai",
    "ijk->kij",
    "bij,bjk->bk",
    "abc,d->ac",
    "ab,cd->",
    "...ij,jk->...ik",
    "...i->...",
    "i...,i...->...",
    "ij,...j->...i",
    "iij,jk->ik",
]


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize("subscripts", EINSUMS)
def test_einsum(subscripts: str, dtype: str) -> None:
    terms = subscripts.split("->")[0].split(",")
    xs = [draw(tuple(n for c in t.replace("...", "*") for n in ((2, 3) if c == "*" else (SIZES[c],))), dtype) for t in terms]
    check(wf.einsum(subscripts, *xs), np.einsum(subscripts, *xs), dtype=xs[0].dtype, **bound("float64"))


def test_einsum_forms() -> None:
    x, y, one = draw((3, 4), "float64"), draw((4, 2), "float64"), draw((1, 4), "float64")
    check(wf.einsum(x, [0, 1], y, [1, 2], [0, 2]), x @ y, **bound("float64"))
    check(wf.einsum(x, [0, 1], y, [1, 2]), x @ y, **bound("float64"))
    check(wf.einsum("ij,ij->ij", x, one), x * one, **bound("float64"))
    check(wf.einsum("ij,ij->", x, one), (x * one).sum(), **bound("float64"))
    check(
        wf.einsum("ij,ik->jk", one, draw((3, 2), "float64", seed=3)),
        np.einsum("ij,ik->jk", np.repeat(one, 3, 0), draw((3, 2), "float64", seed=3)),
        **bound("float64"),
    )
    check(wf.einsum("ij->ij", one), one)
    truth = draw((3, 4), "bool")
    check(wf.einsum("ij,kj->ik", truth, truth), (truth.astype(int) @ truth.T) > 0, dtype=np.dtype(bool))
    out = wf.zeros((3, 2), dtype=wf.float64)
    assert wf.einsum("ij,jk->ik", x, y, out=out, optimize=False) is out
    check(out, x @ y, **bound("float64"))
    chain = [draw((4, 4), "float64") for _ in range(4)]
    for optimize in (True, False, "greedy"):
        check(wf.einsum("ab,bc,cd,de->ae", *chain, optimize=optimize), np.linalg.multi_dot(chain), **bound("float64"))


@pytest.mark.parametrize("k", [-6, -2, 0, 1, 9])
def test_diagonals(k: int) -> None:
    for shape in ((3, 4), (4, 3), (0, 3)):
        x = draw(shape, "float64")
        check(wf.diagonal(x, k), np.diagonal(x, k))
        check(wf.diag(x, k), np.diag(x, k))
        check(wf.trace(x, k), np.trace(x, k), **bound("float64"))
    v = draw((3,), "int32")
    check(wf.diag(v, k), np.diag(v, k), dtype=v.dtype)
    x = draw((2, 3, 4), "int8")
    check(wf.diagonal(x, k, 2, 0), np.diagonal(x, k, 2, 0))
    check(wf.trace(x, k, -1, 1), np.trace(x, k, -1, 1), dtype=np.dtype(np.int64))


@pytest.mark.parametrize("order", [None, 1, 2, 3, 0, np.inf, -np.inf, 0.5])
@pytest.mark.parametrize("keepdims", [False, True])
def test_norms_of_vectors(order: object, keepdims: bool) -> None:
    x = draw((3, 4), "float64")
    check(
        wf.linalg.norm(x, order, axis=1, keepdims=keepdims),
        np.linalg.norm(x, order, axis=1, keepdims=keepdims),
        **bound("float64"),
    )
    check(wf.linalg.norm(x[0], order), np.linalg.norm(x[0], order), **bound("float64"))
    if order is not None:
        check(
            wf.linalg.vector_norm(x, ord=order, keepdims=keepdims),
            np.linalg.vector_norm(x, ord=order, keepdims=keepdims),
            **bound("float64"),
        )


@pytest.mark.parametrize("order", [None, "fro", 1, -1, np.inf, -np.inf])
def test_norms_of_matrices(order: object) -> None:
    x = draw((2, 3, 4), "float64")
    for axis in ((1, 2), (2, 0), (-1, 1)):
        for keepdims in (False, True):
            check(
                wf.linalg.norm(x, order, axis=axis, keepdims=keepdims),
                np.linalg.norm(x, order, axis=axis, keepdims=keepdims),
                **bound("float64"),
            )
    check(wf.linalg.norm(x[0], order), np.linalg.norm(x[0], order), **bound("float64"))
    check(wf.linalg.matrix_norm(x, ord=order or "fro"), np.linalg.matrix_norm(x, ord=order or "fro"), **bound("float64"))
    check(wf.linalg.norm(x), np.linalg.norm(x), **bound("float64"))
    assert wf.linalg.norm(np.array([3, 4])).dtype == wf.float32


ERRORS = [
    (lambda x: wf.matmul(x, x), wf.errors.ShapeError, r"matmul.*\(3, 4\)"),
    (lambda x: wf.matmul(x, 2.0), wf.errors.ShapeError, "matmul"),
    (lambda x: wf.dot(x, x), wf.errors.ShapeError, r"dot: x1 \(3, 4\) and x2 \(3, 4\)"),
    (lambda x: wf.vdot(x, x[0]), wf.errors.ShapeError, "vdot"),
    (lambda x: wf.tensordot(x, x, axes=3), wf.errors.ShapeError, "tensordot: axes=3"),
    (lambda x: wf.tensordot(x, x, axes=((0, 0), (0, 0))), wf.errors.AxisError, "twice"),
    (lambda x: wf.vecdot(x, x[:, :2]), wf.errors.ShapeError, "vecdot"),
    (lambda x: wf.einsum("ij,jk->ik", x, x), wf.errors.ShapeError, "einsum: 'j' has extent"),
    (lambda x: wf.einsum("ijk->i", x), wf.errors.ShapeError, "einsum"),
    (lambda x: wf.einsum("ij->z", x), wf.errors.ShapeError, "einsum"),
    (lambda x: wf.einsum("ii->i", x), wf.errors.ShapeError, "'i'"),
    (lambda x: wf.einsum("ij"), wf.errors.ShapeError, "einsum"),
    (lambda x: wf.diag(3.0), wf.errors.ShapeError, "diag"),
    (lambda x: wf.trace(x[0]), wf.errors.ShapeError, "trace"),
    (lambda x: wf.linalg.norm(x, "none"), ValueError, "ord='none'"),
    (lambda x: wf.linalg.norm(x, axis=(0, 0)), wf.errors.ShapeError, "norm: axis"),
]


@pytest.mark.parametrize("call, error, match", ERRORS)
def test_errors(call: object, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call(draw((3, 4), "float32"))
