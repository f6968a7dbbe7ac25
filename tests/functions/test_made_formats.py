"""Dtypes that users make: every number of random floats and fixed-point formats, their arithmetic, and where they may stand."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft import fixed_dtype, float_dtype
from weft.dtypes.formats import FLOAT32, Format
from weft.dtypes.parse import parse_dtype
from weft.dtypes.rounding import MODES
from weft.errors import DTypeError

ROOT = Path(__file__).parents[2]


def draw(rng: random.Random) -> Any:
    """Return a random dtype of at most 18 bits."""
    if rng.random() < 0.3:
        return fixed_dtype(rng.randint(2, 18), rng.randint(-3, 20))
    while True:
        exponent, mantissa = rng.randint(0, 8), rng.randint(0, 9)
        infinities = rng.random() < 0.4
        try:
            return float_dtype(
                exponent, mantissa, rng.choice([None, rng.randint(-4, 40)]), infinities=infinities,
                nans=infinities or rng.choice([True, False, "negative zero"]), saturate=rng.random() < 0.3,
                subnormals=rng.random() < 0.7,
            )
        except DTypeError:
            continue


def numbers(form: Format) -> dict[int, float]:
    """Return the finite numbers of a format by their bits, from its definition."""
    out = {}
    for code in range(1 << form.bits):
        negative, size = code >> form.bits - 1, code & (1 << form.bits - 1) - 1
        if form.special == "fixed":
            out[code] = (code - (negative << form.bits)) * 2.0 ** (1 - form.bias - form.mantissa)
            continue
        field, digits = divmod(size, 1 << form.mantissa)
        special = {
            "ieee": field == (1 << form.exponent) - 1, "fn": size == (1 << form.bits - 1) - 1, "fnuz": negative and not size,
            "finite": False,
        }[form.special]
        if not special and (field or not digits or form.subnormals):
            part = digits / (1 << form.mantissa)
            out[code] = (-1) ** negative * ((1 + part) * 2.0 ** (field - form.bias) if field else part * 2.0 ** (1 - form.bias))
    return out


def rounded(x: np.ndarray, form: Format, mode: str) -> np.ndarray:
    """Round float64 numbers by a table of the numbers of a format."""
    table = numbers(form)
    own = np.unique(np.array([*table.values()]))
    even = {value: not code & 1 for code, value in table.items()}
    steps = [2.0 ** (max(np.frexp(abs(end))[1], 2 - form.bias) - 1 - form.mantissa) for end in (own[0], own[-1])]
    if form.special == "fixed":
        steps = [own[1] - own[0]] * 2
    ends = [own[0] - steps[0], own[-1] + steps[1]]  # the next numbers, if there were any
    grid = np.concatenate([ends[:1], own, ends[1:]])
    at = np.clip(np.searchsorted(grid, x, side="right") - 1, 0, len(grid) - 2)
    low, high = grid[at], grid[at + 1]
    below, above = x - low, high - x
    tie = np.array([even.get(h, not even.get(v, True)) for v, h in zip(low, high, strict=True)])
    if not form.subnormals:  # half of the smallest number becomes 0
        tie = np.where(high == 0, True, np.where(low == 0, False, tie))
    up = {
        "up": below > 0, "down": np.zeros(x.shape, bool),
        "toward zero": (x < 0) & (below > 0), "away from zero": (x > 0) & (below > 0),
        "nearest": (above < below) | (above == below) & tie, "nearest away": (above < below) | (above == below) & (x > 0),
    }[mode]
    result = np.where(up, high, low)
    over = (result >= ends[1]) | (x > own[-1]) & (x >= ends[1]) & (mode not in ("toward zero", "down"))
    under = (result <= ends[0]) | (x < own[0]) & (x <= ends[0]) & (mode not in ("toward zero", "up"))
    result = np.where(over, form.overflow, np.where(under, -form.overflow if form.special != "fixed" else own[0], result))
    result = np.where((x > own[-1]) & (mode in ("toward zero", "down")), own[-1], result)
    result = np.where((x < own[0]) & (mode in ("toward zero", "up")), own[0], result)
    lowest = -form.overflow if form.special != "fixed" else own[0]
    return np.where(x == np.inf, form.overflow, np.where(x == -np.inf, lowest, result))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("part", range(6))
def test_all_numbers_and_roundings(part: int) -> None:
    seed = random.randrange(1 << 40)
    print(f"seed {seed}")
    rng, values = random.Random(seed), np.random.default_rng(seed)
    for _ in range(3):
        dtype = draw(rng)
        form = parse_dtype(dtype)
        print(dtype)
        table = numbers(form)
        codes = np.array([*table], f"u{form.bytes}")
        own = wf.array(codes).view(dtype)
        exact = np.array([*table.values()])
        np.testing.assert_array_equal(own.numpy().astype("f8"), exact)
        np.testing.assert_array_equal(np.signbit(own.numpy()), np.signbit(exact))
        for back in (wf.array(exact).astype(dtype), wf.jit(lambda a, d=dtype: a.astype(d))(wf.array(exact))):
            np.testing.assert_array_equal(back.view(f"uint{8 * form.bytes}").numpy(), codes)
        line = np.unique(exact)
        size = np.abs(line).max()
        x = np.concatenate([
            values.uniform(-1.2, 1.2, 300) * size, values.normal(size=300) * size / 2.0 ** values.integers(0, 20, 300),
            (line[1:] + line[:-1]) / 2, values.choice(line, 50), [0.0, 3 * size, -3 * size],
        ]).astype(rng.choice(["float32", "float64"]))
        for mode in MODES:
            if mode != "stochastic":
                want = rounded(x.astype("f8"), form, mode)
                got = wf.jit(lambda a, m=mode, d=dtype: a.astype(d, rounding=m))(wf.array(x)).numpy().astype("f8")
                np.testing.assert_array_equal(got, want, err_msg=f"{dtype} {mode}")


@pytest.mark.drawn(2)
@pytest.mark.parametrize("part", range(4))
def test_arithmetic_is_that_of_the_wide_format_rounded(part: int) -> None:
    seed = random.randrange(1 << 40)
    print(f"seed {seed}")
    rng, values = random.Random(seed), np.random.default_rng(seed)
    dtype = draw(rng)
    print(dtype)
    form = parse_dtype(dtype)
    wide = form.computed.name
    size = float(wf.finfo(dtype).max)
    for shape in ((3, 5), (200, 300)):
        a, b = (wf.array(values.uniform(-1, 1, shape) * size).astype(dtype) for _ in range(2))
        for f in (lambda a, b: a + b, lambda a, b: a * b, wf.maximum, lambda a, b: -a, lambda a, b: a.sum(axis=0),
                  lambda a, b: a.max(), lambda a, b: a @ b.T, lambda a, b: a[1:, ::2], lambda a, b: wf.concat([a, b])):
            results = f(a, b), wf.jit(f)(a, b)
            want = f(a.astype(wide), b.astype(wide)).astype(dtype)
            for got in results:
                assert got.dtype == dtype and str(got.dtype) == form.name
                equal = got.numpy() == want.numpy()
                assert (equal | np.isnan(want.numpy())).all(), f


def test_where_they_may_stand() -> None:
    f = float_dtype(3, 2, 4, infinities=False, nans=False)
    assert f is float_dtype(3, 2, 4, infinities=False, nans=False)
    assert f != float_dtype(3, 2, 5, infinities=False, nans=False)
    assert float_dtype(4, 3, infinities=False) is wf.float8_e4m3fn and float_dtype(8, 23) is wf.float32
    x = wf.array([0.3, 5.2, -100]).astype(f)
    assert x.tolist() == [0.3125, 5.0, -14.0] and "dtype=float_e3m2b4_finite" in repr(x) and float(x[1]) == 5
    for made in (wf.zeros(3, dtype=f), wf.full((3,), 0.3, dtype=f), wf.array([1, 2.2, 3], dtype=f), wf.empty_like(x), x.copy()):
        assert made.dtype == f
    assert wf.array([1, 2.2, 3], dtype=f).tolist() == [1.0, 2.0, 3.0] and (x + 1).dtype == f
    assert (x * 0.5).tolist() == [0.15625, 2.5, -7.0]
    assert wf.ones(3, dtype=f).tolist() == [1.0] * 3 and wf.eye(2, dtype=f).tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert wf.sort(x).tolist() == [-14.0, 0.3125, 5.0] and wf.argsort(x).tolist() == [2, 0, 1]
    assert wf.nextafter(x, wf.zeros(3, dtype=f)).tolist() == [0.25, 4.0, -12.0]
    fixed = fixed_dtype(8, 4)
    assert wf.array([-8.0, -9.0, 9.0]).astype(fixed, saturate=True).tolist() == [-8.0, -8.0, 7.9375]
    x[0] = 3.3
    assert x.tolist() == [3.5, 5.0, -14.0]
    again = pickle.loads(pickle.dumps(x))
    assert again.dtype == f and again.tolist() == x.tolist()
    total, _ = wf.scan(lambda c, _: ((c.astype("float32") + 0.25).astype(f), None), wf.zeros(3, dtype=f), None, length=4)
    assert total.dtype == f and total.tolist() == [1.0] * 3
    slopes = wf.grad(lambda a: (a.astype(f).astype("float32") ** 2).sum())(wf.array([1.1, 2.0]))
    assert slopes.tolist() == [2.0, 4.0]
    stochastic = wf.jit(wf.vmap(lambda a: a.astype(f, rounding="stochastic")))(wf.full((100, 100), 1.1))
    assert abs(float(stochastic.astype("float32").mean()) - 1.1) < 0.01
    assert set(stochastic.numpy().ravel().tolist()) == {1.0, 1.25}
    with pytest.raises(DTypeError, match="do not mix"):
        x + wf.array([1.0, 2.0, 3.0])


def test_constants_in_compiled_functions() -> None:
    rng = random.Random(3)
    net = wf.nn.Sequential(wf.nn.Linear(4, 3), wf.nn.Tanh(), wf.nn.LayerNorm(3), wf.nn.GELU(), wf.nn.Linear(3, 2))
    lines: list[Any] = [
        lambda v: wf.ones(4).astype(v.dtype) + v, lambda v: -wf.ones((), dtype=v.dtype),
        lambda v: wf.full(4, 2, dtype=v.dtype) + 1,
        lambda v: v * wf.array(1).astype(v.dtype), lambda v: wf.full(4, 0.5, dtype=v.dtype) < v,
        lambda v: wf.pad(v, 1), lambda v: wf.pad(v, 1, constant_values=0.75) + 1, wf.grad(lambda v: (v**2).mean()),
        wf.grad(lambda v: (net(v) ** 2).mean()),
    ]
    for f in [float_dtype(5, 6), fixed_dtype(8, 4), *(draw(rng) for _ in range(3))]:
        x, net = wf.array([0.5, 1.0, -1.5, 0.25]).astype(f), net.astype(f)
        for k, line in enumerate(lines):
            np.testing.assert_array_equal(wf.jit(line)(x).astype("float64"), line(x).astype("float64"), err_msg=f"{f} {k}")
    q = fixed_dtype(8, 4)
    padded = wf.pad(wf.ones(1).astype(q), 1, constant_values=0.75)
    assert padded.dtype == q and padded.tolist() == [0.75, 1, 0.75]


def test_weights_and_other_processes(tmp_path: Path) -> None:
    f, q = float_dtype(4, 1, infinities=False, saturate=True), fixed_dtype(12, 7)
    net = wf.nn.Linear(3, 2)
    weight = net.weight.astype(f)
    wf.io.save(tmp_path / "w.safetensors", {"weight": weight, "bias": net.bias.astype(q)})
    (tmp_path / "x.pickle").write_bytes(pickle.dumps(weight))
    code = (
        "import pickle, sys, weft as wf\nfrom pathlib import Path\n"
        "p = Path(sys.argv[1])\nw = wf.io.load(p / 'w.safetensors')\n"
        "x = pickle.loads((p / 'x.pickle').read_bytes())\n"
        "print(w['weight'].dtype, w['bias'].dtype, (w['weight'] == x).all(), float(x.astype('float32').sum()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, cwd=ROOT, timeout=120)
    want = [str(f), str(q), "True", str(float(weight.astype("float32").sum()))]
    assert done.stdout.split() == want, done.stderr


@pytest.mark.parametrize("names", [("float32", "own"), ("own", "own"), ("fixed", "own"), ("own", "float16")])
def test_modules_read_weights(names: tuple[str, str], tmp_path: Path) -> None:
    dtypes: dict[str, Any] = {"own": float_dtype(5, 6), "fixed": fixed_dtype(8, 4)}
    source, target = (wf.nn.Linear(3, 2).astype(dtypes.get(name, name)) for name in names)
    wf.io.save(tmp_path / "w.safetensors", source)
    wf.io.load_into(target, tmp_path / "w.safetensors")
    assert target.weight.dtype == dtypes.get(names[1], names[1])
    np.testing.assert_array_equal(target.weight.astype("float32"), source.weight.astype(target.weight.dtype).astype("float32"))


@pytest.mark.parametrize("call, message", [
    (lambda: float_dtype(0, 0), "1 to 63 bits"),
    (lambda: float_dtype(8, 60), "1 to 63 bits"),
    (lambda: float_dtype(4, 0), "need bits of both"),
    (lambda: float_dtype(-1, 3), "exponent must be an integer from 0 on, not -1"),
    (lambda: float_dtype(4, 2.0), "mantissa must be an integer from 0 on, not 2.0"),  # type: ignore[arg-type]
    (lambda: float_dtype(4, 3, 5000), "has numbers that float64 does not have"),
    (lambda: float_dtype(4, 3, nans=False), "infinities need NaNs"),
    (lambda: float_dtype(4, 3, infinities=False, nans="none"), "nans='none' must be"),
    (lambda: float_dtype(0, 3, infinities=False, subnormals=False), "all numbers are subnormal"),
    (lambda: float_dtype(True, 3), "exponent must be an integer from 0 on, not True"),
    (lambda: fixed_dtype(1, 0), "bits=1 must be from 2 to 53"),
    (lambda: fixed_dtype(8, 1.0), "fraction must be an integer, not 1.0"),  # type: ignore[arg-type]
])
def test_refused(call: Any, message: str) -> None:
    with pytest.raises(DTypeError, match=message):
        call()
    assert FLOAT32.name == "float32"


def test_integers_and_flags_of_numpy() -> None:
    assert float_dtype(np.int64(4), np.int8(2), np.int16(5)) is float_dtype(4, 2, 5)  # type: ignore[arg-type]
    assert fixed_dtype(np.int64(8), np.uint8(4)) is fixed_dtype(8, 4)  # type: ignore[arg-type]
    x: Any = wf.ones(4)
    assert x.astype(float_dtype(5, 6), rounding="stochastic", bits=np.int64(16)).tolist() == [1] * 4
    with pytest.raises(ValueError, match="bits=True must be an integer"):
        x.astype(float_dtype(5, 6), rounding="stochastic", bits=True)
    for flags in ({"subnormals": "no"}, {"infinities": None}, {"saturate": 1}):
        with pytest.raises(TypeError, match="must be True or False"):
            float_dtype(5, 3, **flags)


def test_floats_without_exponent() -> None:
    f = float_dtype(0, 4, infinities=False, nans=False)
    numbers = wf.array(np.arange(32, dtype="uint8")).view(f).astype("float32").tolist()
    assert numbers == [sign * k * 2.0**-4 for sign in (1, -1) for k in range(16)]


@pytest.mark.parametrize("special", [{}, {"infinities": False}, {"infinities": False, "nans": "negative zero"}])
@pytest.mark.parametrize("exponent, mantissa", [(8, 4), (4, 3), (5, 6)])
def test_bits_of_flushed_numbers(exponent: int, mantissa: int, special: Any) -> None:
    f, whole = (float_dtype(exponent, mantissa, subnormals=flag, **special) for flag in (False, True))
    bits = 1 + exponent + mantissa
    codes = wf.array(np.arange(1 << bits, dtype="uint8" if bits <= 8 else "uint16"))
    want = codes.view(whole).astype("float64").numpy()
    small = np.abs(want) < np.float64(wf.finfo(whole).smallest_normal)
    with np.errstate(over="ignore"):
        exact = np.where(small, np.copysign(0, want), want)
        want = exact.astype("float32")
    for g in (lambda c: c.view(f).astype("float32"), wf.jit(lambda c: c.view(f).astype("float32"))):
        got = g(codes).numpy()
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got[small]), np.signbit(want[small]))
    np.testing.assert_array_equal(np.asarray(codes.view(f).astype("float64").tolist()), exact)


@pytest.mark.parametrize("f", [fixed_dtype(8, 4), float_dtype(5, 6), wf.float8_e4m3fn])
def test_histogram_and_allclose(f: Any) -> None:
    wide: Any = wf.array([0.5, 1.0, 1.5, 1.0])
    x = wide.astype(f)
    for bins in (3, [0.0, 1.0, 2.0], "auto"):
        for got, want in zip(wf.histogram(x, bins), wf.histogram(wide, bins), strict=True):
            np.testing.assert_array_equal(got, want)
    assert wf.histogram(x, wf.array([0.0, 1.0, 2.0]).astype(f))[0].tolist() == [1, 3]
    assert wf.allclose(x, wide.tolist()) and wf.allclose(wide, x) and wf.allclose(x, x) and not wf.allclose(x, [1, 1, 1, 1.0])


def test_error_names_fill_value() -> None:
    with pytest.raises(OverflowError, match="full: fill_value: the Python integer 200"):
        wf.full(200, 200, dtype="int8")
