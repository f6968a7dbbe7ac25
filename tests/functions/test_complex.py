"""Complex numbers: NumPy's answers, derivatives in JAX's convention, and what is refused."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests import oracle
from weft.dtypes.formats import COMPLEX, FORMATS, FROM_NUMPY, INEXACT, complex_format, promote
from weft.errors import DTypeError
from weft.graph.primitives.complexes import HAS_TWIN
from weft.graph.primitives.table import TABLE

COMPLEXES = ("complex64", "complex128")
SHAPES = [(), (1,), (5,), (0, 3), (3, 1, 4)]


def numbers(shape: tuple[int, ...], dtype: str, low: float = 0.3, seed: int = 0) -> np.ndarray:
    """Numbers of sizes from ``low`` to 2, in all directions."""
    r = oracle.rng() if not seed else np.random.default_rng(seed)
    return np.asarray(r.uniform(low, 2, shape) * np.exp(1j * r.uniform(-3, 3, shape)), dtype)


def close(got: Any, want: Any, ulps: float = 64) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    eps = np.finfo(want.dtype).eps if want.dtype.kind in "fc" else 0
    np.testing.assert_allclose(got, want, rtol=ulps * eps, atol=ulps * eps)


UNARY = {
    **{n: n for n in """negative positive square sqrt reciprocal exp expm1 log log1p log2 log10 sin cos tan sinh cosh tanh abs
        conj sign isnan isinf isfinite logical_not real imag angle isreal iscomplex exp2 rint""".split()},
    **{n: f"arc{n[1:]}" for n in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
}
BINARY = """add subtract multiply divide pow equal not_equal less greater_equal maximum minimum logical_and logical_or
    logical_xor""".split()


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", COMPLEXES)
def test_functions_of_one(name: str, dtype: str) -> None:
    for shape in SHAPES:
        x = numbers(shape, dtype)
        with np.errstate(all="ignore"):
            close(getattr(wf, name)(wf.array(x)), getattr(np, UNARY[name])(x))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", COMPLEXES)
def test_functions_of_two(name: str, dtype: str) -> None:
    for left, right in (((), ()), ((5,), ()), ((3, 1), (1, 4)), ((0, 3), (3,))):
        x, y = numbers(left, dtype), numbers(right, dtype)
        close(getattr(wf, name)(wf.array(x), wf.array(y)), getattr(np, name)(x, y))
        close(getattr(wf, name)(wf.array(x), wf.array(x)), getattr(np, name)(x, x))


@pytest.mark.parametrize("symbol", ["add", "sub", "mul", "truediv", "pow", "eq", "ne", "matmul"])
@pytest.mark.parametrize("other", [2, 1.5, 2 - 1j, True])
def test_operators_with_numbers(symbol: str, other: Any) -> None:
    f = getattr(operator, symbol)
    x = numbers((3, 4), "complex64")
    a = wf.array(x)
    if symbol == "matmul":
        close(f(a, wf.array(x.T)), f(x, x.T))
        return
    close(f(a, other), f(x, other))
    close(f(other, a), f(other, x))
    real = wf.array(x.real)
    if isinstance(other, complex) and symbol != "pow":
        close(f(real, other), np.asarray(f(x.real, np.complex64(other))))
    if symbol in ("add", "mul"):
        b = a.copy()
        b += other if symbol == "add" else 0
        close(b, x + (other if symbol == "add" else 0))


def test_promotion() -> None:
    for form in FORMATS.values():
        for own in COMPLEX if not form.alone else ():
            found = promote(own, form)
            assert found is promote(form, own) and found in COMPLEX
            assert found.part is promote(own.part, form if form in INEXACT else own.part)
    assert wf.result_type(wf.float64, wf.complex64) == wf.complex128
    assert wf.result_type(wf.int64, 1j) == wf.result_type(wf.float16, 1j) == wf.array(1j).dtype == wf.complex64
    assert wf.result_type(wf.float64, 1j) == wf.complex128 and wf.array([1j, 2.0]).dtype == wf.complex64
    assert wf.array(np.array([1j])).dtype == wf.complex128 and wf.zeros(2, dtype=complex).dtype == wf.complex64
    assert wf.isdtype(wf.complex64, "complex floating") and not wf.isdtype(wf.complex64, "real floating")
    assert wf.can_cast(wf.float32, wf.complex64) and not wf.can_cast(wf.complex64, wf.float32)
    assert complex_format(FROM_NUMPY[wf.int32.dtype]).name == "complex64"


@pytest.mark.parametrize("dtype", COMPLEXES)
def test_reductions_and_products(dtype: str) -> None:
    for shape in [(3, 4), (1, 1), (2, 0)]:
        x = numbers(shape, dtype)
        a = wf.array(x)
        for axis in (None, 0, -1):
            for name in ("sum", "prod", "cumsum"):
                close(getattr(wf, name)(a, axis=axis), getattr(np, name)(x, axis=axis))
            if x.size:
                for name in ("mean", "var", "std", "max", "argmin"):
                    close(getattr(wf, name)(a, axis=axis), getattr(np, name)(x, axis=axis))
            assert bool(wf.all(a)) == x.all() and bool(wf.any(a)) == x.any()
    x, y, v = numbers((2, 3, 4), dtype), numbers((4, 5), dtype), numbers((4,), dtype)
    close(wf.array(x) @ wf.array(y), x @ y)
    close(wf.einsum("bij,jk->bk", x, y), np.einsum("bij,jk->bk", x, y))
    close(wf.tensordot(x, y, 1), np.tensordot(x, y, 1))
    for name in ("vdot", "inner", "outer", "dot", "vecdot"):
        close(getattr(wf, name)(v, v[::-1]), getattr(np, name)(v, v[::-1]))
    for name, a, b in (  # which side is conjugated, with dimensions in front
        ("vecmat", v, x[0].T), ("vecmat", y[:, :3].T, x.swapaxes(1, 2)[:1]), ("matvec", x, v), ("matvec", x, x[:, 0]),
        ("vecdot", x, v), ("vdot", x, x[::-1]), ("inner", x, v), ("kron", x[0], v), ("tensordot", x, x),
        ("cross", x[..., 1:], v[1:]),
    ):
        want = getattr(np, name)(a, b, *([3] if name == "tensordot" else []))
        for f in (getattr(wf, name), getattr(np, name)):
            close(f(wf.array(a), wf.array(b), *([3] if name == "tensordot" else [])), want)
    close(wf.linalg.norm(x), np.linalg.norm(x))
    close(wf.average(v, weights=wf.arange(4.0)), np.average(v, weights=np.arange(4, dtype=v.real.dtype)).astype(dtype))


MOVES: dict[str, Callable[[Any, Any], Any]] = {
    "reshape": lambda xp, a: a.reshape(2, 6),
    "transpose": lambda xp, a: a.T.reshape(-1),
    "slices": lambda xp, a: a[::-2, 1:],
    "element": lambda xp, a: a[1, 2],
    "mask": lambda xp, a: a[xp.abs(a) > 1],
    "indices": lambda xp, a: a[xp.asarray([2, 0]), xp.asarray([1, 1])],
    "where": lambda xp, a: xp.where(xp.abs(a) > 1, a, 0),
    "concatenate": lambda xp, a: xp.concatenate([a, a * 1j]),
    "stack": lambda xp, a: xp.stack([a, a], axis=1),
    "pad": lambda xp, a: xp.pad(a, 1),
    "roll": lambda xp, a: xp.roll(a, 1, axis=0),
    "flip": lambda xp, a: xp.flip(a),
    "tile": lambda xp, a: xp.tile(a, 2),
    "repeat": lambda xp, a: xp.repeat(a, 2, axis=0),
    "take": lambda xp, a: xp.take(a, xp.asarray([0, 2]), axis=1),
    "triu": lambda xp, a: xp.triu(a),
    "diag": lambda xp, a: xp.diag(a[0]),
    "trace": lambda xp, a: xp.trace(a),
    "sort": lambda xp, a: xp.sort(a, axis=1),
    "argsort": lambda xp, a: xp.argsort(a, axis=0),
    "broadcast": lambda xp, a: xp.broadcast_to(a[0], (3, 4)),
    "unique": lambda xp, a: xp.unique(xp.concatenate([a, a])),
    "isclose": lambda xp, a: xp.isclose(a, a + 1e-9),
    "ones_like": lambda xp, a: xp.ones_like(a) + xp.zeros_like(a),
    "parts": lambda xp, a: a.real + a.imag * 2 + a.conj().imag,
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("dtype", COMPLEXES)
def test_moving_data(name: str, dtype: str) -> None:
    x = numbers((3, 4), dtype)
    close(MOVES[name](wf, wf.array(x)), MOVES[name](np, x))
    if name not in ("mask", "unique"):
        close(wf.jit(lambda a: MOVES[name](wf, a))(wf.array(x)), MOVES[name](np, x))


def test_writes() -> None:
    x = numbers((3, 4), "complex64")
    a = wf.array(x)
    for index, value in ((0, 1j), ((slice(None), 1), 2), ((1, 2), 3 - 1j), ((slice(None, None, 2), slice(1, 3)), x[0, 0])):
        a[index], x[index] = value, value
    a[np.array([0, 2]), 0] = x[np.array([0, 2]), 0] = [1j, 2]
    a[x.real > 0.5] = x[x.real > 0.5] = -1
    close(a, x)
    a.real, x.real = 3, 3
    a.imag = x.imag = np.arange(12.0).reshape(3, 4)
    view, theirs = a[1:], x[1:]
    view *= 1j
    theirs *= 1j
    close(a, x)
    with pytest.raises(TypeError, match="no imaginary part to be set"):
        wf.ones(3).imag = 1


def test_looks() -> None:
    a = wf.array([1 + 2j, 3.0])
    assert repr(a) == "array([1.+2.j, 3.+0.j], dtype=complex64)" and repr(a[0]) == "complex64((1+2j))" and str(a[1]) == "(3+0j)"
    assert a.tolist() == [1 + 2j, 3] and complex(a[0]) == 1 + 2j and a[0].item() == 1 + 2j and a[0] == 1 + 2j and bool(a[0])
    assert f"{a[0]:.1f}" == "1.0+2.0j" and hash(a[0]) == hash(1 + 2j)
    with pytest.raises(TypeError, match=r"cannot become a float: take its \.real"):
        float(a[0])
    with pytest.raises(TypeError, match="cannot become an int"):
        int(a[0])
    import pickle

    close(pickle.loads(pickle.dumps(a)), a)
    close(np.sin(a), np.sin(a.numpy()))
    close(np.from_dlpack(a), a.numpy())


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "floor": (wf.floor, "floor: x is complex64, but floor takes no complex numbers"),
    "remainder": (lambda a: a % 2, "remainder: .*takes no complex numbers: take wf.real"),
    "floor_divide": (lambda a: a // 2, "floor_divide: .*takes no complex"),
    "arctan2": (lambda a: wf.arctan2(a, a), "atan2: .*takes no complex"),
    "hypot": (lambda a: wf.hypot(a, a), "hypot: .*takes no complex"),
    "copysign": (lambda a: wf.copysign(a, a), "copysign: .*takes no complex"),
    "signbit": (wf.signbit, "signbit: .*takes no complex"),
    "fabs": (wf.fabs, "fabs: .*takes no complex"),
    "erf": (wf.erf, "erf: .*takes no complex"),
    "shift": (lambda a: a << 1, "bitwise_left_shift: .*takes no complex"),
    "astype": (lambda a: a.astype("float32"), "astype: x is complex64, and float32 would lose its imaginary part"),
    "astype int": (lambda a: a.astype("int64"), "astype: x is complex64, and int64 would lose"),
    "in place": (lambda a: wf.ones(3).__iadd__(a), "complex64, it cannot be written into float32"),
    "written": (lambda a: wf.ones(3).__setitem__(slice(None), a), "float32 would lose its imaginary part"),
    "number": (lambda a: wf.ones(3).__setitem__(0, 1j), "1j cannot be held by float32"),
    "convolution": (lambda a: wf.nn.conv1d(a.reshape(1, 1, 3), wf.ones((1, 1, 1))), "complex"),
    "arange": (lambda a: wf.arange(1j), "arange: start, stop and step must be numbers"),
    "rfft": (wf.fft.rfft, "rfft: a is complex64, but must be real"),
    "gradient of a complex result": (wf.grad(lambda z: z.sum()), "the result is complex64, but must be real"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    call, pattern = REFUSED[name]
    with pytest.raises((DTypeError, TypeError), match=pattern):
        wf.eval(call(wf.array([1 + 2j, 3.0, 1j])))


def test_primitives_without_a_twin_are_refused() -> None:
    """Whatever else takes a float refuses complex numbers when it is bound; nothing else would tell it apart."""
    own = {"real", "imag", "conj", "complex"} | {n for n, op in TABLE.items() if op.raises} | {"fft", "irfft"}
    z = oracle.input_leaf((), FROM_NUMPY[wf.complex64.dtype])
    for name, op in TABLE.items():
        if op.kind == "elementwise" and name not in HAS_TWIN | own:
            for count in (1, 2):
                with pytest.raises(TypeError, match="takes no complex numbers|argument"):
                    oracle.bind(op, *[z] * count)


# ---- derivatives: of z = x + iy, df/dx - i df/dy


def numeric(f: Callable[[np.ndarray], float], z: np.ndarray, step: float = 1e-6) -> np.ndarray:
    out = np.empty(z.shape, np.complex128)
    for at in np.ndindex(*z.shape):
        parts = []
        for unit in (1, 1j):
            up, down = z.copy(), z.copy()
            up[at] += step * unit
            down[at] -= step * unit
            parts.append((f(up) - f(down)) / (2 * step))
        out[at] = parts[0] - 1j * parts[1]
    return out


def scalar(y: Any) -> Any:
    """A real number that depends on every part of every element."""
    parts = [wf.real(y), wf.imag(y)] if wf.iscomplexobj(y) else [y]
    weights = [wf.cos(wf.arange(p.size, dtype="float64") + k + 1).reshape(p.shape) for k, p in enumerate(parts)]
    return sum((p * w).sum() for p, w in zip(parts, weights, strict=True))


W = np.random.default_rng(5).normal(size=(3, 3)) + 1j * np.random.default_rng(6).normal(size=(3, 3))
H = W @ W.conj().T + 3 * np.eye(3)
SMOOTH: dict[str, Callable[[Any], Any]] = {
    **{n: getattr(wf, n) for n in """negative square sqrt reciprocal exp expm1 log log1p log2 log10 sin cos tan sinh cosh tanh
        asin acos atan asinh acosh atanh abs sign conj real imag angle exp2""".split()},
    "add": lambda z: z + z * 2j, "multiply": lambda z: z * wf.conj(z) * z, "divide": lambda z: (1 + z) / (z * z + 3j),
    "power": lambda z: z**3, "real power": lambda z: z**2.5, "complex power": lambda z: (2 + 1j) ** z,
    "z to the z": lambda z: z**z,
    "sum": lambda z: z.sum(axis=0), "mean": lambda z: z.mean(axis=1), "prod": lambda z: z.prod(axis=0),
    "cumsum": lambda z: wf.cumsum(z, axis=1), "var": lambda z: z.var(axis=0), "matmul": lambda z: z @ W @ z,
    "vecmat": lambda z: wf.vecmat(z[0], z @ W), "matvec": lambda z: wf.matvec(z @ W, z[0]), "vdot": lambda z: wf.vdot(z, z @ W),
    "vecdot": lambda z: wf.vecdot(z, W @ z, axis=0), "kron": lambda z: wf.kron(z[:2], z[0]),
    "convolve": lambda z: wf.convolve(z[0], z[1], "same"), "correlate": lambda z: wf.correlate(z[0], z[1], "full"),
    "cov": lambda z: wf.cov(z), "nansum": lambda z: wf.nansum(z, axis=0), "nanvar": lambda z: wf.nanvar(z, axis=1),
    "poly": lambda z: wf.poly(z[0]), "fmax": lambda z: wf.fmax(z, z[::-1]),
    "where": lambda z: wf.where(wf.real(z) > 0, z * z, 1j), "concat": lambda z: wf.concat([z, z * 1j])[1:, ::2],
    "gather": lambda z: z[np.array([0, 2, 0])] * 1j, "cast": lambda z: wf.abs(z).astype("complex128") * z,
    "norm": wf.linalg.norm, "joined": lambda z: wf.real(z) * 1j + wf.imag(z) ** 2,
    "fft": wf.fft.fft, "ifftn": lambda z: wf.fft.ifftn(z, norm="ortho"), "irfft": lambda z: wf.fft.irfft(z, 5),
    "irfft2": lambda z: wf.fft.irfft2(z), "rfft": lambda z: wf.fft.rfft(wf.abs(z), 5),
    "hfft": lambda z: wf.fft.hfft(z, norm="forward"),
    "ihfft": lambda z: wf.fft.ihfft(wf.real(z) ** 2), "padded fft": lambda z: wf.fft.fft2(z, (2, 5)),
    "solve": lambda z: wf.linalg.solve(z, W), "inv": wf.linalg.inv, "det": wf.linalg.det,
    "slogdet": lambda z: wf.linalg.slogdet(z).logabsdet, "sign of det": lambda z: wf.linalg.slogdet(z).sign,
    "pinv": lambda z: wf.linalg.pinv(z[:, :2]), "expm": wf.linalg.expm, "matrix_power": lambda z: wf.linalg.matrix_power(z, -2),
    "lstsq": lambda z: wf.linalg.lstsq(z, W).x, "tall lstsq": lambda z: wf.linalg.lstsq(z[:, :2], z[:, 2:] * W).x,
    "svdvals": wf.linalg.svdvals, "nuclear norm": lambda z: wf.linalg.norm(z, "nuc"),
    "projector of svd": lambda z: _outer(wf.linalg.svd(z[:, :2], full_matrices=False)),
    "qr": lambda z: wf.linalg.qr(z).R * 1.0, "wide qr": lambda z: _product(wf.linalg.qr(z[:2])),
    "eigvals": lambda z: _power_sums(wf.linalg.eigvals(z)), "eigvalsh": lambda z: wf.linalg.eigvalsh(_hermitian(z)),
    "eigh": lambda z: _projector(wf.linalg.eigh(_hermitian(z)).eigenvectors[:, 0]),
    "cholesky": lambda z: wf.linalg.cholesky(_hermitian(z) + 20 * np.eye(3)),
    "eig": lambda z: _projector(wf.linalg.eig(z).eigenvectors[:, 0]),
}


def _hermitian(z: Any) -> Any:
    return (z + wf.conj(z).T) / 2 + H


def _projector(v: Any) -> Any:
    return v.reshape(3, 1) * wf.conj(v)


def _power_sums(w: Any) -> Any:
    """What does not depend on their order."""
    return wf.stack([w.sum(), (w * w).sum(), (w**3).sum()])


def _outer(found: Any) -> Any:
    """The best approximation of rank one: which phase its vectors have does not matter."""
    return found.U[:, :1] @ found.Vh[:1, :] * 2.0


def _product(found: Any) -> Any:
    return found.Q @ found.R * found.R[0, 1]


@pytest.mark.parametrize("name", SMOOTH)
def test_derivative(name: str) -> None:
    z = numbers((3, 3), "complex128", 0.4, seed=11)

    def real(x: Any) -> Any:
        return scalar(SMOOTH[name](x))

    want = numeric(lambda x: float(real(wf.array(x))), z)
    found = wf.grad(real)(wf.array(z))
    assert found.dtype == wf.complex128
    np.testing.assert_allclose(found.numpy(), want, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(wf.jit(wf.grad(real))(wf.array(z)).numpy(), found.numpy(), rtol=1e-10, atol=1e-10)


def test_real_arguments_have_real_derivatives() -> None:
    x = wf.array(np.array([0.5, -1.0, 2.0]))
    found = wf.grad(lambda x: wf.abs(wf.exp(x * (1 + 2j)) + 1j).sum())(x)
    step = 1e-6
    f = lambda v: np.abs(np.exp(v * (1 + 2j)) + 1j)  # noqa: E731
    assert found.dtype == wf.float64
    np.testing.assert_allclose(found.numpy(), (f(x.numpy() + step) - f(x.numpy() - step)) / (2 * step), rtol=1e-6)


def test_second_derivatives_and_cotangents() -> None:
    z = wf.array(numbers((3,), "complex128", seed=3))
    first = wf.grad(lambda z: (wf.abs(z) ** 4).sum())
    want = numeric(lambda v: float(scalar(first(wf.array(v)))), z.numpy())
    np.testing.assert_allclose(wf.grad(lambda z: scalar(first(z)))(z).numpy(), want, rtol=1e-5, atol=1e-6)
    y, pull = wf.vjp(lambda z: z * z, z)  # holomorphic: the cotangent times 2 z, nothing conjugated
    np.testing.assert_allclose(pull(wf.ones(3, dtype="complex128") * 1j)[0].numpy(), 2j * z.numpy(), rtol=1e-12)


def test_at_zero_derivatives_are_zero() -> None:
    zero = wf.zeros(2, dtype="complex64")
    for f in (wf.abs, lambda z: wf.real(wf.sign(z)), lambda z: wf.abs(z * z), lambda z: wf.real(z**2.0)):
        assert wf.grad(lambda z, f=f: f(z).sum())(zero).tolist() == [0, 0]


def test_transforms() -> None:
    x = numbers((4, 3), "complex64")
    a = wf.array(x)
    close(wf.vmap(lambda v: v * v.sum() + 1j)(a), x * x.sum(axis=1, keepdims=True) + np.complex64(1j))
    joined = wf.vmap(lambda v, w: wf.concat([v, w[:1]]), in_axes=(0, None))(a, a[0])
    close(joined, np.concatenate([x, np.repeat(x[:1, :1], 4, 0)], 1))
    f = wf.jit(lambda z, t, n: z * t + n)
    for t, n in ((1.5, 2), (2.5, 3), (1j, 4)):
        close(f(a, t, n), x * np.complex64(t) + n)
    state = wf.zeros(3, dtype="complex64")

    @wf.jit
    def step(v: Any) -> Any:
        state[...] = state + v * 1j
        return wf.abs(state).sum()

    for row in x:
        step(wf.array(row))
    close(state, sum(row * np.complex64(1j) for row in x))
    assert "in NumPy (complex_" in str(wf.explain(lambda z: wf.exp(z) * 2, a))


def test_large_arrays_and_pending_ones() -> None:
    x = numbers((300, 400), "complex64", seed=2)
    a = wf.array(x)
    close((wf.exp(a) * 2 + a.T.reshape(300, 400)).sum(axis=1), (np.exp(x) * 2 + x.T.reshape(300, 400)).sum(axis=1), 4096)
    close(wf.real(a * wf.conj(a)) + 1, (x * x.conj()).real + 1)


def test_files_hold_no_complex_numbers(tmp_path: Any) -> None:
    class Net(wf.nn.Module):
        def __init__(self) -> None:
            self.w = wf.array([1j])

    with pytest.raises((wf.errors.DataError, DTypeError), match="complex"):
        wf.io.save(tmp_path / "net.safetensors", Net())


def test_what_is_not_finite_is_refused_in_complex_arrays_too() -> None:
    for value in (complex("nan"), complex(1, float("inf"))):
        with pytest.raises(ValueError, match="a holds NaN or infinities"):
            wf.asarray_chkfinite([1j, value])
    assert wf.asarray_chkfinite([1j, 2]).tolist() == [1j, 2]
