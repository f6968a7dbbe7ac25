"""SciPy with ``SCIPY_ARRAY_API=1`` on weft, in a process of its own: SciPy has to be told before it is imported.

Prints one JSON object: each case, and what is wrong with it ("" where nothing is).
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable
from typing import Any

os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np  # noqa: E402
import scipy.cluster
import scipy.constants  # noqa: E402
import scipy.differentiate  # noqa: E402
import scipy.fft  # noqa: E402
import scipy.integrate  # noqa: E402
import scipy.interpolate  # noqa: E402
import scipy.linalg  # noqa: E402
import scipy.ndimage  # noqa: E402
import scipy.optimize.elementwise  # noqa: E402
import scipy.signal  # noqa: E402
import scipy.sparse  # noqa: E402
import scipy.spatial  # noqa: E402
import scipy.special  # noqa: E402
import scipy.stats  # noqa: E402  # noqa: E402

import weft as wf  # noqa: E402

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 20)).astype("float32")
P = np.abs(X) + np.float32(0.1)
A = RNG.normal(size=(5, 5))
GRID = np.arange(5.0)
S, T, F, L = scipy.special, scipy.stats, scipy.fft, scipy.linalg
G, N = scipy.signal, scipy.ndimage
Case = Callable[[Callable[[Any], Any]], Any]


def of(room: Any, name: str, x: np.ndarray) -> Case:
    """A function of one array."""
    f = getattr(room, name)
    return lambda m: f(m(x))


# arrays of weft stay arrays of weft; ``m`` makes the array
WEFT: dict[str, Case] = {
    **{f"special.{name}": of(S, name, X) for name in (
        "logsumexp", "softmax", "log_softmax", "expit", "erf", "i0", "ndtr",
    )},
    **{f"special.{name}": of(S, name, P) for name in ("gamma", "gammaln")},
    "special.xlogy": lambda m: S.xlogy(m(P), m(P)),
    "special.betainc": lambda m: S.betainc(m(P), m(P), m(P / 10)),
    **{f"stats.{name}": of(T, name, P) for name in (
        "zscore", "skew", "kurtosis", "gmean", "hmean", "entropy", "variation", "sem", "iqr", "circmean", "kstat", "gstd",
    )},
    "stats.describe": lambda m: T.describe(m(X)).variance,
    "stats.ttest_1samp": lambda m: T.ttest_1samp(m(X), 0.0).statistic,
    "stats.ttest_ind": lambda m: T.ttest_ind(m(X), m(Y)).pvalue,
    "stats.moment": lambda m: T.moment(m(X), 3),
    "stats.trim_mean": lambda m: T.trim_mean(m(X), 0.1),
    "stats.normaltest": lambda m: T.normaltest(m(X)).statistic,
    "stats.bartlett": lambda m: T.bartlett(m(X), m(Y)).statistic,
    "stats.mannwhitneyu": lambda m: T.mannwhitneyu(m(X), m(Y)).statistic,
    **{f"fft.{name}": of(F, name, X) for name in ("fft", "rfft", "dct", "fftshift", "irfft")},
    "fft.fft2": lambda m: F.fft2(m(A)),
    "signal.convolve": lambda m: G.convolve(m(X), m(Y)),
    "signal.fftconvolve": lambda m: G.fftconvolve(m(X), m(Y)),
    "signal.detrend": lambda m: G.detrend(m(X)),
    "signal.hilbert": lambda m: G.hilbert(m(X)),
    "signal.lfilter": lambda m: G.lfilter(m(np.array([1.0, 0.5])), m(np.array([1.0])), m(A[0])),
    "signal.medfilt": lambda m: G.medfilt(m(X), 3),
    "signal.resample": lambda m: G.resample(m(X), 10),
    "cluster.vq": lambda m: scipy.cluster.vq.vq(m(A), m(A[:2]))[0],
    "cluster.whiten": lambda m: scipy.cluster.vq.whiten(m(A)),
    "cluster.linkage": lambda m: scipy.cluster.hierarchy.linkage(m(A)),
    "integrate.trapezoid": lambda m: scipy.integrate.trapezoid(m(X)),
    "integrate.cubature": lambda m: scipy.integrate.cubature(
        lambda t: t[:, 0] ** 2, m(np.array([0.0])), m(np.array([1.0]))).estimate,
    "integrate.tanhsinh": lambda m: scipy.integrate.tanhsinh(lambda t: t**2, m(np.array(0.0)), m(np.array(1.0))).integral,
    "interpolate.CubicSpline": lambda m: scipy.interpolate.CubicSpline(m(GRID), m(A[0]))(m(np.array([1.5]))),
    "interpolate.RegularGridInterpolator": lambda m: scipy.interpolate.RegularGridInterpolator(
        (m(GRID), m(GRID)), m(A))(m(np.array([[1.5, 2.5]]))),
    "ndimage.gaussian_filter": lambda m: N.gaussian_filter(m(A), 1),
    "ndimage.zoom": lambda m: N.zoom(m(A), 2),
    "ndimage.label": lambda m: N.label(m(A > 0))[0],
    "optimize.rosen": lambda m: scipy.optimize.rosen(m(X)),
    "optimize.find_root": lambda m: scipy.optimize.elementwise.find_root(
        lambda t: t**2 - 2, (m(np.array(0.0)), m(np.array(2.0)))).x,
    "spatial.Rotation": lambda m: scipy.spatial.transform.Rotation.from_rotvec(m(A[0, :3])).as_matrix(),
    "differentiate.derivative": lambda m: scipy.differentiate.derivative(lambda t: t**3, m(np.array(2.0))).df,
    "constants": lambda m: scipy.constants.convert_temperature(m(X), "C", "K"),
}
# SciPy has no array libraries here: it takes what np.asarray makes of an Array
NUMPY: dict[str, Case] = {
    "linalg.solve": lambda m: L.solve(m(A), m(A[0])),
    "linalg.svd": lambda m: L.svd(m(A))[1],
    "linalg.expm": lambda m: L.expm(m(A)),
    "linalg.eigh": lambda m: L.eigh(m(A + A.T))[0],
    "integrate.simpson": lambda m: scipy.integrate.simpson(m(A[0])),
    "spatial.cdist": lambda m: scipy.spatial.distance.cdist(m(A), m(A)),
    "sparse": lambda m: scipy.sparse.csr_array(m(A)).toarray(),
    "sparse product": lambda m: scipy.sparse.csr_array(A) @ m(A),
    "optimize.minimize": lambda m: scipy.optimize.minimize(scipy.optimize.rosen, m(np.full(3, 0.9))).x,
}


def wrong(case: Case, stays: bool) -> str:
    """What is wrong with a case."""
    want = np.asarray(case(np.asarray))
    try:
        found = case(wf.asarray)
        assert isinstance(found, wf.Array) is stays, f"a {type(found).__name__} came back"
        assert found.dtype == want.dtype and found.shape == want.shape, (found.dtype, found.shape, want.dtype, want.shape)
        np.testing.assert_allclose(np.asarray(found), want, rtol=1e-4, atol=1e-5)
    except Exception as error:  # reported: the caller says what must not be there
        return f"{type(error).__name__}: {error}"[:500]
    return ""


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps({name: wrong(case, True) for name, case in WEFT.items()} | {n: wrong(c, False) for n, c in NUMPY.items()}))
