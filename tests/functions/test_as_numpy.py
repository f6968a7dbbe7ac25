"""The same text run on NumPy and on weft: values, shapes and dtypes, for every function that is not element-wise.

A case is a function of the module and an array; where NumPy refuses, weft does. ``LAZY`` are those that run under jit too, for
nothing that they do depends on values.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.functions.cases import RTOL

Case = Callable[[Any, Any], Any]
NAN = float("nan")


def holed(xp: Any, x: Any) -> Any:
    """With some NaN, where floats are."""
    return xp.where(x > 1, NAN, x) if x.dtype.kind == "f" else x


LAZY: dict[str, Case] = {
    # quantiles, and what leaves NaN out
    "median": lambda xp, x: (xp.median(x), xp.median(x, axis=0), xp.median(x, axis=1, keepdims=True)),
    "quantile": lambda xp, x: (xp.quantile(x, 0.3), xp.quantile(x, [0.0, 0.5, 1.0], axis=0)),
    "quantile, methods": lambda xp, x: [xp.quantile(x, [0.25, 0.6], axis=1, method=m) for m in (
        "lower", "higher", "nearest", "midpoint", "hazen", "weibull", "median_unbiased", "normal_unbiased",
        "interpolated_inverted_cdf")],
    "percentile": lambda xp, x: xp.percentile(x, 40, axis=-1, keepdims=True),
    "nanmedian": lambda xp, x: (xp.nanmedian(holed(xp, x)), xp.nanmedian(holed(xp, x), axis=0)),
    "nanquantile": lambda xp, x: xp.nanquantile(holed(xp, x), [0.2, 0.9], axis=1),
    "nanpercentile": lambda xp, x: xp.nanpercentile(holed(xp, x), 30, axis=0, keepdims=True),
    "nansum": lambda xp, x: (xp.nansum(holed(xp, x)), xp.nansum(holed(xp, x), axis=0, keepdims=True)),
    "nanprod": lambda xp, x: xp.nanprod(holed(xp, x), axis=1),
    "nancumsum": lambda xp, x: xp.nancumsum(holed(xp, x), axis=1),
    "nancumprod": lambda xp, x: xp.nancumprod(holed(xp, x)),
    "nanmax": lambda xp, x: (xp.nanmax(holed(xp, x), axis=0), xp.nanmin(holed(xp, x), axis=1)),
    "nanmean": lambda xp, x: (xp.nanmean(holed(xp, x), axis=0), xp.nanmean(holed(xp, x), keepdims=True)),
    "nanvar": lambda xp, x: (xp.nanvar(holed(xp, x), axis=0), xp.nanvar(holed(xp, x), axis=1, ddof=1)),
    "nanstd": lambda xp, x: xp.nanstd(holed(xp, x), axis=1),
    "cumprod": lambda xp, x: (xp.cumprod(x), xp.cumprod(x, axis=1), xp.cumulative_prod(x, axis=0, include_initial=True)),
    # differences
    "diff": lambda xp, x: (xp.diff(x), xp.diff(x, axis=0), xp.diff(x, 2)),
    "diff, beside": lambda xp, x: xp.diff(x, prepend=x[:, :1], append=x[:, :2]),
    "ediff1d": lambda xp, x: xp.ediff1d(x, to_begin=x[0, 0], to_end=x[:1, :2]) if x.dtype != bool else 0,
    "gradient": lambda xp, x: (xp.gradient(x), xp.gradient(x, axis=1), xp.gradient(x, 0.5, axis=0)) if x.dtype != bool else 0,
    "gradient, coordinates": lambda xp, x: xp.gradient(x, [0.0, 1.0, 3.0, 4.0], axis=1, edge_order=2) if x.dtype != bool else 0,
    "trapezoid": lambda xp, x: (xp.trapezoid(x), xp.trapezoid(x, dx=0.5, axis=0), xp.trapezoid(x, [0.0, 1.0, 3.0, 4.0])),
    "interp": lambda xp, x: (xp.interp(x, [-1.0, 0.0, 2.0], [3.0, 1.0, 5.0]), xp.interp(x, [0.0, 1.0], [1.0, 2.0], -1, 9)),
    "interp, period": lambda xp, x: xp.interp(x, [0.5, 0.0, 2.0], [3.0, 1.0, 5.0], period=3),
    "unwrap": lambda xp, x: (xp.unwrap(x * 3, axis=0), xp.unwrap(x * 2, period=3, discont=2)) if x.dtype.kind == "f" else 0,
    # signals and polynomials
    "convolve": lambda xp, x: [xp.convolve(x[0], x[1, :3], m) for m in ("full", "same", "valid")],
    "correlate": lambda xp, x: [xp.correlate(x[0, :2], x[1], m) for m in ("full", "same", "valid")],
    "sinc": lambda xp, x: xp.sinc(x) if x.dtype.kind == "f" else 0,
    "i0": lambda xp, x: xp.i0(x * 4) if x.dtype.kind == "f" else 0,
    "windows": lambda xp, x: [f(n) for f in (xp.bartlett, xp.hanning, xp.hamming, xp.blackman) for n in (0, 1, 2, 5)],
    "kaiser": lambda xp, x: xp.kaiser(5, 3.0),
    "polyval": lambda xp, x: xp.polyval(x[0], x) if x.dtype != bool else 0,
    "polyadd": lambda xp, x: (xp.polyadd(x[0], x[1, :2]), xp.polymul(x[0], x[0, :2])),
    "polysub": lambda xp, x: xp.polysub(x[0, :2], x[1]) if x.dtype != bool else 0,
    "polyder": lambda xp, x: (xp.polyder(x[0]), xp.polyder(x[0], 2)),
    "polyint": lambda xp, x: (xp.polyint(x[0]), xp.polyint(x[0], 2, [1.0, 2.0])),
    "poly": lambda xp, x: xp.poly(x[0]) if x.dtype.kind == "f" else 0,
    "vander": lambda xp, x: (xp.vander(x[0]), xp.vander(x[0], 3, increasing=True)) if x.dtype != bool else 0,
    # moments and products
    "cov": lambda xp, x: (xp.cov(x), xp.cov(x, rowvar=False), xp.cov(x, x[::-1], bias=True), xp.cov(x[0])),
    "cov, weights": lambda xp, x: xp.cov(x, fweights=[1, 2, 1, 3], aweights=[0.5, 1.0, 2.0, 1.0]),
    "corrcoef": lambda xp, x: xp.corrcoef(x, x[:1] * 2) if x.dtype.kind == "f" else 0,
    "kron": lambda xp, x: (xp.kron(x, x[0]), xp.kron(x[:, :2], x)),
    "cross": lambda xp, x: (xp.cross(x[:, :3], x[:, 1:]), xp.cross(x, x[::-1], axis=0)) if x.dtype != bool else 0,
    "matvec": lambda xp, x: (xp.matvec(x, x[0]), xp.vecmat(x[:, 0], x)),
    # places
    "grids": lambda xp, x: (xp.indices(x.shape), xp.indices((2, 3), sparse=True), xp.diag_indices(3, 3)),
    "triangles": lambda xp, x: (xp.tril_indices(3, 1, 4), xp.triu_indices_from(x, -1), xp.tril_indices_from(x)),
    "mask_indices": lambda xp, x: xp.mask_indices(3, xp.triu, 1),
    "fromfunction": lambda xp, x: xp.fromfunction(lambda i, j: i * 2 + j, (2, 3)),
    "unravel_index": lambda xp, x: [xp.unravel_index(xp.asarray([3, 0, 7]), (2, 4), order=o) for o in "CF"],
    "ravel_multi_index": lambda xp, x: xp.ravel_multi_index((xp.asarray([1, 0]), xp.asarray([5, 2])), (2, 4), mode="clip"),
    "spans": lambda xp, x: (xp.r_[x[0], x[1]], xp.c_[x[0], x[1]], xp.r_["0,2", x[0], x[1]], xp.r_[1:4, 0:1:3j]),
    "mgrid": lambda xp, x: (xp.mgrid[0:2, 0:3], xp.ogrid[0:1:3j, 0:2], xp.mgrid[2:5]),
    "spaces": lambda xp, x: (xp.logspace(0, 2, 5), xp.geomspace(1, 100, 4), xp.geomspace(-8, -1, 4), xp.logspace(0, 3, 4,
        base=2)),
    "linspace": lambda xp, x: xp.linspace(x[0], x[1], 4, axis=-1) if x.dtype.kind == "f" else xp.linspace(0, 1, 3, retstep=True),
    "meshgrid": lambda xp, x: xp.meshgrid(x[0], x[1, :2], sparse=True),
    # rows, and elements exchanged
    "stacks": lambda xp, x: (xp.column_stack([x[0], x[1]]), xp.dstack([x, x]), xp.column_stack([x, x[:, 0]])),
    "block": lambda xp, x: (xp.block([[x, x], [x[:1], x[1:2]]]), xp.block([x[0], x[1]])),
    "splits": lambda xp, x: (xp.hsplit(x, 2), xp.vsplit(x, [1]), xp.dsplit(x[:, :, None], 1)),
    "rot90": lambda xp, x: [xp.rot90(x, k) for k in range(-1, 4)],
    "rollaxis": lambda xp, x: (xp.rollaxis(x[None], 2), xp.rollaxis(x[None], 0, 3), xp.rollaxis(x[None], 1, -1)),
    "diagflat": lambda xp, x: xp.diagflat(x, 1),
    "append": lambda xp, x: (xp.append(x, x[:1], 0), xp.append(x, x)),
    "delete": lambda xp, x: (xp.delete(x, 1, 0), xp.delete(x, [0, -1], 1), xp.delete(x, slice(0, 2)), xp.delete(x, [False], 0)
                             if len(x) == 1 else 0),
    "insert": lambda xp, x: (xp.insert(x, 1, 1, 0), xp.insert(x, [0, 2], x[:, :2], 1), xp.insert(x, 1, x[:, 0], 1), xp.insert(
        x, 2, [1, 0])),
    "resize": lambda xp, x: (xp.resize(x, (2, 7)), xp.resize(x, 3)),
    "select": lambda xp, x: xp.select([x > 1, x < 0], [x, x + x], 1),
    "piecewise": lambda xp, x: xp.piecewise(x, [x < 0, x > 1], [1, lambda v: v + v, 0]),
    "choose": lambda xp, x: xp.choose(xp.asarray([1, 0, 1, 0]), [x[0], x[1]]),
    "compress": lambda xp, x: xp.compress([True, False, True], x, axis=1),
    "apply_along_axis": lambda xp, x: (xp.apply_along_axis(lambda v: v[::2], 0, x), xp.apply_along_axis(lambda v: v.max(), 1, x)),
    "apply_over_axes": lambda xp, x: xp.apply_over_axes(xp.sum, x, [0, 1]),
    "packbits": lambda xp, x: (xp.packbits(x > 0), xp.packbits(x > 0, axis=0, bitorder="little")),
    "unpackbits": lambda xp, x: xp.unpackbits(xp.packbits(x > 0, axis=1), axis=1, count=5),
    "lexsort": lambda xp, x: (xp.lexsort((x[0], x[1])), xp.lexsort(x, axis=0)),
    "pairs": lambda xp, x: (xp.divmod(x, 2), xp.modf(x), xp.frexp(x)) if x.dtype.kind == "f" else 0,
    "ldexp": lambda xp, x: xp.ldexp(x, [-3, 0, 2, 5]) if x.dtype.kind == "f" else 0,
    "fix": lambda xp, x: (xp.fix(x), xp.around(x, 1)) if x.dtype != bool else 0,
    "infinite": lambda xp, x: (xp.isneginf(x), xp.isposinf(x)),
    "bincount, weights": lambda xp, x: xp.bincount([0, 2, 2, 1], x[0]),
    "digitize": lambda xp, x: (xp.digitize(x, [0, 1, 2]), xp.digitize(x, [2, 1, 0], right=True)),
    "histogram": lambda xp, x: (xp.histogram(x, 4, range=(-1, 2))[0], xp.histogram(x, [0, 1, 3], density=True)[0]),
    "forms": lambda xp, x: (xp.ascontiguousarray(x.T), xp.asfortranarray(x), xp.asanyarray(x), xp.ndim(x), xp.shape(x),
        xp.size(x, 1)),
}
LOOKING: dict[str, Case] = {
    "nanargmax": lambda xp, x: (xp.nanargmax(x, axis=0), xp.nanargmin(x), xp.nanargmax(holed(xp, x))),
    "bincount": lambda xp, x: (xp.bincount([1, 3, 1]), xp.bincount([], minlength=2), xp.bincount(xp.asarray([0, 1]), [0.5,
        2.0], 4)),
    "histogram, edges": lambda xp, x: (xp.histogram(x), xp.histogram(x, 3, weights=x * 1), xp.histogram(x, "auto")),
    "histogram_bin_edges": lambda xp, x: xp.histogram_bin_edges(x, 4),
    "histogram2d": lambda xp, x: (xp.histogram2d(x[0], x[1], 3), xp.histogramdd(x[:, :2], 2)),
    "union1d": lambda xp, x: (xp.union1d(x, x[0]), xp.setxor1d(x[0], x[1]), xp.setdiff1d(x, x[0])),
    "intersect1d": lambda xp, x: xp.intersect1d(x[0], x, return_indices=True),
    "trim_zeros": lambda xp, x: (xp.trim_zeros(x[0] * 0), xp.trim_zeros(xp.asarray([0, 1, 0, 2, 0]), "b"), xp.trim_zeros(x)),
    "polydiv": lambda xp, x: xp.polydiv(x[0], x[1, :2] + 1) if x.dtype.kind == "f" else 0,
    "polyfit": lambda xp, x: xp.polyfit([0.0, 1.0, 2.0, 4.0], x[0], 2),
    "ix_": lambda xp, x: (xp.ix_([0, 1], [True, False, True]), x[xp.ix_([0], [1, 3])]),
    "gcd": lambda xp, x: (xp.gcd(x, 4), xp.lcm(x, 6)) if x.dtype.kind in "iu" else 0,
    "vectorize": lambda xp, x: (xp.vectorize(lambda a, b: a + b)(x, x), xp.vectorize(lambda a: (a,
        1))(x)) if x.dtype != bool else 0,
    "walks": lambda xp, x: ([(i, v) for i, v in xp.ndenumerate(x)], list(xp.ndindex(2, 1, 2))),
    "equiv": lambda xp, x: (xp.array_equiv(x, x[None]), xp.array_equiv(x, x[:1] + 1), xp.isscalar(1.5), xp.iterable(x)),
    "texts": lambda xp, x: (xp.array2string(x, precision=2), xp.array_str(x), xp.array_repr(x), xp.binary_repr(5),
        xp.base_repr(9, 3)),
    "frombuffer": lambda xp, x: (xp.frombuffer(b"abcdefgh", dtype="uint8", offset=2), xp.fromstring("1 2", dtype=int, sep=" ")),
    "fromiter": lambda xp, x: (xp.fromiter(range(4), int), xp.loadtxt(["1 2", "3 4"], dtype=int), xp.genfromtxt(["1,2"],
        delimiter=",")),
    "kinds": lambda xp, x: [xp.issubdtype(x.dtype, k) for k in (xp.integer, xp.floating, xp.number, xp.inexact, xp.generic,
        x.dtype)],
    "promote_types": lambda xp, x: (xp.promote_types("int8", "uint8"), xp.min_scalar_type(-200), xp.min_scalar_type(x)),
}
DATA = {
    "float32": [[1.5, -0.5, 0.0, 2.0], [0.25, 1.0, -1.0, 3.0], [0.0, 0.5, 2.5, -2.0]],
    "float64": [[1.5, -0.5, 0.0, 2.0], [0.25, 1.0, -1.0, 3.0], [0.0, 0.5, 2.5, -2.0]],
    "int64": [[1, -2, 0, 2], [3, 1, -1, 4], [0, 2, 1, -2]],
    "bool": [[True, False, False, True], [False, True, False, False], [False, True, True, False]],
}


NARROW = {  # what they make floats of are Python's numbers
    "windows", "kaiser", "fromfunction", "spans", "mgrid", "spaces", "histogram", "bincount", "vectorize", "fromiter", "linspace",
    "histogram, edges",
}


def outcome(f: Case, xp: Any, x: Any) -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return f(xp, x)
        except Exception as error:
            return error


def same(got: Any, want: Any, wide: bool, context: Any) -> None:
    """Of one shape, of NumPy's dtype (float32 for a float64 that is made of no float64), and equal."""
    if isinstance(want, Exception) or isinstance(got, Exception):
        assert isinstance(want, Exception) and isinstance(got, Exception), (context, repr(got), repr(want))
        return
    if isinstance(want, tuple | list):
        assert isinstance(got, tuple | list) and len(got) == len(want), context
        for g, w in zip(got, want, strict=True):
            same(g, w, wide, context)
        return
    if isinstance(got, float):
        assert abs(got - want) < 1e-6
        return
    if not isinstance(want, np.ndarray | np.generic):
        assert got == want and not isinstance(got, wf.Array), (context, got, want)
        return
    assert isinstance(got, wf.Array), (context, got)
    found = got.numpy()
    narrow = np.dtype("float32") if want.dtype == np.float64 else want.dtype
    allowed = {narrow} if not wide else {narrow, want.dtype} if context[0] in NARROW else {want.dtype}
    assert found.shape == want.shape and found.dtype in allowed, (context, found.shape, want.shape, found.dtype, want.dtype)
    rtol = 1e-9 if found.dtype == np.float64 and wide else 20 * RTOL["float32"]
    np.testing.assert_allclose(found.astype(float), want.astype(float), rtol=rtol, atol=rtol, err_msg=str(context))


@pytest.mark.parametrize("name", [*LAZY, *LOOKING])
def test_values(name: str) -> None:
    case = {**LAZY, **LOOKING}[name]
    for dtype, rows in DATA.items():
        x = np.array(rows, dtype)
        want = outcome(case, np, x)
        same(outcome(case, wf, wf.array(x)), want, dtype == "float64", (name, dtype))


@pytest.mark.drawn(30)
@pytest.mark.parametrize("name", LAZY)
def test_under_jit(name: str) -> None:
    """No value is looked at on the way, so a traced function may call it; the numbers are the same."""
    x = np.array(DATA["float32"], "float32")
    kept: list[Any] = []

    def arrays_of(found: Any) -> list[Any]:
        if isinstance(found, tuple | list):
            return [a for f in found for a in arrays_of(f)]
        return [found] if isinstance(found, wf.Array) else []

    def traced(given: Any) -> Any:
        found = LAZY[name](wf, given)
        kept.append(found)
        return arrays_of(found)

    got = wf.jit(traced)(wf.array(x))
    plain = arrays_of(LAZY[name](wf, wf.array(x)))
    assert len(kept) == 1 and len(got) == len(plain)
    for g, p in zip(got, plain, strict=True):
        assert (g.shape, g.dtype) == (p.shape, p.dtype)
        np.testing.assert_allclose(g.numpy().astype(float), p.numpy().astype(float), rtol=2e-5, atol=2e-5)
