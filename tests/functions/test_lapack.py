"""wf.linalg beside numpy.linalg: values over dtypes and shapes, derivatives, transforms, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests import oracle
from weft.errors import AxisError, DTypeError, ShapeError

LA = np.linalg
DTYPES = ("float32", "float64", "complex64", "complex128")
SQUARE = [(1, 1), (4, 4), (2, 3, 3), (2, 1, 2, 2), (0, 3, 3), (0, 0), (2, 0, 0)]
OBLONG = [(5, 3), (3, 5), (2, 4, 2), (1, 3), (3, 1), (0, 2, 3)]


def matrices(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Matrices whose singular values lie about 0.5 apart, from 1 on."""
    r = oracle.rng()
    *lead, m, n = shape

    def turned(d: int) -> np.ndarray:
        x = r.normal(size=(*lead, d, d)) + (1j * r.normal(size=(*lead, d, d)) if dtype[0] == "c" else 0)
        return LA.qr(x)[0]

    k = min(m, n)
    return np.asarray((turned(m)[..., :k] * (1 + 0.5 * np.arange(k))) @ turned(n)[..., :k, :], dtype)


def symmetric(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = matrices(shape, dtype)
    x = x @ np.conj(np.swapaxes(x, -1, -2))
    return (x + np.conj(np.swapaxes(x, -1, -2))) / 2


def close(got: Any, want: Any, ulps: float = 300) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    eps = np.finfo(want.dtype).eps if want.dtype.kind in "fc" else 0
    np.testing.assert_allclose(got, want, rtol=ulps * eps, atol=ulps * eps * float(np.max(np.abs(want), initial=1)))


def both(name: str, *args: Any, **options: Any) -> Iterable[tuple[Any, Any]]:
    """What weft and NumPy give, part by part."""
    ours = getattr(wf.linalg, name)(*(wf.array(a) if isinstance(a, np.ndarray) else a for a in args), **options)
    theirs = getattr(LA, name)(*args, **options)
    return zip(ours, theirs, strict=True) if isinstance(theirs, tuple) else [(ours, theirs)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", """
    inv det slogdet cond matrix_rank matrix_power svdvals qr svd eig eigvals""".split())
def test_square_matrices(name: str, dtype: str) -> None:
    for shape in SQUARE:
        x = matrices(shape, dtype)
        if name == "matrix_power":
            for n in (-3, -1, 0, 1, 2, 7):
                for pair in both(name, x, n):
                    close(*pair, ulps=3000)
            continue
        if name == "cond" and not shape[-1]:
            continue
        for got, want in both(name, x):
            wide = np.result_type(want.dtype, np.complex64) if name in ("eig", "eigvals") else np.asarray(want).dtype
            close(got, np.asarray(want).astype(wide))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["cholesky", "eigh", "eigvalsh"])
def test_symmetric_matrices(name: str, dtype: str) -> None:
    for shape in SQUARE:
        x = symmetric(shape, dtype)
        lower, upper = np.tril(x) + np.triu(np.ones_like(x), 1), np.triu(x) + np.tril(np.ones_like(x), -1)
        for given, options in ((lower, {}), (upper, {"upper": True} if name == "cholesky" else {"UPLO": "U"})):
            for pair in both(name, given, **options):  # one triangle is read
                close(*pair)


@pytest.mark.parametrize("dtype", DTYPES)
def test_oblong_matrices(dtype: str) -> None:
    for shape in OBLONG:
        x = matrices(shape, dtype)
        calls: list[tuple[str, dict[str, Any]]] = [("svd", {"full_matrices": f}) for f in (True, False)]
        calls += [("qr", {"mode": m}) for m in ("reduced", "complete", "r")]
        for name, options in [*calls, ("svdvals", {}), ("matrix_rank", {}), ("svd", {"compute_uv": False})]:
            for pair in both(name, x, **options):
                close(*pair)
        if x.size:
            for rcond in (None, 0.5):
                for pair in both("pinv", x, rcond):
                    close(*pair)
            for pair in both("cond", x):
                close(*pair)


@pytest.mark.parametrize("dtype", DTYPES)
def test_systems(dtype: str) -> None:
    for left, right in (((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3, 2)), ((2, 1, 3, 3), (4, 3, 1)), ((0, 3, 3), (0, 3, 2))):
        a = matrices(left, dtype)
        b = np.asarray(oracle.rng().normal(size=right), dtype)
        for pair in both("solve", a, b):
            close(*pair)
    cases = (((5, 3), None), ((3, 5), None), ((4, 4), None), ((4, 4), 0.5), ((5, 3), 0.6), ((3, 1), None), ((0, 2), None))
    for shape, low in cases:
        a = matrices(shape, dtype)
        for columns in ((), (2,)):
            b = np.asarray(oracle.rng().normal(size=(shape[0], *columns)), dtype)
            for got, want in both("lstsq", a, b, low):
                close(got, np.int64(want) if np.isscalar(want) and not isinstance(want, np.floating) else want)
    a = matrices((6, 6), dtype)
    for pair in both("tensorsolve", a.reshape(2, 3, 6), a[:, 0].reshape(2, 3)):
        close(*pair)
    for pair in both("tensorinv", a.reshape(2, 3, 6), ind=2):
        close(*pair)
    for pair in both("multi_dot", [a[:, :2], a[:2], a[:, :1], a[:1]]):
        close(*pair)
    for pair in both("multi_dot", [a[0], a, a[:, 1]]):
        close(*pair)


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms(dtype: str) -> None:
    for shape in ((4, 4), (3, 5), (2, 4, 2)):
        x = matrices(shape, dtype)
        for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
            for keepdims in (False, True):
                for pair in both("matrix_norm", x, ord=order, keepdims=keepdims):
                    close(*pair)
                for pair in both("norm", x, order, (0, -1), keepdims):
                    close(*pair)
        for order in (0, 1, 2, 3, -2, 0.5, np.inf, -np.inf):
            for got, want in both("norm", x, order, -1):
                close(got, np.asarray(want).astype(x.real.dtype))
    x = matrices((4, 4), dtype)
    for order in ("fro", 1, np.inf, "nuc", -2):
        for pair in both("cond", x, order):
            close(*pair)


def test_products_of_vectors() -> None:
    x, y = oracle.rng().normal(size=(2, 4, 3)), oracle.rng().normal(size=(4, 3))
    for pair in both("cross", x, y):
        close(*pair)
    for pair in both("cross", np.moveaxis(x, -1, 1), np.moveaxis(x, -1, 1)[:1] * 2, axis=1):
        close(*pair)
    for pair in both("matrix_transpose", x):
        close(*pair)
    assert wf.linalg.LinAlgError is LA.LinAlgError
    missing = set(LA.__all__) - {"LinAlgError", "test"} - set(wf.linalg.__all__)
    assert not missing and len(wf.linalg.__all__) == len(set(wf.linalg.__all__))


def test_numpys_functions_are_wefts() -> None:
    x = wf.array(matrices((3, 3), "float32"))
    for found in (np.linalg.inv(x), np.linalg.eigh(x @ x.T).eigenvectors, np.linalg.svd(x)[1], np.fft.fft(x)):
        assert type(found) is wf.ndarray


def test_integers_are_float32() -> None:
    for name in ("inv", "det", "cholesky", "eigvalsh", "expm"):
        assert getattr(wf.linalg, name)(wf.array([[2, 1], [1, 2]])).dtype == wf.float32
    assert wf.linalg.solve([[2, 0], [0, 4]], [1, 2]).tolist() == [0.5, 0.5]
    assert wf.linalg.matrix_power(wf.array([[1, 1], [0, 1]]), 3).dtype == wf.int64


def test_exponential() -> None:
    from scipy.linalg import expm

    for dtype in DTYPES:
        x = matrices((2, 3, 3), dtype)
        close(wf.linalg.expm(wf.array(x)), expm(x), 3000)
    assert wf.linalg.expm(wf.zeros((0, 0))).shape == (0, 0)


def test_rank_of_what_is_deficient() -> None:
    x = matrices((5, 4), "float64")
    x[:, 1] = x[:, 0] * 2
    for low in (None, 1e-3):
        assert int(wf.linalg.matrix_rank(x, low)) == LA.matrix_rank(x, low) == 3
    assert int(wf.linalg.matrix_rank(x, rtol=0.9)) == LA.matrix_rank(x, rtol=0.9)
    assert int(wf.linalg.matrix_rank(x[0])) == 1 and int(wf.linalg.matrix_rank(x[0] * 0)) == 0
    a, b = wf.array(x), wf.ones(5, dtype="float64")
    for got, want in zip(wf.linalg.lstsq(a, b), LA.lstsq(x, np.ones(5)), strict=True):
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(wf.linalg.pinv(a), LA.pinv(x, rtol=1e-12), rtol=1e-9, atol=1e-9)


# ---- derivatives beside central differences; those of the primitives are tested with the table


def numeric(f: Callable[[np.ndarray], Any], x: np.ndarray) -> np.ndarray:
    return oracle.central_differences(lambda a: np.asarray(f(a)), [x], 0)


DERIVATIVES: dict[str, Callable[[Any], Any]] = {
    "vector on the right": lambda x: wf.linalg.solve(x, x[:, 0]),
    "least squares": lambda x: wf.linalg.lstsq(x[:, :2], x[:, 2]).x,
    "residuals": lambda x: wf.linalg.lstsq(x[:, :2], x).residuals,
    "negative power": lambda x: wf.linalg.matrix_power(x, -2),
    "wide qr": lambda x: wf.linalg.qr(x[:2]).R,
    "complete qr": lambda x: wf.linalg.qr(x, "complete").Q,
    "full svd": lambda x: wf.linalg.svd(x).Vh,
    "condition": lambda x: wf.linalg.cond(x),
    "nuclear": lambda x: wf.linalg.matrix_norm(x, ord="nuc"),
    "cross": lambda x: wf.linalg.cross(x, x[::-1] ** 2),
    "eigvals": lambda x: wf.real(wf.linalg.eigvals(x) ** 3).sum(),
    "multi_dot": lambda x: wf.linalg.multi_dot([x, x, x[:, :1]]),
    "singular determinant": lambda x: wf.linalg.det(wf.concat([x[:2], x[:1] * 2])),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name: str) -> None:
    f, x = DERIVATIVES[name], matrices((3, 3), "float64")
    want = numeric(lambda a: f(wf.array(a)).sum().numpy(), x)
    np.testing.assert_allclose(wf.grad(lambda a: f(a).sum())(wf.array(x)).numpy(), want, rtol=1e-5, atol=1e-6)


def test_symmetric_derivatives_are_symmetric() -> None:
    x = wf.array(symmetric((4, 4), "float64"))
    for f in (lambda a: wf.linalg.cholesky(a), lambda a: wf.linalg.eigh(a).eigenvalues**2, lambda a: wf.linalg.eigvalsh(a)):
        found = wf.grad(lambda a, f=f: f(a).sum())(x).numpy()
        np.testing.assert_allclose(found, found.T, rtol=1e-12, atol=1e-12)
        r = oracle.rng().normal(size=(4, 4))
        step, d = 1e-6, r + r.T
        slope = (f(x + step * d).sum() - f(x - step * d).sum()) / (2 * step)
        np.testing.assert_allclose((found * d).sum(), float(slope), rtol=1e-6)


def test_equal_eigenvalues_have_derivatives() -> None:
    assert wf.grad(lambda a: wf.linalg.eigvalsh(a).sum())(wf.eye(3)).tolist() == np.eye(3).tolist()
    assert np.isfinite(wf.grad(lambda a: wf.linalg.svdvals(a).sum())(wf.eye(3)).numpy()).all()


@pytest.mark.parametrize("call", [
    lambda x: wf.linalg.svd(x[:2]).U, lambda x: wf.linalg.qr(x[:, :2], "complete").Q,
])
def test_factors_that_are_not_determined_have_no_derivative(call: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="have no derivative, for they are not determined"):
        wf.grad(lambda x: call(x).sum())(wf.array(matrices((3, 3), "float32")))


# ---- transforms


def test_transforms() -> None:
    x = wf.array(matrices((4, 3, 3), "float64"))
    b = wf.array(oracle.rng().normal(size=(3,)))
    for f in (wf.linalg.inv, wf.linalg.det, lambda a: wf.linalg.svd(a).S, lambda a: wf.linalg.solve(a, b),
              lambda a: wf.linalg.eigh(a @ a.T).eigenvalues, lambda a: wf.linalg.slogdet(a).logabsdet, wf.linalg.pinv,
              wf.linalg.expm):
        want = np.stack([f(m).numpy() for m in x])
        np.testing.assert_allclose(wf.vmap(f)(x).numpy(), want, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(wf.jit(wf.vmap(f))(x).numpy(), want, rtol=1e-9, atol=1e-9)
    gradients = wf.vmap(wf.grad(lambda a: wf.linalg.slogdet(a).logabsdet))(x)
    np.testing.assert_allclose(gradients.numpy(), np.swapaxes(LA.inv(x.numpy()), -1, -2), rtol=1e-9)
    looped = wf.scan(lambda h, t: (wf.linalg.solve(x[0], h), t), b, wf.ones(3))[0]
    np.testing.assert_allclose(looped.numpy(), LA.solve(LA.matrix_power(x[0].numpy(), 3), b.numpy()), rtol=1e-9)


def test_a_jitted_call_that_refuses_has_changed_nothing() -> None:
    state = wf.ones(5000)

    @wf.jit
    def step(m: Any) -> Any:
        state[...] = state * 2
        found = wf.linalg.inv(m)
        state[0] = found[0, 0]
        return found.sum()

    step(wf.eye(2)), step(wf.eye(2))
    before = state.numpy().copy()
    for _ in range(2):
        with pytest.raises(LA.LinAlgError, match="Singular matrix"):
            float(step(wf.zeros((2, 2))))
        np.testing.assert_array_equal(state.numpy(), before)
    step(wf.eye(2))
    assert state[1] == before[1] * 2


A = wf.ones((2, 3))
ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "inv": (lambda: wf.linalg.inv(A), LA.LinAlgError, r"inv: a has shape \(2, 3\); the last two dimensions must be equal"),
    "det": (lambda: wf.linalg.det(A[0]), LA.LinAlgError, r"det: a has shape \(3,\); a matrix or a stack of matrices is needed"),
    "singular": (lambda: wf.linalg.inv(wf.zeros((2, 2))), LA.LinAlgError, "Singular matrix"),
    "not positive": (lambda: wf.linalg.cholesky(-wf.eye(2)), LA.LinAlgError, "not positive definite"),
    "rows": (lambda: wf.linalg.solve(wf.eye(3), wf.ones((2, 2))), ShapeError, r"solve: a \(3, 3\) and b \(2, 2\) do not fit"),
    "elements": (lambda: wf.linalg.solve(wf.eye(3), wf.ones(2)), ShapeError, r"solve: a \(3, 3\) and b \(2,\) do not fit"),
    "lead": (lambda: wf.linalg.solve(wf.ones((2, 3, 3)), wf.ones((4, 3, 1))), ShapeError, "leading extents must broadcast"),
    "narrow": (lambda: wf.linalg.eigh(wf.eye(2, dtype="bfloat16")), DTypeError, "eigh: a is bfloat16, but must be .*float32"),
    "lstsq": (lambda: wf.linalg.lstsq(A, wf.ones(3)), LA.LinAlgError, r"lstsq: a \(2, 3\) and b \(3,\) do not fit"),
    "lstsq of stacks": (lambda: wf.linalg.lstsq(wf.ones((2, 3, 3)), wf.ones(3)), LA.LinAlgError, "lstsq: a .* must be a matrix"),
    "mode": (lambda: wf.linalg.qr(A, "economic"), ValueError, "qr: mode='economic' must be 'reduced', 'complete', 'r' or 'raw'"),
    "triangle": (lambda: wf.linalg.eigh(wf.eye(2), "X"), ValueError, "eigh: UPLO='X' must be 'L' or 'U'"),
    "power": (lambda: wf.linalg.matrix_power(A, 2), LA.LinAlgError, r"matrix_power: a has shape \(2, 3\)"),
    "half a power": (lambda: wf.linalg.matrix_power(wf.eye(2), 0.5), TypeError, "integer"),
    "multi_dot": (lambda: wf.linalg.multi_dot([A]), ValueError, "multi_dot: at least two arrays"),
    "multi_dot of stacks": (lambda: wf.linalg.multi_dot([A, wf.ones((3, 2, 2)), A]), LA.LinAlgError, "multi_dot: matrices are"),
    "tensorsolve": (lambda: wf.linalg.tensorsolve(A, wf.ones(2)), LA.LinAlgError, r"tensorsolve: a \(2, 3\) and b \(2,\)"),
    "tensorinv": (lambda: wf.linalg.tensorinv(A, 1), LA.LinAlgError, r"tensorinv: a \(2, 3\) with ind=1 is not square"),
    "ind": (lambda: wf.linalg.tensorinv(A, 0), ValueError, "tensorinv: ind=0 must be positive"),
    "cross": (lambda: wf.linalg.cross(wf.ones(2), wf.ones(3)), ShapeError, r"cross: x1 has shape \(2,\); 3 elements along"),
    "axis": (lambda: wf.linalg.cross(A, A, axis=2), AxisError, "cross: axis=2, but the array has axes -2 to 1"),
    "norm": (lambda: wf.linalg.matrix_norm(A, ord=3), ValueError, "norm: ord=3 is not a norm of matrices"),
    "empty": (lambda: wf.linalg.cond(wf.zeros((0, 0))), ShapeError, "cond: x has shape"),
    "rcond": (lambda: wf.linalg.pinv(wf.ones((4, 2, 3)), wf.ones(3)), ShapeError, r"pinv: rcond has shape \(3,\)"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    call, error, pattern = ERRORS[name]
    with pytest.raises(error, match=pattern):
        wf.eval(call())
