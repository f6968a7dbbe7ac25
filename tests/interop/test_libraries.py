"""matplotlib, pandas, PIL, networkx, opt_einsum: they take Arrays as they take NumPy's, and what they give can be an Array."""

from __future__ import annotations

import array
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

X = np.linspace(0, 1, 11).astype("float32")
M = np.arange(6.0).astype("float32").reshape(2, 3)
PLOTS: dict[str, Callable[[Any, Callable], Any]] = {
    "plot": lambda ax, m: ax.plot(m(X), m(X * X)), "plot columns": lambda ax, m: ax.plot(m(M)),
    "scatter": lambda ax, m: ax.scatter(m(X), m(X), c=m(X), s=m(X)), "bar": lambda ax, m: ax.bar(m(X), m(X)),
    "barh": lambda ax, m: ax.barh(m(X), m(X)), "imshow": lambda ax, m: ax.imshow(m(M)),
    "image": lambda ax, m: ax.imshow(m(np.full((2, 3, 3), 9, "uint8"))), "hist": lambda ax, m: ax.hist(m(X), bins=m(X[::2])),
    "hist2d": lambda ax, m: ax.hist2d(m(X), m(X)), "errorbar": lambda ax, m: ax.errorbar(m(X), m(X), yerr=m(X)),
    "fill_between": lambda ax, m: ax.fill_between(m(X), m(X), 0 * m(X)), "quiver": lambda ax, m: ax.quiver(m(M), m(M)),
    "contourf": lambda ax, m: ax.contourf(m(X[:3]), m(X[:2]), m(M)), "pcolormesh": lambda ax, m: ax.pcolormesh(m(M)),
    "boxplot": lambda ax, m: ax.boxplot([m(X), m(X)]), "pie": lambda ax, m: ax.pie(m(X)),
    "stem": lambda ax, m: ax.stem(m(X), m(X)),
    "limits": lambda ax, m: (ax.set_xlim(m(X)[0], m(X)[3]), ax.set_xticks(m(X)), ax.axhline(m(X)[2]), ax.text(m(X)[0], 0.5, "a")),
}


@pytest.mark.parametrize("name", PLOTS)
def test_matplotlib_draws_the_same(name: str) -> None:
    figures = pytest.importorskip("matplotlib.figure")

    def drawn(make: Callable) -> bytes:
        figure = figures.Figure(figsize=(1, 1), dpi=50)
        PLOTS[name](figure.subplots(), make)
        out = io.BytesIO()
        figure.savefig(out, format="raw")
        return out.getvalue()

    assert drawn(wf.asarray) == drawn(np.asarray)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint16", "float32", "float64", "complex64"])
def test_pandas_there_and_back(dtype: str) -> None:
    pd = pytest.importorskip("pandas")
    given = np.array([[1, 0, 2], [3, 1, 0]]).astype(dtype)
    a = wf.asarray(given)
    pd.testing.assert_frame_equal(pd.DataFrame(a), pd.DataFrame(given))
    pd.testing.assert_frame_equal(pd.DataFrame({"x": a[0], "y": a[1]}), pd.DataFrame({"x": given[0], "y": given[1]}))
    pd.testing.assert_series_equal(pd.Series(a[1]), pd.Series(given[1]))
    for back in (wf.asarray(pd.DataFrame(given)), wf.asarray(pd.DataFrame(a))):
        assert back.dtype == dtype and back.shape == (2, 3)
        np.testing.assert_array_equal(back, given)
    np.testing.assert_array_equal(wf.asarray(pd.Series(given[0])), given[0])


def test_pandas_computes_with_arrays() -> None:
    pd = pytest.importorskip("pandas")
    s, a = pd.Series([1.0, 2.0, 3.0]), wf.array([10.0, 20.0, 30.0])
    assert (s + a).tolist() == (a + s).tolist() == [11.0, 22.0, 33.0]
    assert s.isin(wf.array([2.0])).tolist() == [False, True, False] and s.iloc[wf.array([2, 0])].tolist() == [3.0, 1.0]
    assert pd.DataFrame({"x": s}).assign(z=a)["z"].tolist() == [10.0, 20.0, 30.0]
    assert wf.arange(3.0)[pd.Series([2, 0])].tolist() == [2.0, 0.0]


def test_frames_are_copies() -> None:
    pd = pytest.importorskip("pandas")
    a = wf.arange(3.0)
    s = pd.Series(a)
    try:
        s[0] = 7.0
    except ValueError as error:
        assert "read-only" in str(error)
    assert a.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("shape, dtype", [((4, 5), "uint8"), ((4, 5, 3), "uint8"), ((4, 5, 4), "uint8"), ((4, 5), "float32"),
                                          ((4, 5), "int32"), ((4, 5), "bool")])
def test_pil_there_and_back(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> None:
    images = pytest.importorskip("PIL.Image")
    given = rng.integers(0, 2 if dtype == "bool" else 255, shape).astype(dtype)
    whole = wf.asarray(given)
    image = images.fromarray(whole)
    assert image.mode == images.fromarray(given).mode
    for a in (whole, whole[::-1], whole[1:3]):  # views, too
        back = wf.asarray(images.fromarray(a))
        assert isinstance(back, wf.Array) and back.dtype == given.dtype
        np.testing.assert_array_equal(back, a)


def test_networkx() -> None:
    nx = pytest.importorskip("networkx")
    given = np.array([[0, 2.0, 0], [2.0, 0, 1.0], [0, 1.0, 0]])
    graph = nx.from_numpy_array(wf.asarray(given))
    assert sorted(graph.edges(data="weight")) == [(0, 1, 2.0), (1, 2, 1.0)]
    np.testing.assert_array_equal(wf.asarray(nx.to_numpy_array(graph)), given)
    start = {k: np.array([k, k % 2], "float64") for k in graph}
    want = nx.spring_layout(graph, pos=start, iterations=3)
    found = nx.spring_layout(graph, pos={k: wf.asarray(v) for k, v in start.items()}, iterations=3)
    for k in graph:
        np.testing.assert_allclose(found[k], want[k], rtol=1e-4)


def test_opt_einsum(rng: np.random.Generator) -> None:
    import opt_einsum

    text = "ij,jk,kl->il"
    given = [rng.normal(size=s).astype("float32") for s in ((2, 3), (3, 4), (4, 5))]
    want = np.einsum(text, *given)
    arrays = [wf.asarray(g) for g in given]
    whole = opt_einsum.contract(text, *arrays)
    prepared = opt_einsum.contract_expression(text, *(g.shape for g in given))
    for found in (whole, prepared(*arrays), wf.jit(lambda *xs: opt_einsum.contract(text, *xs))(*arrays)):
        assert isinstance(found, wf.Array)
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


class Interface:
    """An array by ``__array_interface__`` alone, as images and others have it."""

    def __init__(self, x: np.ndarray, name: str = "__array_interface__") -> None:
        self.kept = x
        setattr(self, name, getattr(x, name))


def test_whatever_shows_its_memory_is_an_array() -> None:
    x = np.arange(6, dtype="int16").reshape(2, 3)
    for given in (Interface(x), Interface(x, "__array_struct__"), memoryview(x)):
        found = wf.asarray(given)
        assert found.dtype == wf.int16 and found.tolist() == x.tolist()
        x[0, 0] += 1  # a copy
        assert found.tolist() != x.tolist()
    assert wf.asarray(array.array("d", [1, 2])).dtype == wf.float64
    assert wf.asarray(bytearray(b"ab")).tolist() == [97, 98]
    assert (wf.ones(2) + array.array("f", [1, 2])).tolist() == [2, 3]
    for text in (b"ab", "ab"):
        with pytest.raises(wf.errors.DTypeError, match="cannot make an array"):
            wf.asarray(text)
