"""Integers of 2 and 4 bits: every pair of numbers as ml_dtypes and NumPy compute it, casts, and where they may stand."""

from __future__ import annotations

import copy
import operator
import pickle
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft as wf
from weft.errors import DTypeError

LINES = """
    wf.median(x)|wf.mean(x)|wf.var(x)|wf.percentile(x, 30)|wf.bincount(wf.abs(x).ravel())|wf.isin(x, [1, 2])|
    wf.digitize(x, [0, 1])|wf.nonzero(x)[0]|wf.clip(x, -1, 1)|x.clip(0)|wf.diff(x)|wf.cumprod(x)|wf.prod(x)|
    wf.take(x, [0, 1])|x[[0, 1]]|wf.arange(5)[wf.abs(x)]|wf.sign(x)|wf.round(x)|x//2|x%2|2*x//1|x<<1|x>>1|~x|x&1|x^x|x==1|
    x<300|x==2**70|x>-1e30|wf.maximum(x, 1)|wf.tril(x[:, :2])|wf.trace(x)|wf.tile(x, 2)|wf.repeat(x, 2)|wf.roll(x, 1)|
    wf.flip(x)|wf.any(x)|wf.all(x)|wf.count_nonzero(x)|wf.argmax(x)|wf.ptp(x)|wf.average(x)|
    wf.searchsorted(wf.sort(x.ravel()), x)|wf.lexsort((x[0], x[1]))|wf.partition(x.ravel(), 1)[0]|
    wf.unique(x, return_counts=True)[1]|wf.intersect1d(x, x)|wf.where(x>0)[0]|wf.select([x>0], [x], 2)|
    wf.interp(x, [0., 1.], [0., 1.])|wf.linalg.norm(x)|wf.linalg.inv(x[:, :2])|wf.einsum('ij->i', x)|wf.cov(x)|
    wf.polyval([1, 2], x)|wf.fft.fft(x)|wf.sqrt(wf.abs(x))|wf.sin(x)|wf.isfinite(x)|wf.gcd(x, x)|wf.lcm(x, 1)|
    wf.bitwise_count(x)|wf.nan_to_num(x)|wf.full_like(x, 3)|wf.eye(2, dtype=x.dtype)|wf.cumsum(x)|wf.add.reduce(x)|
    wf.max(x, axis=0)|wf.nn.one_hot(wf.abs(x), 5)|wf.real(x)|wf.angle(x)|wf.packbits(x>0)|wf.array([x, x])|wf.stack([x, x])|
    wf.hypot(x, x)|wf.ldexp(x, 2)|wf.divmod(x, 2)[0]|wf.trapezoid(x)|wf.gradient(x)[0]|wf.array_equal(x, x)|wf.isclose(x, x)|
    wf.mod(x, 3)|x.astype('float32')|float(x[0, 0])|int(x[0, 1])|x[0, 1].item()|x.tolist()|[1, 2, 3][x[0, 0]]|f'{x[0, 0]:d}'|
    bool(x[0, 0])|divmod(x[0, 0], 2)|x[0, 0]+1|1-x|x/x[0, 0]|wf.vmap(lambda v:v.sum())(x)|wf.jit(lambda v:(v*2+1).sum())(x)|
    wf.scan(lambda c, v:(c+v.sum(), c), wf.array(0), x)[0]|wf.put_along_axis(x.copy(), x[:, :1]*0, 1, 1)|
    wf.fromiter([1, 2], x.dtype)|wf.fromstring('1 2', x.dtype, sep=' ')|wf.asarray([1, 2], dtype=x.dtype)|wf.logical_not(x)|
    wf.nanmax(x)|wf.left_shift(x, 1)|wf.tri(2, dtype=x.dtype)|wf.unpackbits(x.view('uint8')).shape|np.add(x, 1)|np.sum(x)|
    x.max()|wf.mean(x, dtype='float64')|wf.insert(x, 0, 1)|wf.append(x, x)|wf.delete(x, 0)|wf.resize(x, (2, 2))|
    wf.dot(x, [1, 0, 0])|wf.add(x, x, out=wf.zeros((2, 3), dtype=x.dtype))|wf.grad(lambda f:(f*x).sum())(wf.ones((2, 3)))
"""
NAMES = ("int2", "int4", "uint2", "uint4")


def codes(name: str) -> np.ndarray:
    """Return all numbers of a dtype, as int8 or uint8."""
    info = ml_dtypes.iinfo(getattr(ml_dtypes, name))
    return np.arange(info.min, info.max + 1, dtype="uint8" if name[0] == "u" else "int8")


def wrapped(x: np.ndarray, name: str) -> np.ndarray:
    """Return the low bits of integers as numbers of a dtype, in int64."""
    bits = int(name[-1])
    low = np.asarray(x).astype("int64") & (1 << bits) - 1
    return low - ((low >> bits - 1 << bits) if name[0] == "i" else 0)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1, 300])
def test_every_pair(name: str, size: int) -> None:
    own = codes(name)
    a, b = (np.tile(x.reshape(-1), size) for x in np.meshgrid(own, own))
    x, y = (wf.array(v).astype(name) for v in (a, b))
    assert x.dtype == getattr(ml_dtypes, name) == getattr(wf, name)
    np.testing.assert_array_equal(x.numpy(), a.astype(name))
    for word in (
        "add", "subtract", "multiply", "maximum", "minimum", "floor_divide", "remainder", "bitwise_and", "bitwise_or",
        "bitwise_xor", "left_shift", "right_shift", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    ):
        keep = slice(None)
        if word in ("floor_divide", "remainder"):
            keep = b != 0
        elif word.endswith("shift"):
            keep = (b >= 0) & (b < int(name[-1]))
        u, v = x[keep], y[keep]
        f = getattr(wf, word)
        want = getattr(np, word)(a[keep], b[keep])
        for got in (f(u, v), wf.jit(f)(u, v)):
            if want.dtype == bool:
                np.testing.assert_array_equal(got.numpy(), want, err_msg=word)
                continue
            assert got.dtype == name, (word, got.dtype)
            np.testing.assert_array_equal(got.astype("int64").numpy(), wrapped(want, name), err_msg=word)
            assert (got.view("uint8").numpy() < 1 << int(name[-1])).all(), word
    for word in ("negative", "abs", "invert", "sign", "square"):
        f = getattr(wf, word)
        for got in (f(x), wf.jit(f)(x)):
            np.testing.assert_array_equal(got.astype("int64").numpy(), wrapped(getattr(np, word)(a), name), err_msg=word)


@pytest.mark.parametrize("name", NAMES)
def test_casts(name: str) -> None:
    info = wf.iinfo(name)
    whole = np.arange(-300, 300)
    for dtype in ("int64", "int32", "int16", "float32", "float64", "float16"):
        x = wf.array(whole.astype(dtype))
        for got in (x.astype(name), wf.jit(lambda v: v.astype(name))(x)):
            np.testing.assert_array_equal(got.astype("int64").numpy(), wrapped(whole, name), err_msg=dtype)
        got = x.astype(name, saturate=True)
        np.testing.assert_array_equal(got.astype("int64").numpy(), np.clip(whole, int(info.min), int(info.max)), err_msg=dtype)
    parts = wf.array([-0.6, 0.4, 0.5, 0.6, 1.5])
    for mode, f in (("nearest", np.rint), ("up", np.ceil), ("down", np.floor), ("toward zero", np.trunc)):
        got = parts.astype(name, rounding=mode, saturate=True)
        want = np.clip(f(parts.numpy()), int(info.min), int(info.max))
        np.testing.assert_array_equal(got.astype("int64").numpy(), want, err_msg=mode)
    mean = wf.full((4000,), 0.25).astype(name, rounding="stochastic").astype("float32").mean()
    assert abs(float(mean) - 0.25) < 0.05
    x = wf.array(codes(name)).astype(name)
    for dtype in ("int8", "int64", "float32", "bool", "float64", "bfloat16", "complex64"):
        want = codes(name).astype(dtype)
        np.testing.assert_array_equal(x.astype(dtype).numpy(), want)
        np.testing.assert_array_equal(wf.jit(lambda v, d=dtype: v.astype(d))(x).numpy(), want)


@pytest.mark.parametrize("name", NAMES)
def test_functions(name: str) -> None:
    generator = np.random.default_rng()
    a = generator.choice(codes(name), (6, 7))
    x, like = wf.array(a).astype(name), "uint64" if name[0] == "u" else "int64"
    assert x.sum().dtype == like and int(x.sum()) == a.sum() and x.nbytes == 42 and x.itemsize == 1
    np.testing.assert_array_equal(x.sum(axis=0).numpy(), a.sum(axis=0))
    np.testing.assert_array_equal(wf.jit(lambda v: v.max(axis=1))(x).astype("int8").numpy(), a.max(axis=1))
    assert int(x.min()) == a.min() and x.min().dtype == name and int(x.argmax()) == a.argmax()
    np.testing.assert_array_equal(wf.sort(x, axis=0).astype("int8").numpy(), np.sort(a, axis=0))
    np.testing.assert_array_equal(wf.argsort(x, axis=1, stable=True).numpy(), np.argsort(a, axis=1, kind="stable"))
    np.testing.assert_array_equal(wf.unique(x).astype("int8").numpy(), np.unique(a))
    np.testing.assert_array_equal(wf.cumsum(x, axis=1).numpy(), np.cumsum(a, axis=1))
    np.testing.assert_allclose(x.mean(axis=0).numpy(), a.mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal((x @ x.T).astype("int64").numpy(), wrapped(a.astype("int64") @ a.T.astype("int64"), name))
    np.testing.assert_array_equal(wf.matmul(x, x.T, dtype="int32").numpy(), a.astype("int32") @ a.T.astype("int32"))
    np.testing.assert_array_equal(x[2:, ::2].numpy(), a.astype(name)[2:, ::2])
    np.testing.assert_array_equal(wf.concat([x, x], axis=1).astype("int8").numpy(), np.concatenate([a, a], axis=1))
    np.testing.assert_array_equal(wf.where(x > 0, x, 1).astype("int8").numpy(), np.where(a > 0, a, 1))
    np.testing.assert_array_equal(wf.pad(x, 1).astype("int8").numpy(), np.pad(a, 1))
    np.testing.assert_array_equal((x / 2).numpy(), (a / 2).astype("f4"))
    assert wf.exp(x).dtype == "float32" and (x * 0.5).dtype == "float32" and (x + 1).dtype == name
    y = x.copy()
    y[0, 0] = 1
    assert int(y[0, 0]) == 1 and y.tolist()[1] == a.tolist()[1] and [int(v) for v in y[1]] == a[1].tolist()
    table = wf.zeros(5, dtype=name)
    wf.add.at(table, [0, 0, 3], 1)
    assert table.tolist() == [wrapped(np.array(2), name).item(), 0, 0, 1, 0]
    with pytest.raises(OverflowError):
        y[0, 0] = 77
    for made in (wf.zeros(3, dtype=name), wf.ones((2, 2), dtype=name), wf.arange(2, dtype=name), wf.full(3, 1, dtype=name)):
        assert made.dtype == name
    assert name in repr(x) and wf.array([1, 0], dtype=name).tolist() == [1, 0]


def test_promotion() -> None:
    pairs = {
        ("int4", "int8"): "int8", ("int4", "uint4"): "int8", ("int2", "int4"): "int4", ("uint2", "int4"): "int4",
        ("uint4", "uint8"): "uint8", ("int4", "uint8"): "int16", ("int4", "float32"): "float32", ("int4", "bool"): "int4",
        ("uint4", "int64"): "int64", ("int4", "bfloat16"): "bfloat16", ("int2", "float8_e4m3fn"): "float8_e4m3fn",
    }
    for (a, b), want in pairs.items():
        assert wf.promote_types(a, b) == want == wf.promote_types(b, a), (a, b)
        assert (wf.ones(3, dtype=a) + wf.ones(3, dtype=b)).dtype == want
    assert wf.isdtype(wf.int4, "integral") and wf.isdtype(wf.uint2, "unsigned integer") and not wf.isdtype(wf.int4, wf.int8)
    assert (wf.iinfo(wf.int4).min, wf.iinfo("uint2").max) == (-8, 3)
    assert wf.can_cast("int4", "int8") and not wf.can_cast("int8", "int4")


def test_files_and_memory(tmp_path: Path) -> None:
    for name in NAMES:
        x = wf.array(codes(name)).astype(name)
        for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x), wf.frombuffer(x.tobytes(), dtype=name)):
            assert again.dtype == name and again.tolist() == codes(name).tolist()
        assert pickle.loads(pickle.dumps(getattr(wf, name))) is getattr(wf, name)
        wf.io.save(tmp_path / "x.safetensors", {"x": x})
        again = wf.io.load(tmp_path / "x.safetensors")["x"]
        assert again.dtype == name and again.tolist() == x.tolist()
        with pytest.raises(DTypeError, match=r"wf\.io\.save"):
            wf.save(tmp_path / "x.npy", x)
        np.testing.assert_array_equal((x.numpy() + x.numpy()), (x + x).numpy())
        assert wf.asarray(x.numpy()).dtype == name
        dirty = wf.array(np.arange(256, dtype="uint8")).view(name)  # as ml_dtypes, which ignores the upper bits
        np.testing.assert_array_equal(dirty.astype("int64").numpy(), wrapped(np.arange(256), name))
        with pytest.raises(BufferError):
            x.__dlpack__()


def test_weights(tmp_path: Path) -> None:
    weight: Any = wf.array(np.random.default_rng(0).integers(-8, 8, (16, 8))).astype("int4")
    scale = wf.full((16, 1), 0.1)
    x = wf.ones((4, 8))
    f = wf.jit(lambda x, w: x @ (w.astype("float32") * scale).T)
    left, right = x.numpy().astype(np.float64), weight.astype("float32").numpy().astype(np.float64).T * 0.1
    rounding = np.abs(left) @ np.abs(right) * np.finfo(np.float32).eps
    assert (np.abs(f(x, weight).numpy() - left @ right) <= 2 * rounding).all()


@pytest.mark.filterwarnings("ignore")
def test_lines_as_of_int8() -> None:
    small = np.array([[1, -3, 2], [0, 2, -1]], "int8")
    for line in "".join(text.strip() for text in LINES.splitlines()).split("|"):
        results = []
        for name in ("int8", "int4"):
            try:
                results.append(eval(line, {"wf": wf, "np": np, "x": wf.array(small).astype(name)}))  # noqa: S307
            except Exception as error:
                results.append(type(error))
        want, got = results
        if isinstance(want, wf.Array):
            assert isinstance(got, wf.Array) and str(got.dtype).replace("int4", "int8") == str(want.dtype), (line, got)
            np.testing.assert_array_equal(got.astype("complex128").numpy(), want.astype("complex128").numpy(), err_msg=line)
        else:
            assert repr(got) == repr(want).replace("int8", "int4") or repr(got) == repr(want), line


@pytest.mark.parametrize("name", NAMES)
def test_constants_in_compiled_functions(name: str) -> None:
    x: Any = wf.array([0, 1]).astype(name)
    lines: list[Any] = [
        lambda v: v * wf.array(1).astype(name), lambda v: -wf.ones((), dtype=name) + v, lambda v: wf.full(2, 1, dtype=name) + 1,
        lambda v: wf.array(7).astype(name) < v,
    ]
    for line in lines:
        want = line(x)
        got = wf.jit(line)(x)
        assert got.dtype == want.dtype and got.tolist() == want.tolist()


@pytest.mark.parametrize("name", ["uint2", "int4", "uint4"])
def test_indices_and_labels(name: str) -> None:
    x: Any = wf.array([1, 0]).astype(name)
    table, scores = wf.array([[1.0, 2.0], [3.0, 4.0]]), wf.array([[1.0, 3.0], [2.0, 0.0]])
    assert wf.nn.embedding(x, table).tolist() == [[3, 4], [1, 2]]
    assert wf.nn.embedding(x, table, padding_idx=-1).tolist() == [[3, 4], [1, 2]]
    want = wf.losses.cross_entropy(scores, x.astype("int32"))
    for labels in (x, x + x - x, x.numpy()):
        assert wf.losses.cross_entropy(scores, labels) == want
    assert wf.jit(wf.losses.cross_entropy)(scores, x) == want
    high = wf.array([3, 0]).astype(name)
    with pytest.raises(IndexError, match="index 3, but the table has 2 rows"):
        wf.nn.embedding(high, table)
    with pytest.raises(wf.errors.LabelError):
        wf.losses.cross_entropy(scores, high)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_out_of_range(name: str) -> None:
    info = wf.iinfo(name)
    for number in (int(info.min) - 1, int(info.max) + 1, 200, -100):
        x: Any = wf.zeros(2, dtype=name)
        for call in (
            lambda n=number: wf.array([n], dtype=name), lambda n=number: wf.asarray([[0], [n]], dtype=name),
            lambda n=number, x=x: x.__setitem__(slice(None), [n, 1]), lambda n=number: wf.array(n, dtype=name),
        ):
            with pytest.raises(OverflowError, match=f"the Python integer {number} is out of bounds for {name}"):
                call()
    assert wf.array([info.min, info.max], dtype=name).tolist() == [info.min, info.max]
    if name.startswith("u"):  # NumPy's numbers wrap around, as they do in uint8
        assert wf.array([np.int64(-1)], dtype=name).tolist() == [info.max]


@pytest.mark.parametrize("dtype,index", [("int4", -5), ("uint4", 9), ("int2", -2), ("uint2", 3)])
@pytest.mark.parametrize("way", [lambda f: f, wf.jit], ids=["eager", "jit"])
def test_an_index_beyond_the_extent_is_named(dtype, index, way):
    extent = min(3, abs(index) - (index < 0))
    with pytest.raises(IndexError, match=f"index {index} is out of bounds for axis 0 with size {extent}"):
        way(lambda a, i: a[i] + 0)(wf.arange(extent), wf.array([index], dtype=dtype)).numpy()


def comparisons_with(number: int) -> list[Any]:
    """Return functions of an array that compare it with a number on either side."""
    def on_each_side(compare: Any) -> list[Any]:
        return [lambda x: compare(x, number), lambda x: compare(number, x)]

    each = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
    return [f for compare in each for f in on_each_side(compare)]


@pytest.mark.parametrize("name", ["int2", "uint2", "int4", "uint4"])
def test_comparisons_with_numbers_that_the_dtype_lacks(name: str, rng: np.random.Generator) -> None:
    """They are exact, as NumPy's; arithmetic with such numbers raises."""
    limits = wf.iinfo(name)
    for shape in ((5,), ()):
        values = rng.integers(limits.min, limits.max + 1, shape)
        x = wf.asarray(values).astype(name)
        for number in [int(n) for n in rng.integers(-20, 20, 6)]:
            for compare in comparisons_with(number):
                np.testing.assert_array_equal(np.asarray(compare(x)), compare(values))
                np.testing.assert_array_equal(np.asarray(wf.jit(compare)(x)), compare(values))
            if not limits.min <= number <= limits.max:
                for way in (lambda f: f, wf.jit):
                    with pytest.raises(OverflowError, match=f"the Python integer {number} is out of bounds for {name}; cast"):
                        way(lambda x, n=number: x + n)(x)
