"""Bad input to the functions that NumPy has beside the array API: the error names function and argument, shapes and dtypes."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from weft.errors import AxisError, DTypeError, ShapeError, TraceError

A, V, M = wf.ones((3, 4)), wf.arange(4), wf.array([[0, 1], [2, 3]])

CASES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "quantile": (lambda: wf.quantile(A, 1.5), ValueError, r"^quantile: q=1\.5 must be from 0 to 1"),
    "quantile method": (lambda: wf.quantile(A, 0.5, method="middle"), ValueError,
        r"^quantile: method='middle' must be one of 'linear'"),
    "quantile of bools": (lambda: wf.quantile(A > 0, 0.5), DTypeError, "^quantile: between bools"),
    "percentile": (lambda: wf.percentile(A, [5, 101]), ValueError, r"^percentile: q=\[5, 101\] must be from 0 to 100"),
    "median": (lambda: wf.median(A, axis=2), AxisError, "^median: axis=2"),
    "nanargmax": (lambda: wf.nanargmax(wf.array([wf.nan])), ValueError, "^nanargmax: all elements of a slice are NaN"),
    "cumprod": (lambda: wf.cumprod(A, 3), AxisError, "^cumprod: axis=3"),
    "diff": (lambda: wf.diff(A, -1), ValueError, "^diff: n=-1 must not be negative"),
    "diff of a number": (lambda: wf.diff(1.0), ShapeError, "^diff: a has no dimensions"),
    "gradient": (lambda: wf.gradient(wf.ones(1)), ShapeError, r"^gradient: axis 0 of shape \(1,\) has fewer than 2"),
    "gradient coordinates": (lambda: wf.gradient(V, [1.0, 2.0]), ShapeError, r"coordinates of axis 0 have shape \(2,\); \(4,\)"),
    "gradient distances": (lambda: wf.gradient(A, 1.0, 2.0, 3.0), TypeError, "^gradient: 3 distances are given for 2 axes"),
    "gradient order": (lambda: wf.gradient(A, edge_order=3), ValueError, "^gradient: edge_order=3"),
    "interp": (lambda: wf.interp(1.0, V, A), ShapeError, r"^interp: xp has shape \(4,\) and fp \(3, 4\)"),
    "interp of nothing": (lambda: wf.interp(1.0, [], []), ValueError, "^interp: xp and fp are empty"),
    "convolve": (lambda: wf.convolve(A, V), ShapeError, r"^convolve: a has shape \(3, 4\); a vector"),
    "convolve of nothing": (lambda: wf.convolve(V, []), ShapeError, r"^convolve: v has shape \(0,\)"),
    "correlate": (lambda: wf.correlate(V, V, "all"), ValueError, "^correlate: mode='all' must be 'full'"),
    "polyval": (lambda: wf.polyval(A, 1), ShapeError, r"^polyval: p has shape \(3, 4\)"),
    "polyder": (lambda: wf.polyder(V, -1), ValueError, "^polyder: m=-1"),
    "polyint": (lambda: wf.polyint(V, 3, [1, 2]), ValueError, "^polyint: 2 constants are given for m=3"),
    "vander": (lambda: wf.vander(A), ShapeError, r"^vander: x has shape \(3, 4\)"),
    "cov": (lambda: wf.cov(wf.ones((2, 2, 2))), ShapeError, r"^cov: m has shape \(2, 2, 2\)"),
    "cov weights": (lambda: wf.cov(A, aweights=[1.0]), ShapeError, r"^cov: aweights has shape \(1,\); \(4,\)"),
    "cross": (lambda: wf.cross(A, A), ShapeError, r"^cross: shapes \(3, 4\) and \(3, 4\); vectors of 2 or 3"),
    "matvec": (lambda: wf.matvec(A, wf.ones(3)), ShapeError, r"^matvec: shapes \(3, 4\) and \(3,\) do not fit"),
    "vecmat": (lambda: wf.vecmat(V, A), ShapeError, r"^vecmat: shapes \(4,\) and \(3, 4\) do not fit"),
    "bincount": (lambda: wf.bincount([1, -2]), ValueError, "^bincount: x holds the negative number -2"),
    "bincount of floats": (lambda: wf.bincount([1.5]), DTypeError, "^bincount: x must hold integers, but has dtype float32"),
    "bincount of a matrix": (lambda: wf.bincount(M), ShapeError, r"^bincount: x has shape \(2, 2\)"),
    "bincount weights": (lambda: wf.bincount(V, [1.0]), ShapeError, r"^bincount: weights have shape \(1,\), x has shape \(4,\)"),
    "bincount length": (lambda: wf.bincount(V, minlength=-1), ValueError, "^bincount: minlength=-1"),
    "bincount traced": (lambda: wf.jit(wf.bincount)(V), TraceError, "bincount|not known"),
    "digitize": (lambda: wf.digitize(V, [0, 2, 1]), ValueError, "^digitize: bins must rise or fall"),
    "digitize bins": (lambda: wf.digitize(V, M), ShapeError, r"^digitize: bins have shape \(2, 2\)"),
    "histogram": (lambda: wf.histogram(V, 0), ValueError, "^histogram: bins=0 must be at least 1"),
    "histogram range": (lambda: wf.histogram(V, range=(2, 1)), ValueError, r"^histogram: range=\(2, 1\)"),
    "histogram edges": (lambda: wf.histogram(V, [2, 1]), ValueError, "^histogram: the edges of bins"),
    "histogram bins": (lambda: wf.histogram(V, 1.5), DTypeError, "^histogram: bins must be a number"),
    "histogram weights": (lambda: wf.histogram(V, weights=[1.0]), ShapeError, r"^histogram: weights have shape \(1,\)"),
    "histogram of NaN": (lambda: wf.histogram(wf.array([wf.nan])), ValueError, r"^histogram: range=.*finite"),
    "fill_diagonal": (lambda: wf.fill_diagonal(wf.ones(3), 1), ShapeError, r"^fill_diagonal: a has shape \(3,\)"),
    "fill_diagonal of NumPy's": (lambda: wf.fill_diagonal(np.ones((2, 2)), 1), DTypeError, "a must be a weft Array, not ndarray"),
    "delete": (lambda: wf.delete(V, 4), IndexError, "^delete: index 4 is out of bounds for axis 0 with size 4"),
    "delete mask": (lambda: wf.delete(V, [True]), ShapeError, r"^delete: the mask obj has shape \(1,\)"),
    "delete floats": (lambda: wf.delete(V, 1.5), DTypeError, "^delete: obj must hold integers"),
    "insert": (lambda: wf.insert(V, 6, 1), IndexError, "^insert: index 6 is out of bounds"),
    "insert values": (lambda: wf.insert(A, [0, 1], [1, 2, 3], 0), ShapeError, r"^insert: .*\(3,\)"),
    "copyto": (lambda: wf.copyto(A, wf.ones(3)), ShapeError, r"\(3,\)"),
    "copyto dtype": (lambda: wf.copyto(V, wf.ones(4)), DTypeError, "^copyto: src is float32, dst int64: casting='same_kind'"),
    "copyto casting": (lambda: wf.copyto(V, 1, casting="any"), ValueError, "^copyto: casting='any'"),
    "putmask": (lambda: wf.putmask(V, [True], 1), ShapeError, r"^putmask: mask has shape \(1,\), a has shape \(4,\)"),
    "place": (lambda: wf.place(V, V >= 0, []), ValueError, "^place: vals is empty"),
    "put": (lambda: wf.put(V, [9], 1), IndexError, "index 9 is out of bounds"),
    "put mode": (lambda: wf.put(V, [0], 1, mode="near"), ValueError, "^put: mode='near'"),
    "trim_zeros": (lambda: wf.trim_zeros(V, "x"), ValueError, "^trim_zeros: trim='x'"),
    "resize": (lambda: wf.resize(V, (-1, 2)), ShapeError, r"^resize: new_shape=\(-1, 2\)"),
    "select": (lambda: wf.select([A > 0], []), ShapeError, "^select: 1 conditions and 0 choices"),
    "select of numbers": (lambda: wf.select([V], [V]), DTypeError,
        r"^select: condlist\[0\] must hold bools, but has dtype int64"),
    "piecewise": (lambda: wf.piecewise(V, [V > 0], [1, 2, 3]), ShapeError, "^piecewise: 3 functions are given for 1 conditions"),
    "choose": (lambda: wf.choose([-1], [V]), ValueError, "^choose: a holds a negative number"),
    "choose out of range": (lambda: wf.choose([2], [[1], [2]]), IndexError, "index 2 is out of bounds"),
    "choose of floats": (lambda: wf.choose(A, [A]), DTypeError, "^choose: a must hold integers"),
    "compress": (lambda: wf.compress(A, A), ShapeError, r"^compress: condition has shape \(3, 4\)"),
    "apply_along_axis": (lambda: wf.apply_along_axis(wf.sum, 2, A), AxisError, "^apply_along_axis: axis=2"),
    "apply_over_axes": (lambda: wf.apply_over_axes(lambda a, k: a.sum(), A, 0), ShapeError,
        "^apply_over_axes: the function gave"),
    "vectorize": (lambda: wf.vectorize(abs, signature="()->()"), ValueError, "^vectorize: signature is not offered"),
    "vectorize of nothing": (lambda: wf.vectorize(abs)(wf.zeros(0)), ValueError, "^vectorize: there is no element"),
    "frompyfunc": (lambda: wf.frompyfunc(abs, 1, 1)(1, 2), TypeError, "^abs: 1 arguments are needed, not 2"),
    "column_stack": (lambda: wf.column_stack(3), DTypeError, "^column_stack: a sequence of arrays"),
    "block": (lambda: wf.block([[V], V]), ShapeError, "^block: lists are nested to different depths"),
    "block of tuples": (lambda: wf.block((V, V)), TypeError, "^block: rows are lists"),
    "block of nothing": (lambda: wf.block([]), ShapeError, "^block: an empty list"),
    "vsplit": (lambda: wf.vsplit(V, 2), ShapeError, r"^vsplit: ary has shape \(4,\); at least 2"),
    "packbits": (lambda: wf.packbits(A), DTypeError, "^packbits: a must hold bools or integers, but has dtype float32"),
    "packbits order": (lambda: wf.packbits(V, bitorder="up"), ValueError, "^packbits: bitorder='up'"),
    "unpackbits": (lambda: wf.unpackbits(V), DTypeError, "^unpackbits: a must hold uint8, but has dtype int64"),
    "ix_": (lambda: wf.ix_(A), ShapeError, r"^ix_: args\[0\] has shape \(3, 4\)"),
    "unravel_index": (lambda: wf.unravel_index([12], (3, 4)), ValueError, "^unravel_index: indices holds 12, .* from 0 to 11"),
    "unravel_index of an array": (lambda: wf.unravel_index(V + 9, (3, 4)), ValueError, "^unravel_index: indices holds 12"),
    "unravel_index later": (lambda: wf.jit(lambda v: wf.unravel_index(v + 9, (3, 4))[0])(V).numpy(), IndexError, "12"),
    "unravel_index order": (lambda: wf.unravel_index(1, (3, 4), order="K"), ValueError, "^unravel_index: order='K'"),
    "ravel_multi_index": (lambda: wf.ravel_multi_index(([0],), (3, 4)), ShapeError,
        "^ravel_multi_index: 1 index arrays .* 2 dim"),
    "diag_indices_from": (lambda: wf.diag_indices_from(A), ShapeError, r"^diag_indices_from: arr has shape \(3, 4\)"),
    "tril_indices": (lambda: wf.tril_indices(-1), ShapeError, "^tril_indices: n, m"),
    "ndindex": (lambda: wf.ndindex(-1), ShapeError, "^ndindex: shape"),
    "r_": (lambda: wf.r_["r", 1], DTypeError, "^r_: 'r' must be up to three integers"),
    "geomspace": (lambda: wf.geomspace(0, 1), ValueError, "^geomspace: start=0 and stop=1 must not be zero"),
    "logspace": (lambda: wf.logspace(0, 1, -1), ShapeError, "num=-1 must not be negative"),
    "linspace device": (lambda: wf.linspace(0, 1, device="tpu"), ValueError, "^linspace: no device 'tpu'"),
    "lexsort": (lambda: wf.lexsort([V, A[0, :2]]), ShapeError, r"^lexsort: keys\[0\] has shape \(4,\) and keys\[1\] \(2,\)"),
    "lexsort of nothing": (lambda: wf.lexsort([]), ShapeError, "^lexsort: there is no key"),
    "partition": (lambda: wf.partition(V, 4), ValueError, "^partition: kth=4 is out of bounds for axis 0 with size 4"),
    "rot90": (lambda: wf.rot90(A, axes=(1, 1)), AxisError, r"^rot90: axes=\(1, 1\) are the same axis"),
    "rollaxis": (lambda: wf.rollaxis(A, 2), AxisError, "^rollaxis: axis=2"),
    "gcd": (lambda: wf.gcd(A, 2), DTypeError, "^gcd: integers are needed, but the dtype is float32"),
    "ldexp": (lambda: wf.ldexp(A, A), DTypeError, "^ldexp: x2 must hold integers below 2..63, but has dtype float32"),
    "bitwise_count": (lambda: wf.bitwise_count(A), DTypeError, "^bitwise_count: integers are needed"),
    "issubdtype": (lambda: wf.issubdtype("nothing", wf.integer), DTypeError, "^issubdtype: arg1='nothing' is no dtype"),
    "require": (lambda: wf.require(A, requirements="F"), ValueError, "^require: .*'F' cannot be had"),
    "asarray_chkfinite": (lambda: wf.asarray_chkfinite([wf.nan]), ValueError, "^asarray_chkfinite: a holds NaN"),
    "fromstring": (lambda: wf.fromstring("1", sep=""), ValueError, "^fromstring: sep must not be empty"),
    "union1d traced": (lambda: wf.jit(lambda x: wf.union1d(x, x))(V), TraceError, "not known|traced|tracing"),
}


@pytest.mark.parametrize("name", CASES)
def test_refusal(name: str) -> None:
    call, error, pattern = CASES[name]
    with pytest.raises(error) as raised:
        call()
    assert error is not AxisError or isinstance(raised.value, np.exceptions.AxisError)
    assert re.search(pattern, str(raised.value)), str(raised.value)
