"""Element-wise functions against NumPy: values, dtypes, shapes, out=, errors."""

import numpy as np
import pytest

import weft as wf
from tests.functions.cases import FLOATS, INTEGERS, RTOL, SHAPES, check, draw, dtype_of, expected_dtype
from weft.dtypes.formats import EVERY

# name: (NumPy's name, lowest, highest operand)
FLOATING = {
    "acos": ("arccos", -1, 1),
    "acosh": ("arccosh", 1, 9),
    "asin": ("arcsin", -1, 1),
    "asinh": ("arcsinh", -9, 9),
    "atan": ("arctan", -9, 9),
    "atanh": ("arctanh", -0.9, 0.9),
    "cos": ("cos", -9, 9),
    "cosh": ("cosh", -3, 3),
    "exp": ("exp", -5, 5),
    "exp2": ("exp2", -5, 5),
    "expm1": ("expm1", -2, 2),
    "log": ("log", 0.1, 9),
    "log10": ("log10", 0.1, 9),
    "log1p": ("log1p", -0.5, 5),
    "log2": ("log2", 0.1, 9),
    "sin": ("sin", -9, 9),
    "sinh": ("sinh", -3, 3),
    "sqrt": ("sqrt", 0, 9),
    "tan": ("tan", -1.4, 1.4),
    "tanh": ("tanh", -3, 3),
    "reciprocal": ("reciprocal", 0.3, 4),
}
ANY_UNARY = {"abs": "abs", "square": "square", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "round"}
SIGNED_UNARY = {"negative": "negative", "positive": "positive", "sign": "sign"}
TESTS = ("isnan", "isinf", "isfinite", "signbit")
ARITHMETIC = ("add", "subtract", "multiply", "maximum", "minimum")
FLOATING_BINARY = {
    "atan2": "arctan2",
    "copysign": "copysign",
    "hypot": "hypot",
    "logaddexp": "logaddexp",
    "nextafter": "nextafter",
    "divide": "divide",
}
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
LOGICAL = ("logical_and", "logical_or", "logical_xor")
BITWISE = {"bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor"}
SHIFTS = {"bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift"}
ALIASES = (
    "absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh true_divide mod power bitwise_not invert "
    "left_shift right_shift"
).split()


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


def tolerance(name: str) -> tuple[float, float]:
    return RTOL[name] * 4, {"float64": 1e-14, "float32": 1e-6}.get(name, RTOL[name])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FLOATING)
def test_floating(name: str, dtype: str) -> None:
    other, low, high = FLOATING[name]
    for shape in SHAPES:
        x = draw(shape, dtype, low, high)
        rtol, atol = tolerance(dtype)
        check(getattr(wf, name)(x), getattr(np, other)(wide(x)), rtol=rtol, atol=atol, dtype=dtype_of(dtype))


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "bool"])
@pytest.mark.parametrize("name", [n for n in FLOATING if n != "reciprocal"])  # it stays an integer: test_operations_agree.py
def test_floating_of_integers_is_float32(name: str, dtype: str) -> None:
    other, low, high = FLOATING[name]
    x = draw((2, 5), dtype, 1 if low > 0 else 0, 1)
    if name == "acosh":
        x = x + x.dtype.type(1)
    with np.errstate(all="ignore"):
        want = getattr(np, other)(wide(x))
    check(getattr(wf, name)(x), want, rtol=1e-5, atol=1e-6, dtype=np.dtype(np.float32))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("name", ANY_UNARY)
def test_any_unary(name: str, dtype: str) -> None:
    for shape in SHAPES:
        x = draw(shape, dtype)
        check(getattr(wf, name)(x), getattr(np, ANY_UNARY[name])(x), dtype=dtype_of(dtype))


@pytest.mark.parametrize("dtype", [d for d in FLOATS + INTEGERS if not d.startswith("u")])
@pytest.mark.parametrize("name", SIGNED_UNARY)
def test_signed_unary(name: str, dtype: str) -> None:
    for shape in SHAPES:
        x = draw(shape, dtype)
        check(getattr(wf, name)(x), getattr(np, SIGNED_UNARY[name])(x), dtype=dtype_of(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("name", TESTS)
def test_kind_of_number(name: str, dtype: str) -> None:
    x = draw((3, 5), dtype)
    if dtype.startswith("float"):
        x[0, :4] = np.nan, np.inf, -np.inf, -0.0
    want = np.signbit(wide(x)) if name == "signbit" else getattr(np, name)(x)
    check(getattr(wf, name)(x), want, dtype=np.dtype(bool))


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + ("bool",))
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name: str, dtype: str) -> None:
    if dtype == "bool" and name == "subtract":
        with pytest.raises(wf.errors.DTypeError, match="bool"):
            wf.subtract(np.array([True]), np.array([False]))
        return
    for a, b in (((3, 4), (3, 4)), ((2, 1, 5), (4, 1)), ((), (7,)), ((3, 0, 2), (2,)), ((1,), (1,))):
        x, y = draw(a, dtype), draw(b, dtype)
        check(getattr(wf, name)(x, y), getattr(np, name)(x, y), dtype=dtype_of(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_whole_division(name: str, dtype: str) -> None:
    x, y = draw((5, 7), dtype), draw((7,), dtype)
    y[y == 0] = 2
    check(getattr(wf, name)(x, y), getattr(np, name)(x, y), atol=1e-6, dtype=dtype_of(dtype))


def test_division_by_zero_integers() -> None:
    x = np.array([5, -5, 0])
    assert wf.floor_divide(x, np.zeros(3, np.int64)).tolist() == [0, 0, 0]
    assert wf.remainder(x, np.zeros(3, np.int64)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("name, dtype", [(n, d) for n in FLOATING_BINARY for d in FLOATS
                                         if n != "nextafter" or EVERY[d].numpy.isbuiltin == 1])
def test_floating_binary(name: str, dtype: str) -> None:
    for a, b in (((3, 4), (4,)), ((), (5,)), ((0, 3), (3,))):
        x, y = draw(a, dtype), draw(b, dtype)
        y = np.where(y == 0, y + y.dtype.type(1), y)
        exact = name in ("nextafter", "copysign")
        want = getattr(np, FLOATING_BINARY[name])(*((x, y) if exact else (wide(x), wide(y)))).astype(dtype_of(dtype))
        rtol, atol = (0, 0) if exact else tolerance(dtype)
        check(getattr(wf, name)(x, y), want, rtol=rtol, atol=atol, dtype=dtype_of(dtype))


@pytest.mark.parametrize(
    "pair", [("int32", "int32"), ("uint8", "int16"), ("bool", "bool"), ("int64", "float32"), ("int64", "float64")]
)
def test_true_division_of_integers(pair: tuple[str, str]) -> None:
    x, y = draw((4, 3), pair[0]), draw((3,), pair[1], 1, 3)
    y[y == 0] = 1
    want = np.true_divide(wide(x), wide(y))
    check(wf.divide(x, y), want, rtol=2e-7, dtype=np.dtype(np.float64 if "float64" in pair else np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_pow(dtype: str) -> None:
    x, y = draw((3, 4), dtype, 0.2, 1.5), draw((4,), dtype, 0, 1)
    check(wf.pow(x, y), np.power(x, y), rtol=1e-5 if dtype == "float32" else 1e-12, dtype=dtype_of(dtype))
    check(wf.power(x, 2), np.power(x, 2), rtol=1e-6, dtype=dtype_of(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "uint32", "bool", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("name", COMPARISONS + LOGICAL)
def test_comparisons(name: str, dtype: str) -> None:
    for a, b in (((3, 4), (4,)), ((), (5,)), ((0, 3), (3,))):
        x, y = draw(a, dtype), draw(b, dtype)
        if x.size > 1:
            x.flat[0] = y.flat[0]
        check(getattr(wf, name)(x, y), getattr(np, name)(x, y), dtype=np.dtype(bool))


def test_comparisons_with_nan() -> None:
    x = np.array([np.nan, 1.0, np.nan], np.float32)
    y = np.array([np.nan, np.nan, 1.0], np.float32)
    for name in COMPARISONS:
        check(getattr(wf, name)(x, y), getattr(np, name)(x, y))


@pytest.mark.parametrize("dtype", INTEGERS + ("bool",))
@pytest.mark.parametrize("name", BITWISE)
def test_bitwise(name: str, dtype: str) -> None:
    x, y = draw((3, 4), dtype), draw((4,), dtype)
    check(getattr(wf, name)(x, y), getattr(np, name)(x, y), dtype=dtype_of(dtype))
    check(wf.bitwise_invert(x), np.invert(x), dtype=dtype_of(dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", SHIFTS)
def test_shifts(name: str, dtype: str) -> None:
    x, y = draw((3, 4), dtype), draw((4,), dtype, 0, 2)
    check(getattr(wf, name)(x, y), getattr(np, SHIFTS[name])(x, y), dtype=dtype_of(dtype))


@pytest.mark.parametrize("decimals", [-1, 0, 1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_round_to_decimals(dtype: str, decimals: int) -> None:
    x = draw((20,), dtype, -50, 50)
    check(wf.round(x, decimals), np.round(x, decimals), rtol=1e-6 if dtype == "float32" else 1e-12, dtype=dtype_of(dtype))


@pytest.mark.parametrize("bounds", [(-1, 1), (None, 0.5), (0.5, None), (None, None)])
def test_clip(bounds: tuple) -> None:
    x = draw((3, 5), "float32")
    check(wf.clip(x, *bounds), x if bounds == (None, None) else np.clip(x, *bounds))
    low, high = draw((5,), "float32", -2, 0), draw((3, 1), "float32", 0, 2)
    check(wf.clip(x, low, high), np.clip(x, low, high))


def test_where() -> None:
    for a, b, c in (((3, 4), (3, 4), (3, 4)), ((3, 1), (4,), ()), ((0, 2), (2,), (1, 2))):
        condition, x, y = draw(a, "bool"), draw(b, "float32"), draw(c, "float32")
        check(wf.where(condition, x, y), np.where(condition, x, y), dtype=np.dtype(np.float32))
    check(wf.where(np.array([1, 0]), np.array([1, 2], np.int8), np.array([3, 4], np.int32)), [1, 4], dtype=np.dtype(np.int32))
    x = draw((4, 5), "int32")
    for found, want in zip(wf.where(x > 0), np.where(x > 0), strict=True):
        check(found, want)
    with pytest.raises(ValueError, match="both x1 and x2"):
        wf.where(x > 0, x)


def test_close_and_equal() -> None:
    x = np.array([1.0, np.nan, np.inf, 0.0, -np.inf])
    y = np.array([1.0 + 1e-7, np.nan, np.inf, 1e-3, np.inf])
    for nan in (False, True):
        check(wf.isclose(x, y, equal_nan=nan), np.isclose(x, y, equal_nan=nan))
    assert wf.allclose(x[:1], y[:1]) and not wf.allclose(x, y)
    assert wf.array_equal([1, 2], [1, 2]) and not wf.array_equal([1, 2], [1, 3]) and not wf.array_equal([1], [1, 1])
    for kwargs in ({}, {"nan": 2.0, "posinf": 3.0, "neginf": -3.0}):
        check(wf.nan_to_num(x.astype(np.float32), **kwargs), np.nan_to_num(x.astype(np.float32), **kwargs))


@pytest.mark.parametrize("name", ALIASES)
def test_aliases_agree_with_numpy(name: str) -> None:
    ufunc = getattr(np, name)
    whole = any(part in name for part in ("shift", "invert", "bitwise"))
    xs = [draw((3, 4), "int32", 0, 2) if whole else draw((3, 4), "float32", 0.1, 0.9) for _ in range(ufunc.nin)]
    if name == "arccosh":
        xs = [x + 1 for x in xs]
    check(getattr(wf, name)(*xs), ufunc(*xs), rtol=4e-6)


def test_promotion_and_numbers() -> None:
    x = wf.array([1, 2], dtype=wf.int32)
    assert (x + 1).dtype == wf.add(x, 1).dtype == wf.int32
    assert wf.add(x, 1.5).dtype == wf.float32
    assert wf.add(x, np.float64(1.5)).dtype == wf.float64
    assert wf.multiply(wf.array([1.0], dtype=wf.float16), 2.5).dtype == wf.float16
    assert wf.sin(1.0).dtype == wf.float32 and wf.sin(1).dtype == wf.float32
    for a in ("int8", "uint8", "int64", "uint64", "float16", "float32", "float64"):
        for b in ("int16", "uint32", "float32", "bool"):
            p, q = draw((3,), a), draw((3,), b)
            want = expected_dtype((p + q).dtype, p, q)
            assert wf.add(p, q).dtype == want, (a, b)


def test_out() -> None:
    x, y = draw((3, 4), "float32"), draw((4,), "float32")
    out = wf.zeros((3, 4))
    assert wf.add(x, y, out=out) is out
    check(out, x + y)
    whole = wf.zeros((5, 4), dtype=wf.float64)
    wf.exp(x, out=whole[1:4])  # a view: written through
    check(whole, np.pad(np.exp(x), ((1, 1), (0, 0))), rtol=1e-6)
    with pytest.raises(wf.errors.ShapeError, match=r"add: out has shape \(2, 4\).*\(3, 4\)"):
        wf.add(x, y, out=wf.zeros((2, 4)))
    with pytest.raises(wf.errors.DTypeError, match="add: out has dtype int32.*float32"):
        wf.add(x, y, out=wf.zeros((3, 4), dtype=wf.int32))
    with pytest.raises(wf.errors.DTypeError, match="out must be a weft Array, not list"):
        wf.add(x, y, out=[0.0])
    theirs = np.zeros((3, 4))
    assert wf.add(x, y, out=theirs) is theirs
    np.testing.assert_array_equal(theirs, x + y)
    with pytest.raises(wf.errors.ShapeError, match=r"add: out has shape \(2,\).*\(3, 4\)"):
        wf.add(x, y, out=np.zeros(2))
    with pytest.raises(wf.errors.DTypeError, match="add: out has dtype int64.*float32"):
        wf.add(x, y, out=np.zeros((3, 4), np.int64))


ERRORS = [
    (lambda: wf.add(np.ones((2, 3)), np.ones((4,))), wf.errors.ShapeError, r"add.*\(2, 3\).*\(4,\)"),
    (lambda: wf.where([True, False], np.ones(3), 0.0), wf.errors.ShapeError, r"where.*\(2,\).*\(3,\)"),
    (lambda: wf.bitwise_and(1.5, 2.5), wf.errors.DTypeError, "bitwise_and: integers are needed.*float32"),
    (lambda: wf.bitwise_left_shift(True, 1.5), wf.errors.DTypeError, "left_shift: integers"),
    (lambda: wf.negative(np.array([True])), wf.errors.DTypeError, "negative.*bool.*logical_not"),
    (lambda: wf.sin("text"), wf.errors.DTypeError, "text"),
    (lambda: wf.sin(None), wf.errors.DTypeError, "sin: x is None"),
    (lambda: wf.floor(np.array([1j])), wf.errors.DTypeError, "complex128"),
]


@pytest.mark.parametrize("call, error, match", ERRORS)
def test_errors(call: object, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()
