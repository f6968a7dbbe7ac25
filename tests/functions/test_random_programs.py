"""Random programs of NumPy's words on NumPy and on weft, line by line: value, shape, refusal, and dtype by the stated rule."""

from __future__ import annotations

import os
import re
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft as wf
from tests.functions.library_lines import LibraryLines
from tests.functions.lines import DTYPES, Lines

COUNT = int(os.environ.get("WEFT_EXAMPLES", "500"))
RTOL = {2: 2e-3, 4: 3e-5, 8: 1e-10}  # of the largest number in sight, by the bytes of a real part
FAMILIES = (np.exceptions.AxisError, TypeError, OverflowError, IndexError, ValueError, ZeroDivisionError)
# What NumPy refuses by chance: errors of its own lines, not of what was asked
ACCIDENTS = (
    r"ZeroDivisionError", r"tri\(\) missing 1 required", r"newaxis", r"uint64.*'int64'.* according to the rule 'safe'",
    r"(percentile|quantile).*index -?\d is out of bounds", r"np.mean\(x.*where=", r"nan(mean|var|std)\(.*AxisError", "read-only",
    "tuple index out of range", "not enough values to unpack",
    r"array_(str|repr)\(.*descriptor '__getitem__'",  # of NumPy's own scalars
    "only 0-dimensional arrays can be converted",  # one element is enough, as NumPy's own was until 2.4, and as in PyTorch
)
# What is refused for another reason: a second fault, told first; and a check that is made when elements are read
OTHERWISE = (
    ("'NoneType' object", wf.errors.AxisError), ("No loop matching", OverflowError),
    ("Cannot cast ufunc", ValueError), ("OverflowError|shape mismatch: value array", IndexError),
    ("could not broadcast|setting an array element with a sequence", wf.errors.DTypeError),
    ("invalid entry in choice array|out of bounds for array with size", IndexError),
    ("out-of-bounds in|too small to calculate|AxisError: axis .* is out of bounds", TypeError),
    ("cannot replace elements of an empty|Invalid number of FFT|index -2 is out of bounds for axis", TypeError),
    ("cannot do a non-empty take", wf.errors.ShapeError),
    (r"int\(\) argument must be|float\(\) argument must be", IndexError),  # of two faults weft names the index
    (r"requires a 0 or 1-dimensional input|unsupported operand type\(s\) for @", wf.errors.ShapeError),
)


class Refused:
    """What a line raised."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __repr__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"


def run(line: str, space: dict[str, Any]) -> Any:
    """What a line gives, computed; of one that writes what it has written."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", np.exceptions.ComplexWarning)  # weft refuses what NumPy warns of
        try:
            if re.match(r"x\d+(\[.*\])? [^=\w ]*= ", line):
                exec(line, space)  # noqa: S102
                return computed(space[line.replace("[", " ").split()[0]])
            return computed(eval(line, space))  # noqa: S307
        except Exception as error:  # whatever NumPy raises
            return Refused(error)


def computed(x: Any) -> Any:
    """The same; what cannot be computed says so here."""
    for part in x if isinstance(x, tuple | list) else (x,):
        if isinstance(part, wf.Array):
            part.numpy()
    return x


def ruled(dtype: np.dtype, operands: list[np.dtype], line: str) -> set[np.dtype]:
    """What weft may give where NumPy gives ``dtype``: float32 where float64 comes of no float64, unless that is the default."""
    if "conj" in line:  # NumPy makes int8 of bools
        return {dtype, *operands}
    if dtype == "int8" and "** " in line:  # NumPy's operator squares bools, and its function does not; weft's do the same
        return {dtype, np.dtype("int64")}
    if wf.get_default_dtype() == np.float64:
        return {dtype}
    if "float_power" in line:
        return {dtype}
    if re.search(r"(append|dot|inner|outer|kron|convolve|intersect1d)\(.*, -?[\dT]|inner\(-?[\dT]|linspace|logspace", line):
        return {dtype, *operands, *(np.dtype(f) for f in ("float32", "complex64"))}  # numbers, and what has one element, are weak
    if dtype == "float16":  # of integers of 8 bits
        return {np.dtype("float32")}
    wide = [d for d in operands if d in ("float64", "complex128")]
    if dtype not in ("float64", "complex128") or wide or re.search("'(float64|complex128)'", line):
        return {dtype}
    found = {np.dtype("float32" if dtype == "float64" else "complex64")}
    if np.dtype("uint64") in operands or "'uint64'" in line:  # with signed ones: float32 could hold neither
        found.add(dtype)
    return found


def largest(*xs: Any) -> float:
    """The largest finite number among them."""
    found = 1e-3
    for x in xs:
        x = np.abs(np.asarray(x).astype(complex)).ravel()
        found = max(found, float(x[np.isfinite(x)].max(initial=0)))
    return found


def compare(got: Any, want: Any, line: str, before: dict[str, np.ndarray]) -> None:
    """Raises AssertionError where they differ by more than the rule says."""
    if isinstance(want, Refused) and isinstance(want.error, np.exceptions.ComplexWarning):
        return
    if isinstance(want, Refused) and any(re.search(text, f"{line}: {want}") for text in ACCIDENTS):
        return
    if isinstance(want, Refused) or isinstance(got, Refused):
        if isinstance(got, Refused) and "must hold integers, but has dtype bool" in repr(got):
            return  # positions are no masks
        assert isinstance(want, Refused), f"refused: {got}"
        assert isinstance(got, Refused), f"not refused: {want}"
        if any(re.search(text, repr(want)) and isinstance(got.error, error) for text, error in OTHERWISE):
            return
        family = next((f for f in FAMILIES if isinstance(want.error, f)), Exception)
        assert isinstance(got.error, family), f"another refusal: {got} for {want}"
        return
    if isinstance(want, tuple | list):
        assert isinstance(got, tuple | list) and len(got) == len(want), f"parts: {got} for {want}"
        for g, w in zip(got, want, strict=True):
            compare(g, w, line, before)
        return
    operands = [x.dtype for x in before.values()]
    if isinstance(want, np.dtype):
        assert getattr(got, "dtype", got) in ruled(want, operands, line), f"dtype: {got} for {want}"
        return
    theirs, ours = np.asarray(want), np.asarray(got)
    assert ours.shape == theirs.shape, f"shape: {ours.shape} for {theirs.shape}"
    if isinstance(want, np.ndarray | np.generic):
        assert isinstance(got, wf.Array), f"type: {type(got)}"
        assert ours.dtype in ruled(theirs.dtype, operands, line), f"dtype: {ours.dtype} for {theirs.dtype}"
    if re.search("quantile|percentile", line) and any(np.isinf(x).any() for x in before.values()):
        return  # NumPy takes infinity from infinity where both neighbours are infinite; weft gives it
    asked = re.search(r"can_cast\((x\d+)\.dtype, '(\w+)'\)", line)
    if asked and isinstance(want, bool) and got != want:  # the array API's rule, which can_cast states: by weft's own promotion
        source, target = before[asked[1]].dtype, np.dtype(asked[2])
        assert wf.get_default_dtype() == np.float32 and got == (wf.result_type(source, target) == target)
        return
    if re.search("(var|std).*mean=", line) and any(x.dtype.kind == "c" and not np.isfinite(x).all() for x in before.values()):
        return  # products of complex infinities have no rule
    if theirs.dtype.kind == "U" and any(d.kind in "fc" for d in operands):
        same_texts(str(ours), str(theirs))
        return
    with np.errstate(all="ignore"):
        if theirs.dtype.kind not in "fc":
            np.testing.assert_array_equal(ours, theirs, "value")
            return
        scale = largest(theirs, *before.values())
        bytes_ = min(x.dtype.itemsize // (1 + (x.dtype.kind == "c")) for x in (ours, theirs))
        if "fft" in line and any(d == "float16" for d in operands):  # NumPy scales in float16, weft in float32
            bytes_ = 2
        if "logn" in line and any(d.itemsize == 1 for d in operands):  # logarithms in float16, then their quotient in float64
            bytes_ = 2
        if "out=" in line:  # NumPy may compute in float16 where weft does in float32, or that one in float64
            bytes_ = 2 if any(d.itemsize == 1 for d in operands) else min(bytes_, 4)
        np.testing.assert_allclose(ours, theirs.astype(ours.dtype), rtol=RTOL[bytes_], atol=RTOL[bytes_] * scale, err_msg="value")


def same_texts(got: str, want: str) -> None:
    """Texts of arrays: equal but for the last digits of their numbers, and the spaces that these take."""
    number = r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?"
    assert re.sub(rf"{number}|\s", "", got) == re.sub(rf"{number}|\s", "", want), f"text: {got} for {want}"
    numbers = [np.array([float(x) for x in re.findall(number, text)]) for text in (got, want)]
    np.testing.assert_allclose(*numbers, rtol=RTOL[4], atol=RTOL[4] * largest(numbers[1]), err_msg="text")


def settle(name: str, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """NumPy goes on with weft's numbers, in the same memory where the dtype is the same, so that errors do not add up."""
    found = ours[name].numpy()
    x = theirs[name]
    if isinstance(x, np.ndarray) and x.dtype == found.dtype and x.flags.writeable:
        x[...] = found
    elif x.dtype != found.dtype or not isinstance(x, np.ndarray):
        theirs[name] = found.copy() if isinstance(x, np.ndarray) else found[()]


def program(data: st.DataObject, most: int = 5, kind: type[Lines] = Lines) -> None:
    """One program; AssertionError with its text where the two differ."""
    lines = kind(data)
    lines.fresh(lines.leaf())
    theirs: dict[str, Any] = {"np": np}
    ours: dict[str, Any] = {"np": wf}
    text: list[str] = []
    for _ in range(data.draw(st.integers(1, most))):
        lines.arrays = {n: theirs.get(n, a) for n, a in lines.arrays.items()}
        line = lines.line()
        for name, array in lines.arrays.items():
            if name not in theirs:
                theirs[name], ours[name] = array.copy(), wf.array(array)
                text.append(f"{name} = np.array({array.tolist()}, '{array.dtype}').reshape{array.shape}")
        text.append(line)
        before = {n: np.array(theirs[n]) for n in dict.fromkeys(re.findall(r"\bx\d+\b", line))}
        want, got = run(line, theirs), run(line, ours)
        try:
            compare(got, want, line, before)
            if isinstance(want, Refused):
                for name, x in before.items():  # NumPy may have written half of it
                    np.copyto(theirs[name], x) if isinstance(theirs[name], np.ndarray) and theirs[name].flags.writeable else None
                if not isinstance(got, Refused):
                    return
            for name in before:
                compare(ours[name], theirs[name], line, before)
        except AssertionError as error:
            raise AssertionError("\n".join([*text, str(error)])) from None
        for name in before:
            settle(name, theirs, ours)
        if not isinstance(want, np.ndarray | np.generic) or want.size > 300 or any(want is theirs[n] for n in before):
            continue
        name = f"x{len(lines.arrays)}"
        theirs[name], ours[name] = want[()] if isinstance(got, wf.Scalar) else want, got
        text[-1] = f"{name} = {line}"
        lines.arrays[name] = theirs[name]
        settle(name, theirs, ours)


FIXED = settings(max_examples=COUNT, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@FIXED
@given(st.data())
def test_programs_beside_numpy(data: st.DataObject) -> None:
    program(data)


@FIXED
@given(st.data())
def test_programs_of_float64(data: st.DataObject) -> None:
    with wf.default_dtype("float64"):
        program(data)


@FIXED
@given(st.data())
def test_programs_of_the_library(data: st.DataObject) -> None:
    program(data, 4, LibraryLines)


@FIXED
@given(st.data())
def test_programs_of_the_library_in_float64(data: st.DataObject) -> None:
    with wf.default_dtype("float64"):
        program(data, 4, LibraryLines)


FOUND = """
    np.sum(np.zeros((2, 0, 2, 0), 'float32'), axis=(1, 3))
    np.mean(np.zeros((2, 0, 2, 0), 'float64'), axis=(1, 3))
    np.round(np.array([1.25 + 2.75j, -0.5j]))
    np.nanmedian(np.array([1 + 1j, 0, 0.25 + 0.25j, 0.5 + 0.5j]))
    np.cov(np.array([1 + 1j, 2, -1j]))
    np.convolve(np.array([1 + 1j, 2]), np.array([1j, 3, 1]))
    np.correlate(np.array([1 + 1j, 2, 1]), np.array([1j, 3]), 'full')
    np.float_power(np.array([1 + 1j]), 2)
    np.arctan(np.arange(3), out=np.zeros(3, 'int64'), where=np.array([True, False, True]))
    np.power(np.arange(3), 3, out=np.zeros(3, 'uint32'), where=np.array([True, False, True]))
    np.less(np.arange(3), 2, dtype='int64')
    np.exp(np.arange(3), dtype='int64')
    np.abs(np.array([3 + 4j], 'complex64'), dtype='float32')
    np.remainder(np.arange(3, dtype='uint8'), 2, dtype='uint8')
    np.any(np.array([True, False]), where=np.array([[[True, False]]]))
    np.sum(np.array([1, 2]), where=np.array([[True, False], [True, True]]))
    np.prod(np.array([True, False]), dtype='bool', initial=0)
    np.setdiff1d(np.array([1, 2]), np.array([1j, 2]))
    np.choose(np.array([True, False]), [np.array([1, 2]), np.array([3, 4])])
    np.choose(np.array([0, -1]), [np.array([1, 2]), np.array([3, 4])])
    np.bitwise_or.reduce(np.array([1.5]), axis=0)
    np.bitwise_xor.accumulate(np.array([1j]), axis=0)
    np.add.accumulate(np.array(3), axis=0)
    np.add.reduceat(np.array(3), [0], axis=0)
    np.add.at(np.array([3])[0], 0, 1)
    np.median(np.array(3), axis=0)
    np.array([], 'int64') ** -1
    np.full(2, 1j, dtype='bool')
    np.vander(np.array([1, 2], 'float32'))
    np.deg2rad(np.array([1j]))
    np.heaviside(np.array([1j]), 1)
    np.frexp(np.array([1j]))
    np.isposinf(np.array([1j]))
    np.digitize(np.array([1j]), [0, 1])
    np.histogram(np.array([1j, 2]), [-2, 0, 9])
    np.quantile(np.array([3, 4], 'uint8'), np.array([0.5], 'float32'))
    np.interp(np.array([1j]), [0, 1], [2, 3])
    np.percentile(np.array([1j, 2]), 30)
    np.bincount(np.array([], 'complex64'))
    np.gradient(np.array([True, False]))
    np.ediff1d(np.array([True]))
    np.unravel_index(np.array([], 'float32'), (2, 3))
    np.array(True) ** 2
    np.array([True, False]) ** 2.0
    np.power(np.array([True, False]), 2)
    np.digitize([1., 2.], [0., np.nan, 1.])
    np.digitize([1., 2., np.nan], [3., np.nan, 1.], right=True)
    np.digitize([1., 2.], [np.nan, 2., 1.])
    np.digitize([1., 2.], [1, 2, 1])
    np.tri(-1)
    np.tri(2, -1)
    np.trim_zeros(np.array(3))
    np.trim_zeros(np.array(0))
    np.polymul([], [1, 2])
    np.polymul([], [])
    np.polyval([], 2)
    np.var(np.arange(3.0), ddof=1, correction=1)
    np.std(np.arange(3.0), ddof=1, correction=0)
    np.nanvar(np.arange(3.0), ddof=1, correction=1)
    np.nanstd(np.arange(3.0), ddof=0, correction=1)
    np.piecewise([1., 2., 3.], [[True, False]], [1, 2])
    np.piecewise([1., 2., 3.], [True], [1, 2])
    np.piecewise([1., 2., 3.], [[True, False, True]], [[5, 6], 7])
    np.piecewise([1., 2., 3.], [[True, False, True]], [[5, 6, 7]])
    np.piecewise([[1., 2.], [3., 4.]], [[True, False]], [1, -1])
    np.piecewise(3, [False, True], [1, 2])
    np.piecewise([1., 2.], [[True, False]], [1, 2, 3])
    np.trapezoid([])
    np.trapezoid(np.zeros((0, 2)), np.zeros((0, 2)), axis=0)
    np.trapezoid(np.zeros((2, 0)))
    np.trapezoid([], [1, 2])
    np.expand_dims(np.arange(3))
    np.arange(0, np.inf)
    np.histogram([1.0], range=3)
    np.rot90(np.ones((2, 2)), 1, (0, 1, 1))
    np.pad(np.ones(2), 1.5)
    np.array([[1, 2], [3]])
    np.place(np.arange(3), np.array([True, False, True]), np.array([1.5]))
    np.polyval(np.array([20, 1], 'uint8'), 20)
"""


@pytest.mark.parametrize("default", ["float32", "float64"])
def test_what_was_found_once(default: str) -> None:
    for line in FOUND.strip().splitlines():
        with wf.default_dtype(default):
            compare(run(line.strip(), {"np": wf}), run(line.strip(), {"np": np}), line, {})


BY_DTYPE = """
    np.roots({x})|np.sort_complex({x})|np.polyder({x})|np.polyder({x}, 2)|np.polyint({x})|np.polyint({x}, 2)
    np.interp({x}, {x}, {x})|np.interp(0.5, [0, 1, 2], {x})|np.ldexp({x}, 2)|np.ldexp(2, {x})|np.ldexp(2.0, {x})
    np.polyval({x}, 2)|np.polyval({x}, {x})|np.polyadd({x}, 1)|np.polymul({x}, {x})|np.polydiv({x}, [1, 2])|np.poly({x})
    np.poly1d({x}).deriv().coeffs|np.poly1d({x}).roots|np.emath.sqrt({x})|np.emath.sqrt(-{x})|np.emath.log(-{x})
    np.emath.log2({x})|np.emath.log10({x})|np.emath.arccos({x})|np.emath.arcsin({x})|np.emath.arctanh({x})|np.emath.logn(2, {x})
    np.emath.power({x}, -1)|np.emath.power(-2, {x})|np.linalg.solve({m}, np.ones(2, 'float32'))
    np.linalg.lstsq({m}, np.ones(2, 'float32'))[0]|np.linalg.solve(np.eye(2), {m})
"""


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_dtypes_of_the_library_are_numpys(dtype: str) -> None:
    """Functions that go on in dtypes of their own, where all dtypes are NumPy's."""
    space = {"x0": np.array([1, 3, 4]).astype(dtype), "x1": np.array([[4, 1], [2, 3]]).astype(dtype)}
    for text in BY_DTYPE.strip().replace("\n", "|").split("|"):
        line = text.strip().format(x="x0", m="x1")
        with wf.default_dtype("float64"):
            ours = run(line, {"np": wf, **{n: wf.array(x) for n, x in space.items()}})
            compare(ours, run(line, {"np": np, **space}), f"{dtype}: {line}", space)
