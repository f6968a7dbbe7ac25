"""Ints that change from call to call are run-time numbers of a jitted function, and mean what they mean without jit."""

from __future__ import annotations

import copy
import decimal
import fractions
import functools
import json
import math
import operator
import pickle
import random
import threading
from dataclasses import dataclass

import numpy as np
import pytest

import weft as wf
from weft.transforms.call import Call, numbers_of
from weft.transforms.jit import MAX_VARIANTS

VALUES = [3, 4, 0, -1, 1, 7, 127, 128, -128, -129, 255, 256, 1000, 65504, 70000, 2**24 + 1, 2**31, -(2**31), 2**53 + 1, 2**63 - 1,
          2**63, 2**64, -(2**63), 10**30, 10**400]
DTYPES = ["bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "bfloat16", "float8_e4m3fn",
          "float8_e5m2", "float32", "float64"]


def outcome(f, *args):
    """What a call gives, as something to compare: types, dtypes and bits, or the type of the error."""
    try:
        with np.errstate(all="ignore"):
            return told(f(*args))
    except Exception as error:
        return type(error)


def told(x):
    if isinstance(x, wf.Array):
        return type(x), x.dtype, x.shape, x.numpy().tobytes()
    if isinstance(x, tuple | list):
        return type(x), [told(y) for y in x]
    if isinstance(x, dict):
        return {k: told(v) for k, v in x.items()}
    assert not hasattr(x, "tape")
    return type(x), repr(x)


def same_with_all(f, x, values=VALUES, programs=None, note=None):
    """``f(x, i)`` jitted is what it is without jit, for all values; the JittedFunction."""
    jitted = wf.jit(f)
    for i in values:
        assert outcome(jitted, copied(x), i) == outcome(f, copied(x), i), (i, x, note)
    seen = jitted.traces
    for i in values[:6]:
        assert outcome(jitted, copied(x), i) == outcome(f, copied(x), i), i
    if programs is not None:
        assert seen <= programs, seen
    return jitted


def copied(x):
    return wf.array(x) if isinstance(x, wf.Array) else x


# ---- random expressions

NUMBERS = {
    "add": lambda i, n: i + n, "radd": lambda i, n: n + i, "sub": lambda i, n: n - i, "mul": lambda i, n: i * n,
    "div": lambda i, n: n / i, "over": lambda i, n: i / (abs(n) + 1), "floor": lambda i, n: i // (n or 1),
    "mod": lambda i, n: i % (abs(n) + 2), "rmod": lambda i, n: n % i, "pow": lambda i, n: i**2,
    "root": lambda i, n: abs(i) ** 0.5,
    "decay": lambda i, n: 0.9 ** (i % 50), "neg": lambda i, n: -i, "abs": lambda i, n: abs(i), "and": lambda i, n: i & 255,
    "shift": lambda i, n: (i & 7) << 2, "max": lambda i, n: max(i, n), "min": lambda i, n: min(n, i),
    "less": lambda i, n: i < n,
    "equal": lambda i, n: i == n, "choice": lambda i, n: i if i > n else n - i, "round": lambda i, n: round(i, -1),
    "ceil": lambda i, n: math.ceil(i / 3), "divmod": lambda i, n: divmod(i, 7)[n % 2], "bool": lambda i, n: (i > n) & (i < 100),
    "plus": lambda i, n: +i, "sum": lambda i, n: sum([i, n, i]), "itself": lambda i, n: i,
}
ARRAYS = {
    "add": lambda x, i: x + i, "radd": lambda x, i: i + x, "sub": lambda x, i: i - x, "mul": lambda x, i: x * i,
    "div": lambda x, i: x / i, "rdiv": lambda x, i: i / (x * x + 1), "floor": lambda x, i: x // i, "mod": lambda x, i: x % i,
    "less": lambda x, i: x < i, "greater": lambda x, i: i <= x, "equal": lambda x, i: x == i,
    "where": lambda x, i: wf.where(x > 2, x, i),
    "chosen": lambda x, i: wf.where(i, x, -x), "maximum": lambda x, i: wf.maximum(x, i),
    "clip": lambda x, i: wf.clip(x, i, None),
    "clipped": lambda x, i: x.clip(-2, i), "filled": lambda x, i: wf.full((2,), i), "like": lambda x, i: wf.full_like(x, i),
    "list": lambda x, i: wf.array([i, 2, i]), "mixed": lambda x, i: wf.array([i, 0.5]),
    "beside": lambda x, i: wf.array([x[0], i]),
    "array": lambda x, i: wf.array(i) + x, "typed": lambda x, i: wf.array(i, dtype="float32") * x,
    "sine": lambda x, i: wf.sin(i) * x,
    "ufunc": lambda x, i: np.multiply(x, i), "numpy": lambda x, i: np.float32(2) * i + x,
    "out": lambda x, i: wf.add(x, i, out=x),
    "power": lambda x, i: x**i, "exponent": lambda x, i: wf.power(i, x), "bits": lambda x, i: x & i,
    "lerp": lambda x, i: x + [i, 1, i],
    "number": lambda x, i: (x, i, {"i": i + 1}), "alone": lambda x, i: i, "sums": lambda x, i: x.sum() * i,
    "dot": lambda x, i: wf.dot(x, i),
    "isin": lambda x, i: wf.isin(x, i), "logical": lambda x, i: wf.logical_and(x, i),
    "concat": lambda x, i: wf.stack([x[0], i]),
}
WRITES = {
    "all": lambda x, i: x.__setitem__(..., i), "one": lambda x, i: x.__setitem__(1, i),
    "mask": lambda x, i: x.__setitem__(x > 1, i),
    "in place": lambda x, i: x.__iadd__(i), "list": lambda x, i: x.__setitem__(slice(None), [1, i, 2]),
    "fill": lambda x, i: x.fill(i),
}


def content(dtype):
    return wf.array(np.array([0, 1, 1] if dtype == "bool" else [3, 1, 5])).astype(dtype)


@pytest.mark.parametrize("name", ARRAYS)
def test_every_meeting_with_an_array(name):
    for dtype in random.sample(DTYPES, 3):
        same_with_all(ARRAYS[name], content(dtype), random.sample(VALUES, 12))


@pytest.mark.parametrize("name", WRITES)
def test_every_write(name):
    def f(x, i):
        WRITES[name](x, i)
        return x

    for dtype in random.sample(DTYPES, 3):
        same_with_all(f, content(dtype), random.sample(VALUES, 12))


@pytest.mark.parametrize("turn", range(30))
def test_random_expressions(turn):
    seed = random.randrange(10**9)
    rng = random.Random(seed)
    steps = [(rng.choice(list(NUMBERS)), rng.choice([-3, 0, 1, 2, 5, 1000])) for _ in range(rng.randrange(1, 5))]
    last = rng.choice(list(ARRAYS))
    x = content(rng.choice(DTYPES))

    def f(x, i):
        for name, n in steps:
            i = NUMBERS[name](i, n)
        return ARRAYS[last](x, i), i

    same_with_all(f, x, rng.sample(VALUES, 10), note=seed)


def test_two_ints_and_a_float():
    def f(x, i, j, k):
        return x * (i - j) + k * i, i * j, x > j - i, (k + j) * x, k < i, i / k * x, wf.add(i, k) * x

    jitted = wf.jit(f)
    x = wf.array([1.0, 2.0])
    for i, j, k in [(1, 2, 0.5), (2, 2, 0.1), (3, 7, 0.25), (-4, 0, 2.0), (2**40, -9, 1e-3), (0, 0, 1.0)]:
        for got, want in zip(jitted(x, i, j, k), f(x, i, j, k), strict=True):
            np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6)
    assert jitted.traces == 3  # j stayed for a while


# ---- how often something is traced

def test_a_thousand_values_take_two_traces():
    x = wf.array([1.0, 2.0])
    f = wf.jit(lambda x, i: (x * i + 1 / (i + 1)) * 0.99**i)
    for i in range(1000):
        got = f(x, i)
        if i % 100 == 0:
            np.testing.assert_array_equal(got.numpy(), f.f(x, i).numpy())
    assert f.traces == 2


def test_an_int_that_never_changes_stays_a_constant():
    f = wf.jit(lambda x, n, i: x**n + i)
    x = wf.array([1.0, 2.0])
    for i in range(10):
        assert f(x, 3, i).tolist() == [1.0 + i, 8.0 + i]
    assert f.traces == 2
    for n in (2, 4, 2, 4):
        assert f(x, n, 1).tolist() == [2.0, 2.0**n + 1]
    assert f.traces == 4


def test_new_shapes_know_already_what_changes():
    f = wf.jit(lambda x, i: x * i)
    for n in range(1, 8):
        assert f(wf.ones(n), n).tolist() == [float(n)] * n
    assert f.traces == 7
    for n in range(1, 8):
        assert f(wf.ones(n), n + 10).sum() == n * (n + 10)
    assert f.traces == 8  # that of the first, with the constant


NEEDS = {
    "shape": lambda x, i: x.reshape(i, -1), "zeros": lambda x, i: wf.zeros((i, 2)),
    "axis": lambda x, i: x.reshape(2, 3, 1, 1, 1, 1, 1).sum(i),
    "range": lambda x, i: sum(x[0] * k for k in range(i)), "index": lambda x, i: x[i], "slice": lambda x, i: x[:i],
    "list": lambda x, i: x * [1, 2, 3, 4, 5, 6, 7][i],
    "key": lambda x, i: x * {k: k * 2 for k in range(10)}[i], "set": lambda x, i: x * (i in {1, 2}),
    "format": lambda x, i: (x, f"{i:03d}", str(i), repr(i), "%d" % i),  # noqa: UP031
    "float": lambda x, i: x * float(i), "int": lambda x, i: x * int(i), "hash": lambda x, i: (x, hash(i)),
    "complex": lambda x, i: (x, complex(i)),
    "math": lambda x, i: x * math.sqrt(i), "gcd": lambda x, i: x * math.gcd(i, 6), "bits": lambda x, i: x * i.bit_length(),
    "bytes": lambda x, i: (x, i.to_bytes(2, "little")),
    "numpy": lambda x, i: x * np.float32(i), "array": lambda x, i: x + np.arange(6) * i,
    "asarray": lambda x, i: x[:2] + np.asarray([i, 1]),
    "ufunc": lambda x, i: (x, np.sin(i), np.add(i, 1), np.maximum(i, np.ones(2)).tolist()),
    "linspace": lambda x, i: wf.linspace(0, i, 3), "arange": lambda x, i: wf.arange(i),
    "repeat": lambda x, i: (x, [0] * i, "ab" * i, i * (1,)), "json": lambda x, i: (x, json.dumps([i, {"i": i}])),
    "decimal": lambda x, i: (x, decimal.Decimal(i) + i),
    "fraction": lambda x, i: (x, fractions.Fraction(i, 7) + i), "pickle": lambda x, i: (x, pickle.loads(pickle.dumps(i))),
    "copy": lambda x, i: copy.deepcopy([i])[0] * x,
    "type": lambda x, i: x * {int: 2}[type(i)], "exactly": lambda x, i: (x, int.__add__(i, 1)),
    "pow": lambda x, i: (x, pow(i, 3, 5)), "power": lambda x, i: x**i,
    "bin": lambda x, i: (x, bin(i), chr(i + 65)), "shift": lambda x, i: (x, 1 << i),
    "seed": lambda x, i: (x, random.Random(i).random()), "is integer": lambda x, i: (x, (i / 2).is_integer()),
    "roll": lambda x, i: wf.roll(x, i), "tile": lambda x, i: wf.tile(x, i), "eye": lambda x, i: wf.eye(i),
    "repeats": lambda x, i: x.repeat(i), "fori": lambda x, i: wf.fori_loop(0, i, lambda k, c: c + k, x),
    "scan": lambda x, i: wf.scan(lambda c, _: (c * 2, None), x, None, length=i)[0], "take": lambda x, i: wf.take(x, i),
    "kth": lambda x, i: wf.topk(x, i)[0] if hasattr(wf, "topk") else x[:i],
}


@pytest.mark.parametrize("way", NEEDS)
def test_who_needs_the_value_gets_it(way):
    values = [3, 2, 1, 6, 2, 3, 1, 6]
    same_with_all(NEEDS[way], wf.array(np.arange(6.0)), values, programs=5)


def test_static_ints_cost_a_call_nothing():
    f = wf.jit(lambda x, n: x.reshape(n, -1) * 2)
    for n in (1, 2, 3, 6):
        assert f(wf.ones(6), n).shape[0] == n
        assert not f._recent[0]._ints  # so native calls are made of it
    g = wf.jit(lambda x, n: (x.reshape(n, -1) * n, n + 1))
    for n in (1, 2, 3, 6, 2, 1):
        scaled, more = g(wf.ones(6), n)
        assert scaled.shape[0] == n == scaled[0, 0] == more - 1


TESTS = {
    "isinstance": lambda i: isinstance(i, int) and not isinstance(i, float | str | wf.Array), "bool": lambda i: bool(i),
    "not": lambda i: not i,
    "less": lambda i: i < 3, "even": lambda i: i % 2 == 0, "between": lambda i: 2 <= i < 5, "and": lambda i: i and True,
    "in": lambda i: i in (1, 2),
    "is": lambda i: i is not None and i is not True, "float": lambda i: isinstance(i / 2, float),
    "any": lambda i: any([i == 2, i == 3]),
    "match": lambda i: _matched(i),
}


def _matched(i):
    match i:
        case 1 | 2:
            return True
        case int():
            return False


@pytest.mark.parametrize("way", TESTS)
def test_conditions_take_a_program_for_each_way(way):
    def f(x, i):
        return x * i if TESTS[way](i) else x - i

    same_with_all(f, wf.array([1.0, 2.0]), [*range(30)], programs=6)


def test_many_conditions_make_an_int_static():
    def f(x, i):
        n = 0
        while i > n:
            n += 1
        return x * n

    jitted = same_with_all(f, wf.array([1.0, 2.0]), [*range(40)], programs=41 + MAX_VARIANTS)
    before = jitted.traces
    for i in range(40):
        jitted(wf.array([1.0, 2.0]), i)
    assert jitted.traces - before <= MAX_VARIANTS + 1


def test_errors_are_pythons_at_each_call():
    f = wf.jit(lambda x, i: (x / (1 / i), [10, 20][0] // i))
    x = wf.array([1.0])
    f(x, 3), f(x, 4)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            f(x, 0)
        assert f(x, 5)[1] == 2
    g = wf.jit(lambda x, i: x + i)
    small = wf.array([1], dtype="int8")
    assert [g(small, i).item() for i in (1, 2, 126)] == [2, 3, 127]
    for wide in (128, -129, 10**20):
        with pytest.raises(OverflowError, match=f"Python integer {wide} is out of bounds for int8"):
            g(small, wide)
    assert g(small, 5).item() == 6
    with pytest.warns(RuntimeWarning, match="overflows float16"):
        h = wf.jit(lambda x, i: x * i)
        half = wf.array([1.0], dtype="float16")
        h(half, 1), h(half, 2)
        assert h(half, 100_000).item() == math.inf
    assert h(half, 7).item() == 7


# ---- where they come from and where they go

@dataclass
class Batch:
    x: wf.Array
    step: int


class Model:
    def __init__(self):
        self.w = wf.array([1.0, 2.0])

    @wf.jit
    def step(self, i, *, scale=1):
        self.w[...] = self.w * scale + i
        return self.w.sum() + i

    @wf.jit
    def note(self, i):
        self.last = i
        return self.w * i


def test_trees_keywords_methods_and_defaults():
    def f(tree, *rest, batch=None, k=3):
        i, (j,) = tree["i"], tree["j"]
        return {"a": tree["x"] * i + j, "b": [i + j, rest[0] * 2], "c": batch.x - batch.step * k}

    jitted, x = wf.jit(f), wf.array([1.0, 2.0])
    for n in range(20):
        given = {"i": n, "j": (2 * n,), "x": x}, n
        named = {"batch": Batch(x, n % 5), "k": n % 3}
        assert told(jitted(*given, **named)) == told(f(*given, **named))
    assert jitted.traces <= 3
    model, plain = Model(), Model()
    for n in range(1, 12):
        assert model.step(n, scale=2) == Model.step.f(plain, n, scale=2)
    assert Model.step.traces <= 4


def test_what_is_kept_is_the_number():
    model = Model()
    for n in (1, 2, 3, 2**40):
        assert model.note(n).tolist() == [n * 1.0, n * 2.0]
        assert model.last == n and isinstance(model.last, int) and model.last + 1 == n + 1 and str(model.last) == str(n)
    log = []
    f = wf.jit(lambda x, i: (log.append(i + 1), x * i)[1])
    for n in range(5):
        f(wf.ones(2), n)
    assert log == [1, 2, 3, 4, 5] and [range(n) for n in log] == [range(n) for n in (1, 2, 3, 4, 5)]
    assert wf.ones(3)[log[1] - 1] == 1 and wf.jit(lambda x, i: x + i)(wf.ones(1), log[2]) == 4


def test_static_argnums_bools_and_numpys_ints_are_static():
    f = wf.jit(lambda x, i: x * i, static_argnums=1)
    x = wf.ones(2)
    assert [f(x, i).tolist()[0] for i in range(5)] == [0, 1, 2, 3, 4] and f.traces == 5
    g = wf.jit(lambda x, flag: x * 2 if flag is True else x)
    assert [g(x, flag).tolist()[0] for flag in (True, False, True, 1, 2)] == [2, 1, 2, 1, 1]
    h = wf.jit(lambda x, i: x + i)
    for value in (1, 2, np.int8(3), True, 2.5, np.int64(4), 5):
        assert told(h(x, value)) == told(x + value)


def test_transforms_inside():
    x = wf.array(np.linspace(0.1, 1, 6, dtype="f4"))

    def f(x, i):
        value, slope = wf.value_and_grad(lambda x: (wf.sin(x * i) * x / (i + 1)).sum())(x)
        rows = wf.vmap(lambda row, n: row * n + i, in_axes=(0, None))(x.reshape(2, 3), i)
        carry, ys = wf.scan(lambda c, v: (c * i + v, c), wf.zeros(()), x)
        total = wf.fori_loop(0, 4, lambda k, c: c + k * i, i)
        start, _ = wf.scan(lambda c, v: (c + v, None), i, x)
        return value, slope, rows, carry, ys, total, start

    jitted = wf.jit(f)
    for i in (2, 3, 5, -1, 0, 100):
        for got, want in zip(jitted(x, i), f(x, i), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5, atol=1e-6)
    assert jitted.traces == 2
    outer = wf.jit(lambda x, i: wf.jit(lambda y, j: y * j + i)(x, i + 1) * i)
    for i in range(1, 6):
        np.testing.assert_allclose(outer(x, i).numpy(), (x * (i + 1) + i).numpy() * i, rtol=1e-6)
    assert outer.traces == 2
    slopes = wf.jit(wf.grad(lambda x, i: (x * x * i).sum()))
    for i in range(1, 6):
        np.testing.assert_allclose(slopes(x, i).numpy(), 2 * i * x.numpy(), rtol=1e-6)
    assert slopes.traces == 2


def test_written_arguments_and_states():
    total = wf.zeros(3)

    @wf.jit
    def f(x, i):
        x += i
        total[...] = total + x * i
        return x

    x, want_x, want = wf.ones(3), np.ones(3), np.zeros(3)
    for i in range(8):
        assert f(x, i) is x
        want_x = want_x + i
        want = want + want_x * i
        np.testing.assert_array_equal(x.numpy(), want_x)
        np.testing.assert_array_equal(total.numpy(), want)
    assert f.traces <= 3


def test_no_program_is_found_for_another_value():
    f = wf.jit(lambda x, i: (x * i, wf.array(i), i))
    x = wf.ones(1)
    for i in [5, 6, 7, -1, 7, 6, 5, 2**62, -(2**63), 2**63 - 1, 0]:
        scaled, held, back = f(x, i)
        assert (scaled.item(), held.item(), back) == (np.float32(i), i, i) and type(back) is int and held.dtype == wf.int64
    assert f.traces == 2


def test_threads():
    f = wf.jit(lambda x, i, j: (x * i + j, i - j))
    x, wrong = wf.array(np.arange(50.0)), []

    def work(seed):
        rng = random.Random(seed)
        for _ in range(60):
            i, j = rng.randrange(20), rng.randrange(3)
            got, difference = f(x, i, j)
            if difference != i - j or got.tolist() != [k * i + j for k in range(50)]:
                wrong.append((i, j))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and f.traces <= 12


def test_nothing_else_is_asked_of_an_int_than_python_does():
    """Each operator and method of int, on a number of a tape, beside the int itself."""
    seen = []

    def f(x, i):
        for name in ("__add__", "__pow__", "__lshift__", "__divmod__", "__index__", "__round__", "__floor__", "__format__"):
            assert hasattr(i, name)
        assert not any(hasattr(i, name) for name in ("__len__", "__iter__", "shape", "dtype", "__getitem__", "weak"))
        product = functools.reduce(operator.mul, [i, 2, i])
        seen.append([product, i.real, i.numerator, i.denominator, ~i, i ^ 5, 7 | i, 100 >> (i & 3)])
        return x * i

    jitted = wf.jit(f)
    for i in (3, 4):
        jitted(wf.ones(1), i)
        assert seen[-1] == [i * 2 * i, i, i, 1, ~i, i ^ 5, 7 | i, 100 >> (i & 3)]


def test_the_record_depends_on_no_shape():
    f = wf.jit(lambda x, i: x)

    def numbers(*args):
        call = Call(f, args, {})
        return call, numbers_of(f._numbers, call, f.f)

    _, first = numbers(wf.ones(2), 5)
    assert not first.moving
    assert numbers(wf.ones(3), 6)[1] is first and first.moving == {1}
    assert numbers(wf.ones(3), 2.5)[1] is not first
    assert not numbers(wf.ones(3), True)[1].moving
