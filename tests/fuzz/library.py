"""Lines of functions that are made of others: statistics, NaN, differences, polynomials, windows, and what ufuncs can do."""

from __future__ import annotations

from tests.fuzz.grow import Growth, Table

NANS = ("nansum", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nanprod", "nanmedian")
RUNNING = ("cumprod", "nancumsum", "nancumprod", "diff", "gradient", "trapezoid", "unwrap")
SPREAD = ("median", "quantile", "percentile", "nanquantile", "nanpercentile")
MATRICES = ("cov", "corrcoef")
LINES = ("convolve", "correlate", "polyval", "polyadd", "polysub", "polyder", "polyint", "vander", "interp", "ediff1d")
ROWS = ("column_stack", "dstack", "kron", "cross", "rot90", "rollaxis", "sinc")
NAMES = frozenset((*NANS, *RUNNING, *SPREAD, *MATRICES, *LINES, *ROWS))  # which the tour of public functions asks for
FOLDS = ("add", "multiply", "maximum", "minimum", "fmax", "logaddexp")
METHODS = ("linear", "lower", "higher", "nearest", "midpoint", "hazen", "inverted_cdf")


def nan(g: Growth) -> str:
    x = g.float(1)
    hole = g.mask(g.shape(x))
    keep = ", keepdims=True" if g.r.random() < 0.3 else ""
    return f"wf.{g.r.choice(NANS)}(wf.where({hole}, nan, {x}), axis={g.axes(x)}{keep})"


def running(g: Growth) -> str:
    x = g.float(1)
    name, axis = g.r.choice(RUNNING), g.axis(x)
    if name == "gradient":
        return f"wf.gradient({x}, axis={axis}, edge_order={g.r.choice((1, 2))})"
    return f"wf.{name}({x}, {g.r.choice((1, 2))}, axis={axis})" if name == "diff" else f"wf.{name}({x}, axis={axis})"


def spread(g: Growth) -> str:
    x = g.float(1)
    name = g.r.choice(SPREAD)
    if name == "median":
        return f"wf.median({x}, axis={g.axes(x)})"
    part = g.r.choice(("0.3", "[0.0, 0.5]", "1.0")) if "quantile" in name else g.r.choice(("30", "[0, 75]"))
    return f"wf.{name}({x}, {part}, axis={g.axes(x)}, method='{g.r.choice(METHODS)}')"


def matrix(g: Growth) -> str:
    return f"wf.{g.r.choice(MATRICES)}({g.float(2, 2)}, rowvar={g.r.random() < 0.5})"


def line(g: Growth) -> str:
    name, x = g.r.choice(LINES), g.float(1, 1)
    if name in ("convolve", "correlate"):
        mode = g.r.choice(("full", "same", "valid"))
        return f"wf.{name}({x}, wf.array([0.5, -1.0, 0.25], dtype={x}.dtype), '{mode}')"
    if name in ("polyadd", "polysub"):
        return f"wf.{name}({x}, wf.array([0.5, -1.0], dtype={x}.dtype))"
    if name == "polyval":
        return f"wf.polyval([0.5, -1.0, 0.25], {x})"
    if name == "interp":
        return f"wf.interp({x}, [-1.0, 0.0, 2.0], [3.0, 1.0, 2.0])"
    return f"wf.{name}({x}, {g.r.choice((1, 2, 3))})" if name in ("polyder", "polyint", "vander") else f"wf.ediff1d({x})"


def rows(g: Growth) -> str:
    name, x = g.r.choice(ROWS), g.float(2, 3)
    if name == "rot90":
        return f"wf.rot90({x}, {g.r.choice((1, 2, 3))})"
    if name == "rollaxis":
        return f"wf.rollaxis({x}, {g.axis(x)})"
    if name == "kron":
        return f"wf.kron({x}, wf.array([[1.0, -0.5]], dtype={x}.dtype))"
    if name == "cross":
        y = g.input((*g.shape(x)[:-1], 3), g.values[x].dtype.name)
        return f"wf.cross({y}, wf.array([1.0, 2.0, -0.5], dtype={y}.dtype))"
    return f"wf.sinc({x})" if name == "sinc" else f"wf.{name}(({x}, {g.like(x)}))"


def ufunc(g: Growth) -> str:
    """Folds, running folds and tables of ufuncs; calls with ``where=`` and ``out=``."""
    x, name = g.float(1), g.r.choice(FOLDS)
    kind = g.r.choice(("reduce", "accumulate", "outer", "reduceat", "where", "out"))
    if kind == "reduce":
        where = f", where={g.mask(g.shape(x))}, initial=0.5" if g.r.random() < 0.5 else ""
        return f"wf.{name}.reduce({x}, axis={g.axis(x)}{where}, keepdims={g.r.random() < 0.3})"
    if kind == "accumulate":
        return f"wf.{name}.accumulate({x}, axis={g.axis(x)})"
    if kind == "outer":
        return f"wf.{name}.outer({x}, wf.array([0.5, -1.0, 2.0], dtype={x}.dtype))"
    if kind == "reduceat":
        axis = g.axis(x)
        extent = g.shape(x)[axis]
        places = [0, g.r.choice((0, 1))] if extent > 1 else [0] * extent  # others are refused
        return f"wf.{name}.reduceat({x}, {places or 'np.zeros(0, int)'}, axis={axis})"
    out = f", out=wf.full({g.shape(x)}, 7, dtype={x}.dtype)" if kind == "out" else ""
    return f"wf.{g.r.choice(('sqrt', 'exp', 'negative', 'square'))}({x}, where={g.mask(g.shape(x))}{out})"


def window(g: Growth) -> str:
    x = g.float(1, 2)
    return f"wf.lib.stride_tricks.sliding_window_view({x}, 2, axis={g.axis(x)})"


LIBRARY: Table = [
    (2.0, nan), (2.0, running), (1.5, spread), (0.7, matrix), (2.0, line), (1.5, rows), (2.0, ufunc), (0.7, window),
]
