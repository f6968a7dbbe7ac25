"""Every machine operation on every dtype, special values included: NumPy's answers."""

from __future__ import annotations

import numpy as np
import pytest
from harness import access, buffers, compile_kernel, fresh, load, op

from tests.kernel.evaluate import evaluate
from weft.dtypes.formats import FLOAT32, FORMATS, formats_of_kind
from weft.dtypes.rounding import convert_array
from weft.kernel.ir import MACHINE_OPERATIONS, Axis, Kernel, Phase, Stage, Store, Value

NARROW = [f.numpy for f in formats_of_kind("float") if f.narrow]
FLOATS = [np.dtype(np.float32), np.dtype(np.float64), *NARROW]
INTS = [np.dtype(k) for k in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")]
BOOL = np.dtype(bool)
COMPARE = ("eq", "ne", "lt", "le", "gt", "ge")
EXACT = ("add", "sub", "mul", "div", "floordiv", "rem", "min", "max", "copysign", "neg", "abs", "floor", "ceil", "trunc",
         "rint", "sqrt")


def values(dtype: np.dtype, n: int, rng: np.random.Generator) -> np.ndarray:
    if dtype == BOOL:
        return rng.integers(0, 2, n).astype(bool)
    if dtype in INTS:
        info = np.iinfo(dtype)
        edge = np.array([0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1, -1 if info.min else 5], dtype=object)
        some = rng.integers(info.min, info.max, n, dtype=dtype, endpoint=True)
        small = rng.integers(-9 if info.min else 0, 10, n).astype(dtype)
        return np.where(rng.random(n) < 0.3, rng.choice(edge.astype(dtype), n), np.where(rng.random(n) < 0.5, small, some))
    edge = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 1.5, 2.5, -2.5, 1e-7, 3e4])
    some = rng.normal(size=n) * np.exp(rng.uniform(-5, 5, n))
    return np.where(rng.random(n) < 0.3, rng.choice(edge, n), some).astype(dtype)


def run(value_of, arrays, out_dtype, arity):
    n = arrays[0].size
    *xs, y = buffers(*[(a.dtype, (n,)) for a in arrays], (out_dtype, (n,)))
    i = Axis(0, n)
    value = value_of(*(load(x, i) for x in xs))
    kernel = Kernel("op", (Phase((i,), (Stage((), (), (Store(access(y, i), value),)),)),), tuple(xs), (y,))
    out = fresh(out_dtype, (n,))
    compile_kernel(kernel)(arrays, [out])
    return kernel, out


def agree(got: np.ndarray, want: np.ndarray, zeros: bool = True) -> None:
    """Equal values, NaN with NaN, and signed zeros."""
    if got.dtype == BOOL or got.dtype in INTS:
        np.testing.assert_array_equal(got, want)
        return
    a, b = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(a, b)
    if zeros:
        np.testing.assert_array_equal(np.signbit(a[b == 0]), np.signbit(b[b == 0]))


def operations(dtype: np.dtype) -> list[str]:
    if dtype == BOOL:
        return ["and", "or", "xor", "not", *COMPARE, "min", "max"]
    if dtype in INTS:
        ops = ["add", "sub", "mul", "floordiv", "rem", "min", "max", "and", "or", "xor", "shl", "shr", "abs", "not", *COMPARE]
        return [*ops, "neg"]
    return [*EXACT, *COMPARE]


@pytest.mark.drawn(12)
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS, BOOL], ids=lambda d: d.name)
def test_operations_give_numpys_answers(dtype, rng):
    n = 203
    for name in operations(dtype):
        arity = MACHINE_OPERATIONS[name].arity
        arrays = [values(dtype, n, rng) for _ in range(arity)]
        if name in ("shl", "shr"):
            arrays[1] = rng.integers(0, 8 * dtype.itemsize + 5, n).astype(dtype)
        kernel, got = run(lambda *x, name=name: op(name, *x, dtype=BOOL if name in COMPARE else dtype), arrays,
                          BOOL if name in COMPARE else dtype, arity)
        if dtype in NARROW and name not in COMPARE:
            wide = [a.astype(np.float32) for a in arrays]
            _, exact = run(lambda *x, name=name: op(name, *x), wide, np.dtype(np.float32), arity)
            with np.errstate(all="ignore"):
                want = convert_array(exact, dtype)
        else:
            (want,), _ = evaluate(kernel, arrays)
        try:
            agree(got, want, zeros=name not in ("min", "max"))
        except AssertionError as e:
            raise AssertionError(f"{name} on {dtype}: {e}") from None


@pytest.mark.parametrize("source", [*FLOATS, *INTS, BOOL], ids=lambda d: d.name)
def test_casts_give_numpys_answers(source, rng, some):
    n = 101
    for target in some([*FLOATS, *INTS, BOOL], 8):
        x = values(source, n, rng)
        if source in FLOATS and target in INTS:  # NumPy leaves the rest to the machine
            limit = np.iinfo(target)
            x = np.nan_to_num(x.astype(np.float64), nan=0, posinf=1, neginf=1)
            x = np.clip(x, max(float(limit.min), -3e4), min(float(limit.max), 3e4)).astype(source)
            x = np.where((x.astype(np.float64) > limit.max) | np.isnan(x.astype(np.float64)), 1, x).astype(source)
        _, got = run(lambda v, target=target: op("cast", v, dtype=target), [x], target, 1)
        with np.errstate(all="ignore"):
            agree(got, convert_array(x, target))


def test_float_to_int_out_of_range_is_defined():
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.0**31, -(2.0**31), 2.0**63, -1.5, 255.9, 300.0], np.float32)
    low = {"int32": -(2**31), "int64": -(2**63)}
    for target, least in low.items():
        _, got = run(lambda v, t=target: op("cast", v, dtype=t), [x], np.dtype(target), 1)
        assert (got[:5] == least).all() and got[8] == -1 and got[9] == 255
    _, got = run(lambda v: op("cast", v, dtype=np.uint8), [x], np.dtype(np.uint8), 1)
    assert got[9] == 255 and got[10] == 300 % 256 and got[8] == 255


@pytest.mark.parametrize("pair", [("float32", "int32"), ("int32", "float32"), ("float64", "uint64"), ("float16", "uint16"),
                                  ("uint16", "float16"), ("bfloat16", "int16"), ("int16", "bfloat16"), ("uint8", "int8"),
                                  ("float8_e4m3fn", "uint8"), ("uint8", "float8_e4m3fn"), ("float8_e5m2", "int8"),
                                  ("int8", "float8_e5m2")])
def test_bitcast(pair, rng):
    source, target = (FORMATS[p].numpy for p in pair)
    x = values(source, 77, rng)
    if target in NARROW:
        x = (x & np.array({2: 0x3FFF, 1: 0x77}[x.itemsize], x.dtype)).astype(source)  # no NaN: their payload may change
    _, got = run(lambda v: op("bitcast", v, dtype=target), [x], target, 1)
    if source not in FLOATS or not np.isnan(x.astype(np.float64)).any():
        assert got.tobytes() == x.view(target).tobytes()
    else:
        fine = ~np.isnan(x.astype(np.float64))
        assert got[fine].tobytes() == x.view(target)[fine].tobytes()


def test_select_fma_and_integer_pow(rng):
    n = 90
    c, a, b = values(BOOL, n, rng), values(FLOATS[0], n, rng), values(FLOATS[0], n, rng)
    _, got = run(lambda c, a, b: Value("select", (c, a, b), FLOAT32), [c, a, b], FLOATS[0], 3)
    agree(got, np.where(c, a, b))
    x, y, z = (rng.normal(size=n).astype(np.float32) for _ in range(3))
    _, got = run(lambda *v: op("fma", *v), [x, y, z], FLOATS[0], 3)
    agree(got, (x.astype(np.longdouble) * y + z).astype(np.float32))
    for dtype in (np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.uint8)):
        p, q = rng.integers(0, 12, n).astype(dtype), rng.integers(0, 7, n).astype(dtype)
        _, got = run(lambda *v: op("pow", *v), [p, q], dtype, 2)
        agree(got, np.power(p, q))
