"""Functions that write into arrays, functions of files, and derivatives of those that are made of others."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft as wf

X = np.array([[3.0, -1.0, 0.5], [0.0, 2.0, 7.0], [1.0, 1.0, -4.0]], "float32")

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "copyto": lambda xp, x: xp.copyto(x, [1, 2, 3]),
    "copyto where": lambda xp, x: xp.copyto(x, 9, where=x > 1),
    "copyto unsafe": lambda xp, x: xp.copyto(x, np.ones((3, 3)), casting="unsafe"),
    "putmask": lambda xp, x: xp.putmask(x, x > 0, [1, 2, 3, 4]),
    "place": lambda xp, x: xp.place(x, x > 0, [7, 8]),
    "put": lambda xp, x: xp.put(x, [0, -1, 4], [5, 6]),
    "put clip": lambda xp, x: xp.put(x, [20, -3], 5, mode="clip"),
    "put wrap": lambda xp, x: xp.put(x, [20, -3], 5, mode="wrap"),
    "fill_diagonal": lambda xp, x: xp.fill_diagonal(x, 5),
    "fill_diagonal with more": lambda xp, x: xp.fill_diagonal(x, [1, 2]),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_as_numpy(name: str) -> None:
    for dtype in ("float32", "int64", "float64"):
        ours, theirs = wf.array(X.astype(dtype)), X.astype(dtype)
        held = ours[...]
        assert WRITES[name](wf, ours) is None and WRITES[name](np, theirs) is None
        np.testing.assert_array_equal(ours.numpy(), theirs)
        np.testing.assert_array_equal(held.numpy(), theirs)


@pytest.mark.parametrize("shape", [(3, 5), (7, 3), (2, 2, 2), (0, 3), (1, 1)])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal(shape: tuple[int, ...], wrap: bool) -> None:
    ours, theirs = wf.zeros(shape), np.zeros(shape)
    wf.fill_diagonal(ours, [1, 2], wrap=wrap)
    np.fill_diagonal(theirs, [1, 2], wrap=wrap)
    np.testing.assert_array_equal(ours.numpy(), theirs)


def test_insert_as_numpy() -> None:
    c = np.arange(24.0).reshape(2, 3, 4)
    cases = [(1, 7, 0), (1, np.arange(4.0), 1), (1, np.arange(6.0).reshape(2, 3), 2), ([1, 1], 5, 2), (-1, [1, 2, 3, 4], 1),
             (slice(0, 2), 9, 1), (np.array([True, False, True]), 9, 1), ([1], [[[8.0]]], 0), (3, [4, 5], None)]
    for obj, values, axis in cases:
        want = np.insert(c, obj, values, axis)
        np.testing.assert_array_equal(wf.insert(wf.array(c), obj, values, axis).numpy(), want)


# ---- files

def test_files_are_numpys(tmp_path: Path) -> None:
    x, y = np.arange(6, dtype="int16").reshape(2, 3), np.array(1.5, "float32")
    wf.save(tmp_path / "x", wf.array(x))
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), x)
    found = wf.load(tmp_path / "x.npy")
    found[0, 0] = 9
    assert found.dtype == x.dtype and found[0, 0] == 9
    for write in (wf.savez, wf.savez_compressed):
        write(tmp_path / "both.npz", wf.array(y), x=wf.array(x))
        with wf.load(tmp_path / "both.npz") as archive:
            assert sorted(archive) == ["arr_0", "x"] == sorted(archive.files) and len(archive) == 2
            np.testing.assert_array_equal(archive["x"].numpy(), x)
            assert archive["arr_0"].shape == () and float(archive["arr_0"]) == 1.5
    wf.savetxt(tmp_path / "x.txt", wf.array(x), fmt="%d")
    np.testing.assert_array_equal(wf.loadtxt(tmp_path / "x.txt", dtype=int).numpy(), x)
    assert wf.loadtxt(tmp_path / "x.txt").dtype == wf.float32
    first, second, third = wf.loadtxt(tmp_path / "x.txt", unpack=True)
    assert second.tolist() == [1.0, 4.0] and isinstance(third, wf.Array) and first.shape == (2,)
    x.tofile(tmp_path / "x.raw")
    assert wf.fromfile(tmp_path / "x.raw", dtype="int16").tolist() == [0, 1, 2, 3, 4, 5]
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        with pytest.raises(wf.errors.DTypeError, match=rf"^save: NumPy's files have no {np.dtype(dtype)}.*wf\.io\.save"):
            wf.save(io.BytesIO(), wf.array(np.zeros(2, dtype)))


def test_a_pickle_is_never_read(tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        wf.load(tmp_path / "p.npy")
    np.savez(tmp_path / "p.npz", a=np.ones(2), b=np.array([None], object))
    for read in (
        lambda: wf.load(tmp_path / "p.npy", allow_pickle=True), lambda: wf.load(tmp_path / "p.npz", allow_pickle=True)["b"],
    ):
        with pytest.raises(ValueError, match="^load: the file holds Python objects.*numpy.load"):
            read()
    assert wf.load(tmp_path / "p.npz", allow_pickle=True)["a"].tolist() == [1, 1]


# ---- derivatives

SMOOTH: dict[str, Callable[[Any], Any]] = {
    "median": lambda x: wf.median(x, axis=1), "quantile": lambda x: wf.quantile(x, 0.3, axis=0), "diff": wf.diff,
    "cumprod": lambda x: wf.cumprod(x, axis=1), "gradient": lambda x: wf.gradient(x, axis=1), "trapezoid": wf.trapezoid,
    "interp": lambda x: wf.interp(x, [-5.0, 0.1, 8.0], [1.0, 4.0, 2.0]), "convolve": lambda x: wf.convolve(x[0], x[1]),
    "kron": lambda x: wf.kron(x, x), "cross": lambda x: wf.cross(x, x[::-1] * 2), "cov": wf.cov, "sinc": wf.sinc, "i0": wf.i0,
    "polyval": lambda x: wf.polyval(x[0], x), "cbrt": wf.cbrt, "fmod": lambda x: wf.fmod(x, 3.0), "nanmean": wf.nanmean,
    "nanvar": lambda x: wf.nanvar(wf.where(x > 6, wf.nan, x)), "logaddexp2": lambda x: wf.logaddexp2(x, x * 2 + 1),
    "fmax": lambda x: wf.fmax(x, 0.75), "insert": lambda x: wf.insert(x, 1, x[0], 0), "r_": lambda x: wf.r_[x[0], x[1]],
    "select": lambda x: wf.select([x > 1.5], [x * x], x), "modf": lambda x: wf.modf(x)[0], "vander": lambda x: wf.vander(x[0]),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str) -> None:
    x = np.random.default_rng(3).permutation(np.linspace(-3.9, 4.1, 9)).reshape(3, 3) + 0.33
    weights = np.random.default_rng(4).normal(size=np.shape(SMOOTH[name](wf.array(x))))

    def f(v: Any) -> Any:
        return (SMOOTH[name](v) * weights).sum()

    found, step = wf.grad(f)(wf.array(x)).numpy(), 1e-6
    for place in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        slope = (float(f(wf.array(up))) - float(f(wf.array(down)))) / (2 * step)
        np.testing.assert_allclose(found[place], slope, rtol=1e-5, atol=1e-6, err_msg=str(place))


def test_scatter_in_weights_has_a_derivative() -> None:
    x = wf.array([0, 2, 2])
    assert wf.grad(lambda w: (wf.bincount(x, w) * wf.array([1.0, 5.0, 3.0])).sum())(wf.ones(3)).tolist() == [1.0, 3.0, 3.0]


def test_a_number_is_itself_inside_a_derivative() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append((wf.asarray(0.3).numpy().tolist(), float(wf.asarray(0.25)), wf.asarray(2.5).item()))
        return (x * 2).sum()

    assert wf.grad(f)(wf.ones(2)).tolist() == [2.0, 2.0]
    assert seen == [(np.float32(0.3).item(), 0.25, 2.5)]


def test_a_number_that_was_looked_at_and_written_is_what_was_written() -> None:
    for _ in range(4):  # by Python, and natively
        x = wf.array(5)
        assert x.tolist() == 5
        x[()] = 300
        found = [x, x + 1, x + x, wf.add(x, 1), wf.jit(lambda v: v * 2)(x)]
        assert [v.tolist() for v in found] == [300, 301, 600, 301, 600]
        x[()] = 7
        assert (x + 1).tolist() == 8
